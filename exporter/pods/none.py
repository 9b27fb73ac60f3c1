"""No names: every container is known by its ids only."""

from collections.abc import Mapping

from exporter.model import PodTable, SourceStatus
from exporter.pods.decode import Keep


class NoPods:
    """Implements ``PodSource`` with an empty table; ``reason`` says why there are no names."""

    name = "pods_none"

    def __init__(self, reason: str = "names of pods are off (--pods.source=none)") -> None:
        self._reason = reason
        self._table = PodTable()

    def start(self) -> None:
        """Nothing to begin."""

    def wait(self, timeout_s: float) -> bool:  # noqa: ARG002 - the protocol's
        """Nothing to wait for."""
        return True

    def table(self) -> PodTable:
        """An empty table, the same one each time: there are no news."""
        return self._table

    def status(self) -> SourceStatus:
        """Up, because nothing is expected of it."""
        return SourceStatus(self.name, up=True, detail=self._reason)

    def rejected(self) -> Mapping[str, int]:
        """Nothing is read, so nothing is rejected."""
        return {}

    def follow(self, keep: Keep) -> None:
        """There is nothing to keep."""

    def close(self) -> None:
        """Nothing to end."""
