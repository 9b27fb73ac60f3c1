"""What the counters of each card counted in each step of a range, life by life. Pure.

A counter belongs to a life of an exporter and to a card; it is known by the labels that the
exporter gave it. It is counted as far as its growth was seen: since an earlier sample, since a
scrape of the same life that did not have it yet, or since that life itself began in the range. What
else a first value holds may be years old: counting begins with it, and the time before is lost.
"""

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from math import inf
from operator import sub
from typing import NamedTuple

from exporter.answers.reading.agreement import Key, Samples, Times, disagreeing
from exporter.answers.reading.bearers import Bearers
from exporter.answers.reading.lives import (
    ClaimedError,
    Life,
    Scrapes,
    Stretch,
    Target,
    check,
    name_of,
    stretches_of,
)
from exporter.answers.reading.nodegroups import PLACE, STALE_S
from exporter.answers.reading.presence import Places, Presences, Run, gap_is_counted, runs_of
from exporter.answers.reading.queryapi import OWN, Labels, label, node_of
from exporter.answers.reading.ranges import Span
from exporter.answers.reading.storedcounters import GROUP_INFO, INFO, UP, Stored, StoredCounter
from exporter.answers.reading.who import CardPart, Owner, Who
from exporter.metrics.families import PREFIX

NOT_COUNTED = {INFO, UP, GROUP_INFO}
# The own labels that a counter of a card is known by.
_KEYS = {name: sorted(own - {"gpu"}) for name, own in OWN.items()}
_NONE: Samples = ((), ())
_CARDS = 10  # that a payer can have counted of one card: allocations may pass it
_SLACK_S = 60
# Of these it matters that they stood still, too: whose they are was idle, not unknown.
_OF_IDLE = {name for name in OWN if re.fullmatch(r"mgpu_[a-z]+(_kind)?_core_seconds_total", name)}
# What these count of a card grows by a second in each second in which it is read.
_CLOCKS = {
    f"{PREFIX}_device_unallocated_gpu_seconds_total": 1,
    f"{PREFIX}_namespace_allocated_gpu_seconds_total": 1,
    f"{PREFIX}_device_overcommitted_gpu_seconds_total": -1,
}


class Grown(NamedTuple):
    """What a counter of a card counted for one bearer of its name, by part of its time, by step."""

    labels: Labels
    targets: Collection[Target]
    owner: Owner | None
    counts: Mapping[int, Mapping[int, float]]


class Late(NamedTuple):
    """A life that is older than the range and was not read as it began, in Unix seconds.

    ``since_s``: from when on nothing was read. ``from_s``: when it was scraped first.
    """

    since_s: float
    from_s: float
    target: Target


@dataclass(frozen=True, slots=True)
class CardGrowth:
    """What the counters of a card counted in each part of the time in which it was there."""

    parts: Sequence[CardPart]
    grown: Sequence[Grown]
    late: Sequence[Late]


def cards_of(
    stored: Stored, span: Span, boards: Mapping[str, str], who: Who
) -> Iterator[CardGrowth]:
    """What was counted of each card; ``boards`` has the board of each instance's UUID.

    Raises:
        ClaimedError: two lives have one card, or two targets of one life do not agree.

    """
    by_card: dict[str, list[StoredCounter]] = defaultdict(list)
    showing: set[Target] = set()
    for one in stored.series:
        if uuid := label(one.labels, "uuid"):  # without one its card counts it neither way
            by_card[boards.get(uuid, uuid)].append(one)
            if one.is_of_device:
                showing.update(one.targets)
    scrapes = stored.scrapes
    presences = Presences(scrapes, Places(showing), stored.known, stored.others, *span[:2])
    for uuid in sorted(by_card):  # so that the order of an answer chooses nothing
        for some in _apart(uuid, by_card.pop(uuid), scrapes):
            card = _CardSamples(uuid, some, scrapes, span)
            if card.is_shown:
                check(f"two exporters have the card {uuid}", card.shown)
                yield card.growth(presences, who)


class _Sample(NamedTuple):
    at_s: float
    value: float
    target: Target


