"""ActivityWindows, memory, energy and sensors, by the numbers of the tree."""

from pathlib import Path

import pytest
from pyfakefs.fake_filesystem import FakeFilesystem
from pyfakefs.helpers import reset_ids, set_uid

from exporter.model import DeviceState, ProcessMemory, Unmeasured
from tests.agent.sources.gpus.amd.node import Node
from tests.agent.sources.gpus.amd.trees import (
    GIB,
    MI100,
    MI210,
    MI250,
    MI300X,
    PERCENT,
    TICKS,
    V1_3,
    attribute,
    attributes,
    put,
    table,
    v1_6,
    v1_9,
)
from tests.agent.sources.gpus.known import known

SECOND = 1_000_000_000
JOULE = 1_000_000
COMPUTE = frozenset({"compute"})


def test_the_newest_percentage_speaks_for_the_time_since_the_last(node: Node) -> None:
    board = node.tree.add(MI210)
    assert node.device(board.uuid).window is None

    board.set(gpu_busy_percent=40, mem_busy_percent=10)
    window = node.window(board.uuid, after=2)

    assert (window.observed_ns, window.unobserved_ns) == (2 * SECOND, 0)
    assert (window.busy.core, window.busy.memory_active) == (800_000_000, 200_000_000)
    assert (window.methods.busy, window.methods.shares) == ("rates", "cu_occupancy")


def test_windows_follow_one_another_and_long_gaps_are_unobserved(node: Node) -> None:
    board = node.tree.add(MI210)
    node.read()

    windows = [node.window(board.uuid, after) for after in (1, 0.5, 60, 1)]

    starts, ends = [w.start_unix_ns for w in windows], [w.end_unix_ns for w in windows]
    assert starts[1:] == ends[:-1]
    assert [w.unobserved_ns for w in windows] == [0, 0, 55 * SECOND, 0]


