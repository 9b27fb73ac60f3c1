"""What the counters of each card counted in each step of a range, life by life. Pure.

A counter belongs to a life of an exporter and to a card; it is known by the labels that the
exporter gave it. It is counted as far as its growth was seen: since an earlier sample, since a
scrape of the same life that did not have it yet, or since that life itself began in the range. What
else a first value holds may be years old: counting begins with it, and the time before is lost.
"""

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from math import inf
from typing import NamedTuple

from exporter.answers.prometheus.client import OWN, Labels, label, node_of
from exporter.answers.prometheus.counters import STALE_S, StoredCounter
from exporter.answers.prometheus.lives import (
    ClaimedError,
    Life,
    Scrapes,
    Stretch,
    Target,
    check,
    name_of,
    stretches_of,
)
from exporter.answers.prometheus.ranges import Span
from exporter.metrics.families import PREFIX

_PLACE = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")  # in a UUID of its PCI address
_CARDS = 10  # that a payer can have counted of one card: allocations may pass it
_SLACK_S = 60
# What these count of a card grows by a second in each second in which it is read.
_CLOCKS = {
    f"{PREFIX}_device_unallocated_gpu_seconds_total": 1,
    f"{PREFIX}_namespace_allocated_gpu_seconds_total": 1,
    f"{PREFIX}_device_overcommitted_gpu_seconds_total": -1,
}


class Grown(NamedTuple):
    """What a counter of a card counted in each step, and the targets that may have shown it."""

    labels: Labels
    targets: frozenset[Target]
    steps: Mapping[int, float]


class Late(NamedTuple):
    """A life that is older than the range and was not read as it began, in Unix seconds.

    ``since_s``: from when on nothing was read. ``from_s``: when it was scraped first.
    """

    since_s: float
    from_s: float
    target: Target


@dataclass(frozen=True, slots=True)
class CardGrowth:
    """What the counters of a card counted, and when it was there, in Unix seconds.

    ``begin_s``: since when there was an exporter on it. ``end_s``: until when Prometheus knew of
    one. ``targets``: those that showed it, the last one first.
    """

    uuid: str
    targets: Sequence[Target]
    begin_s: float
    end_s: float
    grown: Sequence[Grown]
    late: Sequence[Late]


class _Sample(NamedTuple):
    at_s: float
    value: float
    target: Target


_Key = tuple[str, ...]
_Scraped = Mapping[Life, Mapping[Target, Sequence[float]]]


def cards_of(
    series: Sequence[StoredCounter],
    scrapes: Scrapes,
    known_until: Mapping[Target, float],
    span: Span,
    boards: Mapping[str, str],
) -> Iterator[CardGrowth]:
    """What was counted of each card; ``boards`` has the board of each instance's UUID.

    Raises:
        ClaimedError: two lives have one card, or two targets of one life do not agree.

    """
    by_card: dict[str, list[StoredCounter]] = defaultdict(list)
    for one in series:
        if uuid := label(one.labels, "uuid"):  # without one its card counts it neither way
            by_card[boards.get(uuid, uuid)].append(one)
    while by_card:
        uuid, many = by_card.popitem()
        for some in _apart(uuid, many, scrapes):
            card = _Card(uuid, some, scrapes, span)
            if card.is_shown:
                yield card.growth(known_until)


def _apart(uuid: str, many: Sequence[StoredCounter], scrapes: Scrapes) -> list[list[StoredCounter]]:
    """The series of each card. A UUID that is only a place stands for a card in each node.

    Series are of one card if one life showed them, or exporters of one node did.
    """
    if not _PLACE.search(uuid):
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


