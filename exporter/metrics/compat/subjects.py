"""The devices, containers and pods of a snapshot that names of other exporters are about.

``Alias`` is a row of a program's table: a name, its labels and the function that returns its value.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from exporter.metrics.families import FAMILIES
from exporter.metrics.levelfacts import labelled_facts
from exporter.model import (
    ContainerHolding,
    ContainerKey,
    DeviceFacts,
    Number,
    PodFacts,
    Snapshot,
)

_FAMILIES = {(family.level, family.name): family for family in FAMILIES}
SPLIT = {
    "core_utilization_ratio": "utilization_ratio",
    "memory_used_bytes": "memory_used_bytes",
    "memory_active_ratio": "memory_active_ratio",
    "encoder_utilization_ratio": "encoder_utilization_ratio",
    "decoder_utilization_ratio": "decoder_utilization_ratio",
}
"""What is split by container on a shared device: a container's value → the device's."""

UIDS = ("pod_uid", "uid")
"""The names under which a pod's UID can be asked for: dcgm-exporter's and OpenCost's."""

_SUMMED = ("core_utilization_ratio", "memory_used_bytes", "core_limit_ratio", "memory_limit_bytes")


@dataclass(frozen=True, slots=True)
class CompatSubject:
    """A device, container or pod with its facts, which were measured at ``unix_ns``.

    ``fact`` is None where ``extra`` has all that is known.
    """

    level: str
    labels: Mapping[str, str]
    fact: DeviceFacts | ContainerHolding | PodFacts | None
    unix_ns: int
    extra: Mapping[str, Number] = field(default_factory=dict)

    def value(self, name: str, *key: str) -> float | None:
        """A value in base units; None if it is not known."""
        if name in self.extra:
            return self.extra[name]
        family = _FAMILIES.get((self.level, name))
        if family is None or self.fact is None:
            return None
        numbers = (number for own, number in family.samples(self.fact) if own == key)
        number = next(numbers, None)
        return None if number is None else number / family.divisor