def _apart(uuid: str, many: Sequence[StoredCounter], scrapes: Scrapes) -> list[list[StoredCounter]]:
    """The series of each card. A UUID that is only a place stands for a card in each node.

    Series are of one card if one life showed them, or exporters of one node did.
    """
    if not PLACE.search(uuid):
        return [list(many)]
    groups: list[tuple[set[object], list[StoredCounter]]] = []
    for one in many:
        marks: set[object] = {node_of(dict(target)) for target in one.targets}
        marks |= {life for target in one.targets for life in scrapes.of(target)[1]}
        mine = [one]
        for group in [each for each in groups if not marks.isdisjoint(each[0])]:
            groups.remove(group)
            marks |= group[0]
            mine += group[1]
        groups.append((marks, mine))
    return [mine for _, mine in groups]


class _CardSamples:
    """The samples of one card, by life, counter and target."""

    def __init__(
        self, uuid: str, many: Sequence[StoredCounter], scrapes: Scrapes, span: Span
    ) -> None:
        self._uuid = uuid
        self._scrapes = scrapes
        self._span = span
        self._labels: dict[Key, Labels] = {}
        # Those whose series may be of several targets: a page's label hides the one they differ in.
        # All of them have all samples, which are one counter's.
        self._shared: dict[Key, set[Target]] = defaultdict(set)
        self._samples: dict[Life, dict[Key, dict[Target, Samples]]] = defaultdict(dict)
        # Most series were read at the same times, which ``divided`` has once: by identity.
        shown: dict[Life, dict[Target, dict[int, Times]]] = defaultdict(lambda: defaultdict(dict))
        counted: dict[Life, dict[int, Times]] = defaultdict(dict)
        for one in many:
            name = one.labels["__name__"]
            # The driver may give a GPU another number; its UUID stays.
            key = name, *[label(one.labels, own) for own in _KEYS[name]]
            self._labels[key] = one.labels
            if len(one.targets) > 1:
                self._shared[key].update(one.targets)
            times, values = one.columns
            for part in scrapes.divided(one.targets, times):
                by_target = self._samples[part.life].setdefault(key, {})
                some, before = (part.times, part.of(values)), by_target.get(part.target)
                by_target[part.target] = _larger(before, some) if before else some
                if one.is_of_device:
                    shown[part.life][part.target][id(part.times)] = part.times
                    if name not in NOT_COUNTED:
                        counted[part.life][id(part.times)] = part.times
        # When each life showed counters of the card: of a card that is lost it shows none.
        self._counted_at = {life: _all_of(times.values()) for life, times in counted.items()}
        for counters in self._samples.values():
            for key in counters.keys() & self._shared.keys():
                counters[key] |= _together(counters[key], self._shared[key])
        # When each life showed the card: its exporter may live on without it.
        self.shown: Mapping[Life, Mapping[Target, Sequence[float]]] = {
            life: {target: _all_of(times.values()) for target, times in targets.items()}
            for life, targets in shown.items()
        }

    @property
    def is_shown(self) -> bool:
        """Whether any scrape has the card itself, and not only who has a part of it."""
        return bool(self.shown)

    def growth(self, presences: Presences, who: Who) -> CardGrowth:
        """What was counted of it."""
        since_s = self._span.since_s
        first_s = {
            life: min(times[0] for times in targets.values())
            for life, targets in self.shown.items()
        }
        order = sorted(first_s, key=lambda life: first_s[life])
        read = {life: self._read(life) for life in order}
        for one in read.values():
            who.check(one.targets, max(STALE_S, self._span.step_s))
        runs = [run for life in order for run in self._runs(read[life])]
        parts = who.parts_of(self._uuid, presences.of(runs))
        begins = [one.begin_s for one in parts]
        # Where one life replaces another both may be scraped for a while: then the new one counts.
        ends_s = [*(first_s[life] for life in order[1:]), inf]
        grown: list[Grown] = []
        late: list[Late] = []
        read_until_s = float(since_s)
        for life, until_s in zip(order, ends_s, strict=True):
            mine = read[life]
            targets = frozenset(mine.targets)
            # A life that is older than the range and was not read as it began may have counted
            # anything before. Until its first scrape there, what is not certain is unobserved.
            early = bisect_right(mine.pages, since_s)
            is_unread = not early or mine.pages[early - 1] < since_s - STALE_S
            if is_unread and not mine.dated.is_since(since_s) and mine.pages[-1] > since_s:
                target = min(mine.targets, key=sorted)
                late.append(Late(read_until_s, mine.pages[early], target))
            read_until_s = max(read_until_s, mine.pages[-1])
            for key, by_target in self._samples[life].items() if parts else ():
                is_idle = key[0] not in _OF_IDLE and _stood_still(by_target, since_s)
                if is_idle or key[0] in NOT_COUNTED:
                    continue
                labels = self._labels[key]
                bearers = who.bearers_of(labels, targets)
                some = mine.by_family.get(key[0])
                own = mine._replace(stretches=some) if some else mine
                counts = self._counts(by_target, own, until_s, begins, bearers)
                grown += (
                    Grown(labels, mine.targets, bearer, each) for bearer, each in counts.items()
                )
        return CardGrowth(parts, grown, late)

    def _read(self, life: Life) -> "_LifeRead":
        """When a life was read, and by which targets."""
        targets = self._scrapes.by_life(self.shown[life])[life]
        order = self._scrapes.ordered(targets)
        pause_s = max(STALE_S, self._span.step_s)
        stretches = stretches_of(targets, order, pause_s)
        # A target may be scraped without a family: that is counted by those that have it.
        having: dict[str, set[Target]] = defaultdict(set)
        for key, by_target in self._samples[life].items():
            having[key[0]].update(by_target)
        by_family = {
            name: stretches_of({one: targets[one] for one in some}, order, pause_s)
            for name, every in having.items()
            if (some := [one for one in order if one in every]) and len(some) < len(order)
        }
        pages = sorted(at for one in stretches for at in one.of(targets[one.target]))
        old_s = max(STALE_S, self._span.step_s)
        # Samples that may be of several targets were given to all of these, and so agree of
        # themselves.
        counters = {
            key: by_target
            for key, by_target in self._samples[life].items()
            if key not in self._shared
        }
        if len(targets) > 1 and (found := disagreeing(counters, targets, old_s)):
            one, other, key = found
            raise ClaimedError(
                f"{name_of(one)} and {name_of(other)} say that they are one exporter of the "
                f"card {self._uuid}, but count differently ({key[0]} of "
                f"{', '.join(filter(None, key[1:]))}): name the job that is yours (--job)"
            )
        counted = [at for at in self._counted_at.get(life, ()) if pages[0] <= at <= pages[-1]]
        dated = self._dated(life, pages[0])
        return _LifeRead(life, dated, targets, stretches, pages, counted, by_family)

    def _runs(self, read: "_LifeRead") -> Iterator[Run]:
        """When the card was on the pages of a life."""
        by_target = self.shown[read.life]
        shown = _all_of(by_target.values())
        runs = runs_of(shown, read.pages)
        is_whole = len(runs) == 1 and not bisect_left(read.pages, shown[0] - 1)
        clock = [] if is_whole else self._clock(read.life)
        joined = runs[:1]
        for run in runs[1:]:  # a card that could not be read for a while was counted on
            if self._is_lost(read.life, joined[-1][1]) or gap_is_counted(
                clock, joined[-1][1], run[0], STALE_S
            ):
                joined[-1] = joined[-1][0], run[1]
            else:
                joined.append(run)
        for first_s, last_s in joined:
            target = max(by_target, key=lambda one: (_last(by_target[one], last_s), sorted(one)))
            before = bisect_left(read.pages, first_s - 1)
            if before:  # it came while its exporter was there: no earlier than it counted from
                counted = next((value for at, value in clock if at >= first_s - 1), 0.0)
                begin_s = max(read.pages[before - 1], first_s - max(0.0, counted))
            else:
                start_s = read.dated.start_s
                begin_s = read.pages[0] if start_s is None else start_s
            lost = self._is_lost(read.life, last_s)
            yield Run(read.life, min(begin_s, first_s), first_s, last_s, target, lost)

    def _is_lost(self, life: Life, at_s: float) -> bool:
        """Whether its exporter could not read it when it was on its page last."""
        for key, by_target in self._samples[life].items():
            if key[0] == UP:
                for times, values in by_target.values():
                    at = bisect_right(times, at_s + 1) - 1
                    if at >= 0 and times[at] >= at_s - 1 and not values[at]:
                        return True
        return False

    def _clock(self, life: Life) -> list[tuple[float, float]]:
        """What the card's own counters make of its time: its growth is how long it was there."""
        changes: list[tuple[float, float]] = []
        for key, by_target in self._samples[life].items():
            sign = _CLOCKS.get(key[0], 0)
            if not sign or label(self._labels[key], "uuid") != self._uuid:
                continue
            # Two jobs that scrape one exporter show one clock: both together would go at twice its
            # speed.
            times, values = max(by_target.values(), key=lambda each: len(each[0]))
            before = 0.0
            for at, value in zip(times, values, strict=True):
                changes.append((at, sign * (value - before)))
                before = value
        found: list[tuple[float, float]] = []
        total = 0.0
        for at, change in sorted(changes):
            total += change
            if found and found[-1][0] == at:
                found[-1] = at, total
            else:
                found.append((at, total))
        return found

    def _dated(self, life: Life, first_s: float) -> Life:
        """The life with a start that can be, by the clock of the store.

        Its own is by the node's clock, which may be ahead. It cannot have begun later than its
        first scrape, nor later than what it had counted by then allows.
        """
        if life.start_s is None:
            return life
        counted_s: dict[str, float] = defaultdict(float)
        for key, by_target in self._samples[life].items():
            if sign := _CLOCKS.get(key[0], 0):
                begun = [(times[0], values[0]) for times, values in by_target.values()]
                at_s, had = min(begun)
                if at_s <= first_s + _SLACK_S:
                    counted_s[label(self._labels[key], "uuid")] += sign * had
        latest_s = first_s - max([0.0, *counted_s.values()])
        return life if life.start_s <= latest_s + _SLACK_S else Life(latest_s)

    def _counts(
        self,
        by_target: Mapping[Target, Samples],
        read: "_LifeRead",
        until_s: float,
        begins: Sequence[float],
        bearers: Bearers[Owner] | None,
    ) -> Mapping[Owner | None, Mapping[int, Mapping[int, float]]]:
        """What a counter counted, by who bore its name, and by part of time and step."""
        span, since_s = self._span, self._span.since_s
        found: dict[Owner | None, dict[int, dict[int, float]]]
        found = defaultdict(lambda: defaultdict(lambda: defaultdict(float)))
        last = _last_before(by_target, read.stretches, min(since_s, until_s))
        is_one = len(begins) == 1 and (bearers is None or len(bearers.seen) == 1)
        # Two jobs may scrape one exporter. At each time the scrapes of one of them are counted.
        for number, stretch in enumerate(read.stretches):
            times, values = by_target.get(stretch.target, _NONE)
            following = read.stretches[number + 1 : number + 2]
            first = bisect_left(times, stretch.begin_s) if number else 0
            first = max(first, bisect_right(times, since_s))
            end = bisect_left(times, min([until_s, *(one.begin_s for one in following)]))
            plan = _plan(span, times) if is_one and end - first > 1 else None
            # Most series only grew, each time within one or two steps: since the one as the range
            # began, or from the second sample on.
            is_read = first > 0 and times[first - 1] == since_s
            is_since = is_read and last == (since_s, values[first - 1], stretch.target)
            from_ = first if is_since else first + 1
            grown = list(map(sub, values[from_:end], values[from_ - 1 : end - 1])) if plan else []
            is_plain = plan is not None and min(grown) >= 0
            stop = from_ if is_plain else end
            for at_s, value in zip(times[first:stop], values[first:stop], strict=True):
                one = _Sample(at_s, value, stretch.target)
                growth = _growth_to(last, one, read.dated, read.counted, since_s)
                last = one
                if growth is None:
                    continue
                counted = _certain(growth, at_s, since_s)
                # A counter that stood still is known to: its payer was idle, not unknown.
                if counted is not None:
                    place = max(0, bisect_left(begins, at_s) - 1)
                    counts = found[bearers.at(at_s) if bearers else None][place]
                    # In a gap of several steps nobody knows when it grew: each has its part.
                    for step, part in span.divided(max(growth[0], since_s), at_s):
                        counts[step] += counted * part
            if is_plain and plan is not None:
                counts = found[bearers.seen[0].bearer if bearers else None][0]
                each = zip(plan[from_:end], grown, strict=True)
                if not counts and plan[end - 1] - plan[from_] == end - 1 - from_:  # one a step
                    counts.update(each)
                else:
                    for step, counted in each:
                        counts[step] += counted
                last = _Sample(times[end - 1], values[end - 1], stretch.target)
        return found


