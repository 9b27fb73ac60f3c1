"""The seam of this room: what every pod source offers to the collector."""

from collections.abc import Mapping
from typing import Protocol

from exporter.model import PodTable, SourceStatus
from exporter.sources.pods.decode import KeyPrefixes


class PodSource(Protocol):
    """One way to learn which pods run on this node."""

    @property
    def name(self) -> str:
        """The label value of ``mgpu_exporter_source_up``."""
        ...

    def start(self) -> None:
        """Begin to listen, in a thread of its own. Returns at once."""
        ...

    def wait(self, timeout_s: float) -> bool:
        """Wait for the first list, or the close; whether it came. True at once where none will."""
        ...

    def table(self) -> PodTable:
        """The newest list; never blocks. The last known one while the source is down."""
        ...

    def status(self) -> SourceStatus:
        """Whether the list is kept current; ``last_success`` is when it was last known to be."""
        ...

    def rejected(self) -> Mapping[str, int]:
        """Pods and events that could not be used since the start, by reason."""
        ...

    def follow(self, keep: KeyPrefixes) -> None:
        """Keep this of pods from now on, also of those that are known. Returns at once."""
        ...

    def close(self) -> None:
        """Stop listening. Returns within a second."""
        ...


class StandbyPods(PodSource, Protocol):
    """A source that rests while a better one is up. One that rests is not up."""

    def want(self, wanted: bool) -> None:  # noqa: FBT001 - one word says it
        """Be asked from now on, or rest; returns at once."""
        ...
