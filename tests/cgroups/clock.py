"""A clock that stands still until it is told to go on."""

from dataclasses import dataclass


@dataclass(slots=True)
class ManualClock:
    """An ``exporter.model.Clock`` in the hands of a test."""

    now_ns: int = 1_000_000_000_000

    def monotonic_ns(self) -> int:
        """The moment, which never goes back."""
        return self.now_ns

    def time_ns(self) -> int:
        """The same, as the time of day."""
        return self.now_ns

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.now_ns += int(seconds * 10**9)