@lru_cache(maxsize=100)
def _plan(span: Span, times: Times) -> Sequence[int] | None:
    """The step in which each of some samples grew; None if one grew over several. They recur."""
    steps = [span.step_of(at) for at in times]
    return steps if all(after - before <= 1 for before, after in pairwise(steps)) else None


class _LifeRead(NamedTuple):
    """How a life was read. ``dated``: with a start that can be, by the clock of the store.

    ``counted``: when the card's own counters were on its pages. ``by_family``: the stretches of the
    families that some targets lack.
    """

    life: Life
    dated: Life
    targets: Mapping[Target, Sequence[float]]
    stretches: Sequence[Stretch]
    pages: Sequence[float]
    counted: Sequence[float]
    by_family: Mapping[str, Sequence[Stretch]]


def _together(
    by_target: Mapping[Target, Samples], shared: Iterable[Target]
) -> dict[Target, Samples]:
    """The samples of some targets, for each of them."""
    some = (by_target[target] for target in shared if target in by_target)
    merged = {at: value for each in some for at, value in zip(*each, strict=True)}
    return dict.fromkeys(shared, _by_time(merged.items())) if merged else {}


def _larger(one: Samples, other: Samples) -> Samples:
    """The samples of two series by time. Of two of one time the larger stands."""
    pairs = sorted(pair for part in (one, other) for pair in zip(*part, strict=True))
    return _by_time(dict(pairs).items())


