"""The sums of allocations by container, device and pod."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple, TypeVar

from exporter.ledger import Allocated
from exporter.model import NO_ALLOCATION, Allocation, AllocationFacts, ContainerKey, Granted

T = TypeVar("T", int, float)


class Limit(NamedTuple):
    """Some allocations, and their sum: None where none of them states an amount."""

    allocations: Sequence[Allocation] = ()
    sum: AllocationFacts = NO_ALLOCATION


class MemoryLimit(NamedTuple):
    """The memory that these containers of one pod may have together on one device."""

    device: str
    containers: Collection[str]
    bytes: float | None


class PodLimit(NamedTuple):
    """The allocations of one pod. ``containers``: those with a share of the core ("": the pod)."""

    allocated: Sequence[Allocated] = ()
    core: float | None = None
    containers: Collection[str] = frozenset()
    memory_bytes: float | None = None
    memory: Sequence[MemoryLimit] = ()
    gpus: float | None = None


NO_LIMIT, NO_POD_LIMIT = Limit(), PodLimit()


class Limits:
    """The allocations by container and device, by device and by pod.

    ``devices`` are the ledger's. The device is "" where it is unknown, or is none of them.
    """

    def __init__(self, allocated: Sequence[Allocated], devices: Collection[str]) -> None:
        here, named, pods = defaultdict(list), defaultdict(list), defaultdict(list)
        for one in allocated:
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
        """The limit of one container on one device."""
        return self._here.get((key, uuid), NO_LIMIT)

    def of_device(self, uuid: str) -> Limit:
        """The sum of all allocations of one device."""
        return self._devices.get(uuid, NO_LIMIT)

    def devices_of(self, key: ContainerKey) -> frozenset[str | None]:
        """The devices of the allocations that a container's use is compared with; None: unknown.

        Its own allocations; without any, those of the pod as a whole. For the use of the pod as a
        whole: all of the pod's.
        """
        found = self._devices_of.get(key)
        if found is None:
            of_pod = self.of_pod(key[:2]).allocated
            own = [a for k, a in of_pod if k == key or not key.container]
            own = own or [a for k, a in of_pod if not k.container]
            found = self._devices_of[key] = frozenset(a.device for a in own)
        return found

    def of_pod(self, name: tuple[str, str]) -> PodLimit:
        """The limit of one pod, by namespace and name."""
        return self._pods.get(name, NO_POD_LIMIT)


def _limit(allocations: Sequence[Allocation]) -> Limit:
    granted = (Granted(a.scheme, a.policy, a.priority) for a in allocations)
    is_placed = any(a.device for a in allocations)
    summed = AllocationFacts(
        tuple(dict.fromkeys(granted)),
        total([a.core for a in allocations]),
        total([a.memory_bytes for a in allocations]),
        total([a.replicas for a in allocations]) if is_placed else None,
        total([a.gpus for a in allocations]),
    )
    return Limit(allocations, summed)


def _pod(allocated: Sequence[Allocated]) -> PodLimit:
    memory = defaultdict(list)
    for one in allocated:
        if one.allocation.device and one.allocation.memory_bytes is not None:
            memory[one.allocation.device].append(one)
    return PodLimit(
        allocated,
        total([a.core for _, a in allocated]),
        frozenset(key.container for key, a in allocated if a.core is not None),
        total([a.memory_bytes for _, a in allocated]),
        [
            MemoryLimit(
                device,
                frozenset(key.container for key, _ in here),
                total([a.memory_bytes for _, a in here]),
            )
            for device, here in memory.items()
        ],
        total([a.gpus for _, a in allocated]),
    )


def total(parts: Iterable[T | None]) -> T | None:
    """The sum of the known parts; None if none is known."""
    present = [part for part in parts if part is not None]
    return sum(present) if present else None
