"""The interface of node sources, the merge of their facts, and a source over a callable."""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from typing import Any, Protocol

from exporter.model import Clock, NodeFacts, PodTable, SourceStatus


class NodeSource(Protocol):
    """A source of facts about the node."""

    @property
    def name(self) -> str:
        """The label value of ``mgpu_exporter_source_up``."""
        ...

    def start(self) -> None:
        """Begin to look, in a thread of its own if it takes time. Returns at once."""
        ...

    def facts(self, table: PodTable) -> NodeFacts:
        """What this source contributes, for these pods; never blocks.

        Fields that it does not know of are empty; ``devices`` and ``pods`` are not read. The last
        that was known while the source is down.
        """
        ...

    def status(self) -> SourceStatus:
        """Whether it was answered when it last asked."""
        ...

    def rejected(self) -> Mapping[str, int]:
        """Items that could not be used since the start, by reason."""
        ...

    def close(self) -> None:
        """Stop looking. Returns within a second."""
        ...


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


class StaticNodeSource:
    """Implements ``NodeSource`` over a callable that returns at once.

    Always up: the owner of the facts reports its own status.
    """

    def __init__(self, name: str, facts: Callable[[], NodeFacts], clock: Clock = time) -> None:
        self.name = name
        self._facts = facts
        self._clock = clock

    def start(self) -> None:
        """Nothing to begin."""

    def facts(self, table: PodTable) -> NodeFacts:  # noqa: ARG002 - the protocol's
        """What the callable gives now."""
        return self._facts()

    def status(self) -> SourceStatus:
        """Always up."""
        return SourceStatus(self.name, up=True, last_success_unix_ns=self._clock.time_ns())

    def rejected(self) -> Mapping[str, int]:
        """Nothing is read, so nothing is rejected."""
        return {}

    def close(self) -> None:
        """Nothing to end."""