def _by_time(samples: Iterable[tuple[float, float]]) -> Samples:
    times, values = zip(*sorted(samples), strict=True)
    return times, values


def _stood_still(by_target: Mapping[Target, Samples], since_s: float) -> bool:
    """Whether a counter has counted nothing in the range for sure."""
    for times, values in by_target.values():
        is_known = len(by_target) == 1 and times[0] <= since_s
        if (values[0] and not is_known) or values.count(values[0]) < len(values):
            return False
    return True


def _all_of(many: Collection[Times]) -> Times:
    """The times of all, each once, oldest first."""
    return next(iter(many)) if len(many) == 1 else sorted(set().union(*many))


def _last(times: Sequence[float], at_s: float) -> float:
    at = bisect_right(times, at_s) - 1
    return times[at] if at >= 0 else -inf


def _last_before(
    by_target: Mapping[Target, Samples], stretches: Sequence[Stretch], unix_s: float
) -> "_Sample | None":
    """The last sample before the range: of the target that is counted then, or of any."""
    counted = [one.target for one in stretches if one.begin_s <= unix_s][-1:]
    for targets in (counted, by_target):
        found: _Sample | None = None
        for target in targets if len(targets) == 1 else sorted(targets, key=sorted):
            times, values = by_target.get(target, _NONE)
            at = bisect_right(times, unix_s) - 1
            if at >= 0 and (found is None or times[at] > found.at_s):
                found = _Sample(times[at], values[at], target)
        if found is not None:
            return found
    return None