def test_a_processes_part_is_that_of_the_compute_units_it_occupies(node: Node) -> None:
    board = node.tree.add(MI210)
    node.tree.run(7)
    node.tree.run(8)
    node.read()
    board.set(gpu_busy_percent=100)
    node.tree.use(7, board.gpu_ids[0], cus=26)
    node.tree.use(8, board.gpu_ids[0], cus=52)

    window = node.window(board.uuid)

    assert {p.pid: p.busy.core for p in window.processes} == {7: SECOND // 4, 8: SECOND // 2}


def test_processes_hold_what_kfd_says_and_only_where_they_hold_something(node: Node) -> None:
    first, second = node.tree.add(MI210), node.tree.add(MI210)
    node.tree.run(7)
    node.tree.use(7, first.gpu_ids[0], vram=3 * GIB)
    first.set(mem_info_vram_used=4 * GIB)

    readings = {r.device.uuid: r.memory for r in node.read().devices}

    held = known(readings[first.uuid])
    assert (held.total_bytes, held.used_bytes) == (64 * GIB, 4 * GIB)
    assert held.processes == (ProcessMemory(7, 3 * GIB, COMPUTE),)
    nothing = known(readings[second.uuid])
    assert nothing.processes == ()


def test_a_new_process_at_work_is_listed_at_once_and_others_at_the_slow_pace(node: Node) -> None:
    board = node.tree.add(MI210)
    node.read()
    node.tree.run(7)
    node.tree.use(7, board.gpu_ids[0], vram=GIB)

    quiet = known(node.device(board.uuid).memory)
    node.tree.use(7, board.gpu_ids[0], cus=1)
    woken = known(node.device(board.uuid).memory)

    assert (quiet.processes, woken.processes) == ((), (ProcessMemory(7, GIB, COMPUTE),))


def test_the_contexts_of_one_process_are_taken_together(node: Node) -> None:
    board = node.tree.add(MI210)
    node.tree.run(7)
    node.tree.use(7, board.gpu_ids[0], vram=GIB, name="7/context_1")
    node.tree.use(7, board.gpu_ids[0], vram=GIB, name="pid:7-id:2")
    node.tree.run(8, name="not a process")

    memory = known(node.device(board.uuid).memory)

    assert memory.processes == (ProcessMemory(7, 2 * GIB, COMPUTE),)


def test_who_ends_between_being_listed_and_read_has_just_gone(node: Node) -> None:
    board = node.tree.add(MI210)
    (node.tree.kfd / "proc/7").symlink_to("ended")  # is listed, and is not there
    node.read()

    reading = node.device(board.uuid)

    assert "core" not in reading.unmeasured
    assert known(reading.window).methods.shares == "cu_occupancy"


def test_a_counter_that_comes_after_power_is_not_spent_all_at_once(node: Node) -> None:
    board = node.tree.add(MI300X)
    board.hwmon(power1_average=100 * 10**6)
    node.read()  # the firmware has no table yet
    node.read()
    board.metrics(v1_6(10**9 * TICKS))

    switched = node.window(board.uuid)
    board.metrics(v1_6((10**9 + 300) * TICKS))

    assert (switched.energy_uj, switched.methods.energy) == (100 * JOULE, "power")
    assert node.window(board.uuid).energy_uj == 300 * JOULE


def test_a_counter_that_is_not_told_for_a_moment_is_not_counted_again(node: Node) -> None:
    board = node.tree.add(MI210)
    node.tree.run(7)
    node.tree.count(7, board.gpu_ids[0], sdma_us=5_000_000)
    node.read()
    sdma = node.tree.kfd / f"proc/7/sdma_{board.gpu_ids[0]}"
    sdma.unlink()
    node.read(after=6)
    put(sdma, 5_000_100)

    windows = [node.window(board.uuid, after=6), node.window(board.uuid)]

    assert sum(w.counted["copy"].get(7, 0) for w in windows) == 100_000


def v1_3(joules: int) -> bytes:
    """A table of an MI100 or MI200 whose counter stands there."""
    return table(V1_3, {24: ("Q", joules * TICKS)})


def test_a_counter_that_stands_still_under_power_is_not_used(node: Node) -> None:
    """As of an MI100 whose job draws 300 W for 40 s."""
    board = node.tree.add(MI100)
    board.metrics(v1_3(4711))
    board.hwmon(power1_average=300_000_000)
    node.read()

    windows = [node.window(board.uuid) for _ in range(40)]

    assert windows[0].energy_uj is None
    assert sum(window.energy_uj or 0 for window in windows) == 40 * 300 * JOULE
    assert windows[-1].methods.energy == "power"


def test_the_second_die_of_a_module_has_no_energy_and_the_first_has_it_for_both(
    node: Node,
) -> None:
    """As of an MI250 that draws 500 W: ``aldebaran_ppt.c`` has 0 for the second die."""
    first, second = node.tree.add(MI250), node.tree.add(MI250)
    second.metrics(v1_3(0))
    second.hwmon(power1_average=0, power1_cap=0)
    first.metrics(v1_3(0))
    node.read()
    for joules in (500, 1000, 1500):
        first.metrics(v1_3(joules))
        counted, empty = node.read().devices

    assert counted.device.sharing == empty.device.sharing == "module"
    assert known(counted.window).energy_uj == 500 * JOULE
    assert known(empty.window).energy_uj is None
    assert empty.sensors.value("power_watts") is None
    assert counted.unmeasured["energy"] is Unmeasured.MODULE  # of those who use it
    assert {empty.unmeasured[q] for q in ("energy", "power", "power_limit")} == {Unmeasured.MODULE}


def test_energy_of_a_table_that_fails_once_is_not_lost(node: Node) -> None:
    board = node.tree.add(MI300X)
    board.metrics(v1_6(1000 * TICKS))
    node.read()
    board.metrics(b"")
    failed = node.window(board.uuid)
    board.metrics(v1_6(1700 * TICKS))

    back = node.window(board.uuid)

    assert failed.energy_uj is None
    assert (back.energy_uj, back.late_energy_uj) == (700 * JOULE, 350 * JOULE)


def test_a_partition_has_its_own_activity_and_the_board_the_energy(node: Node) -> None:
    board = node.tree.add(MI300X, parts=8)
    node.tree.run(7)
    board.metrics(v1_6(0, [[0]] * 8))
    node.read()
    board.metrics(v1_6(700 * TICKS, [[100], [50], *[[0]] * 6]))
    node.tree.use(7, board.gpu_ids[1], cus=19, vram=2 * GIB)

    whole, first, second, *_ = node.read().devices

    assert known(whole.window).energy_uj == 700 * JOULE
    assert known(whole.window).busy.core is None
    assert whole.unmeasured["memory"] is Unmeasured.PARTITIONED
    assert second.window is not None
    assert (known(first.window).busy.core, second.window.busy.core) == (SECOND // 8, SECOND // 16)
    assert (known(first.window).energy_uj, second.window.energy_uj) == (None, None)
    [activity] = second.window.processes
    assert activity.busy.core == SECOND // 16  # 19 of its 38 units, of an eighth of the board
    assert (known(second.memory).total_bytes, known(second.memory).used_bytes) == (
        24 * GIB,
        2 * GIB,
    )
    assert second.unmeasured["energy"] is Unmeasured.PARTITIONED


def core_of_parts(node: Node) -> list[int | None]:
    """The core time of each partition in the next second."""
    return [known(r.window).busy.core for r in node.read().devices if r.device.parent_uuid]


def test_a_table_that_says_itself_what_it_has_is_read_by_its_dies(node: Node) -> None:
    """Of an MI300X in DPX, since ROCm 7.2."""
    board = node.tree.add(MI300X, parts=2)
    board.metrics(v1_9(0, [0] * 8, cycles=0, ppt=0))
    node.read()
    board.metrics(v1_9(700 * TICKS, [100, 100, 60, 60, 0, 0, 20, 20], cycles=100, ppt=25))

    assert core_of_parts(node) == [SECOND * 4 // 10, SECOND // 20]
    board.metrics(v1_9(800 * TICKS, [0] * 8, cycles=200, ppt=75))
    whole = node.device(board.uuid, after=8)
    assert (known(whole.window).energy_uj, known(whole.window).methods.energy) == (
        100 * JOULE,
        "counter",
    )
    assert whole.sensors.by_label("throttle_seconds_total") == {"ppt": 3.375 * SECOND}


def test_a_partition_whose_board_does_not_tell_its_dies_has_a_table_of_its_own(
    node: Node,
) -> None:
    board = node.tree.add(MI300X, parts=2)
    board.metrics(v1_9(0))
    node.read()
    for part, busy in enumerate([[50, 50, 50, 50], [100, 0, 0, 0]]):
        content = attributes((1, 1), attribute(40, "I", busy, PERCENT))
        put(node.tree.partition(board, part) / "xcp/xcp_metrics", content)

    assert core_of_parts(node) == [SECOND // 4, SECOND // 8]


def test_a_table_that_is_not_known_is_named_by_its_number_and_once_in_the_log(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    board = node.tree.add(MI300X, parts=2)
    board.metrics(table((1999, 1, 12), {}))
    node.read()

    whole, first, _ = node.read().devices

    assert whole.detail == "gpu_metrics 1.12 of 1999 bytes is not known"
    assert first.unmeasured["core"] is Unmeasured.PARTITIONED
    assert caplog.text.count("1.12 of 1999 bytes") == 1


def test_sensors_are_those_of_hwmon_and_ras(node: Node) -> None:
    board = node.tree.add(MI210)
    put(board.folder / "ras/umc_err_count", "ue: 2\nce: 5")

    sensors = node.device(board.uuid).sensors

    assert (sensors.value("power_watts"), sensors.value("power_limit_watts")) == (100, 300)
    assert sensors.by_label("temperature_celsius") == {"gpu": 41, "hotspot": 52, "memory": 47}
    assert sensors.by_label("clock_hertz") == {"sm": 800_000_000, "memory": 1_600_000_000}
    assert sensors.by_label("ecc_errors_total") == {"corrected": 5, "uncorrected": 2}


def test_a_sensor_that_may_not_be_read_costs_only_itself(fs: FakeFilesystem) -> None:
    fs.is_case_sensitive = True
    node = Node(Path("/host/sys"))
    node.tree.load()
    board = node.tree.add(MI210)
    board.set(gpu_busy_percent=50)
    (board.folder / "hwmon/hwmon4/power1_average").chmod(0o200)
    set_uid(65532)
    node.read()

    reading = node.device(board.uuid)

    reset_ids()
    node.source.close()
    assert known(reading.window).busy.core == SECOND // 2
    assert reading.sensors.by_label("temperature_celsius")
    assert reading.unmeasured["power"] is Unmeasured.NO_PERMISSION


@pytest.mark.parametrize(
    ("name", "quantity"),
    [
        ("gpu_busy_percent", "core"),
        ("mem_busy_percent", "memory_active"),
        ("mem_info_vram_total", "device_memory"),
        ("mem_info_vram_used", "device_memory"),
        ("gpu_metrics", "throttle"),
    ],
)
def test_a_file_that_may_not_be_read_costs_only_what_is_in_it(
    fs: FakeFilesystem, name: str, quantity: str
) -> None:
    fs.is_case_sensitive = True
    node = Node(Path("/host/sys"))
    node.tree.load()
    board = node.tree.add(MI300X)
    board.set(gpu_busy_percent=50, mem_busy_percent=10)
    board.metrics(v1_6(TICKS, cycles=0, ppt=0))
    node.tree.use(7, board.gpu_ids[0], vram=GIB)
    (board.folder / name).chmod(0o200)
    set_uid(65532)
    node.read()

    reading = node.device(board.uuid)

    reset_ids()
    node.source.close()
    refused = {q for q, why in reading.unmeasured.items() if why is Unmeasured.NO_PERMISSION}
    assert (reading.state, reading.detail) == (DeviceState.UP, f"{name} may not be read")
    assert refused == {quantity}
    assert reading.sensors.value("power_watts")


def test_half_of_a_percentage_is_none(node: Node) -> None:
    board = node.tree.add(MI210)
    board.set(gpu_busy_percent=70)
    node.read()
    (board.folder / "gpu_busy_percent").write_text("7")

    assert node.device(board.uuid).unmeasured["core"] is Unmeasured.READ_FAILED


def test_throttling_is_the_share_of_the_cycles_between_two_reads(node: Node) -> None:
    board = node.tree.add(MI300X)
    board.metrics(v1_6(cycles=2**32 - 500, ppt=2**32 - 100))
    assert node.device(board.uuid).sensors.by_label("throttle_seconds_total") == {"ppt": 0}
    board.metrics(v1_6(cycles=500, ppt=150))  # both have gone round

    sensors = node.device(board.uuid, after=10).sensors

    assert sensors.by_label("throttle_seconds_total") == {"ppt": 2.5 * SECOND}


def test_counters_of_a_board_go_on_when_it_is_partitioned_anew(node: Node) -> None:
    board = node.tree.add(MI300X)
    (board.folder / "hwmon/hwmon4/power1_average").unlink()
    board.metrics(v1_6(1000 * TICKS, cycles=0, ppt=0))
    node.read()
    board.metrics(v1_6(1400 * TICKS, cycles=100, ppt=50))
    before = node.device(board.uuid, after=10)
    node.tree.divide(board, 2)
    node.read(after=31)

    board.metrics(v1_6(1900 * TICKS, cycles=200, ppt=50))
    after = node.device(board.uuid, after=10)

    assert len(node.read().devices) == 3
    assert before.sensors.by_label("throttle_seconds_total") == {"ppt": 5 * SECOND}
    assert after.sensors.by_label("throttle_seconds_total") == {"ppt": 5 * SECOND}
    assert (known(before.window).energy_uj or 0) + (
        known(after.window).energy_uj or 0
    ) == 900 * JOULE


def test_the_energy_until_a_board_is_partitioned_anew_is_not_lost(node: Node) -> None:
    board = node.tree.add(MI300X)
    (board.folder / "hwmon/hwmon4/power1_average").unlink()
    energies = []
    for joules in range(1000, 1500, 100):
        board.metrics(v1_6(joules * TICKS, cycles=0, ppt=0))
        if joules == 1300:
            node.tree.divide(board, 2)
        energies.append([window.energy_uj for window in node.device(board.uuid, after=1).windows])

    assert energies == [[], *[[100 * JOULE]] * 4]


def test_what_kfd_denies_is_a_reason_and_not_a_failure(fs: FakeFilesystem) -> None:
    """KFD asks the reader's device cgroup; a mode of the file answers alike."""
    fs.is_case_sensitive = True
    node = Node(Path("/host/sys"))
    node.tree.load()
    board = node.tree.add(MI210)
    node.tree.run(7)
    node.read()
    files = node.tree.kfd / "proc/7"
    (files / f"vram_{board.gpu_ids[0]}").chmod(0o200)
    (files / f"stats_{board.gpu_ids[0]}/cu_occupancy").chmod(0o200)
    set_uid(65532)

    reading = node.device(board.uuid, after=6)

    reset_ids()
    node.source.close()
    assert reading.unmeasured["core"] is Unmeasured.NO_PERMISSION
    assert reading.unmeasured["memory"] is Unmeasured.NO_PERMISSION
    assert known(reading.memory).processes is None


@pytest.mark.parametrize("name", ["mem_info_vram_used", "mem_info_vram_total"])
def test_a_size_that_cannot_be_read_costs_no_list(node: Node, name: str) -> None:
    board = node.tree.add(MI210)
    node.tree.use(7, board.gpu_ids[0], vram=GIB)
    node.read()
    (board.folder / name).unlink()
    (board.folder / name).mkdir()  # EISDIR: root is refused nothing here

    reading = node.device(board.uuid, after=6)

    assert known(reading.memory).processes == (ProcessMemory(7, GIB, COMPUTE),)
    assert known(reading.memory).used_bytes is None or name == "mem_info_vram_total"
    assert reading.unmeasured["device_memory"] is Unmeasured.READ_FAILED


def counted(node: Node, uuid: str) -> dict[str, dict[int, int]]:
    """What is counted in the window after the next list of processes."""
    node.read(after=6)
    window = node.window(uuid)
    return {name: dict(by_pid) for name, by_pid in window.counted.items()}


def test_copy_time_and_evictions_are_what_the_counters_rise_by(node: Node) -> None:
    board = node.tree.add(MI210)
    node.tree.run(7)
    node.tree.count(7, board.gpu_ids[0], sdma_us=5_000_000, evicted_ms=10)
    node.read()
    node.tree.count(7, board.gpu_ids[0], sdma_us=5_000_250, evicted_ms=12)

    assert counted(node, board.uuid) == {"copy": {7: 250_000}, "evicted": {7: 2_000_000}}
    assert counted(node, board.uuid) == {"copy": {}, "evicted": {}}


def test_a_counter_that_goes_back_is_held_at_its_highest(node: Node) -> None:
    board = node.tree.add(MI210)
    node.tree.run(7)
    found = []
    for sdma_us in (1000, 4000, 3000, 5000):
        node.tree.count(7, board.gpu_ids[0], sdma_us=sdma_us)
        found.append(counted(node, board.uuid)["copy"])

    assert found == [{}, {7: 3_000_000}, {}, {7: 1_000_000}]


def test_a_process_that_came_later_is_counted_from_its_beginning(node: Node) -> None:
    board = node.tree.add(MI210)
    node.read()
    node.tree.run(8)
    node.tree.count(8, board.gpu_ids[0], sdma_us=70)

    assert counted(node, board.uuid)["copy"] == {8: 70_000}


def test_a_board_is_not_idle_while_one_of_its_partitions_works(node: Node) -> None:
    board = node.tree.add(MI300X, parts=2)
    for second in range(8):
        board.metrics(v1_6(100 * second * TICKS, [[0], [100]]))
        node.read()
    board.metrics(v1_6(800 * TICKS, [[0], [100]]))

    window = node.window(board.uuid)

    assert (window.energy_uj, window.idle_energy_uj) == (100 * JOULE, None)
