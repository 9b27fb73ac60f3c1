"""Keeps the exporter within its share of a CPU: by how much the cycle is to be slowed down. Pure.

What a cycle costs can be spread over a longer time, what scrapes cost cannot. So the factor follows
what was measured and not a model: it rises while too much is used, and falls only if the smaller
one would do even were the cycle all that costs anything. Between the two it stands still.
"""

from dataclasses import dataclass

PERIOD_NS = 30 * 10**9  # over which use is averaged: scrapes come every 15 s to a minute
AIM = 0.9  # of the budget, where the factor is changed
NARROW_BELOW = 0.75  # of the budget
STEP = 0.1  # of a factor


@dataclass(frozen=True, slots=True)
class Spent:
    """What was used until a moment: CPU time of the whole process."""

    cpu_ns: int
    mono_ns: int


class Budget:
    """The factor by which intervals are longer than set, from 1 to ``widest``.

    ``share``: of one CPU, 0 for no budget. ``used``: what the newest whole period used of it.
    """

    def __init__(self, share: float = 0.0, widest: float = 1.0) -> None:
        self.share = share
        self.factor = 1.0
        self.used: float | None = None
        self._widest = widest
        self._begun: Spent | None = None

    def follow(self, share: float, widest: float) -> None:
        """Keep to this from now on; what is measured begins anew."""
        self.share, self._widest = share, widest
        self.used, self._begun = None, None
        self.factor = min(self.factor, widest) if share else 1.0

    @property
    def exceeded(self) -> bool:
        """Whether more is used although the intervals are as long as they may be."""
        return self.used is not None and self.used > self.share and self.factor >= self._widest

    def note(self, spent: Spent) -> bool:
        """Take in what was used until now; gives whether the factor changed."""
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
        """The factor that suits a use of so many budgets."""
        if NARROW_BELOW <= fill <= 1:
            return self.factor
        steps = self.factor * fill / AIM / STEP
        # Upwards to the next step, so that a small excess moves it at all.
        wanted = STEP * -(-steps // 1)
        wanted = max(wanted, self.factor + STEP) if fill > 1 else min(wanted, self.factor)
        return round(min(max(wanted, 1.0), self._widest), 6)
