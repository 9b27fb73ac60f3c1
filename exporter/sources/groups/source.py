"""The interface of group sources, and a source over a callable."""

import time
from collections.abc import Callable, Mapping
from typing import Protocol

from exporter.model import Clock, GroupFacts, GroupKey, GroupMember, SourceStatus


class GroupSource(Protocol):
    """A source of groups' names."""

    @property
    def name(self) -> str:
        """The label value of ``mgpu_exporter_source_up``."""
        ...

    def start(self) -> None:
        """Begin to look, in a thread of its own if it takes time. Returns at once."""
        ...

    def facts(self, members: Mapping[GroupKey, GroupMember]) -> Mapping[GroupKey, GroupFacts]:
        """What is known of these groups, each given with one of its processes; never blocks.

        The keys are the caller's own: nothing is read from them. Fields that this source does not
        know of are empty.
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


class StaticGroupSource:
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
        facts = self._facts()
        return {key: facts[member.pid] for key, member in members.items() if member.pid in facts}

    def status(self) -> SourceStatus:
        """Always up."""
        return SourceStatus(self.name, up=True, last_success_unix_ns=self._clock.time_ns())

    def rejected(self) -> Mapping[str, int]:
        """Nothing is read, so nothing is rejected."""
        return {}

    def close(self) -> None:
        """Nothing to end."""
