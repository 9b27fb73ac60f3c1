"""Contributions of several sources → what is known of the node. Pure."""

from collections.abc import Iterable
from dataclasses import fields
from typing import Any

from exporter.model import NodeFacts

NOT_CONTRIBUTED = {"devices", "pods"}  # the cycle's own, from the readings and the pod table
CONTRIBUTED = tuple(field.name for field in fields(NodeFacts) if field.name not in NOT_CONTRIBUTED)


def merged(contributions: Iterable[NodeFacts]) -> NodeFacts:
    """All entries together; of two under one key the later contribution's."""
    parts = tuple(contributions)
    together: dict[str, Any] = {
        name: {key: value for part in parts for key, value in getattr(part, name).items()}
        for name in CONTRIBUTED
    }
    return NodeFacts(**together)
