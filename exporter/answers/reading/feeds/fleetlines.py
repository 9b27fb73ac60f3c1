"""The lines of a fleet: namespaces and nodes by their sums, and what is read of some. Pure."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from exporter.answers.reading.feeds.nodelines import NOT_REPORTED
from exporter.answers.reading.feeds.overview import Figure, Key, Line, LineKind, SortKey, Totals
from exporter.answers.reading.queryapi import Labels, label, place_of
from exporter.model import of_limit
from exporter.shown.marks import Mark, MarkKind
from exporter.shown.printable import clean
from exporter.shown.words import plural

_POD = {"__name__": "mgpu_pod_info"}  # a family that has the labels of pods


class Look(NamedTuple):
    """What a screen shows of a fleet, and so what is asked: the ``rows`` that are the largest.

    ``all``: all rows are wanted. ``opened`` are the keys of lines. ``needle`` is the filter.
    """

    rows: int = 40
    all: bool = False
    opened: AbstractSet[Key] = frozenset()
    needle: str = ""
    by: SortKey = SortKey.CORE


@dataclass(frozen=True, slots=True)
class Sums:
    """The sums of a node, a namespace, a pod or all, by its labels. Core in GPUs, memory in bytes.

    None is not known. ``lost`` are GPUs that cannot be read, ``simulated`` is 1 if any node is.
    ``memory_of_limit`` is the use of a limit that bounds all of the memory, or of a node's whole:
    that of pods together is also of those without a limit.
    """

    labels: Labels
    core: float | None = None
    core_limit: float | None = None
    memory: float | None = None
    memory_total: float | None = None
    watts: float | None = None
    gpus: float | None = None
    lost: float | None = None
    pods: float | None = None
    nodes: float | None = None
    namespaces: float | None = None
    unattributed: float | None = None
    simulated: float | None = None
    memory_of_limit: float | None = None

    @property
    def of_whole(self) -> "Sums":
        """The same, where ``memory_total`` is all that the cards have."""
        return replace(self, memory_of_limit=of_limit(self.memory, self.memory_total))


def namespace_key(labels: Labels) -> Key:
    """The key of a namespace's line."""
    own = label({**labels, "__name__": "mgpu_pod_info"}, "namespace")
    return ("", "namespaces", labels.get("cluster", ""), own)


@dataclass(frozen=True, slots=True)
class FleetFigures:
    """The sums of a fleet: of all, of its largest nodes and namespaces.

    ``pods`` are the largest of each namespace that is open, by its key; ``found`` the nodes of pods
    that have the filter in their name; ``down`` the nodes of sources that are, with the source.
    ``remark`` says of when the namespaces' figures are; all others are of ``unix_s``.
    """

    totals: Sums
    nodes: Sequence[Sums] = ()
    namespaces: Sequence[Sums] = ()
    pods: Mapping[Key, Sequence[Sums]] = field(default_factory=dict)
    found: Sequence[Sums] = ()
    down: Sequence[tuple[str, str]] = ()
    remark: str = ""
    unix_s: float = 0.0


def lines_of_fleet(fleet: FleetFigures, opened: Mapping[str, Sequence[Line]]) -> tuple[Line, ...]:
    """The largest namespaces and nodes; ``opened`` are the lines of nodes that were read."""
    below: dict[str, list[Line]] = defaultdict(list)
    for name, lines in opened.items():  # behind a place stands how two targets of it differ
        below[name.partition(" (")[0]] += lines
    nodes = [_node(one, below) for one in fleet.nodes]
    found = [_places("nodes", nodes, fleet.totals.nodes)]
    if fleet.namespaces:
        every = [_namespace(one, fleet) for one in fleet.namespaces]
        found.insert(0, _places("namespaces", every, fleet.totals.namespaces, fleet.remark))
    return tuple(found)


def totals_of_fleet(fleet: FleetFigures) -> Totals:
    """The sums over all nodes, or over all pods of a namespace."""
    of = fleet.totals
    lost = round(of.lost or 0)
    return Totals(
        gpus=max(round(of.gpus or 0) - lost, 0),
        lost=lost,
        core=of.core,
        memory=of.memory,
        memory_total=of.memory_total,
        watts=of.watts,
        unattributed=of.unattributed,
    )


def troubles_of_fleet(fleet: FleetFigures) -> Iterator[str]:
    """The sources that are down, by node."""
    for place, source in fleet.down:
        yield f"{clean(place)}: source {clean(source)} is down"


def _places(what: str, lines: Sequence[Line], of: float | None, remark: str = "") -> Line:
    count = round(of or 0)
    least = "; more: a, or a part of a name: /" if count > len(lines) else ""
    name = f"{what}, the largest of {count:,}{least}" if count > len(lines) else what
    details = (("figures", remark),) if remark else ()
    return Line(("", what), LineKind.PLACES, name, children=tuple(lines), details=details)


def _node(of: Sums, below: Mapping[str, Sequence[Line]]) -> Line:
    place, lost = clean(place_of(of.labels)), round(of.lost or 0)
    counts = (("GPUs", of.gpus), ("pods", of.pods))
    said = f"{plural(lost, 'GPU')} of it cannot be read: open the node for why"
    children = (
        replace(one, name=one.name.removeprefix(f"{place} ")) for one in below.get(place, ())
    )
    return replace(
        _summed(of, (place,), LineKind.NODE, place),
        children=tuple(children),
        gpus=of.gpus or 1.0,
        watts=of.watts,
        marks=(Mark(MarkKind.UNREADABLE, said),) if lost else (),
        details=tuple((name, f"{count:.0f}") for name, count in counts if count is not None),
    )


def _namespace(of: Sums, fleet: FleetFigures) -> Line:
    key = namespace_key(of.labels)
    name = clean("/".join(filter(None, key[-2:])))
    children = tuple(_pod(one, key) for one in fleet.pods.get(key, ()))
    details = () if of.pods is None else (("pods", f"{of.pods:.0f}"),)
    line = _summed(of, key, LineKind.NAMESPACE, name)
    return replace(line, children=children, details=details)


def _pod(of: Sums, above: Key) -> Line:
    labels = {**of.labels, **_POD}
    place, pod = place_of(labels), label(labels, "pod")
    name = clean(f"{label(labels, 'namespace')}/{pod}")
    line = _summed(of, (*above, place, pod), LineKind.POD, name)
    return replace(line, unread=False, details=(("node", clean(place)),))


def _summed(of: Sums, key: Key, kind: LineKind, name: str) -> Line:
    # Of its core no use of a share is known: some may have none, others may take more than theirs.
    core = Figure(of.core, of.core_limit, "" if of.core is not None else NOT_REPORTED)
    why = "" if of.memory is not None else NOT_REPORTED
    memory = Figure(of.memory, of.memory_total, why, of.memory_of_limit)
    return Line(key, kind, name, core, memory, unread=True)
