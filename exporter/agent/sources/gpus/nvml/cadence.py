"""When each phase of one device's reading is due, and what it costs in driver time.

The slow phases (process lists, sensors, counters, GPM) have intervals of their own. A slow driver
call holds a lock that the calls of every tenant wait for. So a read may cost a small part of its
interval; if it costs more, the interval is widened. Rings have none, because they would overflow if
it widened: ``NvmlDevice`` reads them as often as ``Demand.samples_every_ns`` says.
"""

from collections.abc import Callable, Mapping
from typing import TypeVar

from exporter.agent.sources.gpus.gpusource import VIEWED_NS, Demand
from exporter.model import Clock, PartCost

SECOND = 1_000_000_000

MAX_SHARE = 0.01  # of an interval
NARROW_AT = 0.8  # of that share, so that a cost at the edge does not move the interval
LONGEST_NS = 60 * SECOND


class AdaptiveInterval:
    """Widens an interval on one device by what the reads have cost.

    ``factor`` is a power of two. The cheaper of the two newest reads counts: one slow read alone
    widens nothing, and one quick read narrows the interval at once.
    """

    def __init__(self) -> None:
        self.factor = 1
        self._before_ns = 0

    def observe(self, cost_ns: int, every_ns: int) -> None:
        """Takes the cost of a read that is due every ``every_ns`` if the driver is quick."""
        if not every_ns:  # read in each cycle: its counter wraps
            return
        cheaper_ns, self._before_ns = min(cost_ns, self._before_ns), cost_ns
        allowed_ns = int(every_ns * MAX_SHARE)
        while self.factor > 1 and cheaper_ns < NARROW_AT * allowed_ns * self.factor / 2:
            self.factor //= 2
        while allowed_ns * self.factor < cheaper_ns and self.widened_ns(every_ns) < LONGEST_NS:
            self.factor *= 2

    def widened_ns(self, every_ns: int) -> int:
        return max(min(every_ns * self.factor, LONGEST_NS), every_ns)


T = TypeVar("T")

SAMPLES = "samples"  # without an interval here: rings, energy, what wraps, calls of no other phase
PROCESSES = "processes"
SENSORS = "sensors"
COUNTERS = "counters"
PROFILING = "profiling"  # GPM; also the name of its group of metric families
COUNTERS_EVERY_NS = 10 * SECOND  # memory errors and NVLink: the driver asks the board's firmware
COUNTERS_SELDOM_NS = 30 * SECOND  # while nobody looks
PROFILING_EVERY_NS = 10 * SECOND  # a figure of GPM is the average of the time in between
SLOW_PHASES: Mapping[str, Callable[[Demand], int]] = {  # with their intervals
    PROCESSES: lambda demand: demand.processes_every_ns,
    SENSORS: lambda demand: demand.sensors_every_ns,
    COUNTERS: lambda d: COUNTERS_SELDOM_NS if d.samples_every_ns > VIEWED_NS else COUNTERS_EVERY_NS,
    PROFILING: lambda _: PROFILING_EVERY_NS,
}


class Cadence:
    """When something is due: at once, then at an interval that widens if the driver is slow."""

    def __init__(self, clock: Clock) -> None:
        self._now = clock.monotonic_ns
        self._adaptive = AdaptiveInterval()
        self.cost_ns = 0  # of the newest read
        self.set_interval(0)
        self.restart()

    def set_interval(self, every_ns: int) -> None:
        """Sets the interval that holds while the driver is quick."""
        self.every_ns = every_ns
        self.interval_ns = self._adaptive.widened_ns(every_ns)

    def restart(self) -> None:
        self._last_ns: int | None = None

    def begin_if_due(self, every_ns: int | None = None) -> bool:
        """Whether it is due now; then the interval restarts. ``every_ns``: a shorter interval."""
        wait_ns = self.interval_ns if every_ns is None else self._adaptive.widened_ns(every_ns)
        now_ns = self._now()
        is_due = self._last_ns is None or now_ns - self._last_ns >= wait_ns
        if is_due:
            self._last_ns = now_ns
        return is_due

    def observe(self, cost_ns: int) -> None:
        self.cost_ns = cost_ns
        self._adaptive.observe(cost_ns, self.every_ns)
        self.interval_ns = self._adaptive.widened_ns(self.every_ns)


class ReadPhases:
    """The phases of one device's reading: when each is due, and what it costs.

    One thread at a time; any thread may read ``costs``. ``note_call`` takes the duration of each
    driver call, in nanoseconds.
    """

    def __init__(self, clock: Clock, demand: Demand) -> None:
        self._took_ns: list[int] = []  # of each call that is not added up yet
        self.note_call = self._took_ns.append
        self._spent_ns = dict.fromkeys((SAMPLES, *SLOW_PHASES), 0)
        self._cadences = {phase: Cadence(clock) for phase in SLOW_PHASES}
        self.follow(demand)

    def follow(self, demand: Demand) -> None:
        for phase, interval_ns in SLOW_PHASES.items():
            self._cadences[phase].set_interval(interval_ns(demand))
        self._slow_costs = {
            phase: PartCost(self._spent_ns[phase], cadence.interval_ns)
            for phase, cadence in self._cadences.items()
            if self._spent_ns[phase]
        }

    def cadence(self, phase: str) -> Cadence:
        return self._cadences[phase]

    def add_up(self) -> None:
        """Adds the calls since the last time to the cost of each cycle."""
        self._spent_ns[SAMPLES] += sum(self._took_ns)
        self._took_ns.clear()

    def read(self, phase: str, read: Callable[..., T], *arguments: object) -> T:
        """Reads a phase and counts its driver calls as the cost of that phase."""
        self.add_up()
        try:
            return read(*arguments)
        finally:
            took_ns = sum(self._took_ns)
            self._took_ns.clear()
            self._spent_ns[phase] += took_ns
            cadence = self._cadences[phase]
            cadence.observe(took_ns)
            cost = PartCost(self._spent_ns[phase], cadence.interval_ns)
            self._slow_costs = {**self._slow_costs, phase: cost}

    @property
    def costs(self) -> Mapping[str, PartCost]:
        """Driver time since the start, and the interval now, of each phase that was read."""
        each_cycle_ns = self._spent_ns[SAMPLES]
        each_cycle = {SAMPLES: PartCost(each_cycle_ns)} if each_cycle_ns else {}
        return each_cycle | self._slow_costs
