"""The seam of this room: what the collector asks about groups."""

from collections.abc import Mapping
from typing import Protocol

from exporter.model import GroupFacts, GroupKey, GroupMember, SourceStatus


class GroupSource(Protocol):
    """One way to learn what groups are called."""

    @property
    def name(self) -> str:
        """The label value of ``mgpu_exporter_source_up``."""
        ...

    def start(self) -> None:
        """Begin to look, in a thread of its own if it takes time. Returns at once."""
        ...

    def facts(self, members: Mapping[GroupKey, GroupMember]) -> Mapping[GroupKey, GroupFacts]:
        """What is known of these groups, each told by one of its processes; never blocks.

        The keys are the caller's own: nothing is read from them. Fields that this source does not
        know of are empty. Neither mapping is changed afterwards: the same one says the same.
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
