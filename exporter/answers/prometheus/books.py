"""The book of each card: what each payer had of it in a range, from the counters in a Prometheus.

A board with MIG is one card; what its instances were used for is a part of the board.
"""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from exporter.answers.prometheus.client import Labels, Prometheus, Series, label, node_of
from exporter.answers.prometheus.counters import Counters
from exporter.answers.prometheus.growth import CardGrowth, Grown, Late, cards_of
from exporter.answers.prometheus.lives import Target
from exporter.answers.prometheus.parts import CardStep, Had, Payer
from exporter.answers.prometheus.ranges import Span
from exporter.httpclient import NoAnswerError
from exporter.metrics.families import PREFIX

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
_GROUP_INFO = f"{PREFIX}_group_info"
_NODE_LABELS = "kube_node_labels"
_SLICES = re.compile(r"^(\d+)g\.")
_MIG_SLICES = 7
_SHORT_ID = 12  # digits of a container's id, which an engine may repeat as its name

_STEPS_S = ((6 * 3600, 60), (2 * 86400, 300))  # for ranges that are at most so long
_LONG_STEP_S = 3600  # for all others
_DAY_S = 86_400
_OF_SCRAPES = {  # labels in which the targets of one place differ
    *("__name__", "job", "instance", "namespace", "pod", "container", "service", "endpoint"),
    *("prometheus", "prometheus_replica", "replica", "node", "uid"),
}

_PodKey = tuple[Target, str, str]
"""The target that showed a pod, and the pod's namespace and name."""
_GroupKey = tuple[Target, str, str]
"""The target that showed a group, and the group's kind and id."""


class _GroupNames(NamedTuple):
    """What is known of a group; "" is not known."""

    name: str = ""
    user: str = ""
    account: str = ""


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
    late: Sequence[Late] = ()


def span_of(since_s: int, until_s: int) -> Span:
    """The range with its steps."""
    length_s = until_s - since_s
    step_s = next((step_s for most_s, step_s in _STEPS_S if length_s <= most_s), _LONG_STEP_S)
    return Span(since_s, until_s, min(step_s, length_s))


class Books:
    """Reads the books of all cards of a Prometheus, with pods as payers.

    With ``by`` "label", a pod's owner is its value of the label ``pod_label``.
    """

    def __init__(self, prometheus: Prometheus, span: Span, by: str, pod_label: str = "") -> None:
        self._prometheus = prometheus
        self._span = span
        self._by = by
        self._label = f"label_{pod_label}"
        self._nodes: dict[str, list[Labels]] | None = None

    def read(self) -> list[CardBook]:
        """The book of each card, by node and UUID.

        Raises:
            NoAnswerError: no exporter with these counters was scraped in the range, or nobody knows
                which of two exporters of a card is true.

        """
        names = (*_DEVICE, *_NAMESPACE, *_KIND, *_CONTAINER, *_GROUP)
        counters = Counters(self._prometheus, names, self._span)
        if _UNALLOCATED not in counters.names:
            raise NoAnswerError(self._why_none())
        infos: dict[str, list[Series]] = defaultdict(list)  # by the card's or instance's UUID
        for one in self._last(_INFO):
            infos[label(one.labels, "uuid")].append(one)
        boards = _boards(infos)
        owners = self._owners(counters) if self._by in {"owner", "label"} else {}
        groups = self._groups(counters) if _GROUP[0] in counters.names else {}
        sorter = _Sorter(boards, owners, groups)
        books = []
        for card in cards_of(
            counters.taken(),
            counters.scrapes,
            counters.known_until(),
            self._span,
            {uuid: part.board for uuid, part in boards.items()},
        ):
            steps = sorter.steps(card.grown)
            facts = self._facts(card, infos, counters)
            books.append(CardBook(facts, steps, card.begin_s, card.end_s, card.late))
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
        """The last sample of each series of an exporters' family, day by day of the range.

        The pods of a month are more than one answer may have.
        """
        return self._days(self._prometheus.selector([name]))

    def _days(self, selector: str) -> list[Series]:
        """The last samples of a selector, the oldest day first."""
        found: list[Series] = []
        for end_s in range(self._span.until_s, self._span.since_s, -_DAY_S):
            length_s = min(_DAY_S, end_s - self._span.since_s)
            found += self._prometheus.at(f"last_over_time({selector}[{length_s}s])", end_s)
        return found[::-1]

    def _facts(
        self, card: CardGrowth, infos: Mapping[str, Sequence[Series]], counters: Counters
    ) -> CardFacts:
        """The facts of a card, as the target that showed it last has them."""
        known = {
            target: one.labels
            for one in infos.get(card.uuid, ())
            for target in counters.index.of(one.labels)
        }
        labels = next((known[one] for one in card.targets if one in known), None)
        model = label(labels, "model") if labels else ""
        labels = labels or dict(card.targets[0])
        node = node_of(labels)
        return CardFacts(card.uuid, node, model, {**labels, **self._node_labels(node, labels)})

    def _node_labels(self, node: str, of: Labels) -> Labels:
        """The labels of a node; of several that have one name, of that in the same cluster.

        A store may call its clusters anything: they are the same if no label of both differs.
        """
        if self._nodes is None:
            self._nodes = defaultdict(list)
            for one in reversed(self._days(_NODE_LABELS)):  # the newest is meant
                known_as = one.labels.get("exported_node", one.labels.get("node", ""))
                self._nodes[known_as].append(one.labels)
        ours = {item for item in of.items() if item[0] not in _OF_SCRAPES}
        names = {name for name, _ in ours}
        same = [
            (len(ours & labels.items()), labels)
            for labels in self._nodes.get(node, ())
            if not any(
                name in names and (name, value) not in ours for name, value in labels.items()
            )
        ]
        _, found = max(same, key=lambda each: each[0], default=(0, {}))
        return {
            name.removeprefix("label_"): value
            for name, value in found.items()
            if name.startswith("label_")
        }

    def _owners(self, counters: Counters) -> dict[_PodKey, tuple[str, str]]:
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
                for target in counters.index.of(one.labels):
                    pod = target, label(one.labels, "namespace"), label(one.labels, "pod")
                    names[pod] = kind, name
        return names

    def _groups(self, counters: Counters) -> dict[_GroupKey, _GroupNames]:
        """The names of each group; the newest that is known of each."""
        found: dict[_GroupKey, _GroupNames] = {}
        for one in self._last(_GROUP_INFO):
            said = {name: label(one.labels, name) for name in _GroupNames._fields}
            for target in counters.index.of(one.labels):
                key = target, label(one.labels, "kind"), label(one.labels, "group")
                known = {name: value for name, value in said.items() if value}
                found[key] = found.get(key, _GroupNames())._replace(**known)
        return found


