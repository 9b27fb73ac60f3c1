"""One tree for people: device → pod → container → process, beside it groups and what is nobody's.

The page, the terminal and anything else that shows a node read it, so that all show the same::

    tree = tree_of_snapshot(snapshot)  # of ``shown.processtree``; as slow as ``snapshot.facts``
    tree = tree_of(facts, processes)  # of facts that were read from elsewhere
    tree = visible_to(tree, {"research"})  # for somebody who may see these namespaces only

    for device in tree.devices:  # by number; the parts of a board one after the other
        device.facts  # None where nothing is known of the device itself
        for pod in device.pods:  # its part on this device; by namespace and name
            pod.figures  # use, limits and ratios of the pod on this device
            pod.facts  # the pod over all devices
            for container in pod.containers:
                container.holding  # use, limits and ratios: fields of ``ContainerHolding``
                container.processes
        device.groups, device.unattributed, device.others
    tree.nowhere  # pods with an allocation whose device is not known, and no use that was seen

A field that is None is not known or does not apply; ``unmeasured`` of its holding says why. What
has ended has ``ended`` set and only counters: say "ended" there, not "unknown". An allocation of a
pod as a whole is no container: it is in ``unplaced``, and so are those of its containers whose
device is not known. Pure.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from exporter.model import (
    NO_AVERAGES,
    NO_HELD_MEMORY,
    NOTHING_USED,
    ContainerHolding,
    DeviceFacts,
    Facts,
    GroupHolding,
    Owner,
    PodFacts,
    PodName,
    Process,
    Unattributed,
    of_limit,
    sum_of_all,
    sum_of_known,
)

Processes = Mapping[tuple[Owner, str], Sequence[Process]]
"""Processes by owner, or by why they have none, and device."""

UnattributedCore = Mapping[str, Mapping[Unattributed, float]]
"""Shares of the core in use without an owner, by device and reason."""


class Figures(NamedTuple):
    """Use, limits and their ratios: core in whole GPUs, memory in bytes.

    ``may_borrow``: whether more of the core than the limit is allowed where it is free.
    """

    core: float | None = None
    core_limit: float | None = None
    core_of_limit: float | None = None
    memory_bytes: int | None = None
    memory_limit_bytes: float | None = None
    memory_of_limit: float | None = None
    may_borrow: bool = False

    @property
    def core_of_bound(self) -> float | None:
        """Its core use over its limit; None without one, and where more is allowed."""
        return None if self.may_borrow else self.core_of_limit


@dataclass(frozen=True, slots=True)
class ContainerEntry:
    """A container on a device. ``holding.owner.container`` is "" for all containers of its pod."""

    holding: ContainerHolding
    processes: tuple[Process, ...] = ()

    @property
    def figures(self) -> Figures:
        """Its use, limits and ratios."""
        held, allocation = self.holding, self.holding.allocation
        return Figures(
            core=held.average.core,
            core_limit=allocation.core,
            core_of_limit=held.core_of_limit,
            memory_bytes=held.memory.used_bytes,
            memory_limit_bytes=allocation.memory_bytes,
            memory_of_limit=held.memory_of_limit,
            may_borrow=allocation.may_borrow,
        )


@dataclass(frozen=True, slots=True)
class PodEntry:
    """A pod on a device. ``facts`` are those over all devices, None if they are not known.

    ``is_only_here``: it is on no other device, so that its figures are the pod's. ``unplaced``: its
    allocations that belong to none of the containers here. ``may_borrow``: whether the policy of
    any of its allocations, on all devices, lets it use more of the core than its share;
    ``is_allocated``: whether it has any, of whatever amount.
    """

    namespace: str
    pod: str
    facts: PodFacts | None = None
    containers: tuple[ContainerEntry, ...] = ()
    unplaced: tuple[ContainerHolding, ...] = ()
    is_only_here: bool = True
    may_borrow: bool = False
    is_allocated: bool = False

    @property
    def ended(self) -> bool:
        """Whether nothing of it is there any more."""
        return all(held.ended for held in self.holdings)

    @property
    def holdings(self) -> tuple[ContainerHolding, ...]:
        """All that it has of the device."""
        return (*(container.holding for container in self.containers), *self.unplaced)

    @property
    def figures(self) -> Figures:
        """Its use, limits and ratios on this device: the pod's own where it is on no other."""
        if self.is_only_here and self.over_all is not None:
            return self.over_all
        parts = [one.figures for one in self.containers if not one.holding.ended]
        # A ratio compares those that have a limit with their limits. Use without one is in the sums
        # only: with it, a pod would seem to be over a limit that it does not have.
        limited = [part for part in parts if part.core_limit is not None]
        bounded = [part for part in parts if part.memory_limit_bytes is not None]
        core_limit = sum_of_known(part.core_limit for part in limited)
        memory_limit = sum_of_known(part.memory_limit_bytes for part in bounded)
        return Figures(
            core=sum_of_all([part.core for part in parts]),
            core_limit=core_limit,
            core_of_limit=of_limit(sum_of_all([part.core for part in limited]), core_limit),
            memory_bytes=sum_of_all([part.memory_bytes for part in parts]),
            memory_limit_bytes=memory_limit,
            memory_of_limit=of_limit(
                sum_of_all([part.memory_bytes for part in bounded]), memory_limit
            ),
            may_borrow=any(part.may_borrow for part in parts),
        )

    @property
    def over_all(self) -> Figures | None:
        """Its use, limits and ratios over all devices; None if they are not known."""
        pod = self.facts
        if pod is None:
            return None
        return Figures(
            core=pod.core,
            core_limit=pod.core_limit,
            core_of_limit=pod.core_of_limit,
            memory_bytes=pod.memory_bytes,
            memory_limit_bytes=pod.memory_limit_bytes,
            memory_of_limit=pod.memory_of_limit,
            may_borrow=self.may_borrow,
        )


