"""The command ``snapshot``: prints the state of this node or another one, once."""

import logging
from argparse import ArgumentParser, Namespace

from exporter.answers.terminal.access import add_arguments as add_access
from exporter.answers.terminal.access import far_feed
from exporter.answers.terminal.feeds import OwnNode, view_of
from exporter.answers.terminal.feeds.http import RemoteFeed
from exporter.answers.terminal.once import OK, print_result, status_of
from exporter.console.commandline import argument
from exporter.console.output import say
from exporter.console.progress import watch
from exporter.httpclient import NoAnswerError
from exporter.inputs.kinds import duration

logger = logging.getLogger(__name__)

_NOTHING = 2


def add_arguments(parser: ArgumentParser) -> None:
    """Add the command's own flags."""
    group = parser.add_argument_group("snapshot")
    group.add_argument(
        "--format",
        choices=("table", "json", "metrics"),
        default="table",
        help="a table for people, the JSON of /api/v1/snapshot, or the metrics [default table]",
    )
    group.add_argument(
        "--duration",
        metavar="TIME",
        type=argument(duration("1s", "10m")),
        default="5s",
        help="how long to measure this node; ratios are averages over it [default 5s]",
    )
    add_access(parser)


def snapshot(arguments: Namespace, node: OwnNode) -> int:
    """Print the state of a node: of this one, if the arguments name no other.

    The exit status is 0; 1 if a source is down or a GPU cannot be read, so that the output is
    incomplete; 2 if nothing could be printed.
    """
    try:
        far = far_feed(arguments)
        if isinstance(far, RemoteFeed):
            if arguments.format == "metrics":
                say(far.metrics(node.telemetry_path).decode("utf-8", "replace"))
                return OK
            document = far.document if arguments.format == "json" else None
            return print_result(far.read(), far.name, document)
        return _near(node, arguments)
    except NoAnswerError as error:
        logger.error("%s", error)  # noqa: TRY400 - the message says it all
        return _NOTHING


def _near(node: OwnNode, arguments: Namespace) -> int:
    feed = node.open()
    try:
        feed.read()  # the first cycle has been done
        watch(arguments.duration)
        result = feed.read()
        if arguments.format != "metrics":
            return print_result(
                result, feed.name, feed.document if arguments.format == "json" else None
            )
        say(feed.metrics.decode())
        return status_of(view_of(result, feed.name))
    finally:
        feed.close()