class _Card:
    """The samples of one card, by the counter and the life that they are of."""

    def __init__(
        self, uuid: str, many: Sequence[StoredCounter], scrapes: Scrapes, span: Span
    ) -> None:
        self._uuid = uuid
        self._scrapes = scrapes
        self._span = span
        self._labels: dict[_Key, Labels] = {}
        self._samples: dict[Life, dict[_Key, list[_Sample]]]
        self._samples = defaultdict(lambda: defaultdict(list))
        shown: dict[Life, dict[Target, list[float]]] = defaultdict(lambda: defaultdict(list))
        for one in many:
            name = one.labels["__name__"]
            # The driver may give a GPU another number; its UUID stays.
            key = name, *(label(one.labels, own) for own in sorted(OWN[name] - {"gpu"}))
            self._labels[key] = one.labels
            for at_s, value in one.samples.items():
                found = scrapes.which(one.targets, at_s)
                if found is None:
                    continue
                life, target = found
                self._samples[life][key].append(_Sample(at_s, value, target))
                if one.is_of_device:
                    shown[life][target].append(at_s)
        for times in (times for targets in shown.values() for times in targets.values()):
            times.sort()
        # When each life showed the card: its exporter may live on without it.
        self._shown: _Scraped = shown

    @property
    def is_shown(self) -> bool:
        """Whether any scrape has the card itself, and not only who has a part of it."""
        return bool(self._shown)

    def growth(self, known_until: Mapping[Target, float]) -> CardGrowth:
        """What was counted of it."""
        check(f"two exporters have the card {self._uuid}", self._shown)
        since_s = self._span.since_s
        first_s = {
            life: min(times[0] for times in targets.values())
            for life, targets in self._shown.items()
        }
        order = sorted(first_s, key=lambda life: first_s[life])
        # Where one life replaces another both may be scraped for a while: then the new one counts.
        ends_s = [*(first_s[life] for life in order[1:]), inf]
        begin_s, end_s, read_until_s = float(self._span.until_s), 0.0, float(since_s)
        grown: list[Grown] = []
        late: list[Late] = []
        for life, until_s in zip(order, ends_s, strict=True):
            targets = self._scrapes.by_life(self._shown[life])[life]
            stretches = stretches_of(targets, max(STALE_S, self._span.step_s))
            pages = sorted(at for one in stretches for at in one.of(targets[one.target]))
            # A life that is older than the range and was not read as it began may have counted
            # anything before. Until its first scrape there, what is not certain is unobserved.
            early = [at for at in pages if at <= since_s]
            unread = not early or early[-1] < since_s - STALE_S
            dated = self._dated(life, pages[0])
            if unread and not dated.is_since(since_s) and pages[-1] > since_s:
                late.append(Late(read_until_s, pages[len(early)], min(targets, key=sorted)))
            # Since when the life is known to have had the card: not before the range.
            began_s = pages[0] if dated.start_s is None else dated.start_s
            begin_s = min(begin_s, max(began_s, since_s))
            end_s = max(end_s, pages[-1], *(known_until.get(target, 0.0) for target in targets))
            read_until_s = max(read_until_s, pages[-1])
            self._check_agreement(life, targets)
            for key, samples in self._samples[life].items():
                mine = sorted((s for s in samples if s.at_s < until_s), key=lambda s: s.at_s)
                if steps := self._steps(mine, dated, stretches, pages):
                    grown.append(Grown(self._labels[key], frozenset(targets), steps))
        end_s = min(end_s, self._span.until_s)
        every = {target for life in order for target in self._shown[life]}
        last = sorted(every, key=lambda one: (-self._scrapes.of(one)[0][-1], sorted(one)))
        return CardGrowth(
            self._uuid, last, begin_s=min(begin_s, end_s), end_s=end_s, grown=grown, late=late
        )

    def _dated(self, life: Life, first_s: float) -> Life:
        """The life with a start that can be, by the clock of the store.

        Its own is by the node's clock, which may be ahead. It cannot have begun later than its
        first scrape, nor later than what it had counted by then allows.
        """
        if life.start_s is None:
            return life
        counted_s: dict[str, float] = defaultdict(float)
        for key, samples in self._samples[life].items():
            had = next((one.value for one in samples if one.at_s <= first_s + _SLACK_S), 0.0)
            counted_s[label(self._labels[key], "uuid")] += _CLOCKS.get(key[0], 0) * had
        latest_s = first_s - max(0.0, *counted_s.values())
        return life if life.start_s <= latest_s + _SLACK_S else Life(latest_s)

    def _check_agreement(self, life: Life, targets: Mapping[Target, Sequence[float]]) -> None:
        """Refuses targets that count differently, though they say that they are one life.

        When a process started is what its page says, so who writes a page can say the same.
        """
        for one, other in combinations(sorted(targets, key=sorted), 2):
            common = sorted(set(targets[one]) & set(targets[other]))
            if not common:
                continue
            grown: dict[object, tuple[float, float]] = {}  # by counter, and by family
            for key, samples in self._samples[life].items():
                both = (_grown(samples, one, common), _grown(samples, other, common))
                for of in (key, key[0]):
                    before = grown.get(of, (0.0, 0.0))
                    grown[of] = before[0] + both[0], before[1] + both[1]
            # A value may be as old as a step. In that time it grew as fast as otherwise: where
            # allocations pass the card, by more than a second in a second.
            old_s, length_s = self._span.step_s + STALE_S, max(1.0, common[-1] - common[0])
            if any(
                abs(x - y) > old_s * max(1.0, x / length_s, y / length_s) for x, y in grown.values()
            ):
                raise ClaimedError(
                    f"{name_of(one)} and {name_of(other)} say that they are one exporter of the "
                    f"card {self._uuid}, but count differently: name the job that is yours (--job)"
                )

    def _steps(
        self,
        samples: Sequence[_Sample],
        life: Life,
        stretches: Sequence[Stretch],
        pages: Sequence[float],
    ) -> dict[int, float]:
        """What a counter counted in each step."""
        since_s = self._span.since_s
        found: dict[int, float] = defaultdict(float)
        last: _Sample | None = None
        for one in samples:
            if one.at_s <= since_s:
                last = one
                continue
            # Two jobs may scrape one exporter. At each time the scrapes of one of them are counted.
            at = bisect_right(stretches, one.at_s, key=lambda each: each.begin_s) - 1
            if at < 0 or stretches[at].target != one.target:
                continue
            growth = _growth_to(last, one, life, pages, since_s)
            last = one
            if growth is None:
                continue
            from_s, counted = growth
            if counted and from_s < since_s - STALE_S:
                # A gap in which the range begins: the counter knows how much, not when. So it
                # counts what cannot have been before the range, at one card's full speed.
                speed = max(1.0, counted / (one.at_s - from_s))
                counted -= (since_s - from_s) * speed
                if counted <= 0:
                    continue
            # A counter that stood still is known to: its payer was idle, which is not unknown. In a
            # gap of several steps nobody knows when it grew, so each of them has its part.
            for step, part in self._span.divided(max(from_s, since_s), one.at_s):
                found[step] += counted * part
        return dict(found)


def _grown(samples: Sequence[_Sample], target: Target, times: Sequence[float]) -> float:
    """How much a counter grew by the samples of one target at these times."""
    wanted = set(times)
    mine = sorted((one.at_s, one.value) for one in samples if one.target == target)
    known = [each for each in mine if each[0] in wanted]
    first = known[0][1] if known and known[0][0] > times[0] else 0.0
    return first + sum(max(0.0, after - before) for (_, before), (_, after) in pairwise(known))


def _growth_to(
    last: _Sample | None, one: _Sample, life: Life, pages: Sequence[float], since_s: float
) -> tuple[float, float] | None:
    """Since when a counter grew to this sample, and what it counted in that time.

    None where nobody saw it grow.
    """
    if last is not None:
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