def _boards(infos: Mapping[str, Sequence[Series]]) -> dict[str, _PartOf]:
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


class _Sorter:
    """Sorts what was counted of a card by step and payer. ``boards`` has all instances."""

    def __init__(
        self,
        boards: Mapping[str, _PartOf],
        owners: Mapping[_PodKey, tuple[str, str]],
        groups: Mapping[_GroupKey, _GroupNames],
    ) -> None:
        self._boards = boards
        self._owners = owners
        self._groups = groups

    def steps(self, many: Sequence[Grown]) -> dict[int, CardStep]:
        """The book's steps."""
        steps: dict[int, CardStep] = defaultdict(CardStep)
        totals: dict[int, dict[Payer, Had]] = defaultdict(dict)  # of namespaces and kinds
        instances: dict[int, float] = defaultdict(float)  # the unobserved time of instances
        for one in many:
            name = one.labels["__name__"]
            part = self._boards.get(label(one.labels, "uuid"))
            payer = self._payer(one)
            for at, value in one.steps.items():
                if name == _UNOBSERVED and part is not None:
                    instances[at] += value * part.part
                elif name in _DEVICE:
                    _count_device(steps[at], name, value)
                elif name in _NAMESPACE or name in _KIND:
                    _count(totals[at], payer, name, value)
                else:
                    _count(steps[at].had, payer, name, value)
        for at, of_namespaces in totals.items():
            _add_rest(steps[at].had, of_namespaces)
        for at, seconds in instances.items():  # a board that gives no reading has none of them
            steps[at].unobserved = max(steps[at].unobserved, seconds)
        return dict(steps)

    def _payer(self, one: Grown) -> Payer:
        labels, name = one.labels, one.labels["__name__"]
        if name in (*_GROUP, *_KIND):
            kind, group = label(labels, "kind"), label(labels, "group")
            named = (self._groups.get((target, kind, group)) for target in one.targets)
            known = next(filter(None, named), _GroupNames())
            name = "" if known.name in {group, group[:_SHORT_ID]} else known.name
            return Payer("", kind, name, group, known.user, known.account)
        namespace, pod = label(labels, "namespace"), label(labels, "pod")
        if name in _NAMESPACE:  # a label "pod" is the exporter's own here
            return Payer(namespace)
        owners = (self._owners.get((target, namespace, pod)) for target in one.targets)
        return Payer(namespace, *next(filter(None, owners), ("", "")), pod)


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


def _add_rest(had: dict[Payer, Had], totals: Mapping[Payer, Had]) -> None:
    """Adds what namespaces and kinds counted beyond the pods and groups that had series."""
    # A short job may come and go between two scrapes. Its namespace's counter has what it used, so
    # the namespace itself pays for that.
    parts: dict[Payer, list[Had]] = defaultdict(list)
    for payer, mine in had.items():
        parts[payer.of("namespace")].append(mine)
    for payer, total in totals.items():
        known = parts[payer.of("namespace")]
        allocated = max(0.0, total.allocated - sum(one.allocated for one in known))
        used = None
        if total.used is not None:
            used = max(0.0, total.used - sum(one.used or 0.0 for one in known))
        if allocated or used or not known:
            borrowed = max(0.0, total.borrowed - sum(one.borrowed for one in known))
            rest = had.setdefault(payer, Had(allocatable=total.allocatable))
            rest.add(allocated, used, borrowed)
