"""The seam of this room: what every source of facts about the node offers to the collector."""

from collections.abc import Mapping
from typing import Protocol

from exporter.model import NodeFacts, PodTable, SourceStatus


class NodeSource(Protocol):
    """One way to learn something of the node."""

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
