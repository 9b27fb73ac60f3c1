"""What is not known is absent, with its reason: no owner's series stands at 0 or stays flat."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from exporter.model import (
    CgroupIdentity,
    Container,
    DeviceMemory,
    DeviceReading,
    DeviceState,
    Engines,
    ProcessActivity,
    ProcessMemory,
    Row,
    Snapshot,
    SourceStatus,
    Unmeasured,
    Value,
    Window,
)
from tests.collector.bench import CID, DEVICE, PLACED, POD, SECOND, Bench, row

MAIN = ("ml", "train", "main", "0", "GPU-0")
NO_HOSTPID = SourceStatus("cgroups", up=False, detail="…", reason=Unmeasured.NO_HOSTPID)
OF_OWNERS = ("container", "pod", "namespace", "group")
PLACED_POD = replace(POD, annotations=PLACED)


@pytest.fixture
def bench() -> Bench:
    """A pod that is allotted half a device and uses half of it."""
    made = Bench()
    made.processes.identities[7] = CgroupIdentity("uid-1", CID, "containerd")
    made.name_pod(PLACED_POD)
    made.use(7, SECOND // 2)
    return made


def container(snapshot: Snapshot) -> Mapping[str, Value]:
    return row(snapshot, "container", *MAIN).values


def names(rows: tuple[Row, ...]) -> set[str]:
    return {name for row in rows for name in row.values}


def test_where_no_process_can_be_named_its_owners_show_the_reason_and_nothing_else(
    bench: Bench,
) -> None:
    bench.cycle()
    bench.processes.now = NO_HOSTPID
    bench.processes.identities.clear()

    snapshot = bench.cycle()

    assert {level: names(snapshot.rows[level]) for level in OF_OWNERS} == {
        "container": {"unmeasured"},
        "pod": {"info"},
        "namespace": set(),
        "group": set(),
    }
    assert container(snapshot)["unmeasured"] == {
        ("core", "no_hostpid"): 1,
        ("memory", "no_hostpid"): 1,
    }


def test_the_device_goes_on_where_no_process_can_be_named(bench: Bench) -> None:
    bench.cycle()
    bench.processes.now = NO_HOSTPID
    bench.processes.identities.clear()

    device = row(bench.cycle(), "device", "0", "GPU-0").values

    assert device["busy_seconds_total"] == SECOND
    assert device["utilization_ratio"] == pytest.approx(0.5)
    assert device["memory_used_bytes"] == 100
    assert device["unattributed_memory_bytes"] == {
        ("host_process",): 0,
        ("unknown_cgroup",): 100,
        ("exited",): 0,
        ("no_pid",): 0,
        ("overlap",): 0,
    }
    assert device["unattributed_core_seconds_total"] == {
        ("host_process",): 0,
        ("unknown_cgroup",): SECOND // 2,
        ("exited",): 0,
        ("no_pid",): 0,
    }


def test_blindness_to_processes_is_told_from_the_first_cycle_on(bench: Bench) -> None:
    bench.processes.now = NO_HOSTPID

    assert names(bench.cycle().rows["container"]) == {"unmeasured"}


def test_an_unplaced_container_says_that_its_processes_cannot_be_found(bench: Bench) -> None:
    bench.name_pod(POD)
    bench.processes.now = NO_HOSTPID
    bench.processes.identities.clear()

    told = row(bench.cycle(), "container", "ml", "train", "main", "", "").values["unmeasured"]

    assert isinstance(told, Mapping)
    assert ("core", "no_hostpid") in told
    assert ("core_limit", "placement") in told


def test_accounts_go_on_where_they_were_when_processes_can_be_named_again(bench: Bench) -> None:
    before = container(bench.cycle())
    bench.processes.now = NO_HOSTPID
    for _ in range(400):  # longer than an account is kept without its owner
        bench.cycle()
    bench.processes.now = SourceStatus("cgroups", up=True)

    after = container(bench.cycle())

    assert before["core_seconds_total"] == SECOND // 2
    assert after["core_seconds_total"] == SECOND
    assert after["memory_used_bytes"] == 100


def test_a_process_source_that_fails_is_down_and_blind(bench: Bench) -> None:
    bench.cycle()
    bench.processes.error = OSError("no /proc")

    snapshot = bench.cycle()

    up = row(snapshot, "exporter").values["source_up"]
    assert isinstance(up, Mapping)
    assert up["cgroups",] == 0
    assert container(snapshot)["unmeasured"] == {
        ("core", "read_failed"): 1,
        ("memory", "read_failed"): 1,
    }


def test_a_device_that_was_never_read_says_so_from_the_first_cycle_on(bench: Bench) -> None:
    bench.gpus.devices = (DeviceReading(DEVICE, DeviceState.LOST),)

    assert container(bench.cycle()) == {
        "unmeasured": {("core", "gpu_lost"): 1, ("memory", "gpu_lost"): 1}
    }


def garbled(bench: Bench, rejected: int) -> Snapshot:
    """One more cycle, with so many rejected rows."""
    (reading,) = bench.gpus.devices
    assert reading.window
    window = reading.window._replace(rejected={"percentage": rejected} if rejected else {})
    bench.gpus.devices = (reading._replace(window=window),)
    return bench.cycle()


def test_shares_are_doubted_when_every_window_has_rejected_rows(bench: Bench) -> None:
    believed, doubted = [garbled(bench, 1) for _ in range(10)][-2:]

    assert "core_seconds_total" in container(believed)
    for level in ("container", "pod", "namespace"):
        assert "core_seconds_total" not in names(doubted.rows[level])
    assert "core_utilization_ratio" not in container(doubted)
    assert container(doubted)["memory_used_bytes"] == 100
    assert container(doubted)["unmeasured"] == {
        ("core", "rejected_samples"): 1,
        ("energy", "rejected_samples"): 1,
    }
    assert row(doubted, "device", "0", "GPU-0").values["busy_seconds_total"] == 5 * SECOND


def test_one_clean_window_ends_the_doubt(bench: Bench) -> None:
    for _ in range(9):
        garbled(bench, 1)
    garbled(bench, 0)

    assert container(garbled(bench, 1))["core_seconds_total"] == 11 * SECOND // 2


def holding(bench: Bench, memory: DeviceMemory | None) -> Snapshot:
    """One more cycle, in which this is read of the device's memory."""
    (reading,) = bench.gpus.devices
    bench.gpus.devices = (reading._replace(memory=memory),)
    return bench.cycle()


