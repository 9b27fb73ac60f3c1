"""The interface of pod sources, and those that read nothing: a scenario's, and none."""

import time
from collections.abc import Callable
from typing import Protocol

from exporter.agent.sources.pods.decode import KeyPrefixes
from exporter.agent.sources.source import AlwaysUp, Source
from exporter.model import Clock, PodTable


class PodSource(Source, Protocol):
    """A source of the pods on this node."""

    def start(self) -> None:
        """Begin to read in its own thread. Returns at once."""
        ...

    def wait(self, timeout_s: float) -> bool:
        """Wait for the first list or the close; whether it came. True if there is no list."""
        ...

    def table(self) -> PodTable:
        """The newest list; never blocks. The last known one while the source is down."""
        ...

    def follow(self, keep: KeyPrefixes) -> None:
        """Keep these annotations and labels from now on, of known pods too. Returns at once."""
        ...


class SimulatedPods(AlwaysUp):
    """Implements ``PodSource`` over a callable; its pods have all annotations and labels."""

    def __init__(
        self,
        table: Callable[[], PodTable],
        name: str = "pods_simulated",
        clock: Clock | None = time,
        detail: str = "",
    ) -> None:
        super().__init__(name, clock, detail)
        self._table = table

    def wait(self, timeout_s: float) -> bool:  # noqa: ARG002 - there is nothing to wait for
        return True

    def table(self) -> PodTable:
        return self._table()

    def follow(self, keep: KeyPrefixes) -> None: ...


class NoPods(SimulatedPods):
    """No pods. ``reason`` says why pods have no names."""

    def __init__(self, reason: str = "names of pods are off (--pods.source=none)") -> None:
        super().__init__(PodTable, "pods_none", None, reason)
