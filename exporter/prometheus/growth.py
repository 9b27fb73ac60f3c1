"""What counters counted in each step of a range, through restarts and gaps.

``increase()`` is of no use for a bill. It extrapolates, and it loses what a series had counted
before its first scrape. Here the counters themselves are read, once a step. Where an exporter
restarted in a step, or a series came or went, every scrape of that step is read instead.

An exporter's counters begin at 0 with it. So a series that is new counts in full, one that fell has
begun again, and one that was away for a while goes on where it was.
"""

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import ceil
from typing import NamedTuple

from exporter.prometheus.client import Grid, Labels, Prometheus, Series, quoted, selector

CYCLES = "mgpu_exporter_cycles_total"  # falls when the exporter restarts, and stands on each page
_TARGET = ("job", "instance", "cluster")
_STALE_S = 300  # before a step, where the last scrape before a restart may be
_AWAY_S = 86_400  # what was away when the range began, as a device that was not read, goes on


class Target(NamedTuple):
    """An exporter as Prometheus knows it. Those of two clusters may have one address."""

    job: str
    instance: str
    cluster: str


class Span(NamedTuple):
    """A range in Unix seconds, divided at the multiples of ``step_s``.

    VictoriaMetrics and Thanos move the times of a range query to these multiples.
    """

    since_s: int
    until_s: int
    step_s: int

    @property
    def grid(self) -> Grid:
        """The end of each step; the last may be after the range."""
        first = self.since_s // self.step_s + 1
        return Grid(first * self.step_s, -(-self.until_s // self.step_s) * self.step_s, self.step_s)

    @property
    def ends(self) -> list[int]:
        """The end of each step. The first and the last step may be shorter than the others."""
        return [*self.grid.times[:-1], self.until_s]

    def begin(self, step: int) -> int:
        """When a step begins."""
        return self.ends[step - 1] if step else self.since_s

    def step_of(self, at_s: float) -> int:
        """The step that a time is in."""
        return max(0, ceil(at_s / self.step_s) - self.since_s // self.step_s - 1)


class Grown(NamedTuple):
    """What a series of a target counted in each step."""

    labels: Labels
    target: Target
    steps: Mapping[int, float]


@dataclass(frozen=True, slots=True)
class Presence:
    """When a target was first scraped, and until when Prometheus knew of it, in Unix seconds."""

    first_s: float
    known_until_s: float


@dataclass(slots=True)
class _Counted:
    """The samples of one series, by time."""

    labels: Labels
    samples: dict[float, float] = field(default_factory=dict)


_Key = tuple[tuple[str, str], ...]


def _key(labels: Labels) -> _Key:
    return tuple(sorted(labels.items()))


class Counters:
    """What all counters of some families counted over a span. It asks when it is made."""

    def __init__(self, prometheus: Prometheus, names: Sequence[str], span: Span) -> None:
        self._prometheus = prometheus
        self._names = [*names, CYCLES]
        self.span = span
        self._series: dict[Target, dict[_Key, _Counted]] = defaultdict(dict)
        self._whole = selector(self._names)
        self._read()
        self._restarts = self._steps_of(f"resets({CYCLES}[{span.step_s + _STALE_S}s]) > 0")
        self._there = _targets(prometheus.at(CYCLES, span.until_s))
        for target in self._series:
            for step in sorted(self._unclear(target)):
                self._look_closer(target, step)

    def _read(self) -> None:
        """The last scrape of each step, and the one before the range."""
        since_s, ends = self.span.since_s, self.span.ends
        for step in {0, len(ends) - 1}:
            last = self._last_in(ends[step] - self.span.begin(step))
            self._take(self._prometheus.at(last, ends[step]), ends[step])
        if between := ends[1:-1]:
            grid = Grid(between[0], between[-1], self.span.step_s)
            for piece in self._prometheus.pieces(self._last_in(self.span.step_s), grid):
                self._take(piece)
        before = self._prometheus.at(self._whole, since_s)
        self._take_before(before)
        if any(since_s not in one.samples for one in self._all()):
            restarts = f"resets({CYCLES}[{_AWAY_S}s]) > 0"
            began_again = _targets(before) & _targets(self._prometheus.at(restarts, since_s))
            long_ago = self._prometheus.at(self._last_in(_AWAY_S), since_s)
            self._take_before([one for one in long_ago if target_of(one.labels) not in began_again])

    def _take_before(self, found: Sequence[Series]) -> None:
        """Takes what series of the range had counted before it, where that is not known yet."""
        for one in found:
            known = self._series.get(target_of(one.labels), {}).get(_key(one.labels))
            if known is not None:
                known.samples.setdefault(self.span.since_s, one.samples[-1][1])

    def _last_in(self, seconds: int) -> str:
        return f"last_over_time({self._whole}[{seconds}s])"

    @property
    def names(self) -> set[str]:
        """The families that were found."""
        return {name_of(one.labels) for one in self._all()}

    @property
    def targets(self) -> Mapping[Target, Presence]:
        """The exporters that were scraped, and when."""
        up, until_s = self._up(), float(self.span.until_s)
        known = {
            target_of(one.labels): one.samples[-1][0]
            for one in self._prometheus.over(up, self.span.grid)
        }
        known |= {target_of(one.labels): until_s for one in self._prometheus.at(up, until_s)}
        found: dict[Target, Presence] = {}
        for target in self._series:
            seen = self._scraped(target)
            found[target] = Presence(seen[0], max(seen[-1], known.get(target, 0)))
        return found

    def grown(self) -> Iterator[Grown]:
        """What each series counted. Asked once: what was read of a series is let go."""
        for target, series in self._series.items():
            lives = self._lives(target)
            for key in [key for key, one in series.items() if name_of(one.labels) != CYCLES]:
                one = series.pop(key)
                yield Grown(one.labels, target, self._steps(one, lives))

    def _up(self) -> str:
        jobs = "|".join(sorted({re.escape(target.job) for target in self._series}))
        return f"up{{job=~{quoted(jobs)}}}"

    def _all(self) -> Iterator[_Counted]:
        return (one for series in self._series.values() for one in series.values())

    def _take(self, found: Sequence[Series], at_s: float | None = None) -> None:
        for one in found:
            series = self._series[target_of(one.labels)]
            counted = series.setdefault(_key(one.labels), _Counted(one.labels))
            for at, value in one.samples:
                counted.samples[at if at_s is None else at_s] = value

    def _steps_of(self, expression: str) -> dict[Target, set[int]]:
        """The steps in which an expression has a value, by target."""
        found: dict[Target, set[int]] = defaultdict(set)
        for one in self._prometheus.over(expression, self.span.grid):
            steps = {self.span.step_of(at) for at, value in one.samples if value > 0}
            found[target_of(one.labels)] |= steps
        return found

    def _unclear(self, target: Target) -> set[int]:
        """The steps whose ends do not say all: what was counted in them, or when it was there."""
        steps = set(self._restarts.get(target, ()))
        for one in self._series[target].values():
            steps |= {self.span.step_of(at) for at in _falls(one.samples)}
        seen = self._scraped(target)
        if seen[0] > self.span.since_s:
            steps.add(self.span.step_of(seen[0]))
        if target not in self._there:
            steps.add(self.span.step_of(seen[-1]))
        return steps

    def _look_closer(self, target: Target, step: int) -> None:
        """Reads every scrape of one step."""
        begin, end = self.span.begin(step), self.span.ends[step]
        for one in self._series[target].values():
            one.samples.pop(end, None)
        chosen = selector(self._names, **target._asdict())
        self._take(self._prometheus.at(f"{chosen}[{end - begin}s]", end))

    def _scraped(self, target: Target) -> list[float]:
        """When the target was scraped, as far as it is read."""
        many = self._cycles(target) or self._series[target].values()
        return sorted({at for one in many for at in one.samples})

    def _cycles(self, target: Target) -> list[_Counted]:
        return [one for one in self._series[target].values() if name_of(one.labels) == CYCLES]

    def _lives(self, target: Target) -> list[float]:
        """When each life of the exporter but the first was seen first."""
        return sorted(later for one in self._cycles(target) for later in _falls(one.samples))

    def _steps(self, one: _Counted, lives: Sequence[float]) -> dict[int, float]:
        found: dict[int, float] = defaultdict(float)
        last = None
        for at in sorted(one.samples):
            value = one.samples[at]
            life = bisect_right(lives, at)
            if at > self.span.since_s:
                found[self.span.step_of(at)] += _counted(last, value, life)
            last = (value, life)
        return dict(found)


def _falls(samples: Mapping[float, float]) -> list[float]:
    """The times at which a value is below the one before."""
    return [b for a, b in pairwise(sorted(samples)) if samples[b] < samples[a]]


def _counted(last: tuple[float, int] | None, value: float, life: int) -> float:
    """What was counted since the sample before; without one, and after a restart, since 0."""
    if last is None or life != last[1] or value < last[0]:
        return value
    return value - last[0]


def name_of(labels: Labels) -> str:
    """The name of a series' family."""
    return labels.get("__name__", "")


def target_of(labels: Labels) -> Target:
    """The target that a series is of."""
    return Target(*(labels.get(name, "") for name in _TARGET))


def _targets(many: Sequence[Series]) -> set[Target]:
    return {target_of(one.labels) for one in many}
