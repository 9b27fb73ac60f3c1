"""The cycle's clocks while it is recorded and while it is replayed: both stand between moves."""

from exporter.ledger import Moment
from exporter.model import Clock


class StandingClock:
    """A ``Clock`` that shows when it was last moved to the present of another one."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._now = self.move()

    def move(self) -> Moment:
        """Go to the present."""
        self._now = Moment(self._clock.monotonic_ns(), self._clock.time_ns())
        return self._now

    def monotonic_ns(self) -> int:
        """See ``Clock``."""
        return self._now.mono_ns

    def time_ns(self) -> int:
        """See ``Clock``."""
        return self._now.unix_ns


class PlayedClock:
    """A ``Clock`` that shows a moment of the recording."""

    def __init__(self) -> None:
        self.now = Moment(0, 0)

    def monotonic_ns(self) -> int:
        """See ``Clock``."""
        return self.now.mono_ns

    def time_ns(self) -> int:
        """See ``Clock``."""
        return self.now.unix_ns
