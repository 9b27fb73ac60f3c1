"""A clock that stands until it is moved."""

SECOND = 10**9
START = 1_700_000_000 * SECOND


class ManualClock:
    """Implements ``exporter.model.Clock``. Its two times differ, as those of a machine do."""

    def __init__(self, now_ns: int = START, booted_ns: int = START - SECOND) -> None:
        self.now_ns = now_ns
        self._booted_ns = booted_ns

    def time_ns(self) -> int:
        """Wall-clock nanoseconds."""
        return self.now_ns

    def monotonic_ns(self) -> int:
        """Nanoseconds since it was booted. It is never set back."""
        return self.now_ns - self._booted_ns

    def move(self, seconds: float) -> None:
        """Let time pass."""
        self.now_ns += round(seconds * SECOND)
