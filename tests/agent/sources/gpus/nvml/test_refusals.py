"""What a device refuses is absent, with a reason, and asked again after some minutes."""

from collections.abc import Mapping
from itertools import pairwise

import pytest

from exporter.model import DeviceMemory, DeviceState, ProcessMemory
from tests.agent.sources.gpus.known import known
from tests.agent.sources.gpus.nvml.node import START, Node, calls
from tests.fakenvml.build import library
from tests.fakenvml.scenario import Fault, Field, Gpu, Process, Work, energy_joules

GIB = 1 << 30
ROWS = (
    "nvmlDeviceGetProcessUtilization",
    "nvmlDeviceGetProcessesUtilizationInfo",
)
POWER = "nvmlDeviceGetPowerUsage"
RATES = (
    "nvmlDeviceGetUtilizationRates",
    "nvmlDeviceGetEncoderUtilization",
    "nvmlDeviceGetDecoderUtilization",
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


def test_refusal_is_logged_once_and_asked_again_less_and_less_often(one: Node) -> None:
    one.fail(*(Fault("error", name, code=3) for name in ROWS))
    one.start()
    one.read()
    asked = [calls(one.read(after=1), ROWS[0])]
    asked += [calls(one.read(after=20), ROWS[0]) for _ in range(180)]  # an hour
    times = [20 * i for i, (a, b) in enumerate(pairwise(asked)) if b > a]
    waits = [later - earlier for earlier, later in pairwise([0, *times])]
    assert asked[0] == 1
    assert waits[0] == pytest.approx(120, abs=20)
    assert waits[1] == pytest.approx(240, abs=20)
    assert waits[2] == pytest.approx(480, abs=20)
    assert all(wait == pytest.approx(960, abs=20) for wait in waits[3:])
    assert len(waits) >= 5
    assert sum("process_samples" in line for line in one.ask("logged")) == 1


def unmeasured(node: Node, *, after: float = 1) -> Mapping[str, str]:
    reading = node.device("GPU-0", after=after)
    assert reading.state is DeviceState.UP
    return reading.unmeasured


@pytest.mark.parametrize(
    ("functions", "quantities"),
    [
        (ROWS, {"core", "memory_active", "encoder", "decoder"}),
        (["nvmlDeviceGetMemoryInfo*"], {"device_memory"}),
        ([f"{LISTS[0]}*"], {"memory"}),
        (["nvmlDeviceGetSamples", *RATES, *ROWS], {"core"}),
        (["nvmlDeviceGetTotalEnergyConsumption", POWER], {"energy", "power"}),
        (["nvmlDeviceGetEnforcedPowerLimit"], {"power_limit"}),
        (["nvmlDeviceGetTemperature*"], {"temperature"}),
        (["nvmlDeviceGetClockInfo"], {"clock"}),
        (["nvmlDeviceGetFieldValues"], {"throttle", "ecc_errors", "nvlink"}),
        (["nvmlGpmSampleGet"], {"profiling"}),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else None,
)
def test_a_refusal_that_ends_is_noticed(
    one: Node, functions: list[str], quantities: set[str]
) -> None:
    one.scenario.fields = [Field(0, number, value=1) for number in (3, 4, 74, 76, 138, 139)]
    one.fail(*(Fault("error", name, code=4) for name in functions))
    one.start()
    one.read()
    one.read(after=3)
    assert quantities <= unmeasured(one).keys()

    one.fail()

    assert quantities <= unmeasured(one, after=60).keys()  # not due yet
    for _ in range(16):  # what has turns has one each 10 s
        one.read(after=5)
    assert not quantities & unmeasured(one).keys()
    assert any("again" in line for line in one.ask("logged"))


@pytest.mark.parametrize("case", ["refused", "no size"])
def test_a_board_that_shares_its_hosts_memory_lists_who_holds_it(one: Node, case: str) -> None:
    """As GB10, the board of a DGX Spark, does."""
    if case == "refused":
        one.fail(Fault("error", "nvmlDeviceGetMemoryInfo*", code=3))
    else:
        one.change_gpu(0, memory=0, reserved=0, used=0)
    one.start()
    one.read()
    reading = one.device("GPU-0", after=1)
    holder = ProcessMemory(101, 2 * GIB, frozenset({"compute"}))
    assert reading.device.memory_bytes is None
    assert reading.memory == DeviceMemory(None, None, None, (holder,))
    assert reading.unmeasured == dict.fromkeys(("device_memory", "memory_active"), "not_supported")


@pytest.mark.parametrize("since", ["the start", "a while"])
def test_a_size_that_fails_costs_neither_the_list_nor_the_reason(one: Node, since: str) -> None:
    fault = Fault("error", "nvmlDeviceGetMemoryInfo*", code=999)
    if since == "the start":
        one.fail(fault)
    one.start()
    one.read()
    one.fail(fault)
    failing = [one.device("GPU-0", after=5) for _ in range(4)]
    holder = ProcessMemory(101, 2 * GIB, frozenset({"compute"}))
    assert [known(reading.memory).processes for reading in failing] == [(holder,)] * 4
    assert {known(reading.memory).used_bytes for reading in failing} == {None}
    assert failing[-1].unmeasured == {"device_memory": "read_failed"}
    size = None if since == "the start" else 80 * GIB
    assert known(failing[-1].memory).total_bytes == size
    lines = [line for line in one.ask("logged") if "device_memory" in line]
    assert len(lines) == 1
    assert "(999)" in lines[0]

    one.fail()
    one.read(after=20)
    assert known(one.device("GPU-0", after=5).memory).used_bytes
    assert one.device("GPU-0").unmeasured == {}


@pytest.mark.parametrize("kind", ["Graphics", "MPSCompute"])
def test_a_list_that_was_always_empty_and_fails_costs_only_itself(one: Node, kind: str) -> None:
    one.start()
    one.read()
    one.fail(Fault("error", f"nvmlDeviceGet{kind}RunningProcesses*", code=999))
    processes = known(one.device("GPU-0", after=5).memory).processes
    assert [process.pid for process in processes or ()] == [101]


def test_who_was_on_a_list_that_fails_does_not_seem_to_hold_nothing(one: Node) -> None:
    one.scenario.processes.append(Process(gpu=0, pid=102, memory=GIB, kind="graphics"))
    one.start()
    one.read()
    one.fail(Fault("error", "nvmlDeviceGetGraphicsRunningProcesses*", code=999))
    memory = known(one.device("GPU-0", after=5).memory)
    assert memory.processes is None
    assert memory.used_bytes == 3 * GIB


@pytest.mark.parametrize("code", [999, 6])
def test_a_list_that_fails_costs_no_size_and_has_a_reason(one: Node, code: int) -> None:
    """Nor is one that is not found an empty one: that is a success (nvml.h)."""
    one.start()
    one.read()
    one.fail(Fault("error", "nvmlDeviceGetComputeRunningProcesses*", code=code))
    reading = [one.device("GPU-0", after=5) for _ in range(4)][-1]
    assert known(reading.memory).processes is None
    assert known(reading.memory).used_bytes == 2 * GIB
    assert reading.unmeasured == {"memory": "read_failed"}


@pytest.mark.parametrize(
    ("function", "quantity"),
    [
        ("nvmlDeviceGetFieldValues", "throttle"),
        ("nvmlDeviceGetMemoryInfo*", "device_memory"),
        ("nvmlDeviceGetEnforcedPowerLimit", "power_limit"),
        ("nvmlGpmSampleGet", "profiling"),
    ],
)
def test_what_fails_has_a_reason_at_once_and_is_soon_asked_again(
    one: Node, function: str, quantity: str
) -> None:
    one.scenario.fields = [Field(0, 74, value=1)]
    one.fail(Fault("error", function, code=999))
    one.start()
    one.read()
    assert unmeasured(one)[quantity] == "read_failed"
    failing = [unmeasured(one, after=5) for _ in range(6)][-1]
    assert failing.get(quantity) == "read_failed"
    one.fail()
    assert [unmeasured(one, after=5) for _ in range(8)][-1] == {}


@pytest.mark.parametrize(
    ("functions", "method"), [(ROWS, "samples"), (["nvmlDeviceGetSamples"], "rates")]
)
def test_samples_that_fail_for_long_cost_neither_memory_nor_sensors(
    one: Node, functions: list[str], method: str
) -> None:
    one.start()
    one.read()
    before = known(one.device("GPU-0", after=1).window)
    one.fail(*(Fault("error", name, code=999) for name in functions))
    assert one.device("GPU-0", after=1).state is DeviceState.FAILED  # for a moment that is all
    reading = [one.device("GPU-0", after=1) for _ in range(20)][-1]
    assert reading.state is DeviceState.UP
    assert known(reading.memory).used_bytes == 2 * GIB
    assert reading.sensors.value("power_watts")
    window = known(reading.window)
    assert (window.methods.busy, window.busy.core) == (method, window.observed_ns)
    assert reading.unmeasured.get("core") == ("read_failed" if method == "samples" else None)
    one.fail()
    back = [known(one.device("GPU-0", after=1).window) for _ in range(40)][-1]
    assert [process.pid for process in back.processes] == [101]
    assert back.methods == before.methods


def test_a_device_of_which_nothing_can_be_read_is_not_up(one: Node) -> None:
    names = [*RATES, *ROWS, "nvmlDeviceGetSamples", "nvmlDeviceGetMemoryInfo*"]
    names += [f"{name}*" for name in LISTS]
    one.start()
    one.read()
    one.fail(*(Fault("error", name, code=999) for name in names))
    states = {one.device("GPU-0", after=1).state for _ in range(60)}
    assert states == {DeviceState.FAILED}
    one.fail()
    for _ in range(40):
        reading = one.device("GPU-0", after=1)
    assert (reading.state, reading.unmeasured) == (DeviceState.UP, {})


def test_energy_whose_counter_fails_for_seconds_has_a_reason(one: Node) -> None:
    """Its sum would seem to stand still. The next answer has what was missed."""
    one.start()
    one.read()
    before = known(one.device("GPU-0", after=1).window)
    one.fail(Fault("error", "nvmlDeviceGetTotalEnergyConsumption", code=999))
    assert unmeasured(one).get("energy") is None
    assert unmeasured(one, after=4)["energy"] == "read_failed"
    one.fail()
    reading = one.device("GPU-0", after=1)
    assert (reading.unmeasured.get("energy"), known(before).methods.energy) == (None, "counter")
    assert known(reading.window).energy_uj


def test_a_counter_of_energy_that_fails_for_long_is_replaced_by_the_power(one: Node) -> None:
    one.start()
    one.read()
    one.fail(Fault("error", "nvmlDeviceGetTotalEnergyConsumption", code=999))
    windows = [one.device("GPU-0", after=1).window for _ in range(20)]
    assert known(windows[-1]).methods.energy == "power"
    assert known(windows[-1]).energy_uj


def test_the_ring_is_read_again_when_its_refusal_ends(one: Node) -> None:
    one.fail(Fault("error", "nvmlDeviceGetSamples", code=3))
    one.start()
    one.read()
    before = known(one.device("GPU-0", after=3).window)
    assert before.busy.core == before.observed_ns == 3_000_000_000
    assert [process.pid for process in before.processes] == [101]
    one.fail()
    one.read(after=121)
    one.read(after=1)
    after = known(one.device("GPU-0", after=1).window)
    assert (before.methods.busy, after.methods.busy) == ("rates", "samples")


def test_energy_and_time_are_counted_once_when_the_core_is_told_again(one: Node) -> None:
    names = ("nvmlDeviceGetSamples", "nvmlDeviceGetUtilizationRates", *ROWS)
    one.fail(*(Fault("error", name, code=3) for name in names))
    one.start()
    one.read()
    began = one.now
    windows = [one.device("GPU-0", after=1).window for _ in range(100)]
    one.fail()
    windows += [one.device("GPU-0", after=1).window for _ in range(100)]
    told = [window for window in windows if window]
    assert told[0].busy.core is None
    assert told[-1].busy.core == told[-1].observed_ns
    joules = sum(window.energy_uj or 0 for window in told) / 1e6
    assert joules == pytest.approx(energy_joules(one.scenario, 0, began, one.now), rel=0.02)
    covered = sum(window.end_unix_ns - window.start_unix_ns for window in told) / 1e9
    assert covered == pytest.approx(one.now - began, abs=3)


def test_energy_does_not_leap_when_the_counter_is_told_again(one: Node) -> None:
    """It stands in for the sum of power readings, which began at 0."""
    one.start()
    one.read()
    assert known(one.device("GPU-0", after=1).window).methods.energy == "counter"
    one.fail(Fault("error", "nvmlDeviceGetTotalEnergyConsumption", code=3))
    one.read(after=1)
    began = one.now
    windows = [one.device("GPU-0", after=1).window for _ in range(100)]
    one.fail()
    windows += [one.device("GPU-0", after=1).window for _ in range(60)]
    told = [window for window in windows if window]
    assert (told[0].methods.energy, told[-1].methods.energy) == ("power", "counter")
    joules = sum(window.energy_uj or 0 for window in told) / 1e6
    assert joules == pytest.approx(energy_joules(one.scenario, 0, began, one.now), rel=0.03)


@pytest.mark.parametrize("name", ROWS)
def test_a_call_that_fails_once_is_not_given_up_for_one_that_is_mute(one: Node, name: str) -> None:
    """Of two calls for process rows one may be mute in a driver: it must not stay the only one."""
    one.scenario.works = []
    one.fail(Fault("error", name, code=999, count=3))
    one.start()
    one.read()
    one.read(after=1)
    mute = ROWS[1 - ROWS.index(name)]
    one.scenario.works = [Work(gpu=0, pid=101, start=one.now)]
    one.fail(Fault("error", mute, code=6))  # NOT_FOUND: no process has rows
    window = known(one.device("GPU-0", after=1).window)
    assert [process.pid for process in window.processes] == [101]


def test_a_second_try_that_fails_costs_no_reading(one: Node) -> None:
    one.fail(*(Fault("error", name, code=3) for name in ROWS))
    one.start()
    one.read()
    one.read(after=1)
    one.fail(*(Fault("error", name, code=999) for name in ROWS))
    reading = one.device("GPU-0", after=121)
    assert reading.state is DeviceState.UP
    assert reading.unmeasured["core"] == "not_supported"


def test_traffic_is_counted_once_when_gpm_is_told_again_and_refused_again(one: Node) -> None:
    rate = 1 << 20
    one.scenario.fields = [Field(0, number, rate=rate, type="uint") for number in (197, 198)]
    one.fail(Fault("error", "nvmlGpmSampleGet", code=3))
    one.start()
    one.read()
    began = one.device("GPU-0", after=1).sensors.by_label("pcie_bytes_total")["transmit"]
    start = one.now
    for _ in range(6):
        one.read(after=25)
    one.fail()
    for _ in range(30):
        one.read(after=5)
    one.fail(Fault("error", "nvmlGpmSampleGet", code=3))
    for _ in range(20):
        one.read(after=5)
    moved = one.device("GPU-0").sensors.by_label("pcie_bytes_total")["transmit"] - began
    assert moved <= (one.now - start) * rate * 1.05


@pytest.mark.parametrize("step_s", [-3600, 3600])
def test_energy_without_engines_is_of_the_time_that_passed_whatever_the_wall_clock_says(
    one: Node, step_s: int
) -> None:
    one.scenario.faults = [
        Fault("error", "nvmlDeviceGetSamples", code=3),
        Fault("error", "nvmlDeviceGetUtilizationRates", code=3),
    ]
    one.start()
    one.read()
    before = known(one.device("GPU-0", after=1).window)
    one.ask("set_wall", step_s * 10**9)
    after = known(one.device("GPU-0", after=1).window)
    assert after.start_unix_ns == before.end_unix_ns
    assert (after.observed_ns, after.unobserved_ns) == (10**9, 0)


def test_encoder_that_is_not_measured_costs_only_itself(one: Node) -> None:
    one.fail(
        Fault("error", "nvmlDeviceGetEncoderUtilization", code=3),
        Fault("error", "nvmlDeviceGetSamples", code=3, skip=3),
    )
    one.start()
    one.read()
    one.read(after=1)
    window = known(one.device("GPU-0", after=3).window)
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
    assert reading.sensors.value("power_watts") is None
    assert reading.sensors.value("power_limit_watts") is None
    assert reading.sensors.by_label("temperature_celsius")["gpu"] == 50
    assert reading.unmeasured == {"power": "read_failed", "power_limit": "not_supported"}


@pytest.mark.parametrize("gone", [("_v3",), ("_v3", "_v2")], ids=["v2", "v1"])
def test_older_process_lists(one: Node, gone: tuple[str, ...]) -> None:
    one.start(path=library(omit={f"{name}{suffix}" for name in LISTS for suffix in gone}))
    memory = known(one.device("GPU-0").memory)
    assert memory.processes == (ProcessMemory(101, 2 * GIB, frozenset({"compute"})),)


def test_process_lists_of_driver_535(one: Node) -> None:
    one.scenario.processes.append(Process(gpu=0, pid=102, memory=GIB))
    one.start(path=library(struct535=True))
    memory = known(one.device("GPU-0").memory)
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
        "nvmlDeviceGetFieldValues",
    }
    one.start(path=library(omit=lacks))
    one.read()
    reading = one.device("GPU-0", after=3)
    assert reading.state is DeviceState.UP
    assert reading.memory
    assert reading.memory.total_bytes == 80 * GIB
    assert reading.memory.reserved_bytes is None
    assert reading.memory.processes is None
    assert one.device("GPU-0", after=9).sensors.by_label("temperature_celsius")["gpu"] == 50
    assert known(reading.window).busy.core
    assert set(reading.unmeasured.values()) == {"driver_too_old"}
    assert set(reading.unmeasured) >= {"core", "memory", "throttle", "ecc_errors", "nvlink"}
    assert known(reading.window).methods.energy == "power"


def test_newer_call_where_the_older_is_missing(one: Node) -> None:
    one.start(path=library(omit={ROWS[0]}))
    one.read()
    window = known(one.device("GPU-0", after=1).window)
    assert [process.pid for process in window.processes] == [101]


@pytest.fixture
def old(node: Node) -> Node:
    """One GPU that has no energy counter, busy in spells of seconds."""
    node.scenario.gpus = [Gpu(0, energy=False)]
    node.scenario.works = [Work(gpu=0, pid=101, start=START - 60, period=9.7, duty=0.5)]
    return node


def test_power_is_integrated_over_the_windows(old: Node) -> None:
    old.start()
    old.read()
    windows = [old.device("GPU-0", after=1).window for _ in range(60)]
    assert all(windows)
    used = sum(w.energy_uj or 0 for w in windows if w) / 1e6
    assert used == pytest.approx(energy_joules(old.scenario, 0, START, old.now), rel=0.05)
    assert {w.methods.energy for w in windows if w} == {"power"}
    assert "energy" not in old.device("GPU-0", after=1).unmeasured


def test_power_that_fails_once_is_in_the_next_window(old: Node) -> None:
    old.scenario.works = []
    old.start()
    old.read()
    old.read(after=1)
    old.fail(Fault("error", POWER, code=999))
    failed = known(old.device("GPU-0", after=1).window)
    old.fail()
    after = known(old.device("GPU-0", after=1).window)
    assert failed.energy_uj is None
    assert after.energy_uj == pytest.approx(2 * 70e6)
    assert after.late_energy_uj == pytest.approx(70e6, rel=0.1)  # and not the next one's to pay
