"""A token bucket, as exporter-toolkit's ``rate_limit``. Pure; the clock is a parameter."""

from exporter.model import Clock
from exporter.web.webfile import Rate


class TokenBucket:
    """Holds at most ``rate.burst`` tokens and gains one each ``rate.interval_ns``."""

    def __init__(self, rate: Rate, clock: Clock) -> None:
        self.rate = rate
        self._clock = clock
        self._full_ns = clock.monotonic_ns()  # when the bucket is, or was, full

    def take(self) -> bool:
        """Take a token if there is one."""
        now_ns = self._clock.monotonic_ns()
        full_ns = max(self._full_ns, now_ns) + self.rate.interval_ns
        if full_ns - now_ns > self.rate.burst * self.rate.interval_ns:
            return False
        self._full_ns = full_ns
        return True
