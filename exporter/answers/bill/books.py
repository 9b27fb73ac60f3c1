"""The book of each card: what each payer had of it in a range, from the counters in a Prometheus.

A board with MIG is one card; what its instances were used for is a part of the board.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from exporter.answers.bill.parts import CardStep, Had, Payer
from exporter.answers.reading.growth import CardGrowth, Grown, Late, cards_of
from exporter.answers.reading.nodelabels import NodeLabels
from exporter.answers.reading.queryapi import Prometheus, label
from exporter.answers.reading.ranges import DAY_S, Span
from exporter.answers.reading.storedcounters import (
    GROUP_INFO,
    INFO,
    POD_INFO,
    UP,
    Stored,
    StoredCounter,
)
from exporter.answers.reading.who import CardFacts, Who
from exporter.metrics.families import PREFIX

_ALLOCATED, _CORE = "allocated_gpu_seconds_total", "core_seconds_total"
_BORROWED = "borrowed_core_seconds_total"
UNALLOCATED = f"{PREFIX}_device_unallocated_gpu_seconds_total"
_OVERCOMMITTED = f"{PREFIX}_device_overcommitted_gpu_seconds_total"
_UNATTRIBUTED = f"{PREFIX}_device_unattributed_core_seconds_total"
_UNOBSERVED = f"{PREFIX}_device_unobserved_seconds_total"
_DEVICE = (UNALLOCATED, _OVERCOMMITTED, _UNATTRIBUTED, _UNOBSERVED)
_OF_DEVICE = dict(
    zip(_DEVICE, ("unallocated", "overcommitted", "unattributed", "unobserved"), strict=True)
)  # as a step of a card has them
_NAMESPACE = tuple(f"{PREFIX}_namespace_{name}" for name in (_ALLOCATED, _CORE, _BORROWED))
_KIND = (f"{PREFIX}_group_kind_{_CORE}",)
_CONTAINER = tuple(f"{PREFIX}_container_{name}" for name in (_ALLOCATED, _CORE, _BORROWED))
_GROUP = (f"{PREFIX}_group_{_CORE}",)
_OF_PAYER = ("allocated", "used", "borrowed")
_WHAT = dict.fromkeys((*_KIND, *_GROUP), "used") | {
    name: what
    for names in (_NAMESPACE, _CONTAINER)
    for name, what in zip(names, _OF_PAYER, strict=True)
}  # as a payer has them
_SLICES = re.compile(r"^(\d+)g\.")
_MIG_SLICES = 7
_OF_INSTANCES = "unobserved, of instances"
_NOTHING_S = 1e-6  # of a difference of two counters
_AHEAD_S = 300  # by which what one scrape shows can be ahead of what another does
_SHORT_ID = 12  # digits of a container's id, which an engine may repeat as its name

# Within a step nobody knows who borrowed when, so that shorter ranges have shorter steps. None is
# longer than an hour, into which ``--step`` divides a day.
_STEPS_S = ((1800, 60), (DAY_S - 1, 300))  # for ranges that are at most so long
_LONG_STEP_S = 3600  # for a whole day


class _PartOf(NamedTuple):
    """The board that an instance is a part of, and how large a part, 0 to 1."""

    board: str
    part: float


@dataclass(slots=True)
class CardBook:
    """What was counted of a card in each step of a part of its time, in Unix seconds.

    In that time its node, model and labels stay the same. ``unidentified``: payers whose owner or
    label nobody knows. ``began_s``: since when an exporter was on the card, if before the range.
    """

    facts: CardFacts
    steps: dict[int, CardStep] = field(default_factory=lambda: defaultdict(CardStep))
    begin_s: float = 0.0
    end_s: float = 0.0
    late: Sequence[Late] = ()
    unidentified: set[Payer] = field(default_factory=set)
    began_s: float | None = None


def span_of(since_s: int, until_s: int) -> Span:
    """The range, which is a day at most, with its steps. A day has the same in each range."""
    length_s = until_s - since_s
    step_s = next((step_s for most_s, step_s in _STEPS_S if length_s <= most_s), _LONG_STEP_S)
    return Span(since_s, until_s, min(step_s, length_s))


@dataclass(frozen=True, slots=True)
class Wanted:
    """The labels that books are read for: of pods, and of nodes those that prices are by."""

    pod_label: str = ""
    node_labels: Collection[str] = ()


class Books(NamedTuple):
    """The books of all cards of a span, by node and UUID.

    ``has_pods``: whether any pod is described. ``has_label``: whether one has the label that is
    asked for.
    """

    cards: Sequence[CardBook]
    has_pods: bool
    has_label: bool


# Pods' owners are read whoever pays: a bill by namespaces is the sum of that by owners.
NAMES = (*_DEVICE, *_NAMESPACE, *_KIND, *_CONTAINER, *_GROUP, INFO, UP, GROUP_INFO, POD_INFO)
"""The families that books are read from."""


def books_of(stored: Stored, nodes: NodeLabels, span: Span, wanted: Wanted) -> Books:
    """The books by what is stored. Pure."""
    who = Who(stored.series, nodes)
    boards = _boards(who.infos)
    sorter = _Sorter(boards, who)
    of = {uuid: part.board for uuid, part in boards.items()}
    books = [book for card in cards_of(stored, span, of, who) for book in sorter.books(card)]
    order = sorted(books, key=lambda book: (book.facts.node, book.facts.uuid, book.begin_s))
    return Books(order, who.has_pods, who.has_label(wanted.pod_label))


class Unread:
    """Finds the time in which nobody read a card whose exporter ran, between days that are read."""

    def __init__(self, since_s: int) -> None:
        self._since_s = since_s
        self._ends_s: dict[tuple[str, str], float] = {}  # of each card in a node

    def before(self, books: Sequence[CardBook], begin_s: int) -> list[CardBook]:
        """Books without a count, of the days before one that begins then and has these."""
        found = []
        for book in books:
            card = book.facts.uuid, book.facts.node
            from_s = max(self._since_s, self._ends_s.get(card, 0.0))
            if book.began_s is not None and book.begin_s <= begin_s:
                from_s = max(from_s, book.began_s)
                if from_s < begin_s:
                    late = [one._replace(since_s=from_s) for one in book.late]
                    found.append(
                        CardBook(book.facts, begin_s=from_s, end_s=float(begin_s), late=late)
                    )
            self._ends_s[card] = book.end_s
        return found


def why_none(prometheus: Prometheus, until_s: int) -> str:
    """Why a Prometheus has no data of a range."""
    if prometheus.at(f"count({prometheus.selector([INFO])})", until_s):
        return (
            f"{prometheus.address} has exporters, but no {UNALLOCATED} in this range: "
            "they are of an older version, or --collect leaves it out"
        )
    if prometheus.at(f"count({prometheus.selector([INFO])})"):
        return (
            f"{prometheus.address} has exporters now, but no data of them in this range: "
            "it is past the retention of raw data, or before they came"
        )
    return (
        f"{prometheus.address} scrapes no exporter: it has no series {INFO} in this range, nor now"
    )


def _boards(infos: Mapping[str, Sequence[StoredCounter]]) -> dict[str, _PartOf]:
    """The board of each instance."""
    instances: dict[str, dict[str, str]] = defaultdict(dict)  # by board, with their profiles
    for uuid, series in infos.items():
        for one in series:
            parent = label(one.labels, "parent_uuid")
            if parent and parent != uuid:
                instances[parent][uuid] = label(one.labels, "profile")
    found: dict[str, _PartOf] = {}
    for board, all_of in instances.items():
        for uuid, profile in all_of.items():
            # The profile says how many of the board's slices it has. Other vendors' do not: their
            # partitions are equal parts.
            slices = _SLICES.match(profile)
            part = int(slices[1]) / _MIG_SLICES if slices else 1 / len(all_of)
            found[uuid] = _PartOf(board, part)
    return found


_Counts = Mapping[int, float]  # seconds by step
_Columns = dict[str, dict[int, float]]  # by what they are of a payer, or of a step of the card


class _Draft:
    """A book that is being written."""

    def __init__(self, book: CardBook) -> None:
        self.book = book
        self._had: dict[Payer, _Columns] = defaultdict(dict)
        self._totals: dict[Payer, _Columns] = defaultdict(dict)  # of namespaces and kinds
        self._device: _Columns = {}

    def count(self, name: str, payer: Payer, counts: _Counts, part: _PartOf | None) -> None:
        """Adds what a counter counted; ``part``: of the board, if of an instance."""
        columns, what = self._device, _OF_DEVICE.get(name)
        if what is None:
            is_total = name in _NAMESPACE or name in _KIND
            columns, what = (self._totals if is_total else self._had)[payer], _WHAT[name]
        elif name == _UNOBSERVED and part is not None:
            what = _OF_INSTANCES
            counts = {step: value * part.part for step, value in counts.items()}
        columns[what] = _sum([columns[what], counts]) if what in columns else dict(counts)

    def finished(self) -> CardBook:
        """The book, with what namespaces and instances counted beside."""
        steps, instances = self.book.steps, self._device.pop(_OF_INSTANCES, {})
        for payer, total in [*self._totals.items()]:
            self._add_rest(payer, total)
        for payer, columns in self._had.items():
            # Use without a counter stays None: it is unknown, where 0 would make what was kept
            # idle.
            allocated, used, borrowed = (columns.get(what, {}) for what in _OF_PAYER)
            for step in allocated.keys() | used.keys() | borrowed.keys():
                had = allocated.get(step, 0.0), used.get(step), borrowed.get(step, 0.0)
                steps[step].had[payer] = Had(*had, allocatable=bool(payer.namespace))
        for what, counts in self._device.items():
            for step, value in counts.items():
                if value:
                    setattr(steps[step], what, value)
        for step, seconds in instances.items():
            known = steps[step]  # a board that gives no reading has none of them
            known.unobserved = max(known.unobserved, seconds)
        return self.book

    def _add_rest(self, payer: Payer, total: _Columns) -> None:
        """Adds what a namespace or kind counted beyond the pods or groups that had series.

        A short job may come and go between two scrapes. Its namespace's counter has what it used,
        so the namespace itself pays for that.
        """
        of = payer.of("namespace")
        known = [columns for one, columns in self._had.items() if one.of("namespace") == of]
        used = total.get("used", {})
        rest = _beyond("allocated", total, known, sorted({*total.get("allocated", {}), *used}))
        more = _beyond("used", total, known, sorted(used))
        if some := sorted({*rest, *more}):
            # Where use was counted and nothing is beyond it, the namespace's own use is 0 and
            # known.
            more |= {step: 0.0 for step in some if step in used and step not in more}
            lent = _beyond("borrowed", total, known, some)
            mine = self._had[payer]
            for what, column in zip(_OF_PAYER, (rest, more, lent), strict=True):
                mine[what] = _sum([mine.get(what, {}), column])


class _Sorter:
    """Sorts what was counted of a card by step and payer. ``boards`` has all instances."""

    def __init__(self, boards: Mapping[str, _PartOf], who: Who) -> None:
        self._boards, self._who = boards, who

    def books(self, card: CardGrowth) -> list[CardBook]:
        """The books of a card, one for each part of its time."""
        drafts = [
            _Draft(CardBook(one.facts, begin_s=one.begin_s, end_s=one.end_s)) for one in card.parts
        ]
        for one in card.grown:
            part = self._boards.get(label(one.labels, "uuid"))
            payer = self._payer(one)
            for at, counts in one.counts.items():
                if one.owner is None and payer.pod and payer.namespace:
                    drafts[at].book.unidentified.add(payer)
                drafts[at].count(one.labels["__name__"], payer, counts, part)
        if drafts:
            drafts[0].book.late = card.late
            drafts[0].book.began_s = card.parts[0].began_s
        return [draft.finished() for draft in drafts]

    def _payer(self, one: Grown) -> Payer:
        labels, name = one.labels, one.labels["__name__"]
        if name in (*_GROUP, *_KIND):
            kind, group = label(labels, "kind"), label(labels, "group")
            known = self._who.group_of(kind, group, one.targets)
            name = "" if known.name in {group, group[:_SHORT_ID]} else known.name
            return Payer("", kind, name, group, known.user, known.account)
        namespace, pod = label(labels, "namespace"), label(labels, "pod")
        if name in _NAMESPACE:  # a label "pod" is the exporter's own here
            return Payer(namespace)
        if one.owner is None:
            return Payer(namespace, pod=pod)
        kind, owner, uid, shown = one.owner
        return Payer(namespace, kind, owner, pod, uid=uid, labels=shown)


def _sum(columns: Sequence[_Counts]) -> dict[int, float]:
    """What several have by step."""
    found = dict(columns[0]) if columns else {}
    for one in columns[1:]:
        for step, value in one.items():
            found[step] = found.get(step, 0.0) + value
    return found


def _beyond(
    what: str, total: _Columns, known: Sequence[_Columns], steps: Iterable[int]
) -> dict[int, float]:
    """By how much a total is more than its parts in some steps, less what these were ahead before.

    What two targets count of one step differs by when they are scraped, and evens out.
    """
    of_all, parts = total.get(what, {}), _sum([one[what] for one in known if what in one])
    ahead, found = 0.0, {}
    for step in steps if of_all else ():
        rest = of_all.get(step, 0.0) - parts.get(step, 0.0) - ahead
        ahead = min(_AHEAD_S, -rest) if rest < 0 else 0.0
        if rest > _NOTHING_S:
            found[step] = rest
    return found
