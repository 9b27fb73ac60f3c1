"""What a healthy device is read as."""

from itertools import pairwise

import pytest

from exporter.agent.sources.gpus.gpusource import Demand
from exporter.agent.sources.gpus.nvml.nvmlboard import PLAIN
from exporter.model import SECOND_NS, DeviceState, ProcessMemory
from tests.agent.sources.gpus.known import known
from tests.agent.sources.gpus.nvml.node import START, Node, calls
from tests.fakenvml.scenario import (
    Fault,
    Field,
    Gpu,
    Process,
    Work,
    core_seconds,
    energy_joules,
    truth,
)

GIB = 1 << 30
LEGACY = "nvmlDeviceGetProcessUtilization"
LIST = "nvmlDeviceGetComputeRunningProcesses_v3"
NEWER = "nvmlDeviceGetProcessesUtilizationInfo"


@pytest.fixture
def busy(node: Node) -> Node:
    """Two GPUs; on the first, two processes take turns."""
    node.scenario.gpus = [Gpu(0), Gpu(1)]
    node.scenario.processes = [
        Process(gpu=0, pid=101, memory=2 * GIB),
        Process(gpu=0, pid=102, memory=3 * GIB),
    ]
    node.scenario.works = [
        Work(gpu=0, pid=101, start=START - 60, period=1, duty=0.5, memory=0.2),
        Work(gpu=0, pid=102, start=START - 60, period=1, duty=0.25, phase=0.5, encoder=0.5),
    ]
    return node


def test_static_facts_of_a_board(busy: Node) -> None:
    busy.start()
    board = busy.device("GPU-1").device
    assert (board.index, board.minor, board.vendor) == (1, 1, "nvidia")
    assert board.model == "NVIDIA H100 80GB HBM3"
    assert board.pci_bus_id == "00000000:02:00.0"
    assert board.driver_version == "580.65.06"
    assert board.memory_bytes == 80 * GIB


def test_windows_add_up_to_the_true_busy_time(busy: Node) -> None:
    busy.start()
    busy.read()
    windows = [busy.device("GPU-0", after=1).window for _ in range(30)]
    assert all(windows)
    total = sum(w.busy.core or 0 for w in windows if w)
    assert total / 1e9 == pytest.approx(core_seconds(busy.scenario, 0, START, busy.now), rel=0.05)
    assert all(a and b and a.end_unix_ns == b.start_unix_ns for a, b in pairwise(windows))


def test_a_ring_deeper_than_the_first_buffer_is_counted_once(busy: Node) -> None:
    busy.change_gpu(0, ring=720, sample_period=1 / 60)
    busy.start()
    busy.read()
    windows = [busy.device("GPU-0", after=1).window for _ in range(30)]
    observed_ns = sum(w.observed_ns for w in windows if w)
    assert observed_ns == pytest.approx(30e9, abs=50e6)
    assert observed_ns <= 30e9
    assert {w.excess_samples for w in windows if w} == {0}
    used_ns = {101: 0, 102: 0}
    for window in windows:
        for process in window.processes if window else ():
            used_ns[process.pid] += process.busy.core or 0
    for pid, seconds in truth(busy.scenario, 0, START, busy.now).items():
        assert used_ns[pid] / 1e9 == pytest.approx(seconds, rel=0.05)


def test_each_process_has_its_engines(busy: Node) -> None:
    busy.start()
    busy.read()
    window = known(busy.device("GPU-0", after=5).window)
    activity = {process.pid: process.busy for process in window.processes}
    assert set(activity) == {101, 102}
    assert activity[101].memory_active
    assert activity[101].encoder == 0
    assert activity[102].encoder


def test_idle_device_has_a_window_without_processes(busy: Node) -> None:
    busy.start()
    busy.read()
    reading = busy.device("GPU-1", after=1)
    assert reading.state is DeviceState.UP
    assert known(reading.window).busy.core == 0
    assert known(reading.window).processes == ()
    assert reading.unmeasured == {}


