"""The book of each card: what each payer had of it in a range, from the counters in a Prometheus.

A board with MIG is one card; what its instances were used for is a part of the board.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from exporter.httpclient import NoAnswerError
from exporter.metrics.families import PREFIX
from exporter.prometheus.client import (
    Labels,
    Prometheus,
    Series,
    label,
    node_of,
)
from exporter.prometheus.growth import Counters, Grown, Presence, Span, Target, name_of
from exporter.prometheus.parts import CardStep, Had, Payer

BY = ("namespace", "pod", "owner", "label")  # who pays

_ALLOCATED, _CORE = "allocated_gpu_seconds_total", "core_seconds_total"
_BORROWED = "borrowed_core_seconds_total"
_UNALLOCATED = f"{PREFIX}_device_unallocated_gpu_seconds_total"
_OVERCOMMITTED = f"{PREFIX}_device_overcommitted_gpu_seconds_total"
_UNATTRIBUTED = f"{PREFIX}_device_unattributed_core_seconds_total"
_UNOBSERVED = f"{PREFIX}_device_unobserved_seconds_total"
_DEVICE = (_UNALLOCATED, _OVERCOMMITTED, _UNATTRIBUTED, _UNOBSERVED)
_NAMESPACE = tuple(f"{PREFIX}_namespace_{name}" for name in (_ALLOCATED, _CORE, _BORROWED))
_KIND = (f"{PREFIX}_group_kind_{_CORE}",)
_CONTAINER = tuple(f"{PREFIX}_container_{name}" for name in (_ALLOCATED, _CORE, _BORROWED))
_GROUP = (f"{PREFIX}_group_{_CORE}",)
_INFO, _POD_INFO = f"{PREFIX}_device_info", f"{PREFIX}_pod_info"
_NODE_LABELS = "kube_node_labels"
_SLICES = re.compile(r"^(\d+)g\.")
_MIG_SLICES = 7

_STEPS_S = ((6 * 3600, 60), (2 * 86400, 300))  # for ranges that are at most so long
_LONG_STEP_S = 3600  # for all others
_TWICE = 1.05  # of the time there was; beyond it, some time was counted twice


_PodKey = tuple[str, str, str]
"""The cluster, the namespace and the name of a pod."""


class CardFacts(NamedTuple):
    """A card, its node as Prometheus names it, and the labels of the card and of its node."""

    uuid: str
    node: str
    model: str
    node_labels: Mapping[str, str]


class _PartOf(NamedTuple):
    """The board that an instance is a part of, and how large a part, 0 to 1."""

    board: str
    part: float


@dataclass(slots=True)
class CardBook:
    """What was counted of a card in each step, and when it was there, in Unix seconds."""

    facts: CardFacts
    steps: dict[int, CardStep] = field(default_factory=lambda: defaultdict(CardStep))
    begin_s: float = 0.0
    end_s: float = 0.0


def span_of(since_s: int, until_s: int) -> Span:
    """The range with its steps."""
    length_s = until_s - since_s
    step_s = next((step_s for most_s, step_s in _STEPS_S if length_s <= most_s), _LONG_STEP_S)
    return Span(since_s, until_s, min(step_s, length_s))


class Books:
    """Reads the books of all cards of a Prometheus.

    ``by`` is one of ``BY``; ``pod_label`` is the one that pods are billed by, if it is "label".
    """

    def __init__(self, prometheus: Prometheus, span: Span, by: str, pod_label: str = "") -> None:
        self._prometheus = prometheus
        self._span = span
        self._by = by
        self._label = f"label_{pod_label}"

    def read(self) -> list[CardBook]:
        """The book of each card, by node and UUID.

        Raises:
            NoAnswerError: no exporter with these counters was scraped in the range.

        """
        names = [*_DEVICE, *_NAMESPACE, *_KIND]
        if self._by != "namespace":
            names += [*_CONTAINER, *_GROUP]
        counters = Counters(self._prometheus, names, self._span)
        if _UNALLOCATED not in counters.names:
            raise NoAnswerError(self._why_none())
        boards, facts = self._devices()
        owners = self._owners() if self._by in {"owner", "label"} else {}
        sorter = _Sorter(boards, owners, self._by, self._span, counters.targets)
        books = sorter.books(counters.grown(), facts)
        return sorted(books, key=lambda book: (book.facts.node, book.facts.uuid))

    def _why_none(self) -> str:
        """Why this Prometheus has no data of the range."""
        if self._prometheus.at(f"count({self._prometheus.selector([_INFO])})", self._span.until_s):
            return (
                f"{self._prometheus.address} has exporters, but no {_UNALLOCATED} in this range: "
                "they are of an older version, or --collect leaves it out"
            )
        if self._prometheus.at(f"count({self._prometheus.selector([_INFO])})"):
            return (
                f"{self._prometheus.address} has exporters now, but no data of them in this range: "
                "it is past the retention, or before they came"
            )
        return (
            f"{self._prometheus.address} scrapes no exporter: it has no series {_INFO} in this "
            "range, nor now"
        )

    def _last(self, name: str) -> list[Series]:
        """The last sample in the range of each series of an exporters' family."""
        length_s = self._span.until_s - self._span.since_s
        last = f"last_over_time({self._prometheus.selector([name])}[{length_s}s])"
        return self._prometheus.at(last, self._span.until_s)

    def _devices(self) -> tuple[dict[str, _PartOf], dict[str, CardFacts]]:
        """Of each instance its board, and the facts of each card."""
        infos = self._last(_INFO)
        nodes = self._node_labels(self._span.until_s - self._span.since_s)
        instances: dict[str, dict[str, str]] = defaultdict(dict)  # by board, with their profiles
        facts: dict[str, CardFacts] = {}
        for one in infos:
            uuid, parent = label(one.labels, "uuid"), label(one.labels, "parent_uuid")
            if parent and parent != uuid:
                instances[parent][uuid] = label(one.labels, "profile")
                continue
            node = node_of(one.labels)
            cluster = one.labels.get("cluster", "")
            own = nodes.get((cluster, node)) or nodes.get(("", node), {})
            labels = {**one.labels, **own}
            facts[uuid] = CardFacts(uuid, node, label(one.labels, "model"), labels)
        boards = {
            uuid: _PartOf(board, _part(profile, len(all_of)))
            for board, all_of in instances.items()
            for uuid, profile in all_of.items()
        }
        return boards, facts

    def _node_labels(self, length_s: int) -> dict[tuple[str, str], Labels]:
        """The labels of nodes, by cluster and node."""
        found = self._prometheus.at(
            f"last_over_time({_NODE_LABELS}[{length_s}s])", self._span.until_s
        )
        return {
            (one.labels.get("cluster", ""), one.labels.get("node", "")): {
                name.removeprefix("label_"): value
                for name, value in one.labels.items()
                if name.startswith("label_")
            }
            for one in found
        }

    def _owners(self) -> dict[_PodKey, tuple[str, str]]:
        """Of each pod its owner's kind and name, or its value of the label that is asked for.

        A pod may have been without that label in a part of the range.
        """
        found = self._last(_POD_INFO)
        if self._by == "label" and found and not any(self._label in one.labels for one in found):
            raise NoAnswerError(
                f"no pod has {self._label} in {_POD_INFO}: exporters give it the labels that "
                "--pods.labels names"
            )
        names: dict[_PodKey, tuple[str, str]] = {}
        for one in found:
            kind, name = "label", one.labels.get(self._label, "")
            if self._by == "owner":
                kind, name = label(one.labels, "owner_kind"), label(one.labels, "owner_name")
            if name:
                names[_pod_key(one.labels)] = kind, name
        return names


