"""The interface of pod sources."""

from collections.abc import Mapping
from typing import Protocol

from exporter.model import PodTable, SourceStatus
from exporter.sources.pods.decode import KeyPrefixes


class PodSource(Protocol):
    """A source of the pods on this node."""

    @property
    def name(self) -> str:
        """The label value of ``mgpu_exporter_source_up``."""
        ...

    def start(self) -> None:
        """Begin to read in its own thread. Returns at once."""
        ...

    def wait(self, timeout_s: float) -> bool:
        """Wait for the first list or the close; whether it came. True if there is no list."""
        ...

    def table(self) -> PodTable:
        """The newest list; never blocks. The last known one while the source is down."""
        ...

    def status(self) -> SourceStatus:
        """Whether the list is current; ``last_success`` is when it last was."""
        ...

    def rejected(self) -> Mapping[str, int]:
        """Pods and events that could not be used since the start, by reason."""
        ...

    def follow(self, keep: KeyPrefixes) -> None:
        """Keep these annotations and labels from now on, of known pods too. Returns at once."""
        ...

    def close(self) -> None:
        """Stop reading. Returns within a second."""
        ...


class StandbyPods(PodSource, Protocol):
    """A source that pauses while a better one is up. A paused source is not up."""

    def want(self, wanted: bool) -> None:  # noqa: FBT001 - one word says it
        """Read from now on, or pause. Returns at once."""
        ...
