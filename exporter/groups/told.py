"""Names that something else has at hand: a scenario."""

import time
from collections.abc import Callable, Mapping

from exporter.model import Clock, GroupFacts, GroupKey, GroupMember, SourceStatus


class ToldGroups:
    """Implements ``GroupSource`` over a callable that gives facts by process id."""

    def __init__(
        self, name: str, facts: Callable[[], Mapping[int, GroupFacts]], clock: Clock = time
    ) -> None:
        self.name = name
        self._facts = facts
        self._clock = clock

    def start(self) -> None:
        """Nothing to begin."""

    def facts(self, members: Mapping[GroupKey, GroupMember]) -> Mapping[GroupKey, GroupFacts]:
        """See ``GroupSource``."""
        told = self._facts()
        return {key: told[member.pid] for key, member in members.items() if member.pid in told}

    def status(self) -> SourceStatus:
        """Always up."""
        return SourceStatus(self.name, up=True, last_success_unix_ns=self._clock.time_ns())

    def rejected(self) -> Mapping[str, int]:
        """Nothing is read, so nothing is rejected."""
        return {}

    def close(self) -> None:
        """Nothing to end."""
