"""Who is who, and when: the owners of pods, and the node, model and labels of cards. Pure.

What is counted is the one's who bore the name at that time, and a card has its node's price of that
time.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeVar

from exporter.answers.reading.agreement import Key, Samples, disagreeing
from exporter.answers.reading.bearers import Bearers
from exporter.answers.reading.lives import ClaimedError, Target, name_of
from exporter.answers.reading.nodelabels import NodeLabels
from exporter.answers.reading.presence import Presence
from exporter.answers.reading.queryapi import OWN, Labels, label, node_of
from exporter.answers.reading.storedcounters import GROUP_INFO, INFO, POD_INFO, StoredCounter

_LATE_S = 600  # by which a new machine's labels may come after it: kube-state-metrics is asked then
_LABEL = "label_"  # before the name of a pod's label
_NEAR_S = 3600  # so long a node that nobody describes has the labels of before

T = TypeVar("T")


class Owner(NamedTuple):
    """What is known of a pod: its owner, by kind and name, UID and labels."""

    kind: str
    name: str
    uid: str
    labels: tuple[tuple[str, str], ...]


class CardFacts(NamedTuple):
    """A card, its node as Prometheus names it, their labels, and its target's label ``cluster``."""

    uuid: str
    node: str
    model: str
    node_labels: Mapping[str, str]
    cluster: str = ""


class CardPart(NamedTuple):
    """A part of a card's time in which all facts stay the same, in Unix seconds.

    ``began_s``: since when an exporter was on the card, which may be before the range.
    """

    begin_s: float
    end_s: float
    began_s: float
    facts: CardFacts


class KnownGroup(NamedTuple):
    """What is known of a group; "" is not known."""

    name: str = ""
    user: str = ""
    account: str = ""