class _Sorter:
    """Sorts what was counted into the books of cards. ``boards`` has all instances."""

    def __init__(
        self,
        boards: Mapping[str, _PartOf],
        owners: Mapping[_PodKey, tuple[str, str]],
        by: str,
        span: Span,
        presence: Mapping[Target, Presence],
    ) -> None:
        self._boards = boards
        self._owners = owners
        self._by = by
        self._span = span
        self._presence = presence

    def books(self, grown: Iterable[Grown], facts: Mapping[str, CardFacts]) -> list[CardBook]:
        """The book of each card."""
        by_card: dict[str, dict[Target, list[Grown]]] = defaultdict(lambda: defaultdict(list))
        for one in grown:
            board, _ = self._board(label(one.labels, "uuid"))
            if board:  # the card of an allocation without one counts it neither way: unobserved
                by_card[board][one.target].append(one)
        books = []
        while by_card:  # a month of many cards is large: what is done is let go
            uuid, by_target = by_card.popitem()
            book = CardBook(facts.get(uuid) or _unnamed(uuid, by_target))
            each = {target: self._steps(many) for target, many in by_target.items()}
            for step in sorted({step for steps in each.values() for step in steps}):
                mine = {target: steps[step] for target, steps in each.items() if step in steps}
                book.steps[step] = self._of_all(step, mine)
            self._set_bounds(book, by_target)
            books.append(book)
        return books

    def _of_all(self, step: int, counted: Mapping[Target, CardStep]) -> CardStep:
        """What all exporters counted of a card in one step: first those of each job, then the jobs.

        What they count is compared with the part of the step in which any of them was there.
        """
        first_s, last_s = self._there(counted)
        length_s = min(self._span.ends[step], last_s) - max(self._span.begin(step), first_s)
        by_job: dict[str, list[CardStep]] = defaultdict(list)
        for target, one in counted.items():
            by_job[target.job].append(one)
        return _merged([_merged(of_job, length_s) for of_job in by_job.values()], length_s)

    def _there(self, targets: Iterable[Target]) -> tuple[float, float]:
        """When any of these exporters was there first and last."""
        seen = [self._presence[target] for target in targets]
        return min(one.first_s for one in seen), max(one.known_until_s for one in seen)

    def _set_bounds(self, book: CardBook, targets: Iterable[Target]) -> None:
        """Sets when the card was there: for as long as was counted of it, at the least."""
        first_s, last_s = self._there(targets)
        begin_s = since_s = float(self._span.since_s)
        if first_s > since_s:  # it came in the range; what it counted before it was seen is its own
            step = self._span.step_of(first_s)
            early = book.steps[step].counted if step in book.steps else 0.0
            begin_s = min(first_s, self._span.ends[step] - early)
        book.end_s = min(last_s, float(self._span.until_s))
        counted = sum(step.counted for step in book.steps.values())
        book.begin_s = max(since_s, min(begin_s, book.end_s - counted))

    def _board(self, uuid: str) -> _PartOf:
        return self._boards.get(uuid) or _PartOf(uuid, 1.0)

    def _steps(self, many: Iterable[Grown]) -> dict[int, CardStep]:
        steps: dict[int, CardStep] = defaultdict(CardStep)
        sums: dict[int, dict[Payer, Had]] = defaultdict(dict)  # of namespaces and kinds
        instances: dict[int, float] = defaultdict(float)  # the unobserved time of instances
        for one in many:
            name = name_of(one.labels)
            uuid = label(one.labels, "uuid")
            board, part = self._board(uuid)
            for at, value in one.steps.items():
                if name == _UNOBSERVED and board != uuid:
                    instances[at] += value * part
                elif name in _DEVICE:
                    _count_device(steps[at], name, value)
                elif name in _NAMESPACE or name in _KIND:
                    _count(sums[at], self._payer(one.labels), name, value)
                else:
                    _count(steps[at].had, self._payer(one.labels), name, value)
        for at, whole in sums.items():
            _add_rest(steps[at].had, whole)
        for at, seconds in instances.items():  # a board that gives no reading has none of them
            steps[at].unobserved = max(steps[at].unobserved, seconds)
        return steps

    def _payer(self, labels: Labels) -> Payer:
        name = name_of(labels)
        if name in (*_GROUP, *_KIND):
            return Payer("", label(labels, "kind"), "", label(labels, "group"))
        namespace, pod = label(labels, "namespace"), label(labels, "pod")
        if name in _NAMESPACE:  # a label "pod" is the exporter's own here
            return Payer(namespace)
        if self._by == "pod":
            return Payer(namespace, "", "", pod)
        return Payer(namespace, *self._owners.get(_pod_key(labels), ("", "")), "")


