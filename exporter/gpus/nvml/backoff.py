"""When to try again."""

from exporter.model import Clock

SECOND = 1_000_000_000


class Backoff:
    """Waits twice as long after each failure, from ``first_s`` to ``most_s`` seconds."""

    def __init__(self, clock: Clock, first_s: float = 1.0, most_s: float = 60.0) -> None:
        self._clock = clock
        self._first_ns = int(first_s * SECOND)
        self._most_ns = int(most_s * SECOND)
        self.reset()

    def reset(self) -> None:
        """Forget the failures: the next try is due at once."""
        self._wait_ns = self._first_ns
        self._next_ns: int | None = None

    def failed(self) -> None:
        """Put off the next try."""
        self._next_ns = self._clock.monotonic_ns() + self._wait_ns
        self._wait_ns = min(2 * self._wait_ns, self._most_ns)

    @property
    def due(self) -> bool:
        """Whether the wait is over."""
        return self._next_ns is None or self._clock.monotonic_ns() >= self._next_ns