def test_memory_that_was_not_read_is_absent_not_as_it_was(bench: Bench) -> None:
    bench.cycle()

    early, _, snapshot = (holding(bench, None) for _ in range(3))

    assert container(early)["memory_used_bytes"] == 100  # one that fails says nothing yet
    assert "memory_used_bytes" not in container(snapshot)
    assert "processes" not in container(snapshot)
    assert "memory_limit_utilization_ratio" not in container(snapshot)
    assert "memory_used_bytes" not in row(snapshot, "pod", "ml", "train").values
    assert container(snapshot)["unmeasured"] == {("memory", "read_failed"): 1}
    assert container(snapshot)["core_seconds_total"] == 2 * SECOND


def test_memory_without_a_list_of_its_holders_is_nobodys(bench: Bench) -> None:
    bench.cycle()

    snapshot = holding(bench, DeviceMemory(1000, 100, None, None))

    device = row(snapshot, "device", "0", "GPU-0").values
    assert device["unattributed_memory_bytes"] == {("no_pid",): device["memory_used_bytes"]}
    assert "memory_used_bytes" not in container(snapshot)


SIDE = Container("side", limits=POD.containers[0].limits)


def test_a_container_without_a_process_is_not_idle_while_one_of_its_pod_is_unknown(
    bench: Bench,
) -> None:
    limited = Container("main", limits=POD.containers[0].limits)  # its id is not reported yet
    bench.name_pod(replace(PLACED_POD, containers=(limited, SIDE)))

    snapshot = bench.cycle()

    assert container(snapshot)["unmeasured"] == {
        ("core", "container_pending"): 1,
        ("memory", "container_pending"): 1,
    }
    assert not names(snapshot.rows["container"]).isdisjoint({"core_limit_ratio"})
    assert "core_seconds_total" not in container(snapshot)
    assert "memory_used_bytes" not in container(snapshot)
    unnamed = row(snapshot, "container", "ml", "train", "", "0", "GPU-0").values
    assert unnamed["core_seconds_total"] == SECOND // 2


def test_a_container_that_was_restarted_is_not_idle_until_its_new_id_is_known(
    bench: Bench,
) -> None:
    bench.name_pod(
        replace(PLACED_POD, containers=(*POD.containers, replace(SIDE, container_ids=("d",))))
    )
    bench.processes.identities[7] = CgroupIdentity("uid-1", "b" * 64, "containerd")

    snapshot = bench.cycle()

    told = container(snapshot)["unmeasured"]
    assert isinstance(told, Mapping)
    assert ("core", "container_pending") in told
    assert "core_seconds_total" not in container(snapshot)