def _pod_key(labels: Labels) -> _PodKey:
    return labels.get("cluster", ""), label(labels, "namespace"), label(labels, "pod")


def _count_device(step: CardStep, name: str, value: float) -> None:
    if name == _UNALLOCATED:
        step.unallocated += value
    elif name == _OVERCOMMITTED:
        step.overcommitted += value
    elif name == _UNATTRIBUTED:
        step.unattributed += value
    else:
        step.unobserved += value


def _count(had: dict[Payer, Had], payer: Payer, name: str, value: float) -> None:
    mine = had.setdefault(payer, Had(allocatable=bool(payer.namespace)))
    if name.endswith(_ALLOCATED):
        mine.allocated += value
    elif name.endswith(_BORROWED):
        mine.borrowed += value
    else:
        mine.used = (mine.used or 0.0) + value


def _add_rest(had: dict[Payer, Had], whole: Mapping[Payer, Had]) -> None:
    """Adds what namespaces and kinds counted beyond their pods and groups that were seen."""
    for payer, total in whole.items():
        parts = [
            mine
            for other, mine in had.items()
            if other.namespace == payer.namespace
            and (payer.namespace or other.owner_kind == payer.owner_kind)
        ]
        allocated = max(0.0, total.allocated - sum(mine.allocated for mine in parts))
        used = None
        if total.used is not None:
            used = max(0.0, total.used - sum(mine.used or 0.0 for mine in parts))
        if allocated or used or not parts:
            borrowed = max(0.0, total.borrowed - sum(mine.borrowed for mine in parts))
            rest = had.setdefault(payer, Had(allocatable=total.allocatable))
            rest.add(allocated, used, borrowed)


def _merged(steps: Sequence[CardStep], length_s: float) -> CardStep:
    """What several exporters counted of a card in one step, in which they were there so long.

    One may have followed another: then both count. Or two jobs scrape the same exporter: then the
    one that counted most stands for both.
    """
    if len(steps) == 1 or sum(step.counted for step in steps) > length_s * _TWICE:
        return max(steps, key=lambda step: step.counted)
    merged = CardStep()
    for step in steps:
        merged.unallocated += step.unallocated
        merged.overcommitted += step.overcommitted
        merged.unattributed += step.unattributed
        merged.unobserved += step.unobserved
        for payer, had in step.had.items():
            mine = merged.had.setdefault(payer, Had(allocatable=had.allocatable))
            mine.add(had.allocated, had.used, had.borrowed)
    return merged


def _part(profile: str, instances: int) -> float:
    """The part of its board that an instance of MIG is, or one of equal parts."""
    slices = _SLICES.match(profile)
    return int(slices[1]) / _MIG_SLICES if slices else 1 / instances


def _unnamed(uuid: str, by_target: Mapping[Target, Sequence[Grown]]) -> CardFacts:
    labels = next(iter(by_target.values()))[0].labels
    return CardFacts(uuid, node_of(labels), "", labels)
