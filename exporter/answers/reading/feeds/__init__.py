"""What is known of nodes, behind one Protocol: this process, an exporter over HTTP, a Prometheus.

Each feed returns typed facts as a tree: ``NodeSight``.
"""

from exporter.answers.reading.feeds.feed import (
    Feed,
    FeedResult,
    GuidedFeed,
    NamespaceFeed,
    NodeFeed,
    NodeSight,
    OwnNode,
    Recollection,
    view_of,
)

__all__ = [
    "Feed",
    "FeedResult",
    "GuidedFeed",
    "NamespaceFeed",
    "NodeFeed",
    "NodeSight",
    "OwnNode",
    "Recollection",
    "view_of",
]
