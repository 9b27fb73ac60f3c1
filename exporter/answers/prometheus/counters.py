"""The counters of all exporters in a range, as a Prometheus stored them.

``increase()`` is of no use for a bill. It extrapolates, and it loses what a series had counted
before its first scrape. Here the counters themselves are read, once a step. Where a target or a
series came or went in a step, or another life began, every scrape of that step is read instead.
What they counted is for ``growth`` to say.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import ceil
from re import compile as pattern
from re import escape
from typing import NamedTuple

from exporter.answers.prometheus.client import (
    MAX_SAMPLES,
    Grid,
    Labels,
    Prometheus,
    Series,
    label,
    node_of,
    quoted,
)
from exporter.answers.prometheus.lives import (
    CYCLES,
    START,
    ClaimedError,
    Index,
    Life,
    Scrapes,
    Target,
    check,
    target_of,
)
from exporter.answers.prometheus.presence import Known
from exporter.answers.prometheus.ranges import Span
from exporter.httpclient import TooLongError
from exporter.metrics.families import PREFIX

PLACE = pattern(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
"""In a UUID of its PCI address, which a card of another node has, too."""

STALE_S = 300  # before a time, where Prometheus finds the last scrape
_SCRAPE_S = 15  # the usual time between two scrapes
_SELDOM_S = 120  # the longest usual time between two scrapes
_TARGETS = 50  # in one question
_LOOK_BACK_S = 31 * 86_400  # for the last scrape before a gap; services answer for 32 days
_LOOK_BACKS = 24  # questions about such scrapes
_AWAY_S = (900, 3600, 86_400)  # how far back a device's last sample is looked for, in turn
_DEVICE = f"{PREFIX}_device_"
_UP = "up"  # of a target, by Prometheus itself
INFO, UP = f"{PREFIX}_device_info", f"{PREFIX}_device_up"
POD_INFO, GROUP_INFO = f"{PREFIX}_pod_info", f"{PREFIX}_group_info"


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


class Stored(NamedTuple):
    """What a Prometheus stored of a span.

    ``known``: when it knew of each target.
    """

    series: Sequence[StoredCounter]
    scrapes: Scrapes
    known: Mapping[Target, Known]

    @property
    def names(self) -> set[str]:
        """The families that were found."""
        return {one.labels["__name__"] for one in self.series}


def read_counters(
    prometheus: Prometheus,
    names: Sequence[str],
    span: Span,
    changed: Mapping[str, Collection[int]] | None = None,
) -> Stored:
    """What is stored of some families over a span.

    ``changed``: the steps in which something of a node changed, by its name: these are read closely
    too.

    Raises:
        ClaimedError: two exporters have one set of labels, or the store's answers are averages.

    """
    return _Reader(prometheus, names, span, changed or {}).read()


class _Reader:
    """Asks for the counters of some families over a span."""

    def __init__(
        self,
        prometheus: Prometheus,
        names: Sequence[str],
        span: Span,
        changed: Mapping[str, Collection[int]],
    ) -> None:
        self._prometheus = prometheus
        self._span = span
        self._names = [*names, CYCLES]
        self._changed = changed
        self._cycles = prometheus.selector([CYCLES])
        self._start = ""
        self._series: dict[frozenset[tuple[str, str]], StoredCounter] = {}
        self._of_target: dict[Target, list[StoredCounter]] = defaultdict(list)
        self._scrapes = Scrapes()
        self._index = Index(())
        self._is_without_cycles = False
        self._up: dict[Target, set[float]] = defaultdict(set)
        self._close: dict[Target, set[int]] = defaultdict(set)  # steps that were read closely

    def read(self) -> Stored:
        """All of it."""
        self._read()
        self._start = self._started(self._scrapes.targets)
        self._read_lives()
        self._index = Index(self._scrapes.targets)
        for one in self._series.values():
            self._place(one)
        self._read_up()
        self._read_unclear_steps()
        self._read_before_gaps()
        self._read_away()
        if averaged := self._scrapes.averaged():
            raise ClaimedError(
                f"{self._prometheus.address} answers with averages, as a store does that keeps old "
                f"samples downsampled: {averaged}. Ask a store that has raw data of this range"
            )
        known = {target: self._known(target) for target in self._up}
        return Stored(list(self._series.values()), self._scrapes, known)

    def _read_up(self) -> None:
        """When Prometheus knew of each target, whether or not it answered."""
        up = self._prometheus.selector([_UP], _of_jobs(self._scrapes.targets))
        until_s = float(self._span.until_s)
        for one in self._prometheus.over(_last(up, self._span.step_s), self._span.grid):
            self._up[target_of(one.labels)].update(min(at, until_s) for at, _ in one.samples)
        for one in self._prometheus.at(up, until_s):
            self._up[target_of(one.labels)].add(until_s)

    def _known(self, target: Target) -> Known:
        span, close = self._span, self._close[target]
        times = sorted(self._up[target])
        pauses = []
        for before_s, after_s in pairwise(times):
            steps = {span.step_of(before_s + 1), span.step_of(after_s)}
            usual_s = STALE_S if steps <= close else span.step_s + STALE_S
            if after_s - before_s > usual_s:
                pauses.append((before_s, after_s))
        return Known(times, pauses)

    def _read(self) -> None:
        """The last sample of each step, and the one before the range."""
        span = self._span
        whole = [
            end_s
            for step, end_s in enumerate(span.ends)
            if end_s - span.begin(step) == span.step_s and end_s % span.step_s == 0
        ]
        for step in {0, len(span.ends) - 1}:
            end_s = span.ends[step]
            if end_s not in whole[:1] + whole[-1:]:
                self._take_last(self._names, end_s - span.begin(step), end_s)
        if whole:
            self._take_last(self._names, span.step_s, Grid(whole[0], whole[-1], span.step_s))
        self._take_last(self._names, 0, span.since_s)
        if not self._scrapes.targets:  # somebody drops what exporters say of themselves
            self._is_without_cycles = True
            for one in self._series.values():
                self._take_for_scrapes(one)
            self._cycles = self._started(self._scrapes.targets)

    def _take_for_scrapes(self, one: StoredCounter) -> None:
        """Takes each sample of a card for a scrape, where no scrape has its cycles.

        Where nobody stored when its exporter started either, a target is one life.
        """
        if one.is_of_device:
            target = dict(self._index.visible(one.labels)) | {"__name__": CYCLES}
            self._scrapes.take(target, [(at_s, at_s) for at_s in one.samples])

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
            self._scrapes.take({**one.labels, "__name__": START}, ends)
        for one in self._prometheus.at(f"{self._start} and {self._cycles}", span.since_s):
            self._scrapes.take(one.labels, [(span.since_s, one.samples[-1][1])])

    def _take(self, found: Iterable[Series], at_s: float | None = None) -> None:
        for one in found:
            samples = one.samples if at_s is None else [(at_s, one.samples[-1][1])]
            self._take_samples(one.labels, samples)

    def _take_samples(self, labels: Labels, samples: Iterable[tuple[float, float]]) -> None:
        name = labels.get("__name__")
        if name in {CYCLES, START}:
            self._scrapes.take(labels, samples)
        elif name == _UP:
            self._up[target_of(labels)].update(at for at, _ in samples)
        elif name in self._names:  # a server may answer with others, or with none
            key = frozenset(labels.items())
            if key not in self._series:
                self._series[key] = StoredCounter(labels)
                self._place(self._series[key])
            self._series[key].samples.update(samples)
            if self._is_without_cycles:
                self._take_for_scrapes(self._series[key])

    def _place(self, one: StoredCounter) -> None:
        one.targets = self._index.of(one.labels)
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
            begin, end = self._bounds(step)
            for target in some:
                self._scrapes.let_go(target, end)
                self._close[target].add(step)
                if end != self._span.until_s:
                    self._up[target].discard(end)
                for series in self._of_target[target]:
                    series.samples.pop(end, None)
            self._take_closely(set(some), end - begin, end)
            for target in some:
                check(what, self._scrapes.by_life([target]))
            self._prometheus.asked(count, len(looks), "steps in which something began or ended")

    def _unclear(self) -> dict[Target, set[int]]:
        """The steps whose ends do not say all, by target."""
        span = self._span
        found: dict[Target, set[int]] = defaultdict(set)
        # Another life may have begun and ended within a step, and so may one whose start nobody
        # stored. The one before it may have been scraped last before the step.
        changed = f"changes({self._start}[{span.step_s}s]) and {_last(self._cycles, span.step_s)}"
        fell = f"resets({self._cycles}[{span.step_s + STALE_S}s])"
        for one in self._prometheus.over(f"({changed} or {fell}) > 0", span.grid):
            found[target_of(one.labels)] |= {span.step_of(at) for at, _ in one.samples}
        for target, steps_of in (*self._began(), *self._came_and_went(), *self._fell()):
            found[target] |= steps_of
        for target in self._scrapes.targets:
            found[target].update(self._changed.get(node_of(dict(target)), ()))
        # What is read of one target closely is read so of the others that show the same card: they
        # are compared.
        for targets in self._of_cards():
            all_of = set().union(*(found[target] for target in targets))
            for target in targets:
                found[target] = all_of
        old = self._old()
        return {t: steps | {-1} if t in old else steps - {-1} for t, steps in found.items()}

    def _old(self) -> set[Target]:
        """The targets whose last scrape before the range was long before it: a gap began there.

        What they counted from then on is not all of the range.
        """
        before_s = self._span.since_s - _SELDOM_S
        old = self._prometheus.at(f"timestamp({self._cycles}) < {before_s}", self._span.since_s)
        return {target_of(one.labels) for one in old} & self._scrapes.targets

    def _bounds(self, step: int) -> tuple[int, int]:
        """Where a step begins and ends; -1 is as long before the range as a sample is used."""
        if step < 0:
            return self._span.since_s - STALE_S, self._span.since_s
        return self._span.begin(step), self._span.ends[step]

    def _began(self) -> Iterator[tuple[Target, set[int]]]:
        """The steps in which a target or a life began or ended, and those that lack it."""
        until_s = self._span.until_s
        last = {target_of(one.labels) for one in self._prometheus.at(self._cycles, until_s)}
        for target in self._scrapes.targets:
            times, lives = self._scrapes.of(target)
            steps = self._steps_of(times)
            # A target came within its first step. If it is gone, it went within its last.
            yield target, {steps[0]} if target in last else {steps[0], steps[-1]}
            for (before, life), (after, following) in pairwise(zip(steps, lives, strict=True)):
                if after - before > 1:
                    yield target, {before, after}
                elif life != following:
                    yield target, {after}

    def _fell(self) -> Iterator[tuple[Target, set[int]]]:
        """The steps in which a series fell, or came back."""
        for series in self._series.values():
            steps_of = self._unclear_of(series)
            for target in series.targets if steps_of else ():
                yield target, steps_of

    def _of_cards(self) -> list[set[Target]]:
        """The targets of each card, where they are several."""
        of_card: dict[tuple[str, str], set[Target]] = defaultdict(set)
        for one in self._series.values():
            uuid = label(one.labels, "uuid")
            for target in one.targets if one.is_of_device else ():
                of_card[uuid, node_of(dict(target)) if PLACE.search(uuid) else ""].add(target)
        return [targets for targets in of_card.values() if len(targets) > 1]

    def _came_and_went(self) -> Iterator[tuple[Target, set[int]]]:
        """The steps in which a card left its exporter's page, or a pod's name another pod's."""
        pods: dict[tuple[Target, str, str], list[StoredCounter]] = defaultdict(list)
        for one in self._series.values():
            name = one.labels["__name__"]
            for target in one.targets:
                if name == POD_INFO:
                    pod = label(one.labels, "namespace"), label(one.labels, "pod")
                    pods[target, *pod].append(one)
                elif name == INFO and one.samples:
                    times, _ = self._scrapes.of(target)
                    first, last = min(one.samples), max(one.samples)
                    if times and first > times[0]:
                        yield target, set(self._steps_of([first]))
                    if times and last < times[-1]:
                        yield target, set(self._steps_of([last]))
        for (target, *_), many in pods.items():
            for one in many if len(many) > 1 else ():
                yield target, set(self._steps_of([min(one.samples), max(one.samples)]))

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
        begin, end = self._bounds(step)
        scrapes = (end - begin) / _SCRAPE_S
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
                    if not wanted.isdisjoint(self._index.of(one.labels)):
                        self._take_samples(one.labels, one.samples)
                return
            take(names[: len(names) // 2])  # not in the handler, as in ``_take_last``
            take(names[len(names) // 2 :])

        take([*self._names, START, _UP])

    def _read_before_gaps(self) -> None:
        """The last scrape of lives that began before the range, and were not read as it began."""
        since_s = self._span.since_s
        first_s: dict[tuple[Life, str], float] = {}  # exporters of two nodes may start together
        for series in filter(lambda one: one.is_of_device, self._series.values()):
            for life, scraped in self._scrapes.by_life(series.targets).items():
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
        self._index = Index(self._scrapes.targets.union(*found.values()))
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
                    if self._scrapes.same_life(target, since_s, first_s):
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
