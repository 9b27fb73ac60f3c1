"""The command ``snapshot``: prints the state of this node or another one, once."""

import json
import logging
import os
import shutil
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from typing import Any

from exporter.answers.terminal.access import add_arguments as add_access
from exporter.answers.terminal.access import far_feed
from exporter.answers.terminal.feeds import Feed, FeedResult, OwnNode, view_of
from exporter.answers.terminal.feeds.http import RemoteFeed
from exporter.answers.terminal.report import report
from exporter.answers.terminal.view import Overview
from exporter.console.commandline import argument
from exporter.console.output import is_terminal, say
from exporter.console.progress import watch
from exporter.httpclient import NoAnswerError
from exporter.inputs.kinds import duration

logger = logging.getLogger(__name__)

SECOND_NS = 10**9
USUAL_NS = 5 * SECOND_NS
_OK, _TROUBLE, _NOTHING = 0, 1, 2


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
            return _far(far, node.telemetry_path, arguments.format)
        return _near(node, arguments)
    except NoAnswerError as error:
        logger.error("%s", error)  # noqa: TRY400 - the message says it all
        return _NOTHING


def _far(feed: RemoteFeed, path: str, form: str) -> int:
    if form == "metrics":
        say(feed.metrics(path).decode("utf-8", "replace"))
        return _OK
    document = feed.document if form == "json" else None
    return _print(feed.read(), feed.name, document)


def _near(node: OwnNode, arguments: Namespace) -> int:
    feed = node.open()
    try:
        feed.read()  # the first cycle has been done
        watch(arguments.duration)
        result = feed.read()
        if arguments.format != "metrics":
            return _print(result, feed.name, feed.document if arguments.format == "json" else None)
        say(feed.metrics.decode())
        return _status(view_of(result, feed.name))
    finally:
        feed.close()


def print_once(feed: Feed, wait_ns: int) -> int:
    """Print what a feed says after this time as a table, and return ``snapshot``'s exit status."""
    if wait_ns:
        feed.read()
        watch(wait_ns)
    return _print(feed.read(), feed.name)


def _print(result: FeedResult, name: str, document: Mapping[str, Any] | None = None) -> int:
    """Print the document, or without one a table."""
    view = view_of(result, name)
    if document is not None:
        say(json.dumps(document, indent=2) + "\n")
    else:
        width = shutil.get_terminal_size().columns if is_terminal() else None
        coloured = is_terminal() and not os.environ.get("NO_COLOR")
        say(report(view, width, coloured=coloured), coloured=coloured)
    return _status(view)


def _status(view: Overview) -> int:
    return _TROUBLE if view.troubles or view.totals.lost or not view.lines else _OK
