"""What a feed says, printed once: a document, or a table for people."""

import json
import os
from collections.abc import Mapping
from typing import Any

from exporter.answers.reading.feeds import Feed, FeedResult, GuidedFeed, view_of
from exporter.answers.reading.feeds.overview import Overview
from exporter.answers.top.topreport import report
from exporter.console.output import columns, is_terminal, say
from exporter.console.progress import watch

USUAL_NS = 5 * 10**9
OK, TROUBLE = 0, 1


def print_once(feed: Feed, wait_ns: int) -> int:
    """Print what a feed says after this time as a table, and return the exit status."""
    if wait_ns:
        feed.read()
        watch(wait_ns)
    if not isinstance(feed, GuidedFeed):
        return print_result(feed.read(), feed.name)
    status = OK
    for part in feed.parts():  # of a fleet one after the other, as they come
        status = max(status, print_result(part, feed.name))
    return status


def print_result(
    result: FeedResult,
    name: str,
    document: Mapping[str, Any] | None = None,
) -> int:
    """Print the document, or without one a table; a part of one has no title."""
    view = view_of(result, name)
    if document is not None:
        say(json.dumps(document, indent=2) + "\n")
    else:
        coloured = is_terminal() and not os.environ.get("NO_COLOR")
        say(report(view, columns(), coloured=coloured, is_part=result.is_part), coloured=coloured)
    return status_of(view)


def status_of(view: Overview) -> int:
    """The exit status: whether all is there."""
    return TROUBLE if view.troubles or view.totals.lost or not view.lines else OK
