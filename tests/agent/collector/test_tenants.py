from dataclasses import replace

import pytest

from exporter.agent.collector.cyclerules import CycleRules
from exporter.agent.collector.processowners import LEAST_WINDOWS, MAX_ACTIVITIES, Residency
from exporter.agent.facts.history import Past
from exporter.model import (
    CgroupIdentity,
    ContainerKey,
    DeviceUsage,
    Engines,
    ProcessActivity,
    ProcessInfo,
    SeriesKey,
    Used,
)
from exporter.shown.processtree import processes_of
from tests.agent.collector.bench import CID, DEVICE, SECOND, Bench
from tests.rows import rows_of

NOTHING = DeviceUsage(DEVICE, SECOND, 0, Used(Engines()), {})


@pytest.fixture
def bench() -> Bench:
    bench = Bench()
    bench.processes.identities[7] = CgroupIdentity("uid-1", CID)
    bench.processes.infos[7] = ProcessInfo("python", 123)
    bench.name_pod()
    bench.use(7, SECOND // 4)
    return bench


def test_a_snapshot_tells_the_processes_of_its_containers(bench: Bench) -> None:
    bench.cycle()
    [process] = processes_of(bench.cycle())
    assert (process.pid, process.owner, process.core) == (7, ("ml", "train", "main"), 0.25)
    assert (process.memory_bytes, process.name, process.start_unix_ns) == (100, "python", 123)


def test_processes_add_up_to_their_container(bench: Bench) -> None:
    for _ in range(30):
        snapshot = bench.cycle()
    [process] = processes_of(snapshot)
    [row] = rows_of(snapshot)["container"]
    assert process.core == row.values["core_utilization_ratio"]


def test_an_older_snapshot_is_not_changed_by_the_next_cycles(bench: Bench) -> None:
    first = bench.cycle()
    before = list(processes_of(first))
    bench.use(7, SECOND)
    for _ in range(20):
        bench.cycle()
    assert list(processes_of(first)) == before


def test_processes_have_no_name_while_they_cannot_be_described(bench: Bench) -> None:
    def broken(_: object) -> dict[int, ProcessInfo]:
        raise OSError("gone")

    bench.processes.describe = broken  # type: ignore[method-assign,assignment] # a source that fails
    bench.cycle()
    snapshot = bench.cycle()
    [process] = processes_of(snapshot)
    assert (process.name, process.start_unix_ns) == ("", None)
    assert process.core == 0.25
    assert all(source.up for source in snapshot.sources)


def test_the_history_grows_with_the_cycles_and_not_with_its_readers(bench: Bench) -> None:
    for _ in range(11):
        snapshot = bench.cycle()
    for _ in range(50):
        list(processes_of(bench.collector.snapshot))
    past = Past(snapshot.history)[SeriesKey(ContainerKey("ml", "train", "main"), "GPU-0")]
    assert past["core_utilization_ratio"] == [0.25] * 2


def test_no_more_than_so_many_windows_of_so_many_processes_are_kept(bench: Bench) -> None:
    residency = Residency()
    many = tuple(
        ProcessActivity(pid, Engines()) for pid in range(2 * MAX_ACTIVITIES // LEAST_WINDOWS)
    )
    for number in range(LEAST_WINDOWS + 10):
        residency.enter(NOTHING, many, {}, number)
    [tenants] = residency.tenants(bench.gpus.devices, -1)
    assert len(tenants.windows) == LEAST_WINDOWS
    assert tenants.windows[-1].ended_mono_ns == LEAST_WINDOWS + 9


def test_processes_add_up_to_their_container_over_the_longest_window(bench: Bench) -> None:
    bench.collector.follow(replace(CycleRules(), window_ns=600 * SECOND))
    for number in range(300):
        bench.use(7, SECOND if number < 150 else 0)
        snapshot = bench.cycle()
    [process] = processes_of(snapshot)
    [row] = rows_of(snapshot)["container"]
    assert process.core == row.values["core_utilization_ratio"] == 0.5


def test_windows_older_than_the_averages_are_forgotten(bench: Bench) -> None:
    residency = Residency()
    residency.enter(NOTHING, (), {}, SECOND)
    residency.enter(NOTHING, (), {}, 10 * SECOND)
    [tenants] = residency.tenants(bench.gpus.devices, SECOND)
    assert [window.ended_mono_ns for window in tenants.windows] == [10 * SECOND]


def test_a_device_that_has_gone_takes_its_windows_along(bench: Bench) -> None:
    residency = Residency()
    residency.enter(NOTHING, (), {}, SECOND)
    assert residency.tenants((), 0) == ()
    [tenants] = residency.tenants(bench.gpus.devices, 0)
    assert tenants.windows == ()
