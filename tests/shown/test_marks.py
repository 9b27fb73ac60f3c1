"""Marks of devices, containers and pods."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from exporter.model import (
    AllocationFacts,
    Averages,
    CgroupMemory,
    ContainerHolding,
    ContainerKey,
    Device,
    DeviceFacts,
    DeviceState,
    Facts,
    Granted,
    GroupHolding,
    GroupKey,
    HeldMemory,
    PodFacts,
    Sensors,
    XidCount,
)
from exporter.shown.marks import (
    MAKE_ROOM,
    Earlier,
    Mark,
    MarkKind,
    device_marks,
    holding_marks,
    pod_marks,
    waiting_marks,
)
from exporter.shown.tree import (
    ContainerEntry,
    DeviceEntry,
    GroupEntry,
    PodEntry,
    Tree,
    tree_of,
    visible_to,
)
from tests.snapshots import container

GIB = 1 << 30
UP_TO = "it waits up to 63% of the time, most for"
TO_DO = f". To do: {MAKE_ROOM}"
NOW = 2_000 * 10**9
SECOND = 10**9


def device(**facts: Any) -> DeviceFacts:
    return DeviceFacts(device=Device("GPU-1", 0, "nvidia"), **facts)


@pytest.mark.parametrize(
    ("facts", "kinds"),
    [
        ({}, []),
        ({"state": DeviceState.LOST}, [MarkKind.LOST]),
        ({"state": DeviceState.STUCK}, [MarkKind.UNREADABLE]),
        ({"state": DeviceState.FAILED}, [MarkKind.UNREADABLE]),
        ({"state": DeviceState.RELEASED}, []),
        ({"xids": {"79": XidCount(1, NOW - SECOND)}}, [MarkKind.XID]),
        ({"xids": {"79": XidCount(1, NOW - 1000 * SECOND)}}, []),
        ({"xids": {"79": XidCount(0, None)}}, []),
        ({"xids": {"13": XidCount(1, NOW)}}, []),
        ({"sensors": Sensors.of(row_remapping={"pending": 1})}, [MarkKind.BAD_MEMORY]),
        ({"sensors": Sensors.of(row_remapping={"failed": 1})}, [MarkKind.BAD_MEMORY]),
        ({"sensors": Sensors.of(row_remapping={"failed": 0, "pending": 0})}, []),
        ({"sensors": Sensors.of(retired_pages_pending=1)}, [MarkKind.BAD_MEMORY]),
        ({"sensors": Sensors.of(recovery_action=1)}, [MarkKind.RECOVERY]),
        ({"sensors": Sensors.of(recovery_action=0)}, []),
        ({"is_unhealthy": True}, [MarkKind.UNHEALTHY]),
    ],
)
def test_a_device_is_marked_for_what_is_wrong_with_it(
    facts: dict[str, Any], kinds: list[MarkKind]
) -> None:
    assert [mark.kind for mark in device_marks(device(**facts), NOW)] == kinds


@pytest.mark.parametrize(
    ("vendor", "xids", "said"),
    [
        ("nvidia", {"79": 0, "31": 5}, "XID 79: it has fallen off the bus. To do: restart the"),
        ("nvidia", {"79": 1, "119": 2}, "XID 119: its system processor (GSP) hangs or failed."),
        ("nvidia", {"31": 5}, "To do: reset the GPU; if it stays lost, restart the node"),
        ("amd", {}, "To do: look for amdgpu in the kernel's log; if it stays lost, restart the"),
        ("other", {}, "To do: restart the node"),
    ],
)
def test_a_lost_device_keeps_its_last_hardware_xid_and_what_to_do_until_it_is_back(
    vendor: str, xids: dict[str, int], said: str
) -> None:
    counts = {xid: XidCount(1, at_s * SECOND) for xid, at_s in xids.items()}
    gone = DeviceFacts(
        device=Device("GPU-1", 0, vendor), state=DeviceState.LOST, xids={**counts, "48": XidCount()}
    )

    days = 10**6 * SECOND
    (mark,) = device_marks(gone, days)
    assert (mark.kind, said in mark.detail) == (MarkKind.LOST, True), mark.detail
    assert device_marks(replace(gone, state=DeviceState.UP), days) == ()


def test_an_instance_that_is_lost_with_its_gpu_names_no_remedy_of_its_own() -> None:
    gone = DeviceFacts(
        device=Device("MIG-1", 1, "nvidia", parent_uuid="GPU-1"), state=DeviceState.LOST
    )
    (mark,) = device_marks(gone, 10**6 * SECOND)
    assert mark == Mark(MarkKind.LOST, "it is lost with its GPU, which has what to do")


@pytest.mark.parametrize(
    ("then", "now", "reasons"),
    [
        ({"hw_thermal": 0}, {"hw_thermal": SECOND}, "hw_thermal"),
        ({"hw_thermal": 5}, {"hw_thermal": 5 + SECOND // 100}, ""),
        ({}, {"hw_thermal": SECOND}, ""),
        ({"hw_thermal": SECOND}, {"hw_thermal": 0}, ""),
    ],
)
def test_a_device_is_throttled_while_its_clocks_are_held_down(
    then: dict[str, int], now: dict[str, int], reasons: str
) -> None:
    before = device(sensors=Sensors.of(throttle_seconds_total=then))
    after = device(sensors=Sensors.of(throttle_seconds_total=now))

    marks = device_marks(after, NOW, Earlier(before, NOW - 2 * SECOND))

    assert [mark.kind for mark in marks] == ([MarkKind.THROTTLED] if reasons else [])
    assert all(reasons in mark.detail for mark in marks)


@pytest.mark.parametrize(
    ("fields", "kinds"),
    [
        ({"average": Averages(0.5), "allocation": AllocationFacts(core=0.5)}, []),
        (
            {"average": Averages(0.6), "allocation": AllocationFacts(core=0.5)},
            [MarkKind.OVER_SHARE],
        ),
        (
            {
                "average": Averages(0.6),
                "allocation": AllocationFacts((Granted("vke-mgpu", "fixed-share"),), core=0.5),
            },
            [MarkKind.OVER_SHARE],
        ),
        (
            {
                "average": Averages(0.6),
                "allocation": AllocationFacts((Granted("tke-qgpu", "burst-share"),), core=0.5),
            },
            [],
        ),
        (
            {"memory": HeldMemory(96), "allocation": AllocationFacts(memory_bytes=100)},
            [MarkKind.NEAR_MEMORY_LIMIT],
        ),
        ({"allocation": AllocationFacts(core=0.5, memory_bytes=100)}, []),
        (
            {"memory": HeldMemory(cgroup=CgroupMemory(3 * GIB, 2 * GIB, 4 * GIB, "driver"))},
            [MarkKind.BORROWS_MEMORY],
        ),
        ({"memory": HeldMemory(cgroup=CgroupMemory(2 * GIB, 2 * GIB, None, "driver"))}, []),
        ({"memory": HeldMemory(cgroup=CgroupMemory(2 * GIB, 0, 4 * GIB, "driver"))}, []),
        ({"misplaced": True}, [MarkKind.MISPLACED]),
        ({"misplaced": False}, []),
    ],
)
def test_a_container_is_marked_by_its_allocation(
    fields: dict[str, Any], kinds: list[MarkKind]
) -> None:
    assert [mark.kind for mark in holding_marks(container(**fields))] == kinds


@pytest.mark.parametrize(
    ("facts", "kinds"),
    [
        ({"core_of_limit": 31 / 30, "allocated_gpus": 0.3}, []),
        ({"core_of_limit": 1.2, "allocated_gpus": 0.3}, [MarkKind.OVER_SHARE]),
        ({"core": 0.2}, [MarkKind.UNASKED]),
        ({"memory_bytes": GIB}, [MarkKind.UNASKED]),
        ({"memory_bytes": GIB, "allocated_gpus": 0.5}, []),
        ({"memory_bytes": GIB, "ended": True}, []),
        ({}, []),
    ],
)
def test_a_pod_has_a_mark_where_an_alert_would_be_raised(
    facts: dict[str, Any], kinds: list[MarkKind]
) -> None:
    pod = PodFacts("team", "a-0")._replace(**facts)
    entry = PodEntry(pod.namespace, pod.name, pod)
    assert [mark.kind for mark in pod_marks(entry)] == kinds


def test_a_pod_whose_device_is_lost_was_allocated_it_whatever_its_amount() -> None:
    granted = AllocationFacts((Granted("nvidia-device-plugin"),))
    held = container(uuid="GPU-1", allocation=granted)
    name = held.owner.pod_name
    facts = Facts(containers=(held,), pods=(PodFacts(*name, memory_bytes=GIB),))
    (pod,) = tree_of(facts).devices[0].pods
    assert pod_marks(pod) == ()


def test_a_group_that_borrows_memory_is_marked_with_how_much() -> None:
    held = HeldMemory(cgroup=CgroupMemory(3 * GIB, 2 * GIB, None, "kernel"))
    group = GroupHolding(owner=GroupKey("slurm", "7"), index=0, uuid="GPU-0", memory=held)
    assert holding_marks(group) == (
        Mark(
            MarkKind.BORROWS_MEMORY,
            "it holds 1.0 GiB beyond the 2.0 GiB kept for it, and may lose it to others",
        ),
    )


HALF = AllocationFacts(core=0.5)


@pytest.mark.parametrize(
    ("busy", "core", "allocation", "pressure", "waits"),
    [
        (1.0, 0.2, HALF, 0.4, True),
        (1.0, 0.2, HALF, None, False),
        (0.5, 0.2, HALF, 0.4, False),
        (1.0, 0.5, HALF, 0.4, False),
        (1.0, 0.3, AllocationFacts(), 0.4, False),
        (1.0, 0.3, AllocationFacts(), 0.6, True),
    ],
)
def test_a_container_waits_on_a_full_device_by_two_signs(
    busy: float,
    core: float,
    allocation: AllocationFacts,
    pressure: float | None,
    waits: bool,  # noqa: FBT001 - a case
) -> None:
    held = container(average=Averages(core, waiting=pressure), allocation=allocation)

    marks = waiting_marks(entry(held, busy=busy))

    assert [mark.kind for mark in marks.values()] == ([MarkKind.WAITING] if waits else [])


def entry(
    *held: ContainerHolding, groups: Sequence[GroupHolding] = (), busy: float = 1.0
) -> DeviceEntry:
    pods = tuple(
        PodEntry(one.owner.namespace, one.owner.pod, containers=(ContainerEntry(one),))
        for one in held
    )
    return DeviceEntry(
        "GPU-1", device(average=Averages(busy)), pods, tuple(GroupEntry(each) for each in groups)
    )


CHAT, CRAWL = ContainerKey("inference", "chat-0", "main"), ContainerKey("batch", "crawl-0", "main")
STARVED = container(owner=CHAT, average=Averages(0.2, waiting=0.63), allocation=HALF)
HOG = container(owner=CRAWL, average=Averages(0.5, waiting=0.1))
JOB = GroupHolding(
    owner=GroupKey("slurm", "7"), index=0, uuid="GPU-1", average=Averages(0.3, waiting=0.9)
)


def test_victim_and_culprit_are_marked_and_name_each_other() -> None:
    assert waiting_marks(entry(STARVED, HOG, groups=[JOB])) == {
        CHAT: Mark(
            MarkKind.WAITING, "it waits up to 63% of the time, most for batch/crawl-0" + TO_DO
        ),
        CRAWL: Mark(MarkKind.CROWDS, "waiting most for it: inference/chat-0"),
    }


def test_a_group_is_named_as_culprit_too() -> None:
    assert waiting_marks(entry(STARVED, groups=[JOB])) == {
        CHAT: Mark(MarkKind.WAITING, f"{UP_TO} slurm 7{TO_DO}"),
        JOB.owner: Mark(MarkKind.CROWDS, "waiting most for it: inference/chat-0"),
    }


def test_who_waits_itself_is_no_culprit() -> None:
    each = [
        replace(STARVED, owner=ContainerKey("n", name, "c"), average=Averages(0.3, waiting=0.6))
        for name in "abc"
    ]
    marks = waiting_marks(entry(*each))
    assert {mark.kind for mark in marks.values()} == {MarkKind.WAITING}


def test_a_viewer_of_one_namespace_sees_others() -> None:
    whole = Tree((entry(STARVED, HOG, groups=[JOB]),))
    [seen] = visible_to(whole, {"inference"}).devices
    assert waiting_marks(seen) == {CHAT: Mark(MarkKind.WAITING, f"{UP_TO} others{TO_DO}")}
    [other] = visible_to(whole, {"batch"}).devices
    assert waiting_marks(other) == {}


def test_a_group_has_no_allocation_and_no_mark() -> None:
    group = GroupHolding(owner=GroupKey("docker", "x"), index=0, uuid="u", average=Averages(1.0))

    assert holding_marks(group) == ()


def test_a_pod_is_marked_by_its_own_figures() -> None:
    pod = PodFacts(
        namespace="ml", name="train", unhealthy_devices=1, core_of_limit=1.5, memory_of_limit=0.99
    )

    kinds = [mark.kind for mark in pod_marks(PodEntry(pod.namespace, pod.name, pod))]

    assert kinds == [MarkKind.UNHEALTHY, MarkKind.OVER_SHARE, MarkKind.NEAR_MEMORY_LIMIT]


def test_a_pod_that_may_borrow_is_not_over_its_share() -> None:
    pod = PodFacts(namespace="ml", name="train", core_of_limit=1.5, memory_of_limit=0.99)

    entry = PodEntry(pod.namespace, pod.name, pod, may_borrow=True)
    kinds = [mark.kind for mark in pod_marks(entry)]

    assert kinds == [MarkKind.NEAR_MEMORY_LIMIT]
