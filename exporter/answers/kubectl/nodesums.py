"""The sums of nodes that are read one after the other, and what of them fits a screen. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from exporter.answers.reading.feeds import NodeSight
from exporter.answers.reading.feeds.feed import totals_of_devices, totals_of_pods
from exporter.answers.reading.feeds.fleetlines import FleetFigures, Look, Sums, namespace_key
from exporter.answers.reading.feeds.overview import Key, SortKey, ranked
from exporter.answers.reading.queryapi import label, place_of
from exporter.model import sum_of_known
from exporter.shown.tree import Figures, PodEntry, Tree

_MOST_FOUND = 4  # nodes that a filter opens, for a pod on them
_MOST_LOST = 10  # nodes with lost cards, which are shown however little they use
_POD = {"__name__": "mgpu_pod_info"}  # a family that has the labels of pods
REMARK = "of now, as the nodes were read"


@dataclass(frozen=True, slots=True)
class NodeSums:
    """What is kept of a node: its sums and those of its pods. ``cards``: the UUIDs that it shows.

    ``troubles``: what is wrong with its sources.
    """

    of: Sums
    pods: Sequence[Sums]
    cards: AbstractSet[str]
    unix_s: float = 0.0
    troubles: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """The node's name."""
        return place_of(self.of.labels)

    def has(self, needle: str) -> bool:
        """Whether its name, or that of a pod on it, has this text."""
        return needle in self.place.casefold() or any(_has(one, needle) for one in self.pods)


def sums_of(node: NodeSight, namespace: str = "") -> NodeSums:
    """The sums of a node; of one namespace those of its pods, which alone are in the tree."""
    devices, labels = node.tree.devices, {"node": node.name}
    totals = totals_of_pods([devices]) if namespace else totals_of_devices([devices])
    pods = list(_pods(node.tree, labels))
    limits = [device.facts.allocated.core for device in devices if device.facts is not None]
    of = Sums(
        labels,
        core=totals.core,
        core_limit=sum_of_known([one.core_limit for one in pods] if namespace else limits),
        memory=sum_of_known(one.memory for one in pods) if namespace else totals.memory,
        memory_total=totals.memory_total,
        watts=totals.watts,
        # The totals have the lost ones apart. A node has them all the same.
        gpus=totals.gpus + totals.lost,
        lost=totals.lost,
        pods=len(pods),
        unattributed=totals.unattributed,
        simulated=float(node.simulated),
    )
    return NodeSums(
        of if namespace else of.of_whole,
        pods,
        {device.uuid for device in devices},
        node.unix_ns / 1e9,
        node.troubles,
    )


def _pods(tree: Tree, labels: Mapping[str, str]) -> Iterator[Sums]:
    """The sums of each pod over all devices."""
    found: dict[tuple[str, str], list[PodEntry]] = defaultdict(list)
    entries = (one for some in (*(d.pods for d in tree.devices), tree.nowhere) for one in some)
    for entry in entries:
        if not entry.ended:
            found[entry.namespace, entry.pod].append(entry)
    for (namespace, pod), parts in found.items():
        over_all = parts[0].over_all
        figures: Iterable[Figures] = (
            [over_all] if over_all is not None else [one.figures for one in parts]
        )
        columns = [
            (one.core, one.core_limit, one.memory_bytes, one.memory_limit_bytes) for one in figures
        ]
        core, core_limit, memory, memory_total = map(sum_of_known, zip(*columns, strict=True))
        named = {**labels, "namespace": namespace, "pod": pod}
        full = None if over_all is None else over_all.memory_of_limit
        yield Sums(named, core, core_limit, memory, memory_total, memory_of_limit=full)


def fleet_of(kept: Sequence[NodeSums], look: Look, every: int, namespace: str = "") -> FleetFigures:
    """What the screen shows of the nodes that were read; ``every``: of how many."""
    needle = look.needle.casefold()
    by_name: dict[Key, list[Sums]] = defaultdict(list)
    for pod in (pod for node in kept for pod in node.pods):
        by_name[namespace_key(pod.labels)].append(pod)
    spaces = [_sum(key[-1], pods) for key, pods in by_name.items() if needle in key[-1].casefold()]
    nodes = [node.of for node in kept if node.has(needle)]
    rows = _largest(nodes, look.by, look.rows)
    rows += [one for one in nodes if one.lost and one not in rows][:_MOST_LOST]
    found = [one.of for one in with_pods(kept, needle)] if needle else []
    rows += [one for one in found if one not in rows]
    most = look.rows if look.all else max(look.rows // 3, 8)
    total = _sum("", [node.of for node in kept])
    return FleetFigures(
        totals=Sums(
            {},
            *(total.core, total.core_limit, total.memory, total.memory_total, total.watts),
            *(total.gpus, total.lost, sum(len(node.pods) for node in kept), every, len(by_name)),
            *(total.unattributed, total.simulated),
        ),
        nodes=rows,
        namespaces=[] if namespace else _largest(spaces, look.by, most),
        pods={
            key: _largest(pods, look.by, look.rows)
            for key, pods in by_name.items()
            if key in look.opened
        },
        remark=REMARK,
        unix_s=max((node.unix_s for node in kept), default=0.0),
    )


def with_pods(kept: Iterable[NodeSums], needle: str) -> list[NodeSums]:
    """The nodes that have most pods with this text in their names."""
    text = needle.casefold()
    counted = [(sum(_has(pod, text) for pod in node.pods), node) for node in kept]
    order = sorted((one for one in counted if one[0]), key=lambda one: (-one[0], one[1].place))
    return [node for _, node in order[:_MOST_FOUND]]


def _has(pod: Sums, text: str) -> bool:
    named = {**pod.labels, **_POD}
    return any(text in label(named, name).casefold() for name in ("namespace", "pod"))


def _sum(namespace: str, parts: Sequence[Sums]) -> Sums:
    """The sum of what is known of some parts."""

    def of(name: str) -> float | None:
        return sum_of_known(getattr(one, name) for one in parts)

    return Sums(
        {"namespace": namespace},
        core=of("core"),
        core_limit=of("core_limit"),
        memory=of("memory"),
        memory_total=of("memory_total"),
        watts=of("watts"),
        gpus=of("gpus"),
        lost=of("lost"),
        pods=float(len(parts)),
        unattributed=of("unattributed"),
        simulated=max((one.simulated or 0.0 for one in parts), default=0.0),
    )


def _largest(rows: Iterable[Sums], by: SortKey, most: int) -> list[Sums]:
    """The largest rows, by memory or by core."""
    name = "memory" if by is SortKey.MEMORY else "core"

    def order(one: Sums) -> tuple[float, list[tuple[str, str]]]:
        return -ranked(getattr(one, name) or 0.0), sorted(one.labels.items())

    return sorted(rows, key=order)[:most]
