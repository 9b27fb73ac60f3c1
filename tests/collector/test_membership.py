"""Whose the processes are is worked out anew only where something changed."""

from dataclasses import replace

from exporter.collector.membership import Membership
from exporter.model import CgroupIdentity, DeviceMemory, GroupKey, MemoryHeld, PodTable
from exporter.model import ProcessMemory as Holder

COMPUTE = frozenset({"compute"})
MEMORY = DeviceMemory(100, 30, None, (Holder(1, 10, COMPUTE), Holder(2, 20, COMPUTE)))
A, B = GroupKey("docker", "a"), GroupKey("docker", "b")


def membership() -> Membership:
    made = Membership()
    made.update(identities("b"), PodTable())
    return made


def identities(second: str) -> dict[int, CgroupIdentity]:
    ids = {1: "a", 2: second}
    return {pid: CgroupIdentity(None, container, "docker") for pid, container in ids.items()}


def test_holders_stay_the_same_value_while_the_driver_gives_the_same_answer() -> None:
    known = membership()
    first = known.holders("GPU-0", MEMORY)

    assert known.holders("GPU-0", MEMORY) is first
    assert first.held == {A: MemoryHeld(10, 1), B: MemoryHeld(20, 1)}


def test_holders_are_new_when_the_driver_says_something_else() -> None:
    known = membership()
    known.holders("GPU-0", MEMORY)

    assert known.holders("GPU-0", replace(MEMORY, used_bytes=35)).held.keys() > {A, B}


def test_holders_are_new_when_a_process_has_another_owner() -> None:
    known = membership()
    known.holders("GPU-0", MEMORY)
    known.update(identities("a"), PodTable())

    assert known.holders("GPU-0", MEMORY).held == {A: MemoryHeld(30, 2)}


def test_who_holds_a_device_without_a_process_list_is_not_known() -> None:
    assert membership().holders("GPU-0", replace(MEMORY, processes=None)).residents is None
    assert membership().holders("GPU-0", None).residents is None
