"""The parts of one device's reading: what the driver takes for each, and when each has its turn.

What is read in every cycle is no matter of turns: the driver's ring would overflow.

How often a device is asked for what it is slow to tell. Pure.

A slow answer keeps a lock of the driver that every tenant's calls wait for. So a turn may cost a
small part of the time until the next one; where it costs more, the next one comes later.

How long the driver is waited for, and how often it is asked for what is dear to answer.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from exporter.model import Clock, PartCost

SECOND = 1_000_000_000

MOST_SHARE = 0.01  # of the time between two turns
NARROW_AT = 0.8  # of that share, so that an answer on the edge does not move the interval
LONGEST_S = 60.0


class AdaptiveInterval:
    """By how much an interval is widened on one device, out of what its turns have cost.

    ``factor`` is a power of two. The cheaper of the two newest turns counts: a slow one alone
    widens nothing, and a quick one leads back at once.
    """

    def __init__(self) -> None:
        self.factor = 1
        self._before_ns = 0

    def note(self, cost_ns: int, every_ns: int) -> None:
        """Take in what a turn cost, of those that are ``every_ns`` apart where all is quick."""
        if not every_ns:  # each cycle: a counter that wraps is not read more seldom
            return
        cheaper_ns, self._before_ns = min(cost_ns, self._before_ns), cost_ns
        allowed_ns = int(every_ns * MOST_SHARE)
        while self.factor > 1 and cheaper_ns < NARROW_AT * allowed_ns * self.factor / 2:
            self.factor //= 2
        while allowed_ns * self.factor < cheaper_ns and self.widened_s(every_ns) < LONGEST_S:
            self.factor *= 2

    def widened_s(self, every_ns: int) -> float:
        """Seconds from one turn to the next, as wide as it is now."""
        normal_s = every_ns / SECOND
        return max(min(normal_s * self.factor, LONGEST_S), normal_s)


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds, all of them."""

    deadline_s: float = 0.8
    """No read takes longer, whatever the driver does."""

    look_every_s: float = 30.0
    """Devices are enumerated again: MIG instances come and go, and their handles are reused."""

    look_again_s: float = 5.0
    """Sooner, when a device that could be read cannot any more."""

    memory_every_s: float = 5.0
    """Process lists lock the whole driver while it walks all clients of all tenants."""

    memory_at_most_every_s: float = 1.0
    """They are read at once when an unknown process is active, but no sooner than this."""

    sensors_every_s: float = 5.0
    """Power, temperature, clocks, throttling."""

    counters_every_s: float = 10.0
    """Memory errors and NVLink traffic: the driver asks the board's firmware."""

    profiling_every_s: float = 5.0
    """GPM. A figure is the average of the time in between."""


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """What devices are asked for, and how often. ``disabled``: groups of metric families."""

    timing: Timing = field(default_factory=Timing)
    disabled: frozenset[str] = frozenset()


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


class Cadence:
    """A turn every so many seconds, the first at once; fewer while the driver is slow."""

    def __init__(self, clock: Clock) -> None:
        self._now = clock.monotonic_ns
        self._pace = AdaptiveInterval()
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


class ReadPhases:
    """What each part of one device's reading costs. One thread at a time; ``costs`` are for any.

    ``note`` is told how many nanoseconds each call took.
    """

    def __init__(self, clock: Clock, timing: Timing) -> None:
        self._took_ns: list[int] = []  # of each call that is not added up yet
        self.note = self._took_ns.append
        self._spent_ns = dict.fromkeys((SAMPLES, *EVERY), 0)
        self._turns = {name: Cadence(clock) for name in EVERY}
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

    def turns(self, part: str) -> Cadence:
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
