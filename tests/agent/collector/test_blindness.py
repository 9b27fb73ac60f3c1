"""What is not known is absent, with its reason: no owner's series stands at 0 or stays flat."""

from collections.abc import Callable, Mapping
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
    Snapshot,
    SourceStatus,
    Unmeasured,
    Window,
)
from tests.agent.collector.bench import CID, DEVICE, PLACED, POD, SECOND, Bench, row
from tests.rows import Row, Value, rows_of

MAIN = ("ml", "train", "main", "0", "GPU-0")
NO_HOSTPID = SourceStatus("cgroups", up=False, detail="…", reason=Unmeasured.NO_HOSTPID)
PLACED_POD = replace(POD, annotations=PLACED)


@pytest.fixture
def bench() -> Bench:
    """A pod that is allocated half a device and uses half of it."""
    made = Bench()
    made.processes.identities[7] = CgroupIdentity("uid-1", CID, "containerd")
    made.name_pod(PLACED_POD)
    made.use(7, SECOND // 2)
    return made


def container(snapshot: Snapshot) -> Mapping[str, Value]:
    return row(snapshot, "container", *MAIN).values


def names(rows: tuple[Row, ...]) -> set[str]:
    return {name for row in rows for name in row.values}


def blind(bench: Bench) -> Snapshot:
    """One more cycle, in which no process can be named."""
    bench.processes.now = NO_HOSTPID
    bench.processes.identities.clear()
    return bench.cycle()


def holding(bench: Bench, memory: DeviceMemory | None) -> Snapshot:
    """One more cycle, in which this is read of the device's memory."""
    (reading,) = bench.gpus.devices
    bench.gpus.devices = (reading._replace(memory=memory),)
    return bench.cycle()


def garbled(bench: Bench, rejected: int = 1) -> Snapshot:
    """One more cycle, with so many rejected rows."""
    (reading,) = bench.gpus.devices
    assert reading.window
    window = reading.window._replace(rejected={"percentage": rejected} if rejected else {})
    bench.gpus.devices = (reading._replace(window=window),)
    return bench.cycle()


def working(bench: Bench, *processes: ProcessActivity, core_ns: int = SECOND // 2) -> Snapshot:
    """One more cycle, in which the device was so busy and the driver names these processes."""
    (reading,) = bench.gpus.devices
    assert reading.window
    window = reading.window._replace(busy=Engines(core=core_ns), processes=processes)
    bench.gpus.devices = (reading._replace(window=window),)
    return bench.cycle()


def failing(bench: Bench) -> Snapshot:
    bench.processes.error = OSError("no /proc")
    return bench.cycle()


def lost_from_the_start(bench: Bench) -> Snapshot:
    bench.gpus.devices = (DeviceReading(DEVICE, DeviceState.LOST),)
    return bench.cycle()


SIDE = Container("side", limits=POD.containers[0].limits)


def without_an_id(bench: Bench) -> Snapshot:
    limited = Container("main", limits=POD.containers[0].limits)
    bench.name_pod(replace(PLACED_POD, containers=(limited, SIDE)))
    return bench.cycle()


def restarted(bench: Bench) -> Snapshot:
    beside = replace(SIDE, container_ids=("d",))
    bench.name_pod(replace(PLACED_POD, containers=(*POD.containers, beside)))
    bench.processes.identities[7] = CgroupIdentity("uid-1", "b" * 64, "containerd")
    return bench.cycle()


def beside_an_unknown_one(bench: Bench) -> Snapshot:
    bench.name_pod(replace(PLACED_POD, containers=(*POD.containers, SIDE, Container("third"))))
    bench.processes.identities[8] = CgroupIdentity("uid-1", "b" * 64, "containerd")
    holders = tuple(ProcessMemory(pid, 50, frozenset({"compute"})) for pid in (7, 8))
    return holding(bench, DeviceMemory(1000, 100, None, holders))


def doing_nothing(bench: Bench) -> Snapshot:
    nothing = Window(0, SECOND, SECOND, 0, Engines(core=0))
    empty = DeviceMemory(1000, 0, None, ())
    bench.gpus.devices = (DeviceReading(DEVICE, window=nothing, memory=empty),)
    return bench.cycle()


def times(number: int, cycle: Callable[[Bench], Snapshot]) -> Callable[[Bench], Snapshot]:
    return lambda bench: [cycle(bench) for _ in range(number)][-1]


def measured_before(cycle: Callable[[Bench], Snapshot]) -> Callable[[Bench], Snapshot]:
    def after(bench: Bench) -> Snapshot:
        bench.cycle()
        return cycle(bench)

    return after


CORE, MEMORY = "core_seconds_total", "memory_used_bytes"
MEMORY_UNREAD = times(3, lambda bench: holding(bench, None))
TINY = SECOND // 200  # half a percent: rows have whole percents
# What happens; why quantities of the container are unmeasured; its core time and memory.
CASES: Mapping[str, tuple[Callable[[Bench], Snapshot], dict[str, str], int | None, int | None]] = {
    "no process can be named": (
        *(blind, {"core": "no_hostpid", "memory": "no_hostpid"}, None, None),
    ),
    "none can be named any more": (
        *(measured_before(blind), {"core": "no_hostpid", "memory": "no_hostpid"}, None, None),
    ),
    "the source of processes fails": (
        *(measured_before(failing), {"core": "read_failed", "memory": "read_failed"}, None, None),
    ),
    "the device was never read": (
        *(lost_from_the_start, {"core": "gpu_lost", "memory": "gpu_lost"}, None, None),
    ),
    "one failed read of memory says nothing": (
        *(measured_before(lambda bench: holding(bench, None)), {}, SECOND, 100),
    ),
    "memory is not read": (
        *(measured_before(MEMORY_UNREAD), {"memory": "read_failed"}, 2 * SECOND, None),
    ),
    "its id is not reported yet": (
        without_an_id,
        {"core": "container_pending", "memory": "container_pending"},
        None,
        None,
    ),
    "it was restarted under an unknown id": (
        restarted,
        {"core": "container_pending", "memory": "container_pending"},
        None,
        None,
    ),
    "it works beside an unknown one": (beside_an_unknown_one, {}, SECOND // 2, 50),
    "it is bound and does nothing": (doing_nothing, {}, 0, 0),
    "nine windows have rejected rows": (times(9, garbled), {}, 9 * SECOND // 2, 100),
    "ten windows have rejected rows": (
        *(times(10, garbled), {"core": "rejected_samples", "energy": "rejected_samples"}),
        *(None, 100),
    ),
    "the device names nobody for nine seconds": (
        *(measured_before(times(9, working)), {}, SECOND // 2, 100),
    ),
    "the device names nobody for ten seconds": (
        *(measured_before(times(10, working)), {"core": "not_named", "energy": "not_named"}),
        *(None, 100),
    ),
    "work is too small to have a name": (
        times(30, lambda bench: working(bench, core_ns=TINY)),
        *({}, 0, 100),
    ),
}


@pytest.mark.parametrize("what", CASES)
def test_an_owner_has_what_is_measured_and_for_the_rest_a_reason(bench: Bench, what: str) -> None:
    happens, reasons, core_ns, memory = CASES[what]

    snapshot = happens(bench)

    values = container(snapshot)
    assert values["unmeasured"] == dict.fromkeys(reasons.items(), 1)
    assert (values.get(CORE), values.get(MEMORY)) == (core_ns, memory)
    assert ("core_utilization_ratio" in values) == (core_ns is not None)
    assert ("processes" in values) == (memory is not None)
    if "container_pending" in reasons.values():  # what another container uses is its pod's
        assert row(snapshot, "pod", "ml", "train").values[CORE] == SECOND // 2
        return
    if core_ns is None:
        assert CORE not in names(rows_of(snapshot)["pod"]) | names(rows_of(snapshot)["namespace"])
        assert memory is not None or values.keys() == {"unmeasured"}
    if memory is None:
        assert MEMORY not in names(rows_of(snapshot)["pod"])


def test_the_device_goes_on_where_no_process_can_be_named(bench: Bench) -> None:
    bench.cycle()
    device = row(blind(bench), "device", "0", "GPU-0").values

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


def test_an_average_has_nothing_of_the_time_in_which_nobody_could_be_named(bench: Bench) -> None:
    bench.cycle()
    bench.processes.now = NO_HOSTPID
    for _ in range(5):
        bench.cycle()
    bench.processes.now = SourceStatus("cgroups", up=True)
    snapshot = bench.cycle()

    assert container(snapshot)["core_utilization_ratio"] == 0.5
    assert container(snapshot)["core_limit_utilization_ratio"] == 1
    assert row(snapshot, "device", "0", "GPU-0").values["utilization_ratio"] == 0.5


def test_one_clean_window_ends_the_doubt(bench: Bench) -> None:
    for _ in range(9):
        garbled(bench, 1)
    garbled(bench, 0)

    assert container(garbled(bench, 1))["core_seconds_total"] == 11 * SECOND // 2


def test_memory_without_a_list_of_its_holders_is_nobodys(bench: Bench) -> None:
    bench.cycle()

    snapshot = holding(bench, DeviceMemory(1000, 100, None, None))

    device = row(snapshot, "device", "0", "GPU-0").values
    assert device["unattributed_memory_bytes"] == {("no_pid",): device["memory_used_bytes"]}
    assert "memory_used_bytes" not in container(snapshot)


def test_a_container_that_ended_keeps_its_counters_beside_an_unknown_one(bench: Bench) -> None:
    beside = Container("side", container_ids=("d",))
    bench.name_pod(replace(POD, containers=(replace(POD.containers[0], limits={}), beside)))
    bench.cycle()
    bench.processes.identities[7] = CgroupIdentity("uid-1", "b" * 64, "containerd")

    snapshot = bench.cycle()

    assert row(snapshot, "container", "ml", "train", "", "0", "GPU-0").values["processes"] == 1
    counted = {"core_seconds_total": SECOND // 2, "core_waiting_seconds_total": 0}
    assert container(snapshot) == counted


def test_an_unnamed_pods_limits_are_unknown(bench: Bench) -> None:
    bench.processes.identities[7] = CgroupIdentity("uid-2", "b" * 64, "containerd")

    group = row(bench.cycle(), "group", "pod", f"uid-2/{'b' * 64}", "0", "GPU-0").values

    assert group["core_seconds_total"] == SECOND // 2
    assert group["unmeasured"] == {
        ("core_limit", "pod_unknown"): 1,
        ("memory_limit", "pod_unknown"): 1,
    }


def test_the_first_name_ends_the_doubt_and_so_do_ten_seconds_without_work(bench: Bench) -> None:
    named = ProcessActivity(7, Engines(core=SECOND // 4))
    for _ in range(11):
        working(bench)
    assert "core_seconds_total" in container(working(bench, named, core_ns=SECOND // 4))

    for _ in range(11):
        working(bench)
    idle = [container(working(bench, core_ns=0)) for _ in range(10)]
    assert ["core_seconds_total" in values for values in idle] == [False] * 9 + [True]


def test_a_busy_device_without_processes_has_none_that_could_be_at_work(bench: Bench) -> None:
    bench.cycle()
    holding(bench, DeviceMemory(1000, 0, None, ()))

    assert "core_seconds_total" in container([working(bench) for _ in range(12)][-1])


def test_an_unplaced_container_says_that_its_processes_cannot_be_found(bench: Bench) -> None:
    bench.name_pod(POD)
    told = row(blind(bench), "container", "ml", "train", "main", "", "").values["unmeasured"]

    assert isinstance(told, Mapping)
    assert ("core", "no_hostpid") in told
    assert ("core_limit", "placement") in told