class Who:
    """Knows the bearers of a range's names."""

    def __init__(self, series: Iterable[StoredCounter], nodes: NodeLabels) -> None:
        self._nodes = nodes
        self._infos: dict[str, list[StoredCounter]] = defaultdict(list)
        self._pods: dict[tuple[str, str], list[StoredCounter]] = defaultdict(list)
        self._groups: dict[tuple[str, str], list[StoredCounter]] = defaultdict(list)
        self._known: dict[tuple[str, str, frozenset[Target]], Bearers[Owner] | None] = {}
        self._agreed: list[object] = []  # lives
        for one in series:
            if one.labels["__name__"] == INFO:
                self._infos[label(one.labels, "uuid")].append(one)
            elif one.labels["__name__"] == POD_INFO:
                self._pods[label(one.labels, "namespace"), label(one.labels, "pod")].append(one)
            elif one.labels["__name__"] == GROUP_INFO:
                self._groups[label(one.labels, "kind"), label(one.labels, "group")].append(one)

    @property
    def infos(self) -> Mapping[str, Sequence[StoredCounter]]:
        """The descriptions of cards and instances, by UUID."""
        return self._infos

    @property
    def has_pods(self) -> bool:
        """Whether any pod is described."""
        return bool(self._pods)

    def has_label(self, name: str) -> bool:
        """Whether any pod has the label."""
        return any(f"{_LABEL}{name}" in one.labels for many in self._pods.values() for one in many)

    def bearers_of(self, labels: Labels, targets: Collection[Target]) -> Bearers[Owner] | None:
        """The owners of a counter's pod, as these targets know them; None if none does."""
        pod = label(labels, "namespace"), label(labels, "pod")
        # Another cluster may have a pod of the same names: these targets do not speak of that one.
        key = *pod, frozenset(targets)
        if key not in self._known:
            of = [
                (_owner(one.labels), one.times)
                for one in self._pods.get(pod, ())
                if one.times and not key[2].isdisjoint(one.targets)
            ]
            # Nearly all have one bearer: of that the first and the last look say all.
            is_one = len({owner for owner, _ in of}) == 1
            samples = [
                (at, owner)
                for owner, times in of
                for at in ((times[0], times[-1]) if is_one else times)
            ]
            self._known[key] = Bearers(samples) if samples else None
        return self._known[key]

    def check(self, pages: Mapping[Target, Sequence[float]], old_s: float) -> None:
        """Refuses targets of one life that say different things of its pods, such as their owners.

        ``pages``: when each was scraped, oldest first. ``old_s``: how old a sample may be.

        Raises:
            ClaimedError: it names two targets, and the pod.

        """
        life = sorted((sorted(target), times[0]) for target, times in pages.items())
        if len(life) == 1 or life in self._agreed:
            return
        # Each card of an exporter asks this of its life, whose pods are compared once.
        self._agreed.append(life)
        shown: dict[Key, dict[Target, Samples]] = defaultdict(dict)
        for one in (one for many in self._pods.values() for one in many):
            if len(one.targets) == 1 and one.targets[0] in pages and one.times:
                said = {name: label(one.labels, name) for name in OWN[POD_INFO]}
                said |= {k: v for k, v in one.labels.items() if k.startswith(_LABEL)}
                key = POD_INFO, *(f"{name}={said[name]}" for name in sorted(said) if said[name])
                shown[key][one.targets[0]] = one.times, [1.0] * len(one.times)
        if found := disagreeing(shown, pages, old_s):
            one_target, other, key = found
            raise ClaimedError(
                f"{name_of(one_target)} and {name_of(other)} say that they are one exporter, but "
                f"not the same of a pod ({', '.join(key[1:])}): name the job that is yours (--job)"
            )

    def group_of(self, kind: str, group: str, targets: Collection[Target]) -> KnownGroup:
        """The names of a group, as these targets know them; the newest that is known of each."""
        found = KnownGroup()
        of = [
            one
            for one in self._groups.get((kind, group), ())
            if one.times and not set(targets).isdisjoint(one.targets)
        ]
        for one in sorted(of, key=lambda one: one.times[-1]):
            said = {name: label(one.labels, name) for name in KnownGroup._fields}
            found = found._replace(**{name: value for name, value in said.items() if value})
        return found

    def parts_of(self, uuid: str, presences: Sequence[Presence]) -> list[CardPart]:
        """The time of a card, in parts of which each has one node, model and set of labels."""
        parts: list[CardPart] = []
        for one in presences:
            # Which model was shown when: by the targets that showed the card then, or by any.
            many = self._infos.get(uuid, [])
            mine = [of for of in many if not set(one.targets).isdisjoint(of.targets)] or many
            infos = [(at, label(of.labels, "model")) for of in mine for at in of.times]
            target = dict(one.targets[-1])
            node = node_of(target)
            model_of, of_node = Bearers(infos), self._nodes.of(node, target)
            models = _changes(model_of, one, model_of.at(one.begin_s) or "")
            # What was said before a new machine came, or after a machine went, may be another's.
            kept = () if one.is_new else of_node.within(one.begin_s - _NEAR_S, one.begin_s)
            labels = _changes(of_node, one, kept[-1].bearer if kept else frozenset())
            cuts = sorted({*models, *labels})
            model, shown = "", frozenset[tuple[str, str]]()
            for begin_s, end_s in pairwise([*cuts, one.end_s]):
                model, shown = models.get(begin_s, model), labels.get(begin_s, shown)
                own = self._nodes.wanted_of(target)
                known = {**own, **dict(shown)}
                facts = CardFacts(uuid, node, model, known, target.get("cluster", ""))
                parts.append(CardPart(begin_s, end_s, min(begin_s, one.began_s), facts))
        return parts


def _owner(labels: Labels) -> Owner:
    shown = sorted(each for each in labels.items() if each[0].startswith(_LABEL))
    kind, name, uid = (label(labels, own) for own in ("owner_kind", "owner_name", "uid"))
    return Owner(kind, name, uid, tuple((key.removeprefix(_LABEL), value) for key, value in shown))


def _changes(bearers: Bearers[T], of: Presence, otherwise: T) -> dict[float, T]:
    """From when on which bearer is meant, in the time of a card; the first is of its begin.

    ``otherwise``: who is meant where none was seen in that time.
    """
    seen = list(bearers.within(of.begin_s, of.end_s))
    if of.is_new and seen and seen[0].first_s < of.begin_s:
        # A new machine comes under the name of one that is gone. Who describes nodes does so later:
        # what is still said of the old one is not of this, also if nobody describes this one.
        late_s = of.begin_s + _LATE_S
        is_followed = len(seen) > 1 and seen[1].first_s <= late_s
        if is_followed or seen[0].last_s <= late_s < of.end_s - _LATE_S:
            del seen[0]
    if not seen:
        return {of.begin_s: otherwise}
    found = {of.begin_s: seen[0].bearer}
    return found | {one.first_s: one.bearer for one in seen[1:] if one.first_s > of.begin_s}
