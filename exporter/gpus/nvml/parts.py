"""The parts of one device's reading: what the driver takes for each, and when each has its turn.

What is read in every cycle is no matter of turns: the driver's ring would overflow.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from exporter.gpus.nvml.pace import SECOND, Pace
from exporter.gpus.nvml.tally import Tally
from exporter.gpus.nvml.timing import Timing
from exporter.model import Clock, PartCost

SAMPLES = "samples"  # of every cycle: the rings, energy, what wraps; and what belongs nowhere else
PROCESSES = "processes"
SENSORS = "sensors"
COUNTERS = "counters"
PROFILING = "profiling"  # GPM; the group of metric families that it is for is called so, too
EVERY = {  # the parts that have turns, and the name of their interval in Timing
    PROCESSES: "memory_every_s",
    SENSORS: "sensors_every_s",
    COUNTERS: "counters_every_s",
    PROFILING: "profiling_every_s",
}


class Turns:
    """A turn every so many seconds, the first at once; fewer while the driver is slow."""

    def __init__(self, clock: Clock) -> None:
        self.every_s = 0.0
        self._clock = clock
        self._pace = Pace()
        self.restart()

    def restart(self) -> None:
        """Let the next turn be at once."""
        self._last_ns: int | None = None

    @property
    def interval_s(self) -> float:
        """Seconds from one turn to the next now."""
        return self._pace.widened_s(int(self.every_s * SECOND))

    def take(self, every_s: float | None = None) -> bool:
        """Take the turn if it is due; ``every_s`` for one that is in a hurry."""
        every_ns = int((self.every_s if every_s is None else every_s) * SECOND)
        now_ns = self._clock.monotonic_ns()
        wait_ns = int(self._pace.widened_s(every_ns) * SECOND)
        due = self._last_ns is None or now_ns - self._last_ns >= wait_ns
        if due:
            self._last_ns = now_ns
        return due

    def note(self, cost_ns: int) -> None:
        """Take in what a turn cost."""
        self._pace.note(cost_ns, int(self.every_s * SECOND))


class Parts:
    """The ``Tally`` of one device. One thread at a time, but ``costs`` are for any."""

    def __init__(self, whole: Tally, clock: Clock, timing: Timing) -> None:
        self._whole = whole
        self._spent_ns = dict.fromkeys((SAMPLES, *EVERY), 0)
        self._turns = {name: Turns(clock) for name in EVERY}
        self._at = SAMPLES
        self.follow(timing)

    def follow(self, timing: Timing) -> None:
        """Give turns by this from now on."""
        for name, every in EVERY.items():
            self._turns[name].every_s = getattr(timing, every)

    def turns(self, part: str) -> Turns:
        """When a part has its turn."""
        return self._turns[part]

    def add(self, name: str, duration_ns: int) -> None:
        """See ``Tally``."""
        self._whole.add(name, duration_ns)
        self._spent_ns[self._at] += duration_ns

    @contextmanager
    def reading(self, part: str) -> Iterator[None]:
        """Count what is called within for this part, as one turn of it."""
        before, self._at = self._at, part
        before_ns = self._spent_ns[part]
        try:
            yield
        finally:
            self._at = before
            self._turns[part].note(self._spent_ns[part] - before_ns)

    @property
    def costs(self) -> Mapping[str, PartCost]:
        """Time in the driver since the start, and the interval now, of each part that was read."""
        return {
            part: PartCost(
                spent_ns,
                int(self._turns[part].interval_s * SECOND) if part in self._turns else None,
            )
            for part, spent_ns in self._spent_ns.items()
            if spent_ns
        }
