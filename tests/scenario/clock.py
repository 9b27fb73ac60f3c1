"""A clock that stands until it is moved."""

SECOND = 10**9
START = 1_700_000_000 * SECOND


class ManualClock:
    """Implements ``exporter.model.Clock``."""

    def __init__(self, now_ns: int = START) -> None:
        self.now_ns = now_ns

    def time_ns(self) -> int:
        """Wall-clock nanoseconds."""
        return self.now_ns

    def monotonic_ns(self) -> int:
        """The same: no clock is ever set back here."""
        return self.now_ns

    def move(self, seconds: float) -> None:
        """Let time pass."""
        self.now_ns += round(seconds * SECOND)
