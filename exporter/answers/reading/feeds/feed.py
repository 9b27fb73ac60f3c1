"""The Protocol of all feeds, and the overview of what a feed brings."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol, runtime_checkable

from exporter.answers.reading.feeds.details import ProcessCommand
from exporter.answers.reading.feeds.fleetlines import (
    FleetFigures,
    Look,
    lines_of_fleet,
    totals_of_fleet,
    troubles_of_fleet,
)
from exporter.answers.reading.feeds.nodelines import NodeContext, lines_of
from exporter.answers.reading.feeds.overview import Line, Overview, Past, Totals
from exporter.model import SeriesKey, Snapshot, cards_of, counted_in_sums, sum_of_all, sum_of_known
from exporter.shown.kinds import is_off_kubernetes
from exporter.shown.marks import Earlier
from exporter.shown.printable import clean
from exporter.shown.tree import DeviceEntry, Others, Tree, visible_to


@dataclass(frozen=True, slots=True)
class NodeSight:
    """One node at one moment. ``name`` is "" if it is not known; texts are as somebody wrote them.

    ``past`` is the core of the last minutes, ``commands`` are by pid.
    ``sources`` are the names of the exporter's sources, ``troubles`` what is wrong with them.
    ``earlier`` are its devices some seconds before.
    """

    tree: Tree
    name: str = ""
    unix_ns: int = 0
    simulated: bool = False
    sources: tuple[str, ...] = ()
    troubles: tuple[str, ...] = ()
    past: Mapping[SeriesKey, Past] = field(default_factory=dict)
    commands: Mapping[int, ProcessCommand] = field(default_factory=dict)
    earlier: Mapping[str, Earlier] = field(default_factory=dict)


class FeedResult(NamedTuple):
    """What a feed brings. ``namespace``: only its pods are known; "" stands for all.

    Of a ``fleet`` the nodes are those that are open. ``is_part``: there are other nodes.
    """

    nodes: Sequence[NodeSight] = ()
    troubles: tuple[str, ...] = ()
    namespace: str = ""
    fleet: FleetFigures | None = None
    is_part: bool = False


class Feed(Protocol):
    """A source of what is known of nodes. Not thread-safe, except ``close``."""

    @property
    def name(self) -> str:
        """The source's name for readers."""
        ...

    def read(self) -> FeedResult:
        """The newest facts. May take some seconds.

        Raises:
            NoAnswerError: nothing can be read.

        """
        ...

    def close(self) -> None:
        """Releases everything. A read in progress ends soon."""
        ...


@runtime_checkable
class GuidedFeed(Feed, Protocol):
    """A feed that brings what the screen shows, where all would be too much."""

    def look(self, look: Look) -> None:
        """Says what the screen shows. Any thread may."""
        ...

    def parts(self) -> Iterator[FeedResult]:
        """All there is, a few nodes after the others; raises as ``read`` does."""
        ...


class NodeFeed(Feed, Protocol):
    """The feed of the node that a command runs on, which is measured meanwhile."""

    @property
    def window_ns(self) -> int:
        """How long the window is that averages are of."""
        ...

    @property
    def snapshot(self) -> Snapshot:
        """The newest Snapshot."""
        ...

    @property
    def document(self) -> Mapping[str, Any]:
        """The newest Snapshot as ``/api/v1/snapshot`` has it."""
        ...

    @property
    def metrics(self) -> bytes:
        """The newest Snapshot as the metrics page has it."""
        ...

    def read(self, after: int = 0) -> FeedResult:
        """The newest facts. Waits for a Snapshot that is newer than this version.

        Raises:
            NoAnswerError: nothing can be read.

        """
        ...


class OwnNode(Protocol):
    """The node that a command runs on: the agent's code, as a plug of the answers."""

    @property
    def telemetry_path(self) -> str:
        """The path of the metrics page, which is likely that of another exporter too."""
        ...

    def open(self, *, commands: bool = False) -> NodeFeed:
        """Begins to measure this node. With ``commands`` processes have their command lines.

        Raises:
            NoAnswerError: it cannot be measured.

        """
        ...


