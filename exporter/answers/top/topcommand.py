"""The command ``top``: shows the usage of the GPUs live in a terminal."""

import logging
import sys
from argparse import ArgumentParser, Namespace
from importlib.util import find_spec

from exporter.answers.reading.accessflags import add_arguments as add_access
from exporter.answers.reading.accessflags import far_feed, far_namespace, here
from exporter.answers.reading.feeds import Feed, GuidedFeed, NamespaceFeed, OwnNode, view_of
from exporter.answers.reading.feeds.prometheus import PrometheusFeed
from exporter.answers.reading.feeds.remote import RemoteFeed
from exporter.answers.top.once import OK, USUAL_NS, print_once, print_result, status_of
from exporter.console.commandline import argument
from exporter.console.output import is_terminal, say
from exporter.console.progress import watch
from exporter.httpclient import NoAnswerError
from exporter.inputs.valuekinds import duration
from exporter.model import SECOND_NS

logger = logging.getLogger(__name__)

PROMETHEUS_EVERY_NS = 5 * SECOND_NS
_CANNOT = 2


def add_arguments(parser: ArgumentParser) -> None:
    """Add the command's own flags."""
    group = parser.add_argument_group("top")
    group.add_argument(
        "--every",
        metavar="TIME",
        type=argument(duration("500ms", "10m")),
        help="time from one update to the next [default 1s; 5s with --prometheus]",
    )
    group.add_argument("--once", action="store_true", help="print once, as without a terminal")
    group.add_argument(
        "--format",
        choices=("table", "json", "metrics"),
        help="what is printed once: a table for people, the JSON of /api/v1/snapshot, or the "
        "metrics [default table]",
    )
    group.add_argument(
        "--duration",
        metavar="TIME",
        type=argument(duration("1s", "10m")),
        help="how long to measure this node before printing once [default 5s]",
    )
    add_access(parser, prometheus=True)


def top(arguments: Namespace, node: OwnNode | None = None) -> int:
    """Run until the user quits; print a table once without a terminal, or if it is asked for.

    ``node`` is shown if the arguments name no other machine. The exit status is 0, or of a table
    1 if a source is down or a GPU cannot be read; 2 if nothing can be shown.
    """
    if _is_live(arguments) and find_spec("textual") is None:
        logger.error(
            "top needs the package textual: %s -m pip install textual; mgpu-exporter top --once "
            "works without it",
            sys.executable,
        )
        return _CANNOT
    try:
        far = far_feed(arguments)
        if arguments.format in {"json", "metrics"}:
            return _written(far, arguments, node)
        feed = far or here(node).open(commands=True)
    except NoAnswerError as error:
        logger.error("%s", error)  # noqa: TRY400 - the message says it all
        return _CANNOT
    wait_ns = 0 if far else arguments.duration or USUAL_NS
    return show(feed, arguments, far_namespace(arguments), wait_ns)


def _written(far: Feed | None, arguments: Namespace, node: OwnNode | None) -> int:
    """Print the document or the metrics of one node."""
    if isinstance(far, RemoteFeed):
        if arguments.format == "metrics":
            path = node.telemetry_path if node else "/metrics"
            say(far.metrics(path).decode("utf-8", "replace"))
            return OK
        document = far.document
        return print_result(far.read(), far.name, document)
    if far is not None:
        raise NoAnswerError(
            f"--format={arguments.format}: of one exporter (--url), or of this node"
        )
    feed = here(node).open()
    try:
        feed.read()  # the first cycle has been done
        watch(arguments.duration or USUAL_NS)
        result = feed.read()
        if arguments.format == "json":
            return print_result(result, feed.name, feed.document)
        say(feed.metrics.decode())
        return status_of(view_of(result, feed.name))
    finally:
        feed.close()


def show(feed: Feed, arguments: Namespace, namespace: str, wait_ns: int = 0) -> int:
    """Show a feed until the user quits; print a table once without a terminal, or with ``once``.

    ``namespace``: only its pods; "" stands for all. A feed that is guided brings those alone.
    """
    every_ns = arguments.every
    if not every_ns:
        every_ns = PROMETHEUS_EVERY_NS if isinstance(feed, PrometheusFeed) else SECOND_NS
    if namespace and not isinstance(feed, GuidedFeed):
        feed = NamespaceFeed(feed, namespace)
    if not _is_live(arguments):
        logging.getLogger().setLevel(max(logging.getLogger().level, logging.ERROR))
        try:
            return print_once(feed, wait_ns)
        except NoAnswerError as error:
            logger.error("%s", error)  # noqa: TRY400 - the message says it all
            return _CANNOT
        finally:
            feed.close()
    from exporter.answers.top.liveview import Top  # noqa: PLC0415 - textual is an extra, and slow to import

    # The log would overwrite the screen, which shows problems itself.
    logging.basicConfig(handlers=[logging.NullHandler()], force=True)
    try:
        Top(feed, every_ns / SECOND_NS).run()
    finally:
        feed.close()
    return 0


def _is_live(arguments: Namespace) -> bool:
    if arguments.once or arguments.format or arguments.duration:
        return False
    return sys.stdin is not None and sys.stdin.isatty() and is_terminal()
