"""The parts of one device's reading: what the driver takes for each, and when each has its turn.

What is read in every cycle is no matter of turns: the driver's ring would overflow.
"""

from collections.abc import Callable, Mapping
from typing import TypeVar

from exporter.gpus.nvml.pace import SECOND, Pace
from exporter.gpus.nvml.timing import Timing
from exporter.model import Clock, PartCost

T = TypeVar("T")

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
        self._now = clock.monotonic_ns
        self._pace = Pace()
        self.follow(0.0)
        self.restart()

    def follow(self, every_s: float) -> None:
        """Give one so often from now on, where the driver is quick."""
        self.every_s = every_s
        self.interval_ns = self._widened_ns(every_s)

    def restart(self) -> None:
        """Let the next turn be at once."""
        self._last_ns: int | None = None

    @property
    def next_ns(self) -> int:
        """When the next turn is, by the monotonic clock; 0: at once."""
        return 0 if self._last_ns is None else self._last_ns + self.interval_ns

    def take(self, every_s: float | None = None) -> bool:
        """Take the turn if it is due; ``every_s`` for one that is in a hurry."""
        wait_ns = self.interval_ns if every_s is None else self._widened_ns(every_s)
        now_ns = self._now()
        due = self._last_ns is None or now_ns - self._last_ns >= wait_ns
        if due:
            self._last_ns = now_ns
        return due

    def note(self, cost_ns: int) -> None:
        """Take in what a turn cost; the interval, in nanoseconds, may change with it."""
        self._pace.note(cost_ns, int(self.every_s * SECOND))
        self.interval_ns = self._widened_ns(self.every_s)

    def _widened_ns(self, every_s: float) -> int:
        return int(self._pace.widened_s(int(every_s * SECOND)) * SECOND)


class Parts:
    """What each part of one device's reading costs. One thread at a time; ``costs`` are for any.

    ``note`` is told how many nanoseconds each call took.
    """

    def __init__(self, clock: Clock, timing: Timing) -> None:
        self._took_ns: list[int] = []  # of each call that is not added up yet
        self.note = self._took_ns.append
        self._spent_ns = dict.fromkeys((SAMPLES, *EVERY), 0)
        self._turns = {name: Turns(clock) for name in EVERY}
        self.follow(timing)

    def follow(self, timing: Timing) -> None:
        """Give turns by this from now on."""
        for name, every in EVERY.items():
            self._turns[name].follow(getattr(timing, every))
        self._turns_cost = {
            part: PartCost(self._spent_ns[part], turns.interval_ns)
            for part, turns in self._turns.items()
            if self._spent_ns[part]
        }

    def turns(self, part: str) -> Turns:
        """When a part has its turn."""
        return self._turns[part]

    def add_up(self) -> None:
        """Add what was called since the last time to what each cycle costs."""
        self._spent_ns[SAMPLES] += sum(self._took_ns)
        self._took_ns.clear()

    def read(self, part: str, read: Callable[..., T], *arguments: object) -> T:
        """Read this part: what is called for that is counted for it, as one turn."""
        self.add_up()
        try:
            return read(*arguments)
        finally:
            took_ns = sum(self._took_ns)
            self._took_ns.clear()
            self._spent_ns[part] += took_ns
            turns = self._turns[part]
            turns.note(took_ns)
            cost = PartCost(self._spent_ns[part], turns.interval_ns)
            self._turns_cost = {**self._turns_cost, part: cost}

    @property
    def costs(self) -> Mapping[str, PartCost]:
        """Time in the driver since the start, and the interval now, of each part that was read."""
        each_cycle_ns = self._spent_ns[SAMPLES]
        told = {SAMPLES: PartCost(each_cycle_ns)} if each_cycle_ns else {}
        return told | self._turns_cost
