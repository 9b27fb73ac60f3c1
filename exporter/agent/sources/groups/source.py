"""Sources of groups' names: their type, and a source over a callable."""

import time
from collections.abc import Callable, Collection, Mapping

from exporter.agent.sources.source import AlwaysUp, FactSource
from exporter.model import SEVERAL, Clock, GroupFacts, GroupKey, GroupMembers

Members = Mapping[GroupKey, GroupMembers]
Facts = Mapping[GroupKey, GroupFacts]

GroupSource = FactSource[Members, Facts]
"""What is known of groups, each given with its processes. The keys are the caller's own: nothing
is read from them. Fields that the source does not know of are empty."""


class StaticGroupSource(AlwaysUp):
    """Implements ``GroupSource`` over a callable that gives facts by process id."""

    def __init__(
        self, name: str, facts: Callable[[], Mapping[int, GroupFacts]], clock: Clock = time
    ) -> None:
        super().__init__(name, clock)
        self._facts = facts

    def facts(self, given: Members) -> Facts:
        facts = self._facts()
        known = {key: {facts[p] for p in one.pids if p in facts} for key, one in given.items()}
        return {key: _agreed(each) for key, each in known.items() if each}


def _agreed(stated: Collection[GroupFacts]) -> GroupFacts:
    """What all say."""
    labels = zip(*(facts.labels for facts in stated), strict=True)
    agreed = [each[0] if len(set(each)) == 1 else "" for each in labels]
    is_shared = len({facts.user for facts in stated}) > 1
    return GroupFacts(*agreed, uid=SEVERAL if is_shared else None)
