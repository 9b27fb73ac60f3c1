"""Sources of documents, behind one Protocol: this process, an exporter over HTTP, a Prometheus.

Each feed returns documents of ``exporter.api``.
"""

from exporter.terminal.feeds.feed import Feed, FeedError, FeedResult, view_of

__all__ = ["Feed", "FeedError", "FeedResult", "view_of"]