def _certain(growth: tuple[float, float], at_s: float, since_s: float) -> float | None:
    """What of a growth is of the range for certain; None if nothing is.

    A gap in which the range begins: the counter knows how much, not when. If it began minutes
    before, the range has its part of it. Else it counts what cannot have been before the range, at
    one card's full speed.
    """
    from_s, counted = growth
    if not counted or from_s >= since_s:
        return counted
    if from_s >= since_s - STALE_S:
        return counted * (at_s - since_s) / (at_s - from_s)
    counted -= (since_s - from_s) * max(1.0, counted / (at_s - from_s))
    return counted if counted > 0 else None


def _growth_to(
    last: _Sample | None, one: _Sample, life: Life, pages: Sequence[float], since_s: float
) -> tuple[float, float] | None:
    """Since when a counter grew to this sample, and what it counted in that time.

    None where nobody saw it grow.
    """
    if last is not None:
        # ``why`` asks otherwise (``seriescase``): it leaves out resets and gaps, and needs no
        # steps. One function for both would be longer than the two.
        grown = one.value - last.value
        if grown >= 0:
            return last.at_s, grown
        # Two targets of a life are scraped at other times, by clocks of their own.
        if one.target != last.target and -grown <= STALE_S:
            return last.at_s, 0.0
        from_s = last.at_s  # the account was dropped after its pod, and has begun again
    else:
        # It is new, and has grown since a scrape that did not have it: the one before its own. A
        # store may give the samples of one scrape other times: its own is not the one before it.
        scraped = bisect_right(pages, one.at_s)
        if scraped > 1:
            from_s = pages[scraped - 2]
        elif life.is_since(since_s):
            from_s = since_s if life.start_s is None else life.start_s
        else:
            return None
    most = (one.at_s - from_s) * _CARDS + _SLACK_S
    return (from_s, one.value) if one.value <= most else None