@dataclass(frozen=True, slots=True)
class GroupEntry:
    """A group on a device."""

    holding: GroupHolding
    processes: tuple[Process, ...] = ()

    @property
    def figures(self) -> Figures:
        """Its use. Nothing is allocated to it."""
        held = self.holding
        return Figures(core=held.average.core, memory_bytes=held.memory.used_bytes)


@dataclass(frozen=True, slots=True)
class UnattributedEntry:
    """What is in use without an owner, for one reason."""

    reason: Unattributed
    core: float | None = None
    memory_bytes: int | None = None
    processes: tuple[Process, ...] = ()


class Others(NamedTuple):
    """The use of a device by all that a reader may not see."""

    core: float | None = None
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class DeviceEntry:
    """A device with all that is on it. ``others`` is None where everything is shown.

    ``ended_core`` is what those used of the core lately that have ended, None if none is known to
    have. With it, the core of all parts is the device's. ``is_unattributed_known``: no entry is 0.
    """

    uuid: str
    facts: DeviceFacts | None = None
    pods: tuple[PodEntry, ...] = ()
    groups: tuple[GroupEntry, ...] = ()
    unattributed: tuple[UnattributedEntry, ...] = ()
    is_unattributed_known: bool = True
    others: Others | None = None
    ended_core: float | None = None


@dataclass(frozen=True, slots=True)
class Tree:
    """All devices of a node."""

    devices: tuple[DeviceEntry, ...] = ()
    nowhere: tuple[PodEntry, ...] = ()


class _Found(NamedTuple):
    """What is on one device, or on none that is known."""

    pods: dict[PodName, list[ContainerHolding]]
    groups: list[GroupHolding]


def by_owner(processes: Iterable[Process]) -> Processes:
    """The processes of each owner on each device."""
    found: dict[tuple[Owner, str], list[Process]] = defaultdict(list)
    for process in processes:
        found[process.owner, process.device_uuid].append(process)
    return found


def tree_of(
    facts: Facts,
    processes: Iterable[Process] = (),
    unattributed: UnattributedCore | None = None,
    others: Mapping[str, Others] | None = None,
    ended: Mapping[str, float] | None = None,
) -> Tree:
    """The tree of these facts. ``others`` and ``ended``, the core of what has, are by device."""
    owned = by_owner(processes)
    branches = _Branches(facts, owned)
    ended = ended_core(facts.holdings) if ended is None else ended
    devices = [
        DeviceEntry(
            device.uuid,
            device,
            pods=branches.pods(device.uuid),
            groups=branches.groups(device.uuid),
            unattributed=unattributed_entries(
                device, owned, None if unattributed is None else unattributed.get(device.uuid, {})
            ),
            others=(others or {}).get(device.uuid),
            ended_core=ended.get(device.uuid),
        )
        for device in sorted(facts.devices, key=lambda device: (device.index, device.uuid))
    ]
    # Owners may be on a device of which nothing else is known: with a part of the series only, or
    # where the driver no longer lists it. They are shown all the same.
    strays = branches.uuids - {"", *(device.uuid for device in devices)}
    devices += [
        DeviceEntry(uuid, None, branches.pods(uuid), branches.groups(uuid))
        for uuid in sorted(strays)
    ]
    return Tree(tuple(devices), branches.pods(""))


def ended_core(holdings: Iterable[ContainerHolding | GroupHolding]) -> Mapping[str, float]:
    """What those of these holdings that have ended used of each device's core lately."""
    found: dict[str, float] = {}
    for held in holdings:
        if held.ended_core is not None:
            found[held.uuid] = found.get(held.uuid, 0.0) + held.ended_core
    return found


