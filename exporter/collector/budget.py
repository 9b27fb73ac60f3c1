"""Keeps the exporter within its share of a CPU: by how much the cycle is slowed down.

The cost of a cycle can be spread over a longer time; the cost of scrapes cannot. So the factor
follows measurements, not a model. It rises while too much is used. It falls only if the smaller
factor would be enough even if the cycle caused all of the cost.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

from exporter.collector.rules import CycleRules

PERIOD_NS = 30 * 10**9  # over which use is averaged: scrapes come every 15 s to a minute
AIM = 0.9  # of the budget, where the factor is changed
NARROW_BELOW = 0.75  # of the budget
STEP = 0.1  # of a factor


@dataclass(frozen=True, slots=True)
class CpuUse:
    """The CPU time that the whole process used until a moment."""

    cpu_ns: int
    mono_ns: int


class Budget:
    """The factor by which intervals are longer than set, from 1 to ``widest``.

    ``share``: of one CPU, 0 for no budget. ``used``: the use in the newest whole period.
    """

    def __init__(self, share: float = 0.0, widest: float = 1.0) -> None:
        self.share = share
        self.factor = 1.0
        self.used: float | None = None
        self._widest = widest
        self._begun: CpuUse | None = None

    def follow(self, share: float, widest: float) -> None:
        """Applies another budget; the measurement starts again."""
        self.share, self._widest = share, widest
        self.used, self._begun = None, None
        self.factor = min(self.factor, widest) if share else 1.0

    @property
    def exceeded(self) -> bool:
        """Whether more is used although the intervals are as long as they may be."""
        return self.used is not None and self.used > self.share and self.factor >= self._widest

    def note(self, spent: CpuUse) -> bool:
        """Records the use until now. Returns whether the factor changed."""
        if not self.share:
            return False
        if self._begun is None:
            self._begun = spent
        elapsed_ns = spent.mono_ns - self._begun.mono_ns
        if elapsed_ns < PERIOD_NS:
            return False
        self.used = (spent.cpu_ns - self._begun.cpu_ns) / elapsed_ns
        self._begun = spent
        before, self.factor = self.factor, self._next(self.used / self.share)
        return self.factor != before

    def _next(self, fill: float) -> float:
        """The factor for a use of so many budgets."""
        if NARROW_BELOW <= fill <= 1:
            return self.factor
        steps = self.factor * fill / AIM / STEP
        # Upwards to the next step, so that a small excess moves it at all.
        wanted = STEP * -(-steps // 1)
        wanted = max(wanted, self.factor + STEP) if fill > 1 else min(wanted, self.factor)
        return round(min(max(wanted, 1.0), self._widest), 6)


logger = logging.getLogger(__name__)

LONGEST_INTERVAL_NS = 5 * 10**9  # half of what the smallest ring of a driver holds
LONGEST_S = 60.0  # between two reads of processes or sensors


class CpuThrottle:
    """Slows the cycle down while the exporter uses more CPU time than it may.

    ``rules`` are those in force. ``cpu_ns`` returns the CPU time of the whole process, because
    scrapes and watches use it, too.
    """

    def __init__(self, rules: CycleRules, cpu_ns: Callable[[], int]) -> None:
        self.rules = self.set = rules
        self.budget = Budget(rules.budget, widest(rules))
        self._cpu_ns = cpu_ns
        self._exceeded = False

    def follow(self, rules: CycleRules) -> None:
        """Applies other rules from now on."""
        self.set = rules
        self.budget.follow(rules.budget, widest(rules))
        self.rules = widened(rules, self.budget.factor)

    def note(self, mono_ns: int) -> bool:
        """Measures the use until now. Returns whether other rules are in force."""
        before = self.budget.factor
        changed = self.budget.note(CpuUse(self._cpu_ns(), mono_ns))
        if changed:
            self.rules = widened(self.set, self.budget.factor)
        self._log(before)
        return changed

    def _log(self, before: float) -> None:
        """Logs where throttling begins and ends, and where it does not help; no step of it."""
        budget, seconds = self.budget, self.rules.interval_ns / 1e9
        exceeded, self._exceeded = self._exceeded, budget.exceeded
        if before == 1 < budget.factor:
            logger.warning(
                "%.2g %% of a CPU was used and --collection.budget is %.2g %%: cycles come every "
                "%.1f s from now on, or as seldom as it takes; see "
                "mgpu_exporter_collection_interval_seconds",
                *(100 * (budget.used or 0), 100 * budget.share, seconds),
            )
        elif before > 1 == budget.factor:
            logger.info("cycles come every %.1f s again, as set", seconds)
        if budget.exceeded and not exceeded:
            logger.warning(
                "%.2g %% of a CPU is used and --collection.budget is %.2g %%, though cycles come "
                "as seldom as may be; raise it, or scrape less often",
                *(100 * (budget.used or 0), 100 * budget.share),
            )


def widest(rules: CycleRules) -> float:
    """The factor at which the driver's ring, and the window of the gauges, still hold a cycle."""
    longest_ns = min(LONGEST_INTERVAL_NS, rules.window_ns)
    return max(longest_ns / rules.interval_ns, 1.0)


def widened(rules: CycleRules, factor: float) -> CycleRules:
    """The rules with intervals that are so much longer, within bounds."""
    if factor == 1:
        return rules
    demand = replace(
        rules.demand,
        processes_every_s=_longer(rules.demand.processes_every_s, factor),
        sensors_every_s=_longer(rules.demand.sensors_every_s, factor),
    )
    return replace(rules, interval_ns=round(rules.interval_ns * factor), demand=demand)


def _longer(seconds: float, factor: float) -> float:
    return max(min(seconds * factor, LONGEST_S), seconds)