class NamespaceFeed:
    """Another feed as somebody sees it who looks at one namespace: its pods, and their GPUs.

    Implements ``Feed``. What all others use of these GPUs is one sum. Of several nodes, those that
    have nothing of it and no trouble are left out.
    """

    def __init__(self, feed: Feed, namespace: str) -> None:
        self._feed = feed
        self._namespace = namespace

    @property
    def name(self) -> str:
        """That of the other feed."""
        return self._feed.name

    def read(self) -> FeedResult:
        """What the other feed brings, of this namespace."""
        result = self._feed.read()
        nodes = [of_namespace(node, self._namespace) for node in result.nodes]
        if len(nodes) > 1:
            nodes = [n for n in nodes if n.tree.devices or n.tree.nowhere or n.troubles]
        return FeedResult(nodes, result.troubles, self._namespace)

    def close(self) -> None:
        """Close the other feed."""
        self._feed.close()


def of_namespace(node: NodeSight, namespace: str) -> NodeSight:
    """A node as somebody sees it who looks at one namespace."""
    # What is hidden from this user anyway is one more part of what all others use.
    hidden = {each.uuid: each.others for each in node.tree.devices}
    tree = visible_to(node.tree, (namespace,))
    devices: list[DeviceEntry] = []
    for device in (device for device in tree.devices if device.pods):
        others, more = hidden[device.uuid], device.others
        if others is not None and more is not None:
            held = sum_of_all([others.memory_bytes, more.memory_bytes])
            core = sum_of_all([others.core, more.core])
            others = Others(core, None if held is None else round(held))
        devices.append(replace(device, others=others or more))
    return replace(node, tree=Tree(tuple(devices), tree.nowhere))


LONG_AGO_NS = 15 * 10**9  # longer than from one read of a board's sensors to the next


class Recollection:
    """Keeps devices as they were some seconds ago, for marks that compare two moments.

    They were read ``LONG_AGO_NS`` to twice as long before.
    """

    def __init__(self) -> None:
        self._kept: dict[str, tuple[int, dict[str, Earlier], dict[str, Earlier]]] = {}

    def add_to(self, result: FeedResult) -> FeedResult:
        """The same with ``earlier`` devices."""
        nodes: list[NodeSight] = []
        for node in result.nodes:
            now = {d.uuid: Earlier(d.facts, node.unix_ns) for d in node.tree.devices if d.facts}
            kept_ns, before, kept = self._kept.get(node.name, (node.unix_ns, {}, now))
            # Two generations are kept. The older one is compared with, so that the time between
            # is never shorter than ``LONG_AGO_NS``.
            if node.unix_ns - kept_ns >= LONG_AGO_NS:
                kept_ns, before, kept = node.unix_ns, kept, now
            self._kept[node.name] = kept_ns, before, kept
            nodes.append(replace(node, earlier=before))
        return result._replace(nodes=nodes)