def test_energy_of_the_windows_adds_up_to_the_counter(busy: Node) -> None:
    busy.start()
    busy.read()
    windows = [busy.device("GPU-0", after=1).window for _ in range(10)]
    used = sum(w.energy_uj or 0 for w in windows if w) / 1e6
    assert used == pytest.approx(energy_joules(busy.scenario, 0, START, busy.now), rel=0.02)


def test_energy_goes_on_after_the_counter_was_set_back(busy: Node) -> None:
    busy.start()
    busy.read()
    assert busy.device("GPU-0", after=1).window.energy_uj  # type: ignore[union-attr]
    busy.scenario.loaded = busy.now
    window = known(busy.device("GPU-0", after=1).window)
    assert window.energy_uj is None
    window = known(busy.device("GPU-0", after=1).window)
    assert window.energy_uj
    assert window.energy_uj > 0


def test_garbage_rows_are_counted_and_dropped(busy: Node) -> None:
    busy.change_gpu(0, garbage=4)
    busy.start()
    busy.read()
    window = known(busy.device("GPU-0", after=1).window)
    assert {process.pid for process in window.processes} == {101, 102}
    assert window.rejected == {"pid": 2, "percentage": 1, "timestamp": 1}


def test_memory_and_who_holds_it(busy: Node) -> None:
    busy.start()
    memory = known(busy.device("GPU-0").memory)
    assert (memory.total_bytes, memory.used_bytes) == (80 * GIB, 5 * GIB)
    assert memory.reserved_bytes == GIB // 2
    assert memory.processes == (
        ProcessMemory(101, 2 * GIB, frozenset({"compute"})),
        ProcessMemory(102, 3 * GIB, frozenset({"compute"})),
    )


RARE = {
    "fan_speed_ratio": 0.3,
    "performance_state": 0,
    "pcie_link_generation": 3,
    "pcie_link_max_generation": 4,
    "pcie_link_width": 8,
    "pcie_link_max_width": 16,
    "bar1_used_bytes": 1 << 20,
    "bar1_total_bytes": 256 << 20,
    "recovery_action": 4,
    "pcie_replays_total": 7,
    "retired_pages_pending": 1,
    "vgpu_licensed": 0,
}
REFUSED = [
    *{plain.function for plain in PLAIN if plain.family in RARE},
    "nvmlDeviceGetGridLicensableFeatures_v4",
]


def test_what_a_board_reports_of_itself(busy: Node) -> None:
    values = {230: 4, 94: 7, 31: 1, 29: 2, 30: 3, 38: 5, 45: 6, 52: 8, 59: 9}
    busy.scenario.fields = [Field(1, number, value) for number, value in values.items()]
    busy.start()
    sensors = busy.device("GPU-1").sensors
    assert {family: sensors.value(family) for family in RARE} == RARE
    assert (sensors.value("power_watts"), sensors.value("power_limit_watts")) == (70.0, 400.0)
    assert sensors.by_label("temperature_celsius") == {"gpu": 50.0, "memory": 60.0}
    clocks = {"sm": 1_755_000_000, "memory": 2_619_000_000}
    assert sensors.by_label("clock_hertz") == clocks
    assert sensors.by_label("retired_pages") == {"corrected": 2, "uncorrected": 3}
    errors = {"crc_flit": 5, "crc_data": 6, "replay": 8, "recovery": 9}
    assert sensors.by_label("nvlink_errors_total") == errors
    assert busy.device("GPU-1").device.cuda_version == "13.0"


@pytest.mark.parametrize(("licensed", "value"), [(None, 0), (False, 0), (True, 1)])
def test_a_vgpu_is_licensed_or_not(busy: Node, *, licensed: bool | None, value: int) -> None:
    busy.change_gpu(1, license=licensed)
    busy.start()
    assert busy.device("GPU-1").sensors.value("vgpu_licensed") == value


