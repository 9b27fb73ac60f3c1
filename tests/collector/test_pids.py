"""Which processes the readings are about."""

from exporter.collector.owners import pids_of
from exporter.model import (
    Device,
    DeviceMemory,
    DeviceReading,
    Engines,
    ProcessActivity,
    ProcessMemory,
    Window,
)

WINDOW = Window(0, 1, 1, 0, Engines())


def reading(
    uuid: str, listed: tuple[int, ...] | None, active: tuple[int, ...] = (), evicted: int = 0
) -> DeviceReading:
    """A device that lists these processes, and these in its window; 0: none was evicted."""
    holders = None if listed is None else tuple(ProcessMemory(p, 1, frozenset()) for p in listed)
    window = WINDOW._replace(
        processes=tuple(ProcessActivity(pid, Engines()) for pid in active),
        counted={"evicted": {evicted: 1}} if evicted else {},
    )
    memory = DeviceMemory(None, None, None, holders)
    return DeviceReading(Device(uuid, 0, "nvidia"), window=window, memory=memory)


def test_those_listed_those_at_work_and_those_evicted_are_all_of_a_device() -> None:
    assert pids_of([reading("GPU-0", (1, 2), (2, 3), 4)]) == {1, 2, 3, 4}


def test_a_device_that_lists_none_has_those_at_work() -> None:
    assert pids_of([reading("GPU-0", None, (3,))]) == {3}
    assert pids_of([DeviceReading(Device("GPU-0", 0, "nvidia"))]) == set()


def test_the_processes_of_all_devices_are_told_together() -> None:
    devices = [reading("GPU-0", (1, 2), (9,)), reading("GPU-1", (2, 3), (3,), 8)]
    assert pids_of(devices) == {1, 2, 3, 8, 9}
