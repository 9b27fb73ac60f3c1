"""The rules in force: those that were set, slowed down as far as the CPU budget asks for."""

import logging
from collections.abc import Callable
from dataclasses import replace

from exporter.collector.budget import Budget, Spent
from exporter.collector.rules import CycleRules

logger = logging.getLogger(__name__)

LONGEST_INTERVAL_NS = 5 * 10**9  # half of what the smallest ring of a driver holds
LONGEST_S = 60.0  # between two reads of processes or sensors


class Keeper:
    """Slows the cycle down while the exporter uses more CPU time than it may.

    ``rules`` are those in force. ``cpu_ns`` tells the CPU time of the whole process: what scrapes
    and watches use is used, too.
    """

    def __init__(self, rules: CycleRules, cpu_ns: Callable[[], int]) -> None:
        self.rules = self.set = rules
        self.budget = Budget(rules.budget, widest(rules))
        self._cpu_ns = cpu_ns
        self._exceeded = False

    def follow(self, rules: CycleRules) -> None:
        """Slow these down from now on."""
        self.set = rules
        self.budget.follow(rules.budget, widest(rules))
        self.rules = widened(rules, self.budget.factor)

    def note(self, mono_ns: int) -> bool:
        """Look at what was used until now; gives whether other rules are in force."""
        before = self.budget.factor
        changed = self.budget.note(Spent(self._cpu_ns(), mono_ns))
        if changed:
            self.rules = widened(self.set, self.budget.factor)
        self._tell(before)
        return changed

    def _tell(self, before: float) -> None:
        """Log where widening begins and ends, and where it does not help; no step of it."""
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