def test_a_container_at_work_is_measured_beside_an_unknown_one(bench: Bench) -> None:
    bench.name_pod(replace(PLACED_POD, containers=(*POD.containers, SIDE, Container("third"))))
    bench.processes.identities[8] = CgroupIdentity("uid-1", "b" * 64, "containerd")
    holders = tuple(ProcessMemory(pid, 50, frozenset({"compute"})) for pid in (7, 8))

    snapshot = holding(bench, DeviceMemory(1000, 100, None, holders))

    assert container(snapshot)["memory_used_bytes"] == 50
    assert container(snapshot)["core_seconds_total"] == SECOND // 2


def test_a_container_that_ended_keeps_its_counters_beside_an_unknown_one(bench: Bench) -> None:
    bench.name_pod(replace(POD, containers=(replace(POD.containers[0], limits={}),)))
    bench.cycle()
    bench.processes.identities[7] = CgroupIdentity("uid-1", "b" * 64, "containerd")

    snapshot = bench.cycle()

    assert row(snapshot, "container", "ml", "train", "", "0", "GPU-0").values["processes"] == 1
    assert container(snapshot) == {"core_seconds_total": SECOND // 2}


def test_an_unnamed_pods_limits_are_unknown(bench: Bench) -> None:
    bench.processes.identities[7] = CgroupIdentity("uid-2", "b" * 64, "containerd")

    group = row(bench.cycle(), "group", "pod", f"uid-2/{'b' * 64}", "0", "GPU-0").values

    assert group["core_seconds_total"] == SECOND // 2
    assert group["unmeasured"] == {
        ("core_limit", "pod_unknown"): 1,
        ("memory_limit", "pod_unknown"): 1,
    }


def test_a_bound_container_that_does_nothing_is_known_to_be_idle(bench: Bench) -> None:
    nothing = Window(0, SECOND, SECOND, 0, Engines(core=0))
    empty = DeviceMemory(1000, 0, None, ())
    bench.gpus.devices = (DeviceReading(DEVICE, window=nothing, memory=empty),)

    values = container(bench.cycle())

    assert values["core_seconds_total"] == 0
    assert values["core_utilization_ratio"] == 0
    assert values["memory_used_bytes"] == 0
    assert values["unmeasured"] == {}


def working(bench: Bench, *processes: ProcessActivity, core_ns: int = SECOND // 2) -> Snapshot:
    """One more cycle, in which the device was so busy and the driver names these processes."""
    (reading,) = bench.gpus.devices
    assert reading.window
    window = reading.window._replace(busy=Engines(core=core_ns), processes=processes)
    bench.gpus.devices = (reading._replace(window=window),)
    return bench.cycle()


def test_a_busy_device_that_names_nobody_for_ten_seconds_does_not_call_its_processes_idle(
    bench: Bench,
) -> None:
    bench.cycle()

    believed, doubted = [working(bench) for _ in range(10)][-2:]

    assert "core_seconds_total" in container(believed)
    for level in ("container", "pod", "namespace"):
        assert "core_seconds_total" not in names(doubted.rows[level])
    assert "core_utilization_ratio" not in container(doubted)
    assert container(doubted)["memory_used_bytes"] == 100
    assert container(doubted)["unmeasured"] == {
        ("core", "not_named"): 1,
        ("energy", "not_named"): 1,
    }
    assert row(doubted, "device", "0", "GPU-0").values["busy_seconds_total"] == 11 * SECOND // 2


def test_the_first_name_ends_the_doubt_and_so_do_ten_seconds_without_work(bench: Bench) -> None:
    named = ProcessActivity(7, Engines(core=SECOND // 4))
    for _ in range(11):
        working(bench)
    assert "core_seconds_total" in container(working(bench, named, core_ns=SECOND // 4))

    for _ in range(11):
        working(bench)
    idle = [container(working(bench, core_ns=0)) for _ in range(10)]
    assert ["core_seconds_total" in values for values in idle] == [False] * 9 + [True]


def test_work_too_small_to_have_a_name_raises_no_doubt_and_ends_it(bench: Bench) -> None:
    tiny = SECOND // 200  # half a percent: rows have whole percents
    assert "core_seconds_total" in container([working(bench, core_ns=tiny) for _ in range(30)][-1])

    for _ in range(11):
        working(bench)
    small = [container(working(bench, core_ns=tiny)) for _ in range(10)]
    assert ["core_seconds_total" in values for values in small] == [False] * 9 + [True]


def test_a_busy_device_without_processes_has_none_that_could_be_at_work(bench: Bench) -> None:
    bench.cycle()
    holding(bench, DeviceMemory(1000, 0, None, ()))

    assert "core_seconds_total" in container([working(bench) for _ in range(12)][-1])
