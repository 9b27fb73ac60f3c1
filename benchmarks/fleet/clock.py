"""A clock that is moved."""

SECOND_NS = 10**9


class SetClock:
    """Stands still until it is moved; wall clock and monotonic are one."""

    def __init__(self, unix_s: int) -> None:
        self.now_ns = unix_s * SECOND_NS

    def time_ns(self) -> int:
        """Wall-clock nanoseconds."""
        return self.now_ns

    def monotonic_ns(self) -> int:
        """The same."""
        return self.now_ns