class _Branches:
    """Pods and groups by device; "" has the pods that are on no device that is known."""

    def __init__(self, facts: Facts, processes: Processes) -> None:
        self._processes = processes
        self._facts = {(pod.namespace, pod.name): pod for pod in facts.pods}
        self._found: dict[str, _Found] = defaultdict(lambda: _Found(defaultdict(list), []))
        self._unplaced: dict[PodName, list[ContainerHolding]] = defaultdict(list)
        self._devices: dict[PodName, set[str]] = defaultdict(set)
        self._borrowers: set[PodName] = set()
        self._allocated: set[PodName] = set()
        for held in facts.containers:
            name = held.owner.pod_name
            if held.allocation.may_borrow:
                self._borrowers.add(name)
            if held.allocation.granted:
                self._allocated.add(name)
            if not held.uuid:
                self._unplaced[name].append(held)
                continue
            self._found[held.uuid].pods[name].append(held)
            if not held.ended:
                self._devices[name].add(held.uuid)
        for of_group in facts.groups:
            self._found[of_group.uuid].groups.append(of_group)
        for name, unplaced in self._unplaced.items():
            if not self._devices[name]:
                self._found[""].pods[name] = unplaced

    @property
    def uuids(self) -> set[str]:
        """The devices that anything is on."""
        return set(self._found)

    def pods(self, uuid: str) -> tuple[PodEntry, ...]:
        """The pods on a device, by namespace and name."""
        found: list[PodEntry] = []
        for name, holdings in sorted(self._found[uuid].pods.items()):
            devices = self._devices[name]
            containers = [held for held in holdings if not _is_of_pod(held)]
            unplaced = [held for held in holdings if _is_of_pod(held)]
            # An allocation whose device is not known stands beside each part of the pod that is in
            # use: it may be of any of them.
            if uuid and uuid in devices:
                unplaced += self._unplaced.get(name, ())
            entries = [
                ContainerEntry(held, tuple(self._processes.get((held.owner, held.uuid), ())))
                for held in sorted(containers, key=lambda held: held.owner.container)
            ]
            found.append(
                PodEntry(
                    *name,
                    facts=self._facts.get(name),
                    containers=tuple(entries),
                    unplaced=tuple(unplaced),
                    is_only_here=devices <= {uuid},
                    may_borrow=name in self._borrowers,
                    is_allocated=name in self._allocated,
                )
            )
        return tuple(found)

    def groups(self, uuid: str) -> tuple[GroupEntry, ...]:
        """The groups on a device, by kind and name."""
        return tuple(
            GroupEntry(held, tuple(self._processes.get((held.owner, uuid), ())))
            for held in sorted(self._found[uuid].groups, key=lambda held: held.owner)
        )


def _is_of_pod(held: ContainerHolding) -> bool:
    """Whether it is an allocation of the pod as a whole, without any use of the pod as a whole."""
    return not held.owner.container and held.since_unix_ns is None and _is_unused(held)


def _is_unused(held: ContainerHolding | GroupHolding) -> bool:
    """Whether nothing is known of its use: so it is of an allocation whose device is not in use."""
    facts = held.memory, held.used, held.average
    return facts == (NO_HELD_MEMORY, NOTHING_USED, NO_AVERAGES)


def unattributed_entries(
    device: DeviceFacts, processes: Processes, core: Mapping[Unattributed, float] | None
) -> tuple[UnattributedEntry, ...]:
    """The reasons for which anything is in use, or a process is there. None: core is not known."""
    memory = device.memory.unattributed_bytes
    found = (
        UnattributedEntry(
            reason,
            None if core is None or device.average.core is None else core.get(reason, 0.0),
            memory.get(reason),
            tuple(processes.get((reason, device.uuid), ())),
        )
        for reason in Unattributed
    )
    return tuple(each for each in found if each.processes or each.core or each.memory_bytes)


def visible_to(tree: Tree, namespaces: Collection[str]) -> Tree:
    """The tree for somebody who may see these namespaces: all others are one sum a device.

    Nobody's processes are left out, because their owners may be others.
    """
    return Tree(
        tuple(_visible_device(device, namespaces) for device in tree.devices),
        tuple(pod for pod in tree.nowhere if pod.namespace in namespaces),
    )


def _visible_device(device: DeviceEntry, namespaces: Collection[str]) -> DeviceEntry:
    def without_names(held: ContainerHolding) -> ContainerHolding:
        return replace(held, waiting=held.waiting.visible_to(namespaces))

    # An owner that a visible pod waited for is named only if it is visible, too.
    pods = [
        replace(
            pod,
            containers=tuple(
                replace(one, holding=without_names(one.holding)) for one in pod.containers
            ),
            unplaced=tuple(map(without_names, pod.unplaced)),
        )
        for pod in device.pods
        if pod.namespace in namespaces
    ]
    hidden = [pod for pod in device.pods if pod.namespace not in namespaces]
    parts = [held for pod in hidden for held in pod.holdings]
    everybody: list[ContainerHolding | GroupHolding] = [*parts]
    everybody += [group.holding for group in device.groups]
    using = [
        held for held in everybody if not held.ended and (held.unmeasured or not _is_unused(held))
    ]
    # A sum with an unknown part is not known. What has ended is in it, so that the core of all
    # parts adds up to the device's.
    core = sum_of_all([held.average.core for held in using]) if using else 0
    ended = ended_core(everybody).get(device.uuid, 0.0)
    others = Others(
        None if core is None else core + ended,
        sum_of_all([held.memory.used_bytes for held in using]) if using else 0,
    )
    return replace(
        device,
        pods=tuple(pods),
        groups=(),
        unattributed=tuple(replace(each, processes=()) for each in device.unattributed),
        others=others if device.facts is not None and device.facts.is_up else None,
        ended_core=None if device.ended_core is None else device.ended_core - ended,
    )
