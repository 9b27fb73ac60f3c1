"""What counters counted in each step of a range, through restarts and gaps.

``increase()`` is of no use for a bill. It extrapolates, and it loses what a series had counted
before its first scrape. Here the counters themselves are read, once a step. Where an exporter
restarted in a step, or a series came or went, every scrape of that step is read instead.

An exporter's counters begin at 0 with it. So a series that is new counts in full, one that fell has
begun again, and one that was away for a while goes on where it was.

A series is known by the labels that the exporter gave it. Others come and go with a configuration,
and two servers that scrape one exporter differ in them: a counter is one all the same.
"""

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import ceil, inf
from typing import NamedTuple

from exporter.metrics.families import FAMILIES, LEVELS
from exporter.prometheus.client import (
    MAX_SAMPLES,
    Grid,
    Labels,
    Prometheus,
    Series,
    label,
    quoted,
)

CYCLES = "mgpu_exporter_cycles_total"  # falls when the exporter restarts, and stands on each page
_TARGET = ("job", "instance", "cluster")
_OWN = {
    family.full_name: [n for n in (*LEVELS[family.level], *family.labels) if n != "gpu"]
    for family in FAMILIES  # the driver may give a GPU another number; its UUID stays
}
_SCRAPE_S = 15  # the usual time between two scrapes
_TARGETS = 50  # in one question
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
    """The samples of one series, by time. ``was_away``: when the range began."""

    labels: Labels
    samples: dict[float, float] = field(default_factory=dict)
    was_away: bool = False


_Key = tuple[str, ...]


def _key(labels: Labels) -> _Key:
    name = name_of(labels)
    return (name, *(label(labels, own) for own in _OWN[name]))


class Counters:
    """What all counters of some families counted over a span. It asks when it is made."""

    def __init__(self, prometheus: Prometheus, names: Sequence[str], span: Span) -> None:
        self._prometheus = prometheus
        self._names = [*names, CYCLES]
        self.span = span
        self._series: dict[Target, dict[_Key, _Counted]] = defaultdict(dict)
        self._runs = prometheus.selector([CYCLES])
        self._whole = prometheus.selector(self._names)
        self._read()
        self._restarts = self._steps_of(f"resets({self._runs}[{span.step_s + _STALE_S}s]) > 0")
        self._there = _targets(prometheus.at(self._runs, span.until_s))
        unclear: dict[int, list[Target]] = defaultdict(list)
        for target in self._series:
            for step in self._unclear(target):
                unclear[step].append(target)
        for step in sorted(unclear):
            for some in self._some_at_once(unclear[step], step):
                self._look_closer(some, step)

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
            restarts = f"resets({self._runs}[{_AWAY_S}s]) > 0"
            began_again = _targets(before) & _targets(self._prometheus.at(restarts, since_s))
            long_ago = self._prometheus.at(self._last_in(_AWAY_S), since_s)
            known = [one for one in long_ago if target_of(one.labels) not in began_again]
            self._take_before(known, was_away=True)

    def _take_before(self, found: Sequence[Series], *, was_away: bool = False) -> None:
        """Takes what series of the range had counted before it, where that is not known yet."""
        largest: dict[tuple[Target, _Key], float] = {}
        for one in found:
            whose, value = (target_of(one.labels), _key(one.labels)), one.samples[-1][1]
            largest[whose] = max(value, largest.get(whose, value))
        for (target, key), value in largest.items():
            known = self._series.get(target, {}).get(key)
            if known is not None and self.span.since_s not in known.samples:
                known.samples[self.span.since_s], known.was_away = value, was_away

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
        """Takes the ends of steps; of two servers that scraped a series, the newer sample."""
        for one in found:
            samples = self._series_of(one.labels).samples
            for at, value in one.samples:
                time = at if at_s is None else at_s
                samples[time] = max(value, samples.get(time, value))

    def _series_of(self, labels: Labels) -> _Counted:
        return self._series[target_of(labels)].setdefault(_key(labels), _Counted(labels))

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
            steps |= self._returns(one)
        seen = self._scraped(target)
        if seen[0] > self.span.since_s:
            steps.add(self.span.step_of(seen[0]))
        if target not in self._there:
            steps.add(self.span.step_of(seen[-1]))
        return steps

    def _returns(self, one: _Counted) -> set[int]:
        """The steps in which a series that was away came back: another pod may have its name."""
        times = sorted(one.samples)
        steps = [self.span.step_of(at) for at in times]
        found = {after for before, after in pairwise(steps) if after - before > 1}
        if one.was_away:
            found.add(steps[1])
        return found

    def _some_at_once(self, targets: Sequence[Target], step: int) -> Iterator[list[Target]]:
        """The targets, as many together as one answer about a step has room for."""
        scrapes = (self.span.ends[step] - self.span.begin(step)) / _SCRAPE_S
        some: list[Target] = []
        series = 0
        for target in targets:
            series += len(self._series[target])
            if some and (series * scrapes > MAX_SAMPLES or len(some) == _TARGETS):
                yield some
                some, series = [], len(self._series[target])
            some.append(target)
        yield some

    def _look_closer(self, targets: Sequence[Target], step: int) -> None:
        """Reads every scrape of some targets in one step.

        Of two servers that scraped a series, it takes one, and of the other what is before or after
        that: what they scraped at nearly the same time may be in another order.
        """
        begin, end = self.span.begin(step), self.span.ends[step]
        for target in targets:
            for counted in self._series[target].values():
                counted.samples.pop(end, None)
        instances = quoted("|".join(sorted(re.escape(target.instance) for target in targets)))
        chosen = self._prometheus.selector(self._names, f"instance=~{instances}")
        found = self._prometheus.at(f"{chosen}[{end - begin}s]", end)
        wanted = set(targets)
        bounds: dict[tuple[Target, _Key], tuple[float, float]] = {}
        for one in sorted(found, key=lambda one: (-len(one.samples), sorted(one.labels.items()))):
            target, key = target_of(one.labels), _key(one.labels)
            if target not in wanted:
                continue
            first, last = bounds.get((target, key), (inf, -inf))
            new = {at: value for at, value in one.samples if at < first or at > last}
            self._series_of(one.labels).samples.update(new)
            bounds[target, key] = min([first, *new]), max([last, *new])

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
