"""Where the documents come from: one module for each way, behind one Protocol.

Each gives what ``exporter.api`` makes of a Snapshot, whether that was taken here, came over HTTP,
or is put together again from what a Prometheus kept.
"""

from exporter.terminal.feeds.feed import Feed, FeedError, FeedResult, view_of

__all__ = ["Feed", "FeedError", "FeedResult", "view_of"]
