"""Which processes the readings are about."""

from collections.abc import Collection, Iterable, Sequence
from itertools import chain
from operator import attrgetter, is_

from exporter.model import DeviceMemory, DeviceReading

_PID = attrgetter("pid")


class Pids:
    """Of all devices together. What the driver lists is looked through where it lists others."""

    def __init__(self) -> None:
        self._memories: Sequence[DeviceMemory | None] = ()
        self._listed: frozenset[int] = frozenset()

    def of(self, devices: Collection[DeviceReading]) -> frozenset[int]:
        """All processes that these readings are about."""
        memories = [device.memory for device in devices]
        if not all_same(memories, self._memories):
            self._memories = memories
            self._listed = frozenset[int]().union(*map(_listed, memories))
        listed, active = self._listed, _active(devices)
        return listed if listed.issuperset(active) else listed.union(active)


def pids_of(device: DeviceReading) -> set[int]:
    """All processes that a reading is about."""
    return _listed(device.memory) | _active((device,))


def _listed(memory: DeviceMemory | None) -> set[int]:
    return set(map(_PID, memory.processes or ())) if memory else set()


def _active(devices: Iterable[DeviceReading]) -> set[int]:
    windows = [device.window for device in devices if device.window is not None]
    active = set(map(_PID, chain.from_iterable([window.processes for window in windows])))
    for window in windows:
        active.update(*window.counted.values())  # evicted ones hold nothing at the moment
    return active


def all_same(some: Sequence[object], others: Sequence[object]) -> bool:
    """Whether these are the very same objects, one by one."""
    return len(some) == len(others) and all(map(is_, some, others))
