"""The pods of a scenario."""

import time
from collections.abc import Callable, Mapping

from exporter.model import Clock, PodTable, SourceStatus
from exporter.sources.pods.decode import KeyPrefixes


class SimulatedPods:
    """Implements ``PodSource`` over a callable that returns the current pods."""

    def __init__(
        self, table: Callable[[], PodTable], name: str = "pods_simulated", clock: Clock = time
    ) -> None:
        self._table, self._name, self._clock = table, name, clock

    @property
    def name(self) -> str:
        """The label value of ``mgpu_exporter_source_up``."""
        return self._name

    def start(self) -> None:
        """Nothing to begin."""

    def wait(self, timeout_s: float) -> bool:  # noqa: ARG002 - the protocol's
        """Nothing to wait for."""
        return True

    def table(self) -> PodTable:
        """The current pods."""
        return self._table()

    def status(self) -> SourceStatus:
        """Always up."""
        return SourceStatus(self._name, up=True, last_success_unix_ns=self._clock.time_ns())

    def rejected(self) -> Mapping[str, int]:
        """Nothing is read, so nothing is rejected."""
        return {}

    def follow(self, keep: KeyPrefixes) -> None:
        """Simulated pods always have all annotations and labels."""

    def close(self) -> None:
        """Nothing to end."""