def test_what_a_board_refuses_is_absent_and_not_0(busy: Node) -> None:
    numbers = (230, 94, 29, 30, 31, 38, 45, 52, 59)
    busy.scenario.fields = [Field(1, number, error=3) for number in numbers]
    busy.scenario.faults = [Fault("error", call, code=3) for call in REFUSED]
    busy.start()
    reading = busy.device("GPU-1")
    assert {family: reading.sensors.value(family) for family in RARE} == dict.fromkeys(RARE)
    for family in ("retired_pages", "nvlink_errors_total"):
        assert not reading.sensors.by_label(family)
    assert reading.sensors.value("power_watts") == 70.0


def test_dear_questions_are_asked_seldom(busy: Node) -> None:
    busy.start(
        Demand(deadline_s=60, processes_every_ns=5 * SECOND_NS, sensors_every_ns=3 * SECOND_NS)
    )
    lists, power = "nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetPowerUsage"
    first = busy.read()
    assert (calls(first, lists), calls(first, power)) == (2, 2)
    for _ in range(3):
        busy.read(after=1)
    later = busy.read(after=1)
    assert (calls(later, lists), calls(later, power)) == (2, 4)
    assert later.devices[0].memory == first.devices[0].memory
    assert calls(busy.read(after=1), lists) == 4


def test_process_list_is_read_at_once_for_an_unknown_pid_but_not_each_cycle(node: Node) -> None:
    node.scenario.gpus = [Gpu(0)]
    node.scenario.works = [Work(gpu=0, pid=1, start=START - 60, end=START + 2)]
    node.start(Demand(deadline_s=60, processes_every_ns=60 * SECOND_NS))
    lists = "nvmlDeviceGetComputeRunningProcesses_v3"
    node.read()
    assert calls(node.read(after=0.5), lists) == 1  # unknown, but too soon
    assert calls(node.read(after=0.5), lists) == 2  # pid 1 is active and was not looked up
    assert calls(node.read(after=1), lists) == 2  # it is not listed: it has ended
    node.scenario.works.append(Work(gpu=0, pid=2, start=node.now))
    assert calls(node.read(after=1), lists) == 3


def test_buffer_that_is_too_small_grows(node: Node) -> None:
    node.scenario.gpus = [Gpu(0)]
    node.scenario.processes = [Process(gpu=0, pid=1000 + n, memory=1 << 20) for n in range(1500)]
    node.start()
    memory = known(node.device("GPU-0").memory)
    assert memory.processes
    assert len(memory.processes) == 1500


def test_insufficient_size_for_ever_fails_the_device_and_is_not_asked_for_ever(busy: Node) -> None:
    busy.start()
    busy.read()
    busy.fail(Fault("error", "nvmlDeviceGetSamples", gpu=0, code=7))
    reading = busy.device("GPU-0", after=1)
    assert reading.state is DeviceState.FAILED
    assert "insufficient_size" in reading.detail


@pytest.mark.parametrize("code", [3, 999])
def test_newer_call_stands_in_for_the_older_and_is_remembered(busy: Node, code: int) -> None:
    busy.scenario.gpus = [Gpu(0)]
    busy.fail(Fault("error", LEGACY, code=code))
    busy.start()
    busy.read()
    window = known(busy.device("GPU-0", after=1).window)
    assert {process.pid for process in window.processes} == {101, 102}
    before = busy.read(after=1)
    after = busy.read(after=1)
    assert calls(after, NEWER) > calls(before, NEWER)
    assert calls(after, LEGACY) == calls(before, LEGACY)


def test_a_rate_above_100_percent_is_rejected_and_counted(node: Node) -> None:
    node.scenario.gpus = [Gpu(0, rates=900)]
    node.scenario.works = [Work(gpu=0, pid=101, start=START - 60)]
    node.fail(Fault("error", "nvmlDeviceGetSamples", code=3))  # it has nothing but rates
    node.start()
    node.read()

    reading = node.device("GPU-0", after=3)
    node.change_gpu(0, rates=None)
    later = node.device("GPU-0", after=3)

    assert reading.state is DeviceState.UP
    assert reading.window is None
    assert reading.unmeasured["core"] == "rejected_samples"
    assert reading.rejected["utilization"] >= 1
    assert known(later.window).busy.core == known(later.window).observed_ns
    assert "core" not in later.unmeasured
    assert not later.rejected