class Subjects:
    """All subjects of one snapshot by kind. ``node`` is the value of labels that name the host.

    ``uids``: those of UIDS under which containers have their pod's UID. ``rates``: what else is
    known of each device, by its UUID.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        node: str,
        uids: Collection[str] = (),
        rates: Mapping[str, Mapping[str, float]] = MappingProxyType({}),
    ) -> None:
        self._unix_ns = snapshot.unix_ns
        self._node = node
        pods = snapshot.facts.pods
        self._uids = {(p.namespace, p.name): p.info.uid for p in pods if p.info}
        self._uid_labels = uids
        # Containers take labels from their devices, and parts of a device from its containers: so
        # the order is devices, containers, then all that is made of both.
        devices = _on_boards([self._device(fact) for _, fact in labelled_facts(snapshot, "device")])
        devices = [
            replace(d, extra={**d.extra, **rates.get(d.labels["uuid"], {})}) for d in devices
        ]
        self._infos = {device.labels["uuid"]: device.labels for device in devices}
        self._grouped = {
            group.uuid for group in snapshot.facts.groups if group.memory.processes is not None
        }
        containers = self._containers(snapshot.facts.containers)
        self._node_figures = {
            "node_gpus": sum(not device.labels["parent_uuid"] for device in devices),
            "node_memory_bytes": sum(d.value("memory_total_bytes") or 0 for d in devices),
        }
        self.of: dict[str, list[CompatSubject]] = {
            "device": [_with_holder(device, containers) for device in devices],
            "holder": [part for device in devices for part in self._parts(device, containers)],
            "container": containers,
            "task": self._tasks(containers),
            "allocation": self._allocations(snapshot.facts.containers),
            "pod": [self._pod(fact) for _, fact in labelled_facts(snapshot, "pod")],
        }

    def _device(self, fact: DeviceFacts) -> CompatSubject:
        device, gpu = fact.device, str(fact.index)
        instance = device.gpu_instance
        labels = {
            "node": self._node,
            "gpu": gpu,
            "uuid": fact.uuid,
            "device": f"{device.vendor}{gpu}",
            "vendor": device.vendor,
            "model": device.model,
            "pci": device.pci_bus_id,
            "parent_uuid": device.parent_uuid,
            "profile": device.profile,
            "sharing": device.sharing,
            "driver": device.driver_version,
            "gpu_instance": "" if instance is None else str(instance),
            "type": f"{device.vendor.upper()}-{device.model}",
            "board_gpu": gpu,
            "board_uuid": fact.uuid,
        }
        return CompatSubject("device", labels, fact, self._unix_ns)

    def _containers(self, facts: Iterable[ContainerHolding]) -> list[CompatSubject]:
        """Containers on their current devices, each device numbered within its container."""
        found: list[CompatSubject] = []
        positions: dict[ContainerKey, int] = {}
        for fact in sorted(facts, key=lambda one: (one.owner, one.index or 0, one.uuid)):
            # One that has ended has counters only, which other exporters do not have.
            is_live = fact.memory.processes is not None or fact.allocation.core is not None
            if fact.uuid not in self._infos or not is_live:
                continue
            namespace, pod, container = fact.owner
            place = positions[fact.owner] = positions.get(fact.owner, -1) + 1
            labels = {"namespace": namespace, "pod": pod, "container": container}
            gpu = str(fact.index)
            labels |= {**self._infos[fact.uuid], "gpu": gpu, "place": str(place)}
            labels |= {"card": f"gpu{gpu}"}
            labels |= dict.fromkeys(self._uid_labels, self._uids.get((namespace, pod), ""))
            found.append(CompatSubject("container", labels, fact, self._unix_ns))
        return found

    def _parts(
        self, device: CompatSubject, containers: Iterable[CompatSubject]
    ) -> Iterable[CompatSubject]:
        """A shared device's usage by container, and the rest if all parts are known.

        A device with one container and no group belongs to it as a whole, as in other exporters.
        """
        uuid = device.labels["uuid"]
        here = [c for c in containers if c.labels["uuid"] == uuid]
        left = {part: device.value(whole) for part, whole in SPLIT.items()}
        rest = _with_holder(device, here)
        if len(here) > 1 or (here and uuid in self._grouped):
            # A rest of which a part is not known would be too large: then there is none.
            yield from here
            rest = device
            for name, whole in left.items():
                parts = _all(container.value(name) for container in here)
                left[name] = None if whole is None or parts is None else max(0, whole - sum(parts))
        extra = {name: figure for name, figure in left.items() if figure is not None}
        yield replace(rest, fact=None, extra=extra)

    def _tasks(self, containers: Iterable[CompatSubject]) -> list[CompatSubject]:
        """Containers, summed over their devices. A sum with an unknown part is not known."""
        groups: dict[tuple[str, str, str], list[CompatSubject]] = {}
        for container in containers:
            labels = container.labels
            key = (labels["namespace"], labels["pod"], labels["container"])
            groups.setdefault(key, []).append(container)
        tasks = []
        for (namespace, pod, name), parts in groups.items():
            labels = {"node": self._node, "namespace": namespace, "pod": pod, "container": name}
            known = {figure: _all(part.value(figure) for part in parts) for figure in _SUMMED}
            sums = {figure: sum(values) for figure, values in known.items() if values is not None}
            tasks.append(CompatSubject("container", labels, None, self._unix_ns, sums))
        return tasks

    def _allocations(self, facts: Iterable[ContainerHolding]) -> list[CompatSubject]:
        """What containers are allocated, in use or not, summed over their devices.

        What is only known of a pod as a whole is left out.
        """
        gpus: dict[ContainerKey, float] = {}
        for fact in facts:
            if fact.owner.container and fact.allocation.gpus is not None:
                gpus[fact.owner] = gpus.get(fact.owner, 0.0) + fact.allocation.gpus
        found = []
        for (namespace, pod, name), sum_of in sorted(gpus.items()):
            labels = {"node": self._node, "namespace": namespace, "pod": pod, "container": name}
            labels["uid"] = self._uids.get((namespace, pod), "")
            extra = {"allocated_gpus": sum_of}
            found.append(CompatSubject("container", labels, None, self._unix_ns, extra))
        return found

    def _pod(self, fact: PodFacts) -> CompatSubject:
        labels = {"node": self._node, "namespace": fact.namespace, "pod": fact.name}
        return CompatSubject("pod", labels, fact, self._unix_ns, self._node_figures)


def _all(figures: Iterable[float | None]) -> list[float] | None:
    """All values; None if one is not known."""
    found = list(figures)
    known = [figure for figure in found if figure is not None]
    return known if len(known) == len(found) else None


def _on_boards(devices: Sequence[CompatSubject]) -> list[CompatSubject]:
    """The devices with the labels of their boards; each part has a number of its own there."""
    by_uuid = {device.labels["uuid"]: device for device in devices}
    found, numbers = [], set()
    for device in devices:
        board = by_uuid.get(device.labels["parent_uuid"])
        if board is None:
            found.append(device)
            continue
        uuid = board.labels["uuid"]
        number = device.labels["gpu_instance"]
        # Two compute instances of one GPU instance have its number. Two series of one page must not
        # have the same labels.
        if not number or (uuid, number) in numbers:
            number = device.labels["uuid"]
        numbers.add((uuid, number))
        whose = {"board_gpu": board.labels["gpu"], "board_uuid": uuid, "gpu_instance": number}
        found.append(replace(device, labels={**device.labels, **whose}))
    return found


_HOLDER = ("namespace", "pod", "container", *UIDS)


def _with_holder(device: CompatSubject, containers: Iterable[CompatSubject]) -> CompatSubject:
    """The device with the labels of its container, if it has exactly one."""
    here = [c for c in containers if c.labels["uuid"] == device.labels["uuid"]]
    if len(here) != 1:
        return device
    holder = {name: here[0].labels[name] for name in _HOLDER if name in here[0].labels}
    return replace(device, labels={**device.labels, **holder})


PERCENT = 100

Figure = Callable[[CompatSubject], float | None]


@dataclass(frozen=True, slots=True)
class Alias:
    """One family of another exporter.

    ``subject`` is what has a series: ``device``, ``holder`` (one container's part of a device, or
    the rest), ``container`` (on one device), ``task`` (a container over all its devices),
    ``allocation`` (all that a container is allocated) or ``pod``. ``labels`` maps the label's name
    to the subject's label with its value, or to a text that starts with "=". ``figure`` returns
    the value, None if it is not known.
    """

    name: str
    help: str
    subject: str
    labels: Mapping[str, str]
    figure: Figure
    type: str = "gauge"


@dataclass(frozen=True, slots=True)
class of:  # noqa: N801 - reads as a word in the tables
    """A value of the subject in base units, times a factor.

    ``key`` is the value of the family's own label.
    """

    name: str
    key: str = ""
    times: float = 1
    per: float = 1

    def __call__(self, subject: CompatSubject) -> float | None:
        """The value; None if it is not known."""
        value = subject.value(self.name, *filter(None, [self.key]))
        return None if value is None else value * self.times / self.per


@dataclass(frozen=True, slots=True)
class quotient:  # noqa: N801 - reads as a word in the tables
    """One value of the subject divided by another."""

    part: str
    whole: str
    times: float = 1

    def __call__(self, subject: CompatSubject) -> float | None:
        """The quotient; None if one of the two is not known or the whole is 0."""
        above, below = subject.value(self.part), subject.value(self.whole)
        return None if above is None or not below else above / below * self.times


@dataclass(frozen=True, slots=True)
class per:  # noqa: N801 - reads as a word in the tables
    """Another figure in a unit that has ``unit`` base units."""

    figure: Figure
    unit: float

    def __call__(self, subject: CompatSubject) -> float | None:
        """The value; None if it is not known."""
        value = self.figure(subject)
        return None if value is None else value / self.unit
