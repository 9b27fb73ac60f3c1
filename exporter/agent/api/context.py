"""What the documents are made from: parts of a Snapshot, as far as a client may see them.

Use by everybody else is one sum for each device, ``others``, without names or numbers of owners, so
that the parts of a device still add up to the whole.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

from exporter.agent.api.fields import Json
from exporter.agent.api.figures import FigureWriter
from exporter.agent.facts.history import Past
from exporter.metrics.families import FAMILIES, Family
from exporter.metrics.levelfacts import labelled
from exporter.model import (
    OTHERS,
    ContainerHolding,
    ContainerKey,
    DeviceFacts,
    GroupHolding,
    GroupKey,
    History,
    PodFacts,
    PodName,
    Snapshot,
    Unattributed,
)
from exporter.shown.processtree import processes_of, unattributed_core
from exporter.shown.tree import (
    Others,
    Processes,
    UnattributedEntry,
    by_owner,
    ended_core,
    tree_of,
    unattributed_entries,
    visible_to,
)

MINUTE_NS = 60 * 10**9
SUMMED = ("core_utilization_ratio", "memory_used_bytes")
_WAITED = "core_waiting_on_seconds_total"


@dataclass(frozen=True, slots=True)
class About:
    """The facts of a document that are not in the Snapshot. ``node`` is "" if it is not known.

    Of a stale Snapshot, a document has only the sources and the exporter.
    """

    node: str = ""
    window_ns: int = 0
    families: Sequence[Family] = FAMILIES


class PodParts(NamedTuple):
    """A pod: what is known of it, and what its containers hold."""

    namespace: str
    pod: str
    facts: PodFacts | None
    holdings: Sequence[ContainerHolding]

    @property
    def ended(self) -> bool:
        """Whether it has ended."""
        return (self.facts is None or self.facts.ended) and all(h.ended for h in self.holdings)

    @property
    def containers(self) -> Iterable[tuple[str, Sequence[ContainerHolding]]]:
        """The names of its containers with what they hold."""
        found: dict[str, list[ContainerHolding]] = defaultdict(list)
        for held in self.holdings:
            found[held.owner.container].append(held)
        return found.items()


class Points(NamedTuple):
    """The past of a device, or of a container or a group on it; the newest point is the last."""

    level: str
    labels: Sequence[str]
    core: Sequence[float | None]
    memory: Sequence[float | None]


class Context:
    """What a document is made from; ``shown`` is empty if the Snapshot is stale.

    ``namespaces``: those that the client may see; None stands for all of the node.
    """

    def __init__(
        self, of: Snapshot, about: About, age_ns: int, namespaces: Collection[str] | None
    ) -> None:
        self.namespaces = namespaces
        self.snapshot = of
        self.about = about
        # A Snapshot is made each second, its figures are read each few seconds: both ages count.
        self.age_s = round((max(age_ns, 0) + of.figures_age_ns) / 1e9, 3)
        self.stale = age_ns > of.stale_after_ns
        # A figure that stands still reads as idle, so a stale Snapshot has none to show.
        self.shown = Snapshot() if self.stale else of
        self.figures = FigureWriter(about.families)
        self.wanted: PodName | None = None  # the one pod of a document, if it has one
        self.minutes = 0

    def sees(self, namespace: str) -> bool:
        """Whether the client may see a namespace."""
        return self.namespaces is None or namespace in self.namespaces

    def seen(self, name: str, figure: Any) -> Any:  # noqa: ANN401 - of any figure
        """A figure as the client may see it: who was waited for has a name if it is seen too."""
        if name != _WAITED or self.namespaces is None:
            return figure
        # A pod may have waited for another tenant's pod. Its time stays, as one sum: without it
        # the waiting would not add up.
        named = [each for each in figure if self.sees(each["by_namespace"])]
        hidden = [each["value"] for each in figure if not self.sees(each["by_namespace"])]
        others = {"by_namespace": "", "by_pod": OTHERS.kind, "value": sum(hidden)}
        return [*named, others] if hidden else named

    @cached_property
    def processes(self) -> Processes:
        """The processes by owner, or by why they have none, and device."""
        return by_owner(processes_of(self.shown))

    @property
    def devices(self) -> Sequence[DeviceFacts]:
        """All devices, by their number."""
        return sorted(self.shown.facts.devices, key=lambda device: (device.index, device.uuid))

    @cached_property
    def pods(self) -> Sequence[PodParts]:
        """The pods by name, or the one that is wanted."""
        holdings: dict[PodName, list[ContainerHolding]] = defaultdict(list)
        for _, held in labelled(self.shown.facts, "container"):
            holdings[held.owner.pod_name].append(held)
        facts = {(pod.namespace, pod.name): pod for pod in self.shown.facts.pods}
        # A pod that has ended holds something for a while and has no facts; a new one has facts and
        # holds nothing yet.
        names = sorted(name for name in facts.keys() | holdings.keys() if self.sees(name[0]))
        wanted = [name for name in names if self.wanted in {None, name}]
        return [PodParts(*name, facts.get(name), holdings[name]) for name in wanted]

    @property
    def groups(self) -> Iterable[Sequence[GroupHolding]]:
        """What each group holds; none for who sees some namespaces."""
        found: dict[GroupKey, list[GroupHolding]] = defaultdict(list)
        for _, held in labelled(self.shown.facts, "group"):
            found[held.owner].append(held)
        return found.values() if self.namespaces is None else ()

    def sums(self, level: str) -> Iterable[tuple[tuple[str, ...], object]]:
        """The use of each device by a namespace; or by a kind of group, for who sees all."""
        for labels, fact in labelled(self.shown.facts, level):
            if self.namespaces is None or (level == "namespace" and self.sees(labels[0])):
                yield labels, fact

    def others(self, device: DeviceFacts) -> Json | None:
        """What runs on a device and is not seen, in sums; a sum is absent if a part lacks it."""
        # A sum is the rest of the device's own figure. Where that is not known, no rest is.
        if self.namespaces is None or "utilization_ratio" not in self.figures.of("device", device):
            return None
        sums = self._others.get(device.uuid)
        named = zip(SUMMED, sums or (), strict=False)
        return {name: amount for name, amount in named if amount is not None}

    @cached_property
    def _others(self) -> Mapping[str, Others | None]:
        tree = visible_to(tree_of(self.shown.facts), self.namespaces or ())
        return {device.uuid: device.others for device in tree.devices}

    def ended(self, device: DeviceFacts) -> float | None:
        """What used the core of a device lately and has ended, as far as it is seen; or None."""
        return self._ended.get(device.uuid)

    @cached_property
    def _ended(self) -> Mapping[str, float]:
        return ended_core(
            held
            for held in self.shown.facts.holdings
            if self.namespaces is None
            or (isinstance(held.owner, ContainerKey) and self.sees(held.owner.namespace))
        )

    @property
    def series(self) -> Iterable[Points]:
        """The last minutes of all series."""
        # What was measured stays true while the newest Snapshot is stale.
        past = self.snapshot.history
        if self.namespaces is not None:
            past = restricted_past(past, self.namespaces)
        numbers = {device.uuid: str(device.index) for device in self.snapshot.facts.devices}
        for key, points in Past(past, self.minutes * MINUTE_NS // past.step_ns).items():
            level = "container" if isinstance(key.owner, ContainerKey) else "group"
            # The newest point is some seconds old: since then a device may have gone.
            labels = [*(key.owner or ()), numbers.get(key.uuid, ""), key.uuid]
            yield Points("device" if key.owner is None else level, labels, *points.values())

    @cached_property
    def _nobody(self) -> Mapping[str, Mapping[Unattributed, float]]:
        return {each.device_uuid: unattributed_core(each) for each in self.shown.tenants}

    def unattributed(self, device: DeviceFacts) -> Sequence[UnattributedEntry]:
        """A device's unattributed use by reason, with the processes behind it."""
        return unattributed_entries(device, self.processes, self._nobody.get(device.uuid, {}))


def restricted_past(past: History, namespaces: Collection[str]) -> History:
    """A history with the series of these namespaces and of the devices, and no others."""
    series = {
        key: place
        for key, place in past.series.items()
        if key.owner is None
        or (isinstance(key.owner, ContainerKey) and key.owner.namespace in namespaces)
    }
    return replace(past, series=series, ended={})
