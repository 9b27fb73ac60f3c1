"""The counters of all exporters in a range, as a Prometheus stored them.

``increase()`` is of no use for a bill. It extrapolates, and it loses what a series had counted
before its first scrape. Here the counters themselves are read, once a step. Where a target or a
series came or went in a step, or another life began, every scrape of that step is read instead.
What they counted is for ``growth`` to say.
"""

from collections import defaultdict, deque
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain, combinations, pairwise
from math import ceil, inf
from operator import attrgetter, lt
from re import compile as pattern
from re import escape
from typing import NamedTuple

from exporter.answers.reading.agreement import Samples, Times
from exporter.answers.reading.cutting import Cutter
from exporter.answers.reading.lives import (
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
from exporter.answers.reading.nodegroups import (
    DOWN,
    PLACE,
    STALE_S,
    UP_OF_TARGET,
    ScrapedFleet,
    last,
)
from exporter.answers.reading.presence import Known
from exporter.answers.reading.queryapi import (
    MAX_POINTS,
    Grid,
    Labels,
    Prometheus,
    Series,
    label,
    node_of,
    quoted,
)
from exporter.answers.reading.ranges import Span
from exporter.metrics.families import PREFIX

_SCRAPE_S = 15  # the usual time between two scrapes
_TARGETS = 50  # in one question
_LOOKED_AT = 100_000  # samples of one look, about 20 MB
_WORTH = 5_000  # samples that are read to save a question
_LOOK_BACK_S = 31 * 86_400  # for the last scrape before a gap; services answer for 32 days
_LOOK_BACKS = 24  # questions about such scrapes
_AWAY_S = (900, 3600, 86_400)  # how far back a device's last sample is looked for, in turn
_DEVICE = f"{PREFIX}_device_"
# These stay on each page as long as their exporter has the card.
_LASTS = pattern(rf"{PREFIX}_(device_(?!info)|namespace_|group_kind_)")
INFO, UP = f"{PREFIX}_device_info", f"{PREFIX}_device_up"
POD_INFO, GROUP_INFO = f"{PREFIX}_pod_info", f"{PREFIX}_group_info"


class StoredCounter:
    """The samples of one stored series.

    ``targets``: those that it may be of. They are several where their labels differ only in those
    that the exporter gave the series itself.
    """

    __slots__ = ("_parts", "is_of_device", "labels", "targets")

    def __init__(
        self,
        labels: Labels,
        targets: Sequence[Target] = (),
        times: Sequence[float] = (),
        values: Sequence[float] = (),
    ) -> None:
        self.labels, self.targets = labels, targets
        # Whether each scrape of a card shows one like it.
        self.is_of_device = labels["__name__"].startswith(_DEVICE)
        self._parts = [(times, values)] if times else []  # as they were taken

    def take(self, times: Sequence[float], values: Sequence[float]) -> None:
        """Takes more samples. Of two of one time the later taken stands."""
        self._parts.append((times, values))

    def let_go(self, ends: Container[float]) -> None:
        """Lets go of the samples of some times."""
        self._parts = [
            (tuple(times), tuple(values))
            for part in self._parts
            if (kept := [pair for pair in zip(*part, strict=True) if pair[0] not in ends])
            for times, values in [zip(*kept, strict=True)]
        ]

    @property
    def columns(self) -> Samples:
        """When it was read, in Unix seconds and oldest first, and its values."""
        if len(self._parts) > 1:
            self._parts = [_merged(self._parts)]
        return self._parts[0] if self._parts else ((), ())

    @property
    def times(self) -> Sequence[float]:
        """When it was read, in Unix seconds, oldest first."""
        return self.columns[0]


def _merged(parts: Sequence[Samples]) -> Samples:
    """The samples of several parts by time; mostly each part is of later times than another."""
    order = sorted(parts, key=lambda part: part[0][0])
    if all(before[0][-1] < after[0][0] for before, after in pairwise(order)):
        times, values = zip(*order, strict=True)
        return _one_after_another(times), tuple(chain.from_iterable(values))
    found: dict[float, float] = {}
    for part in parts:
        found.update(zip(*part, strict=True))
    in_order = sorted(found)
    return tuple(in_order), tuple(found[at] for at in in_order)


@lru_cache(maxsize=100)
def _one_after_another(parts: Sequence[Sequence[float]]) -> Sequence[float]:
    """The times of several parts; of most series these are the same, and so is what is made."""
    return tuple(chain.from_iterable(parts))


class Stored(NamedTuple):
    """What a Prometheus stored of a span.

    ``known``: when it knew of each target. ``others``: of all targets, as far as one look a step
    shows it.
    """

    series: Sequence[StoredCounter]
    scrapes: Scrapes
    known: Mapping[Target, Known]
    others: Mapping[Target, Sequence[float]]


class AskedCounters(NamedTuple):
    """What is asked of some exporters of a fleet over a span.

    ``names``: the families. ``instances``: the exporters' addresses. ``changed``: the steps in
    which something of a node changed, by its name: these are read closely too.
    """

    names: Sequence[str]
    span: Span
    fleet: ScrapedFleet
    instances: Collection[str]
    changed: Mapping[str, Collection[int]]


def read_counters(prometheus: Prometheus, asked: AskedCounters) -> Stored:
    """What is stored of them.

    Raises:
        ClaimedError: two exporters have one set of labels, or the store's answers are averages.

    """
    return _Reader(prometheus, asked).read()


class _Look(NamedTuple):
    """A question about every scrape of some targets in some steps, in Unix seconds."""

    targets: Sequence[Target]
    since_s: int
    until_s: int


class _Reader:
    """Asks for the counters of some families over a span."""

    def __init__(self, prometheus: Prometheus, asked: AskedCounters) -> None:
        self._prometheus = prometheus
        self._span, self._fleet = asked.span, asked.fleet
        self._names = [*asked.names, CYCLES]
        self._counted = frozenset(asked.names) - {CYCLES, START, UP_OF_TARGET}
        # Where a step is as long as a sample is used, one look at its end has the last of these.
        is_long = asked.span.step_s >= STALE_S
        self._lasting = [one for one in asked.names if is_long and _LASTS.match(one)]
        self._changed = asked.changed
        instances = "|".join(sorted(map(escape, asked.instances)))
        self._of_these = f"instance=~{quoted(instances)}"
        self._cycles = prometheus.selector([asked.fleet.cycles], self._of_these)
        self._series: dict[frozenset[tuple[str, str]], StoredCounter] = {}
        self._of_target: dict[Target, list[StoredCounter]] = defaultdict(list)
        self._scrapes = Scrapes()
        self._index = Index(())
        self._is_without_cycles = asked.fleet.cycles != CYCLES
        self._started: list[Series] | None = []  # until it is known which are exporters'
        self._up: dict[Target, set[float]] = defaultdict(set)
        self._close: dict[Target, set[int]] = defaultdict(set)  # steps that were read closely
        # Of the times of most series, and those of them after a gap.
        self._steps: dict[Sequence[float], tuple[list[int], set[int]]] = {}

    def read(self) -> Stored:
        """All of it."""
        self._read()
        self._take_starts()
        self._index = Index(self._scrapes.targets)
        for one in self._series.values():
            self._place(one)
        for target in self._fleet.up.keys() & self._scrapes.targets:
            self._up[target] = set(self._fleet.up[target])
        self._read_unclear_steps()
        self._read_before_gaps()
        self._read_down()
        self._read_away()
        if averaged := self._scrapes.averaged():
            raise ClaimedError(
                f"{self._prometheus.address} answers with averages, as a store does that keeps old "
                f"samples downsampled: {averaged}. Ask a store that has raw data of this range"
            )
        known = {target: self._known(target) for target in self._up}
        return Stored(list(self._series.values()), self._scrapes, known, self._fleet.up)

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
        span, names = self._span, [*self._names, START]
        # Steps of one length are one question. The first and the last may be shorter.
        whole = [
            end_s
            for step, end_s in enumerate(span.ends)
            if end_s - span.begin(step) == span.step_s and end_s % span.step_s == 0
        ]
        for step in {0, len(span.ends) - 1}:
            end_s = span.ends[step]
            if end_s not in whole[:1] + whole[-1:]:
                self._take_last(names, end_s - span.begin(step), end_s)
        if whole:
            grid, lasting = Grid(whole[0], whole[-1], span.step_s), self._lasting
            self._take_last([one for one in names if one not in lasting], span.step_s, grid)
            self._take_last(lasting, 0, grid)  # without the samples of each step
        # What stood there as the range began: all growth is counted from it.
        self._take_last(names, 0, span.since_s)
        for one in self._series.values() if self._is_without_cycles else ():
            self._take_for_scrapes(one)

    def _take_for_scrapes(self, one: StoredCounter) -> None:
        """Takes each sample of a card for a scrape, where no scrape has its cycles.

        Where nobody stored when its exporter started either, a target is one life.
        """
        if one.is_of_device:
            target = dict(self._index.visible(one.labels)) | {"__name__": CYCLES}
            self._scrapes.take(target, [(at_s, at_s) for at_s in one.times])

    def _take_starts(self) -> None:
        """Takes which life was there at the end of each step, and when the range began.

        Other programs say when they started, too: what no scrape of an exporter has is not of one.
        """
        jobs, is_without = self._fleet.jobs, self._is_without_cycles
        for one in self._started or ():
            times = self._scrapes.when(target_of(one.labels))
            if is_without and one.labels.get("job", "") in jobs:
                self._scrapes.take(one.labels, one.samples)
            elif times:
                self._scrapes.take(one.labels, [each for each in one.samples if each[0] in times])
        self._started = None

    def _take_last(self, names: Sequence[str], seconds: int, when: Grid | int) -> None:
        """Takes the last samples of some families within some seconds; 0: those of now.

        A large node has more series of all families than one answer may have.
        """

        def take(some: Sequence[str]) -> None:
            selector = self._prometheus.selector(some, self._of_these)
            expression = last(selector, seconds) if seconds else selector
            if isinstance(when, Grid):
                for piece in self._prometheus.pieces(expression, when, MAX_POINTS):
                    self._take(piece)
            else:
                self._take(self._prometheus.at(expression, when), when)

        deque(Cutter[str](len(names)).ask(names, take), maxlen=0)

    def _take(self, found: Iterable[Series], at_s: float | None = None) -> None:
        times = () if at_s is None else (float(at_s),)
        for one in found:
            self._take_samples(one.labels, times or one.times, one.values)

    def _take_samples(self, labels: Labels, times: Times, values: Times) -> None:
        name = labels.get("__name__")
        if name in self._counted:  # a server may answer with others, or with none
            key = frozenset(labels.items())
            one = self._series.get(key)
            if one is None:
                one = self._series[key] = StoredCounter(labels)
                self._place(one)
            one.take(times, values)
            if self._is_without_cycles:
                self._take_for_scrapes(one)
        elif name == START and self._started is not None:
            self._started.append(Series(labels, times, values))
        elif name in {CYCLES, START}:
            self._scrapes.take(labels, zip(times, values, strict=True))
        elif name == UP_OF_TARGET:
            self._up[target_of(labels)].update(times)

    def _place(self, one: StoredCounter) -> None:
        one.targets = self._index.of(one.labels)
        for target in one.targets:
            self._of_target[target].append(one)

    def _read_unclear_steps(self) -> None:
        span = self._span
        unclear = {target: steps for target, steps in self._unclear().items() if steps}
        # Every scrape in these steps is read, in place of the last ones at their ends.
        for target, steps in unclear.items():
            ends = {self._bounds(step)[1] for step in steps}
            self._scrapes.let_go(target, ends)
            self._close[target] |= steps
            self._up[target] -= ends - {span.until_s}
            for series in self._of_target[target]:
                series.let_go(ends)
        looks = self._looks(unclear)
        for look in looks:
            self._take_closely(set(look.targets), look.until_s - look.since_s, look.until_s)
        what = f"{self._prometheus.address} has two exporters under one set of labels"
        for target in unclear:
            check(what, self._scrapes.by_life([target]))

    def _looks(self, unclear: Mapping[Target, Collection[int]]) -> list["_Look"]:
        """The questions about all scrapes of some targets: as few as their answers have room for.

        Where pods or exporters come and go in each step, some steps are one question.
        """
        of_step: dict[int, list[Target]] = defaultdict(list)
        for target in sorted(unclear, key=sorted):
            for step in unclear[target]:
                of_step[step].append(target)
        looks: list[_Look] = []
        newest: dict[tuple[Target, ...], _Look] = {}  # by who is looked at
        for step, targets in sorted(of_step.items()):
            begin_s, end_s = self._bounds(step)
            for some in map(tuple, self._some_at_once(targets, step)):
                before = newest.get(some)
                if before is not None:
                    both = before._replace(until_s=end_s)
                    if before.until_s == begin_s and self._samples(both) <= _LOOKED_AT:
                        newest[some] = both
                        continue
                    looks.append(before)
                newest[some] = _Look(some, begin_s, end_s)
        return [*looks, *newest.values()]

    def _samples(self, look: "_Look") -> float:
        """About how many samples the answer has."""
        series = sum(len(self._of_target[target]) for target in look.targets)
        return series * (look.until_s - look.since_s) / _SCRAPE_S

    def _unclear(self) -> dict[Target, set[int]]:
        """The steps whose ends do not say all, by target."""
        found: dict[Target, set[int]] = defaultdict(set)
        for target in self._scrapes.targets:
            found[target] |= set(self._fleet.fell.get(target, ()))
        for target, steps_of in (*self._began(), *self._came_and_went(), *self._fell()):
            found[target] |= steps_of
        for target in self._scrapes.targets:
            found[target].update(self._changed.get(node_of(dict(target)), ()))
        for target in self._scrapes.targets:
            found[target] |= set(self._between(target, found[target]))
        # What is read of one target closely is read so of the others that show the same card: they
        # are compared.
        for targets in self._of_cards():
            all_of = self._contested(targets).union(*(found[target] for target in targets))
            for target in targets:
                found[target] = all_of
        old = self._fleet.old
        return {t: steps | {-1} if t in old else steps - {-1} for t, steps in found.items()}

    def _contested(self, targets: Iterable[Target]) -> set[int]:
        """The first and the last step in which several addresses show a card: one may be a copy.

        What a copy is ahead of its exporter by in between, it has to give back at the end.
        """
        of_address: dict[str, set[int]] = defaultdict(set)
        for target in targets:
            times, _ = self._scrapes.of(target)
            of_address[dict(target).get("instance", "")].update(self._steps_of(times))
        both = [one & other for one, other in combinations(of_address.values(), 2)]
        return {step for steps in both if steps for step in (min(steps), max(steps))}

    def _between(self, target: Target, steps: Collection[int]) -> Iterator[int]:
        """The steps that lie shortly between some: they are read with these, in one question.

        Where scrapes are rarer than steps, each second or third step has none.
        """
        of_step = len(self._of_target[target]) * self._span.step_s / _SCRAPE_S  # samples
        for before, after in pairwise(sorted(steps)):
            if (after - before - 1) * of_step <= _WORTH:
                yield from range(before + 1, after)

    def _bounds(self, step: int) -> tuple[int, int]:
        """Where a step begins and ends; -1 is as long before the range as a sample is used."""
        if step < 0:
            return self._span.since_s - STALE_S, self._span.since_s
        return self._span.begin(step), self._span.ends[step]

    def _began(self) -> Iterator[tuple[Target, set[int]]]:
        """The steps in which a target or a life began or ended, and those that lack it."""
        at_end = self._fleet.at_end
        for target in self._scrapes.targets:
            times, lives = self._scrapes.of(target)
            steps = self._steps_of(times)
            # A target came within its first step. If it is gone, it went within its last.
            yield target, {steps[0]} if target in at_end else {steps[0], steps[-1]}
            for (before, life), (after, following) in pairwise(zip(steps, lives, strict=True)):
                if after - before > 1:
                    yield target, {before, after}
                elif life != following:
                    yield target, {after}

    def _fell(self) -> Iterator[tuple[Target, set[int]]]:
        """The steps in which a series fell, or came back, or one that lasts was gone at the end."""
        looked: set[tuple[Target, Sequence[float]]] = set()
        for series in self._series.values():
            steps_of = self._unclear_of(series)
            is_lasting = series.labels["__name__"] in self._lasting
            for target in series.targets if steps_of or is_lasting else ():
                if steps_of:
                    yield target, steps_of
                key = target, series.times
                if is_lasting and key not in looked:  # most have the same times
                    looked.add(key)
                    yield target, set(self._missed(*key))

    def _missed(self, target: Target, times: Sequence[float]) -> Iterator[int]:
        """The steps in which a target was scraped, and a series went from it or came late."""
        # A series comes late in the step after the first look at its target: a VictoriaMetrics of
        # 2022 leaves out the one scrape at which counting begins. What comes to a target that was
        # there has grown since the look before. Namespaces do so in each hour: read closely, ten of
        # them took a bill four times the CPU.
        shown = set(self._steps_of(times))
        steps = self._steps_of(self._scrapes.of(target)[0])
        for earlier, before, after in zip([-inf, *steps], steps, steps[1:], strict=False):
            was_there, is_new = before in shown, before - earlier > 1
            if was_there != (after in shown) and (was_there or is_new):
                yield after

    def _of_cards(self) -> list[set[Target]]:
        """The targets of each card, where they are several."""
        of_card: dict[tuple[str, str], set[Target]] = defaultdict(set)
        for one in filter(attrgetter("is_of_device"), self._series.values()):
            uuid = label(one.labels, "uuid")
            for target in one.targets:
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
                elif name == INFO and one.times:
                    times, _ = self._scrapes.of(target)
                    first, last = one.times[0], one.times[-1]
                    if times and first > times[0]:
                        yield target, set(self._steps_of([first]))
                    if times and last < times[-1]:
                        yield target, set(self._steps_of([last]))
        for (target, *_), many in pods.items():
            for one in many if len(many) > 1 else ():
                yield target, set(self._steps_of([one.times[0], one.times[-1]]))

    def _unclear_of(self, one: StoredCounter) -> set[int]:
        """The steps in which a series fell, or came back: another pod may have its name."""
        times, values = one.columns
        known = self._steps.get(times)
        if known is None:
            steps = self._steps_of(times)
            gaps = {after for before, after in pairwise(steps) if after - before > 1}
            known = self._steps[times] = steps, gaps
        steps, returned = known
        if list(values) != sorted(values):  # the quickest way to see that one fell
            falls = zip(steps[1:], map(lt, values[1:], values), strict=True)
            returned = returned | {step for step, fell in falls if fell}
        return returned

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
            if some and (series * scrapes > _LOOKED_AT or len(some) == _TARGETS):
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
            for one in self._prometheus.at(every, unix_s):
                if not wanted.isdisjoint(self._index.of(one.labels)):
                    self._take_samples(*one)

        names = [*self._names, START, UP_OF_TARGET]
        deque(Cutter[str](len(names)).ask(names, take), maxlen=0)

    def _read_before_gaps(self) -> None:
        """The last scrape of lives that began before the range, and were not read as it began."""
        since_s = self._span.since_s
        first_s: dict[tuple[Life, str], float] = {}  # exporters of two nodes may start together
        shown = filter(attrgetter("is_of_device"), self._series.values())
        for targets, uuid in {(tuple(one.targets), label(one.labels, "uuid")) for one in shown}:
            for life, scraped in self._scrapes.by_life(targets).items():
                page_s = min(times[0] for times in scraped.values())
                first_s[life, uuid] = min(page_s, first_s.get((life, uuid), page_s))
        unread = {
            life.start_s
            for (life, _), page_s in first_s.items()
            if life.start_s is not None and life.start_s < since_s < page_s
        }
        if not unread:
            return
        # Prometheus uses a sample for as long as lies between two of these looks, so that they miss
        # no scrape, and a month of them is 9,000 looks and not each sample.
        reach = f"[{min(ceil(since_s - min(unread)), _LOOK_BACK_S)}s:{STALE_S}s]"
        scraped_s = {  # when each target was scraped last before the range
            target_of(one.labels): one.values[-1]
            for one in self._prometheus.at(
                f"max_over_time(timestamp({self._cycles}){reach})", since_s
            )
        }
        start = self._prometheus.selector([START], self._fleet.matcher, self._of_these)
        started = f"last_over_time(({start} and {self._cycles}){reach})"
        found: dict[int, set[Target]] = defaultdict(set)
        for one in self._prometheus.at(started, since_s) if scraped_s else ():
            target = target_of(one.labels)
            if one.values[-1] in unread and target in scraped_s:
                end_s = ceil(scraped_s[target] / STALE_S) * STALE_S
                found[min(end_s, since_s)].add(target)
        # Before the gap they may have had other labels.
        self._index = Index(self._scrapes.targets.union(*found.values()))
        # The latest are asked first. What is not asked is not guessed: ``growth`` has such a life
        # as late, and its time before is unobserved.
        for end_s in sorted(found, reverse=True)[:_LOOK_BACKS]:
            self._take_closely(found[end_s], 2 * STALE_S, end_s)

    def _read_down(self) -> None:
        """The last pages of exporters that were down as the range began: their cards are there."""
        if not self._fleet.down:
            return
        instances = "|".join(sorted(map(escape, self._fleet.down)))
        cycles = self._prometheus.selector(
            [self._fleet.cycles], self._of_these, f"instance=~{quoted(instances)}"
        )
        since_s = self._span.since_s
        found: dict[int, set[Target]] = defaultdict(set)
        for one in self._prometheus.at(f"max_over_time(timestamp({cycles}){DOWN})", since_s):
            end_s = min(ceil(one.values[-1] / STALE_S) * STALE_S, since_s)
            found[end_s].add(target_of(one.labels))
        self._index = Index(self._scrapes.targets.union(*found.values()))
        for end_s in sorted(found, reverse=True)[:_LOOK_BACKS]:
            self._take_closely(found[end_s], 2 * STALE_S, end_s)
        for target in self._fleet.up.keys() & set().union(*found.values()):
            # It was known all the while; between its last page and the range nobody looked.
            later = {at_s for at_s in self._up[target] if at_s > since_s}
            self._up[target] = later | set(self._fleet.up[target])

    def _read_away(self) -> None:
        """The last samples of devices that were not read when the range began.

        Their exporter was there and had no series of them, so they go on where they were.
        """
        since_s = self._span.since_s
        away: dict[str, set[str]] = defaultdict(set)  # the instances of its targets, by UUID
        for one in filter(attrgetter("is_of_device"), self._series.values()):
            first_s = one.times[0] if one.times else since_s
            if first_s > since_s:
                for target in one.targets:
                    if self._scrapes.same_life(target, since_s, first_s):
                        away[label(one.labels, "uuid")].add(dict(target).get("instance", ""))
        # Most are away for minutes: a day is looked back only for those that are left.
        for seconds in _AWAY_S:
            if not away:
                return
            uuids = "|".join(sorted(map(escape, away)))
            instances = "|".join(sorted({escape(one) for some in away.values() for one in some}))
            chosen = self._prometheus.selector(
                self._names[:-1], f"uuid=~{quoted(uuids)}", f"instance=~{quoted(instances)}"
            )
            for found in self._prometheus.at(f"{chosen}[{seconds}s]", since_s):
                self._take_samples(*found)
                away.pop(label(found.labels, "uuid"), None)
