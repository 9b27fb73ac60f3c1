"""What counters counted in each step of a range, through restarts and gaps.

``increase()`` is of no use for a bill. It extrapolates, and it loses what a series had counted
before its first scrape. Here the counters themselves are read, once a step. Where an exporter
restarted in a step, or a series came or went, every scrape of that step is read instead.

An exporter's counters begin at 0 with it. So a series that is new counts in full, one that fell has
begun again, and one that was away for a while goes on where it was.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from exporter.prometheus.client import Grid, Labels, Prometheus, Series, quoted, selector

CYCLES = "mgpu_exporter_cycles_total"  # falls when the exporter restarts, and stands on each page
_TARGET = ("job", "instance")


class Target(NamedTuple):
    """An exporter as Prometheus knows it."""

    job: str
    instance: str


class Span(NamedTuple):
    """A range in Unix seconds, and its steps: each ends at one of ``ends``."""

    since_s: int
    until_s: int
    step_s: int

    @property
    def ends(self) -> range:
        """The end of each step. The first step may be shorter than the others."""
        steps = -(-(self.until_s - self.since_s) // self.step_s)
        return range(self.until_s - (steps - 1) * self.step_s, self.until_s + 1, self.step_s)

    @property
    def grid(self) -> Grid:
        """The ends of all steps."""
        return Grid(self.ends[0], self.ends[-1], self.step_s)

    def begin(self, step: int) -> int:
        """When a step begins."""
        return self.ends[step - 1] if step else self.since_s


class Grown(NamedTuple):
    """What a series counted in each step, and when it was first and last seen in the range."""

    labels: Labels
    target: Target
    steps: Mapping[int, float]


@dataclass(frozen=True, slots=True)
class Presence:
    """When a target was scraped in the range, and when Prometheus knew of it, in Unix seconds."""

    first_s: float
    last_s: float
    known_until_s: float


@dataclass(slots=True)
class _Counted:
    """The samples of one series, by time."""

    labels: Labels
    samples: dict[float, float] = field(default_factory=dict)


_Key = tuple[tuple[str, str], ...]


class Counters:
    """What all counters of some families counted over a span. It asks when it is made."""

    def __init__(self, prometheus: Prometheus, names: Sequence[str], span: Span) -> None:
        self._prometheus = prometheus
        self._names = [*names, CYCLES]
        self.span = span
        self._series: dict[Target, dict[_Key, _Counted]] = defaultdict(dict)
        self._whole = selector(self._names)
        self._take(prometheus.at(self._whole, span.since_s), span.since_s)
        self._take(prometheus.over(self._whole, span.grid))
        self._restarts = self._steps_of(f"resets({CYCLES}[{span.step_s}s]) > 0")
        self._scraped = self._steps_of(f"count_over_time({CYCLES}[{span.step_s}s])")
        for target in self._restarts.keys() | self._scraped.keys():
            self._series.setdefault(target, {})
        for target in list(self._series):
            for step in sorted(self._unclear(target)):
                self._look_closer(target, step)

    @property
    def targets(self) -> Mapping[Target, Presence]:
        """The exporters that were scraped, and when."""
        known = {
            target_of(one.labels): one.samples[-1][0]
            for one in self._prometheus.over(self._up(), self.span.grid)
        }
        found: dict[Target, Presence] = {}
        for target, series in self._series.items():
            times = sorted({at for one in series.values() for at in one.samples})
            if times:
                last = times[-1]
                found[target] = Presence(times[0], last, max(last, known.get(target, last)))
        return found

    def grown(self) -> list[Grown]:
        """What each series counted."""
        return [
            Grown(one.labels, target, self._steps(one, self._lives(series)))
            for target, series in self._series.items()
            for one in series.values()
            if one.labels.get("__name__") != CYCLES
        ]

    def _up(self) -> str:
        jobs = "|".join(sorted({_escaped(target.job) for target in self._series}))
        return f"up{{job=~{quoted(jobs)}}}"

    def _take(self, found: Sequence[Series], at_s: float | None = None) -> None:
        for one in found:
            key = tuple(sorted(one.labels.items()))
            counted = self._series[target_of(one.labels)].setdefault(key, _Counted(one.labels))
            for at, value in one.samples:
                counted.samples[at if at_s is None else at_s] = value

    def _steps_of(self, expression: str) -> dict[Target, set[int]]:
        """The steps in which an expression has a value, by target."""
        found: dict[Target, set[int]] = defaultdict(set)
        ends = self.span.ends
        for one in self._prometheus.over(expression, self.span.grid):
            for at, value in one.samples:
                if value > 0:
                    found[target_of(one.labels)].add((int(at) - ends[0]) // self.span.step_s)
        return found

    def _unclear(self, target: Target) -> set[int]:
        """The steps whose ends do not say what was counted in them."""
        steps = set(self._restarts.get(target, ()))
        series, ends = self._series[target], self.span.ends
        for one in series.values():
            before = one.samples.get(self.span.since_s)
            for step, end in enumerate(ends):
                after = one.samples.get(end)
                came_or_went = (before is None) != (after is None)
                if came_or_went or (before or 0.0) > (after or 0.0):
                    steps.add(step)
                before = after
        seen = {at for one in series.values() for at in one.samples}
        lived_within = {
            step
            for step in self._scraped.get(target, ())
            if ends[step] not in seen and self.span.begin(step) not in seen
        }
        return steps | lived_within

    def _look_closer(self, target: Target, step: int) -> None:
        """Reads every scrape of one step."""
        begin, end = self.span.begin(step), self.span.ends[step]
        chosen = selector(self._names, job=target.job, instance=target.instance)
        self._take(self._prometheus.at(f"{chosen}[{end - begin}s]", end))

    def _lives(self, series: Mapping[_Key, _Counted]) -> list[float]:
        """When each life of the exporter but the first was seen first."""
        cycles = [one for one in series.values() if one.labels.get("__name__") == CYCLES]
        return sorted(
            later
            for one in cycles
            for earlier, later in pairwise(sorted(one.samples))
            if one.samples[later] < one.samples[earlier]
        )

    def _steps(self, one: _Counted, lives: Sequence[float]) -> dict[int, float]:
        found: dict[int, float] = defaultdict(float)
        ends, last = self.span.ends, None
        for at in sorted(one.samples):
            value = one.samples[at]
            life = bisect_right(lives, at)
            if at > self.span.since_s:
                step = max(0, -(-(at - ends[0]) // self.span.step_s))
                found[int(step)] += _counted(last, value, life)
            last = (value, life)
        return dict(found)


def _counted(last: tuple[float, int] | None, value: float, life: int) -> float:
    """What was counted since the sample before; without one, and after a restart, since 0."""
    if last is None or life != last[1] or value < last[0]:
        return value
    return value - last[0]


def target_of(labels: Labels) -> Target:
    """The target that a series is of."""
    return Target(*(labels.get(name, "") for name in _TARGET))


def _escaped(job: str) -> str:
    return "".join(char if char.isalnum() or char in "-_" else f"\\{char}" for char in job)
