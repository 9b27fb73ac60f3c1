"""The sums of allocations by container, device and pod, and the values that rows show of them."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from exporter.ledger import Allotted
from exporter.model import Allocation, ContainerKey, Value


class Limit(NamedTuple):
    """Some allotments together, None where none of them says.

    ``shown``: values of their row wherever it is; ``limits``: where use is held against them.
    """

    allocations: Sequence[Allocation] = ()
    core: float | None = None
    memory_bytes: float | None = None
    shown: Mapping[str, Value] = {}
    limits: Mapping[str, Value] = {}


class MemoryLimit(NamedTuple):
    """The memory that these containers of one pod may have together on one device."""

    device: str
    containers: Collection[str]
    bytes: float | None


class PodLimit(NamedTuple):
    """What one pod was allotted. ``containers``: its own with a share of the core ("": itself).

    ``shown``: values of its row.
    """

    allotted: Sequence[Allotted] = ()
    core: float | None = None
    containers: Collection[str] = frozenset()
    memory: Sequence[MemoryLimit] = ()
    shown: Mapping[str, Value] = {}


NO_LIMIT, NO_POD_LIMIT = Limit(), PodLimit()


class Limits:
    """The allotments by container and device, by device and by pod.

    ``devices`` are the ledger's. The device of an allotment is "" where it is not known, or is none
    of them.
    """

    def __init__(self, allotted: Sequence[Allotted], devices: Collection[str]) -> None:
        here, named, pods = defaultdict(list), defaultdict(list), defaultdict(list)
        for one in allotted:
            key, allocation = one
            uuid = allocation.device if allocation.device in devices else None
            here[key, uuid or ""].append(allocation)
            named[allocation.device].append(allocation)
            pods[key[:2]].append(one)
        self._here = {place: _limit(many) for place, many in here.items()}
        self._devices = {device: _limit(many) for device, many in named.items()}
        self._pods = {name: _pod(many) for name, many in pods.items()}
        self._devices_of: dict[ContainerKey, frozenset[str | None]] = {}
        self.unplaced = any(not device for _, device in here)

    def of(self, key: ContainerKey, uuid: str) -> Limit:
        """Of one container on one device."""
        return self._here.get((key, uuid), NO_LIMIT)

    def of_device(self, uuid: str) -> Limit:
        """Of all that are of one device."""
        return self._devices.get(uuid, NO_LIMIT)

    def devices_of(self, key: ContainerKey) -> frozenset[str | None]:
        """The devices of the allotment that a container's use is held against; None: not known.

        Its own; else that of the pod as a whole. Of use that no container is named for: any.
        """
        found = self._devices_of.get(key)
        if found is None:
            of_pod = self.of_pod(key[:2]).allotted
            own = [a for k, a in of_pod if k == key or not key.container]
            own = own or [a for k, a in of_pod if not k.container]
            found = self._devices_of[key] = frozenset(a.device for a in own)
        return found

    def of_pod(self, name: tuple[str, str]) -> PodLimit:
        """Of one pod, by namespace and name."""
        return self._pods.get(name, NO_POD_LIMIT)


def _limit(allocations: Sequence[Allocation]) -> Limit:
    shown: dict[str, Value] = {
        "allocation_info": {(a.scheme, a.policy, a.priority): 1 for a in allocations}
    }
    replicas = total(a.replicas for a in allocations)
    if replicas is not None and any(a.device for a in allocations):
        shown["allocated_replicas"] = replicas
    core, memory = total(a.core for a in allocations), total(a.memory_bytes for a in allocations)
    limits = known(core_limit_ratio=core, memory_limit_bytes=memory)
    return Limit(allocations, core, memory, shown, limits)


def _pod(allotted: Sequence[Allotted]) -> PodLimit:
    memory = defaultdict(list)
    for one in allotted:
        if one.allocation.device and one.allocation.memory_bytes is not None:
            memory[one.allocation.device].append(one)
    core = total(a.core for _, a in allotted)
    of_all = total(a.memory_bytes for _, a in allotted)
    return PodLimit(
        allotted,
        core,
        frozenset(key.container for key, a in allotted if a.core is not None),
        [
            MemoryLimit(
                device,
                frozenset(key.container for key, _ in here),
                total(a.memory_bytes for _, a in here),
            )
            for device, here in memory.items()
        ],
        known(core_limit_gpus=core, memory_limit_bytes=of_all),
    )


def known(**values: float | None) -> dict[str, Value]:
    """Only what is known: None means that the series is absent."""
    return {name: value for name, value in values.items() if value is not None}


def total(parts: Iterable[float | None]) -> float | None:
    """The sum of what is known; None if nothing is."""
    present = [part for part in parts if part is not None]
    return sum(present) if present else None
