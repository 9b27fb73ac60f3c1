"""The counters of all exporters in a range, as a Prometheus stored them.

``increase()`` is of no use for a bill. It extrapolates, and it loses what a series had counted
before its first scrape. Here the counters themselves are read, once a step. Where a target or a
series came or went in a step, or another life began, every scrape of that step is read instead.
What they counted is for ``growth`` to say.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import ceil
from re import escape

from exporter.answers.prometheus.client import (
    MAX_SAMPLES,
    Grid,
    Labels,
    Prometheus,
    Series,
    label,
    quoted,
)
from exporter.answers.prometheus.lives import (
    CYCLES,
    START,
    Index,
    Life,
    Scrapes,
    Target,
    check,
    target_of,
)
from exporter.answers.prometheus.ranges import Span
from exporter.httpclient import TooLongError
from exporter.metrics.families import PREFIX

STALE_S = 300  # before a time, where Prometheus finds the last scrape
_SCRAPE_S = 15  # the usual time between two scrapes
_TARGETS = 50  # in one question
_LOOK_BACK_S = 31 * 86_400  # for the last scrape before a gap; services answer for 32 days
_LOOK_BACKS = 24  # questions about such scrapes
_AWAY_S = (900, 3600, 86_400)  # how far back a device's last sample is looked for, in turn
_DEVICE = f"{PREFIX}_device_"


@dataclass(slots=True)
class StoredCounter:
    """The samples of one stored series, by time in Unix seconds.

    ``targets``: those that it may be of. They are several where their labels differ only in those
    that the exporter gave the series itself.
    """

    labels: Labels
    targets: Sequence[Target] = ()
    samples: dict[float, float] = field(default_factory=dict)

    @property
    def is_of_device(self) -> bool:
        """Whether each scrape of a card shows one like it."""
        return self.labels["__name__"].startswith(_DEVICE)


class Counters:
    """The counters of some families over a span. It asks when it is made."""

    def __init__(self, prometheus: Prometheus, names: Sequence[str], span: Span) -> None:
        self._prometheus = prometheus
        self._span = span
        self._names = [*names, CYCLES]
        self._cycles = prometheus.selector([CYCLES])
        self._series: dict[frozenset[tuple[str, str]], StoredCounter] = {}
        self._of_target: dict[Target, list[StoredCounter]] = defaultdict(list)
        self.scrapes = Scrapes()
        self.index = Index(())
        self._is_without_cycles = False
        self._read()
        self._start = self._started(self.scrapes.targets)
        self._read_lives()
        self.index = Index(self.scrapes.targets)
        for one in self._series.values():
            self._place(one)
        self._read_unclear_steps()
        self._read_before_gaps()
        self._read_away()

    @property
    def names(self) -> set[str]:
        """The families that were found."""
        return {one.labels["__name__"] for one in self._series.values()}

    def taken(self) -> list[StoredCounter]:
        """All series, once: what was read is let go, because a month of many cards is large."""
        found = list(self._series.values())
        self._series.clear()
        self._of_target.clear()
        return found

    def known_until(self) -> dict[Target, float]:
        """Until when Prometheus knew of each target, whether or not it answered."""
        up = self._prometheus.selector(["up"], _of_jobs(self.scrapes.targets))
        until_s = float(self._span.until_s)
        found = {
            target_of(one.labels): min(one.samples[-1][0], until_s)
            for one in self._prometheus.over(up, self._span.grid)
        }
        return found | {target_of(one.labels): until_s for one in self._prometheus.at(up, until_s)}

    def _read(self) -> None:
        """The last sample of each step, and the one before the range."""
        span = self._span
        for step in {0, len(span.ends) - 1}:
            end_s = span.ends[step]
            self._take_last(self._names, end_s - span.begin(step), end_s)
        if between := span.ends[1:-1]:
            grid = Grid(between[0], between[-1], span.step_s)
            self._take_last(self._names, span.step_s, grid)
        self._take_last(self._names, 0, span.since_s)
        if not self.scrapes.targets:  # somebody drops what exporters say of themselves
            self._is_without_cycles = True
            for one in self._series.values():
                self._take_for_scrapes(one)
            self._cycles = self._started(self.scrapes.targets)

    def _take_for_scrapes(self, one: StoredCounter) -> None:
        """Takes each sample of a card for a scrape, where no scrape has its cycles.

        Where nobody stored when its exporter started either, a target is one life.
        """
        if one.is_of_device:
            target = dict(self.index.visible(one.labels)) | {"__name__": CYCLES}
            self.scrapes.take(target, [(at_s, at_s) for at_s in one.samples])

    def _take_last(self, names: Sequence[str], seconds: int, when: Grid | int) -> None:
        """Takes the last samples of some families within some seconds; 0: those of now.

        A large fleet has more series of all families than one answer may have.
        """
        selector = self._prometheus.selector(names)
        expression = _last(selector, seconds) if seconds else selector
        try:
            if isinstance(when, Grid):
                for piece in self._prometheus.pieces(expression, when):
                    self._take(piece)
            else:
                self._take(self._prometheus.at(expression, when), when)
        except TooLongError:
            if len(names) == 1:
                raise
        else:
            return
        # Not in the handler: an error holds the answer that was too long, and there is one for each
        # time that the names are halved.
        half = len(names) // 2
        self._take_last(names[:half], seconds, when)
        self._take_last(names[half:], seconds, when)

    def _started(self, targets: Iterable[Target]) -> str:
        """The selector of when programs of these targets' jobs started: not exporters alone."""
        return self._prometheus.selector([START], _of_jobs(targets))

    def _read_lives(self) -> None:
        """Which life was there at the end of each step, and when the range began."""
        span = self._span
        last = f"{_last(self._start, span.step_s)} and {_last(self._cycles, span.step_s)}"
        for one in self._prometheus.over(last, span.grid):
            ends = [(span.ends[span.step_of(at)], value) for at, value in one.samples]
            self.scrapes.take({**one.labels, "__name__": START}, ends)
        for one in self._prometheus.at(f"{self._start} and {self._cycles}", span.since_s):
            self.scrapes.take(one.labels, [(span.since_s, one.samples[-1][1])])

    def _take(self, found: Iterable[Series], at_s: float | None = None) -> None:
        for one in found:
            samples = one.samples if at_s is None else [(at_s, one.samples[-1][1])]
            self._take_samples(one.labels, samples)

    def _take_samples(self, labels: Labels, samples: Iterable[tuple[float, float]]) -> None:
        name = labels.get("__name__")
        if name in {CYCLES, START}:
            self.scrapes.take(labels, samples)
        elif name in self._names:  # a server may answer with others, or with none
            key = frozenset(labels.items())
            if key not in self._series:
                self._series[key] = StoredCounter(labels)
                self._place(self._series[key])
            self._series[key].samples.update(samples)
            if self._is_without_cycles:
                self._take_for_scrapes(self._series[key])

    def _place(self, one: StoredCounter) -> None:
        one.targets = self.index.of(one.labels)
        for target in one.targets:
            self._of_target[target].append(one)

    def _read_unclear_steps(self) -> None:
        unclear: dict[int, set[Target]] = defaultdict(set)
        for target, steps in self._unclear().items():
            for step in steps:
                unclear[step].add(target)
        # Where pods or exporters come and go in each step there are as many looks as steps.
        looks = [
            (some, step)
            for step in sorted(unclear)
            for some in self._some_at_once(sorted(unclear[step], key=sorted), step)
        ]
        what = f"{self._prometheus.address} has two exporters under one set of labels"
        for count, (some, step) in enumerate(looks, 1):
            # Every scrape in the step is read, in place of the last ones at its end.
            begin, end = self._span.begin(step), self._span.ends[step]
            for target in some:
                self.scrapes.let_go(target, end)
                for series in self._of_target[target]:
                    series.samples.pop(end, None)
            self._take_closely(set(some), end - begin, end)
            for target in some:
                check(what, self.scrapes.by_life([target]))
            self._prometheus.asked(count, len(looks), "steps in which something began or ended")

    def _unclear(self) -> dict[Target, set[int]]:
        """The steps whose ends do not say all, by target."""
        span = self._span
        found: dict[Target, set[int]] = defaultdict(set)
        last = {target_of(one.labels) for one in self._prometheus.at(self._cycles, span.until_s)}
        for target in self.scrapes.targets:
            times, lives = self.scrapes.of(target)
            steps = self._steps_of(times)
            # A target came within its first step. If it is gone, it went within its last.
            found[target].add(steps[0])
            if target not in last:
                found[target].add(steps[-1])
            for (before, life), (after, following) in pairwise(zip(steps, lives, strict=True)):
                if after - before > 1:
                    found[target] |= {before, after}
                elif life != following:
                    found[target].add(after)
        # Another life may have begun and ended within a step, and so may one whose start nobody
        # stored. The one before it may have been scraped last before the step.
        changed = f"changes({self._start}[{span.step_s}s]) and {_last(self._cycles, span.step_s)}"
        fell = f"resets({self._cycles}[{span.step_s + STALE_S}s])"
        for one in self._prometheus.over(f"({changed} or {fell}) > 0", span.grid):
            found[target_of(one.labels)] |= {span.step_of(at) for at, _ in one.samples}
        for series in self._series.values():
            steps_of = self._unclear_of(series)
            for target in series.targets:
                found[target] |= steps_of
        return {target: steps - {-1} for target, steps in found.items()}

    def _unclear_of(self, one: StoredCounter) -> set[int]:
        """The steps in which a series fell, or came back: another pod may have its name."""
        times = sorted(one.samples)
        steps = self._steps_of(times)
        returned = {after for before, after in pairwise(steps) if after - before > 1}
        falls = (one.samples[after] < one.samples[before] for before, after in pairwise(times))
        return returned | {step for step, fell in zip(steps[1:], falls, strict=True) if fell}

    def _steps_of(self, times: Iterable[float]) -> list[int]:
        """The steps of some times; -1 is before the range."""
        since_s = self._span.since_s
        return [self._span.step_of(at) if at > since_s else -1 for at in times]

    def _some_at_once(self, targets: Sequence[Target], step: int) -> Iterator[list[Target]]:
        """The targets, as many together as one answer about a step has room for."""
        scrapes = (self._span.ends[step] - self._span.begin(step)) / _SCRAPE_S
        some: list[Target] = []
        series = 0
        for target in targets:
            series += len(self._of_target[target])
            if some and (series * scrapes > MAX_SAMPLES or len(some) == _TARGETS):
                yield some
                some, series = [], len(self._of_target[target])
            some.append(target)
        yield some

    def _take_closely(self, wanted: set[Target], seconds: int, unix_s: int) -> None:
        """Takes every scrape of some targets in the seconds before a time."""
        instances = "|".join(sorted({escape(dict(one).get("instance", "")) for one in wanted}))
        of_these = f"instance=~{quoted(instances)}"

        def take(names: Sequence[str]) -> None:
            every = f"{self._prometheus.selector(names, of_these)}[{seconds}s]"
            try:
                found = self._prometheus.at(every, unix_s)
            except TooLongError:
                if len(names) == 1:
                    raise
            else:
                for one in found:
                    if not wanted.isdisjoint(self.index.of(one.labels)):
                        self._take_samples(one.labels, one.samples)
                return
            take(names[: len(names) // 2])  # not in the handler, as in ``_take_last``
            take(names[len(names) // 2 :])

        take([*self._names, START])

    def _read_before_gaps(self) -> None:
        """The last scrape of lives that began before the range, and were not read as it began."""
        since_s = self._span.since_s
        first_s: dict[tuple[Life, str], float] = {}  # exporters of two nodes may start together
        for series in filter(lambda one: one.is_of_device, self._series.values()):
            for life, scraped in self.scrapes.by_life(series.targets).items():
                card = life, label(series.labels, "uuid")
                page_s = min(times[0] for times in scraped.values())
                first_s[card] = min(page_s, first_s.get(card, page_s))
        unread = {
            life.start_s
            for (life, _), page_s in first_s.items()
            if life.start_s is not None and life.start_s < since_s < page_s
        }
        if not unread:
            return
        reach = f"[{min(ceil(since_s - min(unread)), _LOOK_BACK_S)}s:{STALE_S}s]"
        scraped_s = {  # when each target was scraped last before the range
            target_of(one.labels): one.samples[-1][1]
            for one in self._prometheus.at(
                f"max_over_time(timestamp({self._cycles}){reach})", since_s
            )
        }
        started = f"last_over_time(({self._started(scraped_s)} and {self._cycles}){reach})"
        found: dict[int, set[Target]] = defaultdict(set)
        for one in self._prometheus.at(started, since_s) if scraped_s else ():
            target = target_of(one.labels)
            if one.samples[-1][1] in unread and target in scraped_s:
                end_s = ceil(scraped_s[target] / STALE_S) * STALE_S
                found[min(end_s, since_s)].add(target)
        # Before the gap they may have had other labels.
        self.index = Index(self.scrapes.targets.union(*found.values()))
        for end_s in sorted(found, reverse=True)[:_LOOK_BACKS]:
            self._take_closely(found[end_s], 2 * STALE_S, end_s)

    def _read_away(self) -> None:
        """The last samples of devices that were not read when the range began.

        Their exporter was there and had no series of them, so they go on where they were.
        """
        since_s = self._span.since_s
        away: dict[str, set[str]] = defaultdict(set)  # the instances of its targets, by UUID
        for one in self._series.values():
            first_s = min(one.samples, default=since_s)
            if one.is_of_device and first_s > since_s:
                for target in one.targets:
                    if self.scrapes.same_life(target, since_s, first_s):
                        away[label(one.labels, "uuid")].add(dict(target).get("instance", ""))
        for seconds in _AWAY_S:
            if not away:
                return
            uuids = "|".join(sorted(map(escape, away)))
            instances = "|".join(sorted({escape(one) for some in away.values() for one in some}))
            chosen = self._prometheus.selector(
                self._names[:-1], f"uuid=~{quoted(uuids)}", f"instance=~{quoted(instances)}"
            )
            for found in self._prometheus.at(f"{chosen}[{seconds}s]", since_s):
                self._take_samples(found.labels, found.samples)
                away.pop(label(found.labels, "uuid"), None)


def _last(selector: str, seconds: int) -> str:
    return f"last_over_time({selector}[{seconds}s])"


def _of_jobs(targets: Iterable[Target]) -> str:
    """The matcher of these targets' jobs."""
    jobs = "|".join(sorted({escape(dict(target).get("job", "")) for target in targets}))
    return f"job=~{quoted(jobs)}"
