"""The processes of readings, their owners and what these hold, and pods by name."""

from dataclasses import replace

import pytest

from exporter.agent.collector.podallocations import by_name
from exporter.agent.collector.processowners import ProcessOwners, owners_of, pids_of
from exporter.agent.sources.pods.podtable import indexed
from exporter.model import (
    CgroupIdentity,
    Device,
    DeviceMemory,
    DeviceReading,
    Engines,
    GroupKey,
    MemoryHeld,
    Pod,
    PodTable,
    ProcessActivity,
    Window,
)
from exporter.model import ProcessMemory as Holder

COMPUTE = frozenset({"compute"})
MEMORY = DeviceMemory(100, 30, None, (Holder(1, 10, COMPUTE), Holder(2, 20, COMPUTE)))
A, B = GroupKey("docker", "a"), GroupKey("docker", "b")


def owned(first: str, second: str) -> ProcessOwners:
    ids = {1: first, 2: second}
    identities = {pid: CgroupIdentity(None, one, "docker") for pid, one in ids.items()}
    return owners_of(identities, PodTable())


def test_a_device_is_held_by_the_owners_of_its_processes() -> None:
    assert owned("a", "b").holders(MEMORY).held == {A: MemoryHeld(10, 1), B: MemoryHeld(20, 1)}
    assert owned("a", "a").holders(MEMORY).held == {A: MemoryHeld(30, 2)}


def test_who_holds_a_device_without_a_process_list_is_not_known() -> None:
    assert owned("a", "b").holders(replace(MEMORY, processes=None)).residents is None
    assert owned("a", "b").holders(None).residents is None


WINDOW = Window(0, 1, 1, 0, Engines())


def reading(
    uuid: str, listed: tuple[int, ...] | None, active: tuple[int, ...] = (), evicted: int = 0
) -> DeviceReading:
    """A device that lists these processes, and these in its window; 0: none was evicted."""
    holders = None if listed is None else tuple(Holder(p, 1, frozenset()) for p in listed)
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


OLD, NEW, OTHER = (
    Pod("a", "ns", "db-0", deleted=True),
    Pod("b", "ns", "db-0"),
    Pod("c", "ns", "web"),
)


@pytest.mark.parametrize("order", [1, -1])
def test_of_two_pods_with_one_name_the_living_one_is_found(order: int) -> None:
    pods = [OLD, NEW, OTHER][::order]
    found = by_name(indexed({pod.uid: pod for pod in pods}))

    assert found == {("ns", "db-0"): NEW, ("ns", "web"): OTHER}
