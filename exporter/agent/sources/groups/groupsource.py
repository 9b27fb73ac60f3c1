"""Sources of groups' names: their type, and a source over a callable."""

import time
from collections.abc import Callable, Mapping

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
        found: dict[GroupKey, GroupFacts] = {}
        for key, members in given.items():
            # Of a group is said what is so of all of its processes.
            if stated := {facts[pid] for pid in members.pids if pid in facts}:
                labels = zip(*(one.labels for one in stated), strict=True)
                agreed = [each[0] if len(set(each)) == 1 else "" for each in labels]
                is_shared = len({one.user for one in stated}) > 1
                found[key] = GroupFacts(*agreed, uid=SEVERAL if is_shared else None)
        return found