def view_of(result: FeedResult, name: str) -> Overview:
    """All nodes in one view; their names are shown where there are several."""
    nodes, fleet = result.nodes, result.fleet
    several = len(nodes) > 1 or result.is_part or fleet is not None
    lines: dict[str, list[Line]] = defaultdict(list)  # by node
    for node in nodes:
        shown = clean(node.name) if several else ""
        lines[shown] += lines_of(
            node.tree, NodeContext(shown, node.unix_ns, node.past, node.commands, node.earlier)
        )
    said = [f"{clean(n.name)}: {t}" if several else t for n in nodes for t in n.troubles]
    if fleet is not None:
        return Overview(
            source=name,
            unix_s=fleet.unix_s,
            simulated=fleet.totals.simulated == 1,
            troubles=(*result.troubles, *dict.fromkeys((*troubles_of_fleet(fleet), *said))),
            lines=lines_of_fleet(fleet, lines),
            totals=totals_of_fleet(fleet),
            namespace=result.namespace,
            counted_pods=round(fleet.totals.pods or 0),
        )
    devices = [node.tree.devices for node in nodes]
    without_pods = [
        is_off_kubernetes(
            node.sources,
            has_pods=bool(node.tree.nowhere) or any(device.pods for device in node.tree.devices),
            has_groups=any(device.groups for device in node.tree.devices),
        )
        for node in nodes
    ]
    return Overview(
        source=clean(nodes[0].name) if len(nodes) == 1 and nodes[0].name else name,
        unix_s=max((node.unix_ns for node in nodes), default=0) / 1e9,
        simulated=any(node.simulated for node in nodes),
        troubles=(*result.troubles, *said),
        lines=tuple(line for some in lines.values() for line in some),
        totals=totals_of_pods(devices) if result.namespace else totals_of_devices(devices),
        namespace=result.namespace,
        without_pods=bool(nodes) and all(without_pods),
    )


def totals_of_devices(nodes: Sequence[Sequence[DeviceEntry]]) -> Totals:
    """The sums over the GPUs of all nodes. The parts of a GPU count as one GPU.

    One of which a part cannot be read counts as lost.
    """
    devices = [device for node in nodes for device in node]
    nobody = (each.core or 0.0 for device in devices for each in device.unattributed)
    known_nobody = (device.is_unattributed_known for device in devices)
    # Of each node by itself: cards of two nodes may have one UUID, which is a place.
    facts = [[one.facts for one in node if one.facts is not None] for node in nodes]
    counted = [one for some in facts for one in counted_in_sums(some)]
    core = sum_of_known(one.average.core for one in counted)
    lost = [cards_of(one for one in some if not one.is_up) for some in facts]
    read = [cards_of(some) - gone for some, gone in zip(facts, lost, strict=True)]
    measured = [cards_of(one for one in some if one.average.core is not None) for some in facts]
    return Totals(
        gpus=sum(map(len, read)),
        lost=sum(map(len, lost)),
        unmeasured=sum(len(some - those) for some, those in zip(read, measured, strict=True)),
        core=core,
        memory=sum_of_known(one.memory.used_bytes for one in counted),
        memory_total=sum_of_known(one.memory.total_bytes for one in counted),
        watts=sum_of_known(one.sensors.value("power_watts") for some in facts for one in some),
        unattributed=None if core is None or not any(known_nobody) else sum(nobody),
    )


def totals_of_pods(nodes: Sequence[Sequence[DeviceEntry]]) -> Totals:
    """The sums over the pods that are shown, on the GPUs that they are on, lost ones included."""
    used = [[one for one in node if any(not pod.ended for pod in one.pods)] for node in nodes]
    read = [
        device for node in used for device in node if device.facts is None or device.facts.is_up
    ]
    figures = [pod.figures for device in read for pod in device.pods if not pod.ended]
    cards = [{_card(one) for one in node} for node in used]
    lost = [
        {_card(one) for one in node if one.facts is not None and not one.facts.is_up}
        for node in used
    ]
    return Totals(
        gpus=sum(map(len, cards)),
        lost=sum(map(len, lost)),
        core=sum_of_all([each.core for each in figures]),
        memory=sum_of_all([each.memory_bytes for each in figures]),
        # Use without an owner is of no namespace.
        unattributed=None,
    )


def _card(of: DeviceEntry) -> str:
    return of.uuid if of.facts is None else of.facts.device.parent_uuid or of.uuid


def troubles_of(sources: Iterable[tuple[str, bool, str]], stale_s: float | None) -> Iterator[str]:
    """What is wrong with a node: sources that are down, by name, state and detail; its age."""
    if stale_s is not None:
        yield f"nothing has been measured for {stale_s:.0f} s: no stale figures are shown"
    for name, up, said in sources:
        if not up:
            yield f"source {clean(name)} is down: {clean(said) or 'no reason is given'}"
