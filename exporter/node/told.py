"""Facts that something else has at hand: the pod source's node object, or a scenario."""

import time
from collections.abc import Callable, Mapping

from exporter.model import Clock, NodeFacts, PodTable, SourceStatus


class ToldNode:
    """Implements ``NodeSource`` over a callable that returns at once.

    Always up: whoever has the facts says himself how he fares.
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
