"""Sources of node facts: their type, the merge of their facts, and a source over a callable."""

import time
from collections.abc import Callable, Iterable
from dataclasses import fields
from typing import Any

from exporter.agent.sources.source import AlwaysUp, FactSource
from exporter.model import Clock, NodeFacts, PodTable

NodeSource = FactSource[PodTable, NodeFacts]
"""What it contributes, for these pods. Fields that it does not know of are empty; those of
``NOT_CONTRIBUTED`` are not read."""

NOT_CONTRIBUTED = {"devices", "ties", "replicas", "numbered"}
"""The cycle's own, from the readings, the pod table and what was there before."""

CONTRIBUTED = tuple(field.name for field in fields(NodeFacts) if field.name not in NOT_CONTRIBUTED)


def merged(contributions: Iterable[NodeFacts]) -> NodeFacts:
    """All entries together; of two under one key the later contribution's that is not empty."""
    parts = tuple(contributions)
    together: dict[str, Any] = {}
    for name in CONTRIBUTED:
        entries = [entry for part in parts for entry in getattr(part, name).items()]
        together[name] = {**dict(entries), **{key: value for key, value in entries if value}}
    return NodeFacts(**together)


class StaticNodeSource(AlwaysUp):
    """Implements ``NodeSource`` over a callable that returns at once.

    Always up: the owner of the facts reports its own status.
    """

    def __init__(self, name: str, facts: Callable[[], NodeFacts], clock: Clock = time) -> None:
        super().__init__(name, clock)
        self._facts = facts

    def facts(self, given: PodTable) -> NodeFacts:  # noqa: ARG002 - the protocol's
        return self._facts()
