"""A board's energy counter where reading it is costly: power says how far it has come meanwhile.

On an H100 a read of the counter takes 2.7 ms of CPU, one of power 0.02 ms. So power is read each
second, and the counter four times a minute. Power alone is an estimate: it is scaled by what the
counter said of it the last time, and each read of the counter puts the sum right.
"""

from collections import deque
from typing import NamedTuple

from exporter.agent.sources.gpus.energy import LONGEST_GAP_NS

COSTLY_NS = 1_000_000  # a counter that takes less is read each time
CHEAPER = 10  # times that power takes less: else the whole driver is slow
EVERY_NS = 15_000_000_000
SLACK_NS = 500_000_000  # reads come at whole seconds, or nearly so
LEAST_NS = 4_000_000_000  # in less time counter and power are too far apart by chance
TIMES = 2.0  # a counter that differs from power by more is not continued by it


class _Counted(NamedTuple):
    """A read of the counter, and what power had summed up to at that moment, if it was known."""

    counter_uj: int
    power_uj: int | None
    mono_ns: int


class CounterBridge:
    """The counter of one board, read or continued. What it says only grows, as the counter does."""

    def __init__(self) -> None:
        self._took_ns: deque[int] = deque(maxlen=2)  # by the newest reads of the counter
        self._power_took_ns: deque[int] = deque((0,), maxlen=2)
        self._power_uj: int | None = None  # so far; None: power is not known now
        self._power_mono_ns = 0
        self._counted: _Counted | None = None
        self._scale: float | None = None  # of power; None: the counter is read each time
        self._said_uj = 0

    @property
    def is_costly(self) -> bool:
        """Whether the counter is costly here, and power is not.

        Of two reads the cheaper counts: one slow call alone may be the machine's doing.
        """
        took_ns = min(self._took_ns) if len(self._took_ns) > 1 else 0
        return took_ns >= COSTLY_NS and took_ns >= CHEAPER * min(self._power_took_ns)

    def add_power(self, milliwatts: int | None, took_ns: int, mono_ns: int) -> None:
        """Takes the board's power; None: it is not known."""
        self._power_took_ns.append(took_ns)
        elapsed_ns, self._power_mono_ns = mono_ns - self._power_mono_ns, mono_ns
        if not milliwatts:
            self._power_uj = None
        elif self._power_uj is None or not 0 <= elapsed_ns <= LONGEST_GAP_NS:
            self._power_uj = 0
        else:
            # Since Ampere, power is the average of the last second (nvml.h), not that of a moment.
            self._power_uj += milliwatts * elapsed_ns // 1_000_000

    def continued(self, mono_ns: int) -> int | None:
        """How far the counter has come, after ``add_power``; None: it is to be read."""
        counted, scale = self._counted, self._scale
        power_uj = self._power_since(counted)
        if counted is None or scale is None or power_uj is None or not self.is_costly:
            return None
        if mono_ns - counted.mono_ns >= EVERY_NS - SLACK_NS:
            return None
        return self._say(counted.counter_uj + int(scale * power_uj))

    def _power_since(self, counted: _Counted | None) -> int | None:
        """What power has summed up to since then; None: it was not known all the time."""
        if counted is None or counted.power_uj is None or self._power_uj is None:
            return None
        power_uj = self._power_uj - counted.power_uj
        return power_uj if power_uj >= 0 else None  # else it began again, after a gap

    def read(self, counter_uj: int | None, took_ns: int, mono_ns: int) -> int | None:
        """Takes the counter, and returns how far it has come; None: it could not be read."""
        self._took_ns.append(took_ns)
        before, scale = self._counted, self._scale
        self._scale = None
        if counter_uj is None:
            return None
        power_uj = self._power_since(before)
        self._counted = _Counted(counter_uj, self._power_uj, mono_ns)
        if before is None or counter_uj < before.counter_uj:  # the first, or it was reset
            self._said_uj = counter_uj
            return counter_uj
        if counter_uj == before.counter_uj:  # it stands still, whatever power said
            return self._said_uj
        self._scale = scale
        if mono_ns - before.mono_ns >= LEAST_NS:
            ratio = (counter_uj - before.counter_uj) / power_uj if power_uj else 0.0
            self._scale = ratio if 1 / TIMES <= ratio <= TIMES else None
        return self._say(counter_uj)

    def _say(self, counter_uj: int) -> int:
        """The counter, which never falls back: where power said too much, it waits, and moves."""
        self._said_uj = max(counter_uj, self._said_uj + 1)
        return self._said_uj
