"""Sources of groups' names: their type, and a source over a callable."""

import time
from collections.abc import Callable, Mapping

from exporter.model import Clock, GroupFacts, GroupKey, GroupMember
from exporter.sources.source import AlwaysUp, FactSource

Members = Mapping[GroupKey, GroupMember]
Facts = Mapping[GroupKey, GroupFacts]

GroupSource = FactSource[Members, Facts]
"""What is known of groups, each given with one of its processes. The keys are the caller's own:
nothing is read from them. Fields that the source does not know of are empty."""


class StaticGroupSource(AlwaysUp):
    """Implements ``GroupSource`` over a callable that gives facts by process id."""

    def __init__(
        self, name: str, facts: Callable[[], Mapping[int, GroupFacts]], clock: Clock = time
    ) -> None:
        super().__init__(name, clock)
        self._facts = facts

    def facts(self, given: Members) -> Facts:
        facts = self._facts()
        return {key: facts[member.pid] for key, member in given.items() if member.pid in facts}
