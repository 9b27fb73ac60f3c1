"""The owners of processes, and what they hold."""

from dataclasses import replace

from exporter.collector.owners import ProcessOwners, owners_of
from exporter.model import CgroupIdentity, DeviceMemory, GroupKey, MemoryHeld, PodTable
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
