"""What a device or a driver does not tell is absent, with a reason, and asked no more."""

import pytest

from exporter.model import DeviceState, ProcessMemory
from tests.fakenvml.build import library
from tests.fakenvml.scenario import Fault, Gpu, Process, Work
from tests.gpus.nvml.node import START, Node, calls

GIB = 1 << 30
ROWS = (
    "nvmlDeviceGetProcessUtilization",
    "nvmlDeviceGetProcessesUtilizationInfo",
)
LISTS = tuple(
    f"nvmlDeviceGet{kind}RunningProcesses" for kind in ("Compute", "Graphics", "MPSCompute")
)


@pytest.fixture
def one(node: Node) -> Node:
    """One GPU with one process that is always busy."""
    node.scenario.gpus = [Gpu(0)]
    node.scenario.processes = [Process(gpu=0, pid=101, memory=2 * GIB)]
    node.scenario.works = [Work(gpu=0, pid=101, start=START - 60)]
    return node


@pytest.mark.parametrize(("code", "reason"), [(3, "not_supported"), (4, "no_permission")])
def test_refused_process_rows_leave_the_device_measured(one: Node, code: int, reason: str) -> None:
    one.fail(*(Fault("error", name, code=code) for name in ROWS))
    one.start()
    one.read()
    reading = one.device("GPU-0", after=1)
    assert reading.state is DeviceState.UP
    assert reading.window
    assert reading.window.busy.core == reading.window.observed_ns
    assert reading.window.processes == ()
    assert reading.unmeasured == dict.fromkeys(
        ("core", "memory_active", "encoder", "decoder"), reason
    )


def test_refusal_is_logged_once_and_not_asked_again(one: Node) -> None:
    one.fail(*(Fault("error", name, code=3) for name in ROWS))
    one.start()
    one.read()
    first = one.read(after=1)
    later = one.read(after=1)
    assert calls(later, ROWS[0]) == calls(first, ROWS[0]) == 1
    assert sum("process_samples" in line for line in one.ask("logged")) == 1


def test_device_without_sample_rings_is_measured_by_its_rates(one: Node) -> None:
    one.fail(Fault("error", "nvmlDeviceGetSamples", code=3))
    one.start()
    one.read()
    window = one.device("GPU-0", after=3).window
    assert window
    assert window.busy.core == window.observed_ns == 3_000_000_000
    assert [process.pid for process in window.processes] == [101]


def test_device_that_tells_nothing_of_its_engines_still_has_its_energy(one: Node) -> None:
    names = ("nvmlDeviceGetSamples", "nvmlDeviceGetUtilizationRates", *ROWS)
    one.fail(*(Fault("error", name, code=3) for name in names))
    one.start()
    one.read()
    one.read(after=3)
    reading = one.device("GPU-0", after=1)
    assert reading.window
    assert reading.window.busy.core is None
    assert reading.window.energy_uj == pytest.approx(350e6, rel=0.02)
    assert reading.unmeasured["core"] == "not_supported"


def test_encoder_that_is_not_measured_costs_only_itself(one: Node) -> None:
    one.fail(
        Fault("error", "nvmlDeviceGetEncoderUtilization", code=3),
        Fault("error", "nvmlDeviceGetSamples", code=3, skip=3),
    )
    one.start()
    one.read()
    one.read(after=1)
    window = one.device("GPU-0", after=3).window
    assert window
    assert window.busy.core
    assert window.busy.encoder is None
    assert window.processes[0].busy.encoder is None


def test_failing_sensor_costs_only_itself(one: Node) -> None:
    one.fail(
        Fault("error", "nvmlDeviceGetPowerUsage", code=999),
        Fault("error", "nvmlDeviceGetEnforcedPowerLimit", code=3),
    )
    one.start()
    reading = one.device("GPU-0")
    assert reading.sensors.power_watts is None
    assert reading.sensors.power_limit_watts is None
    assert reading.sensors.temperature_celsius["gpu"] == 50
    assert reading.unmeasured == {"power_limit": "not_supported"}


def test_process_lists_without_permission(one: Node) -> None:
    one.fail(Fault("error", "nvmlDeviceGetComputeRunningProcesses*", code=4))
    one.start()
    reading = one.device("GPU-0")
    assert reading.memory
    assert reading.memory.used_bytes == 2 * GIB
    assert reading.memory.processes is None
    assert reading.unmeasured == {"memory": "no_permission"}


def test_memory_that_fails_once_is_back_at_its_next_turn(one: Node) -> None:
    one.fail(Fault("error", "nvmlDeviceGetMemoryInfo*", code=999))
    one.start()
    assert one.device("GPU-0").memory is None
    one.fail()
    assert one.device("GPU-0", after=5).memory


@pytest.mark.parametrize("gone", [("_v3",), ("_v3", "_v2")], ids=["v2", "v1"])
def test_older_process_lists(one: Node, gone: tuple[str, ...]) -> None:
    one.start(path=library(omit={f"{name}{suffix}" for name in LISTS for suffix in gone}))
    memory = one.device("GPU-0").memory
    assert memory
    assert memory.processes == (ProcessMemory(101, 2 * GIB, frozenset({"compute"})),)


def test_process_lists_of_driver_535(one: Node) -> None:
    one.scenario.processes.append(Process(gpu=0, pid=102, memory=GIB))
    one.start(path=library(struct535=True))
    memory = one.device("GPU-0").memory
    assert memory
    assert [(p.pid, p.used_bytes) for p in memory.processes or ()] == [
        (101, 2 * GIB),
        (102, GIB),
    ]


def test_driver_that_lacks_functions(one: Node) -> None:
    lacks = {
        *(f"{name}{suffix}" for name in LISTS for suffix in ("_v3", "_v2", "")),
        *ROWS,
        "nvmlDeviceGetMemoryInfo_v2",
        "nvmlDeviceGetTemperatureV",
        "nvmlDeviceGetSamples",
        "nvmlDeviceGetTotalEnergyConsumption",
    }
    one.start(path=library(omit=lacks))
    one.read()
    reading = one.device("GPU-0", after=3)
    assert reading.state is DeviceState.UP
    assert reading.memory
    assert reading.memory.total_bytes == 80 * GIB
    assert reading.memory.reserved_bytes is None
    assert reading.memory.processes is None
    assert one.device("GPU-0", after=9).sensors.temperature_celsius["gpu"] == 50
    assert reading.window
    assert reading.window.busy.core
    assert set(reading.unmeasured.values()) == {"driver_too_old"}
    assert set(reading.unmeasured) >= {"core", "memory"}
    assert reading.window.methods.energy == "power"


def test_newer_call_where_the_older_is_missing(one: Node) -> None:
    one.start(path=library(omit={ROWS[0]}))
    one.read()
    window = one.device("GPU-0", after=1).window
    assert window
    assert [process.pid for process in window.processes] == [101]
