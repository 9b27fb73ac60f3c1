"""The limits that readers see: sums of allocations, of containers, devices and pods."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from exporter.agent.ledger import Allocated
from exporter.model import (
    NO_ALLOCATION,
    Allocation,
    AllocationFacts,
    ContainerKey,
    Granted,
    PodName,
    sum_of_known,
)


class Limit(NamedTuple):
    """Some allocations, and their sum: None where none of them states an amount."""

    allocations: Sequence[Allocation] = ()
    sum: AllocationFacts = NO_ALLOCATION


class MemoryLimit(NamedTuple):
    """The memory that these containers of one pod ("": the pod) may have together on one device."""

    device: str
    containers: Collection[str]
    bytes: float | None


class PodLimit(NamedTuple):
    """The allocations of one pod, and their sums; None where none of them states an amount.

    ``devices`` are those of each container's allocations ("": the pod's; None: not known).
    ``core_containers`` are those with a share of the core ("": the pod). ``compared``: each such
    share is on a known device. Windows are compared with those only.
    """

    allocated: Sequence[Allocated] = ()
    devices: Mapping[str, Collection[str | None]] = MappingProxyType({})
    core: float | None = None
    core_containers: Collection[str] = frozenset()
    compared: bool = True
    memory_bytes: float | None = None
    memory_by_device: Sequence[MemoryLimit] = ()
    gpus: float | None = None

    @classmethod
    def of(cls, allocated: Sequence[Allocated], known: Collection[str]) -> "PodLimit":
        """The limit of the pod with these allocations; ``known`` are the ledger's devices."""
        by_device, devices = defaultdict(list), defaultdict[str, set[str | None]](set)
        for one in allocated:
            devices[one.key.container].add(one.allocation.device)
            if one.allocation.device and one.allocation.memory_bytes is not None:
                by_device[one.allocation.device].append(one)
        memory_by_device = [
            MemoryLimit(
                device,
                frozenset(key.container for key, _ in here),
                sum_of_known([a.memory_bytes for _, a in here]),
            )
            for device, here in by_device.items()
        ]
        # What is promised is known, also where some of it has no amount: so these are sums of what
        # is known. Of what is used a part would mislead.
        return cls(
            allocated=allocated,
            devices=devices,
            core=sum_of_known([a.core for _, a in allocated]),
            core_containers=frozenset(key.container for key, a in allocated if a.core is not None),
            compared=all(a.device in known for _, a in allocated if a.core is not None),
            memory_bytes=sum_of_known([a.memory_bytes for _, a in allocated]),
            memory_by_device=memory_by_device,
            gpus=sum_of_known([a.gpus for _, a in allocated]),
        )


NO_LIMIT, NO_POD_LIMIT = Limit(), PodLimit()


class Limits:
    """The limits by container and device, by device and by pod.

    ``devices`` are those that the ledger knows. ``has_unplaced``: some allocations are on none.
    """

    def __init__(self, allocated: Sequence[Allocated], devices: Collection[str]) -> None:
        by_container, by_device, by_pod = defaultdict(list), defaultdict(list), defaultdict(list)
        for one in allocated:
            key, allocation = one
            uuid = allocation.device or ""
            by_container[key, uuid if uuid in devices else ""].append(allocation)
            by_device[uuid].append(allocation)
            by_pod[key.pod_name].append(one)
        self._by_container = {place: _limit(many) for place, many in by_container.items()}
        self._by_device = {uuid: _limit(many) for uuid, many in by_device.items()}
        self._by_pod = {name: PodLimit.of(many, devices) for name, many in by_pod.items()}
        self.has_unplaced = any(not uuid for _, uuid in by_container)

    def of_container(self, key: ContainerKey, uuid: str) -> Limit:
        """The limit of one container on one device; "": on no known device."""
        return self._by_container.get((key, uuid), NO_LIMIT)

    def of_device(self, uuid: str) -> Limit:
        """The sum of all allocations of one device."""
        return self._by_device.get(uuid, NO_LIMIT)

    def of_pod(self, name: PodName) -> PodLimit:
        """The limit of one pod, by namespace and name."""
        return self._by_pod.get(name, NO_POD_LIMIT)

    def allocated_devices(self, key: ContainerKey) -> Collection[str | None]:
        """The devices of the allocations that a container's use is compared with; None: unknown."""
        # Use of the pod as a whole may be of any of its containers. One without an allocation of
        # its own has a part of the pod's.
        of_pod = self.of_pod(key.pod_name).devices
        if not key.container:
            return frozenset().union(*of_pod.values())
        return of_pod.get(key.container) or of_pod.get("", ())


def _limit(allocations: Sequence[Allocation]) -> Limit:
    granted = (Granted(a.scheme, a.policy, a.priority) for a in allocations)
    # Replicas are those of a device: without one they say nothing.
    is_placed = any(a.device for a in allocations)
    summed = AllocationFacts(
        tuple(dict.fromkeys(granted)),
        sum_of_known([a.core for a in allocations]),
        sum_of_known([a.memory_bytes for a in allocations]),
        sum_of_known([a.replicas for a in allocations]) if is_placed else None,
        sum_of_known([a.gpus for a in allocations]),
    )
    return Limit(allocations, summed)
