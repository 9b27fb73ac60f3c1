"""What is read, and how often, changed at run time."""

from dataclasses import replace

import pytest

from exporter.agent.sources.gpus.gpusource import Demand
from exporter.agent.sources.gpus.nvml.boardcounters import GROUPS, TABLE
from exporter.metrics.families import OFF_BY_DEFAULT, OPTIONAL_GROUPS
from exporter.model import SECOND_NS, Reading
from tests.agent.sources.gpus.known import known
from tests.agent.sources.gpus.nvml.node import START, Node, calls
from tests.fakenvml.scenario import Field, Gpu, Work, Xid

DEMAND = Demand(deadline_s=60, processes_every_ns=5 * SECOND_NS, sensors_every_ns=5 * SECOND_NS)
TX = 197
MIB = 1 << 20
CALLS = {
    "power": ("nvmlDeviceGetPowerUsage", "nvmlDeviceGetEnforcedPowerLimit"),
    "temperature": ("nvmlDeviceGetTemperatureV",),
    "clocks": ("nvmlDeviceGetClockInfo", "nvmlDeviceGetPerformanceState"),
    "fan": ("nvmlDeviceGetFanSpeed",),
    "link": ("nvmlDeviceGetCurrPcieLinkWidth", "nvmlDeviceGetMaxPcieLinkGeneration"),
    "bar1": ("nvmlDeviceGetBAR1MemoryInfo",),
    "license": ("nvmlDeviceGetGridLicensableFeatures_v4",),
    "profiling": ("nvmlGpmSampleGet", "nvmlGpmMetricsGet"),
}


def follow(node: Node, **changes: object) -> None:
    node.ask("follow", replace(DEMAND, **changes))  # type: ignore[arg-type] # by name


def made(reading: Reading, group: str) -> int:
    return sum(calls(reading, name) for name in CALLS[group])


@pytest.fixture
def one(node: Node) -> Node:
    node.scenario.gpus = [Gpu(0)]
    return node


@pytest.mark.parametrize("group", CALLS)
def test_a_group_is_switched_off_and_on_again(one: Node, group: str) -> None:
    one.start()
    one.read()
    before = made(one.read(after=10), group)
    follow(one, disabled=frozenset({group}))
    off = [one.read(after=10) for _ in range(2)]
    follow(one)
    on = [one.read(after=10) for _ in range(2)]

    assert before > 0
    assert [made(reading, group) for reading in off] == [before, before]
    assert made(on[-1], group) > before
    assert all(reading.devices[0].window for reading in (*off, *on))


def test_every_group_that_can_be_switched_off_is_asked_for_by_number_or_by_name() -> None:
    no_calls = {"cost", *OFF_BY_DEFAULT}  # what all calls take, and what needs none
    by_number = {GROUPS[counted.family] for counted in TABLE}
    assert set(OPTIONAL_GROUPS) - no_calls == {"xid", *CALLS} | by_number


def test_what_is_switched_off_is_not_shown_any_more(one: Node) -> None:
    one.start()
    one.read()
    assert one.device("GPU-0", after=10).sensors.value("power_watts") is not None
    follow(one, disabled=frozenset({"power", "throttle", "profiling"}))
    sensors = one.device("GPU-0", after=1).sensors
    assert (sensors.value("power_watts"), sensors.value("sm_active_ratio")) == (None, None)
    assert not sensors.by_label("throttle_seconds_total")
    assert sensors.by_label("clock_hertz")


def test_a_refusal_of_what_is_switched_off_is_no_news(one: Node) -> None:
    one.change_gpu(0, gpm=False)
    one.start()
    one.read()
    assert "profiling" in one.device("GPU-0", after=5).unmeasured
    follow(one, disabled=frozenset({"profiling"}))
    assert "profiling" not in one.device("GPU-0", after=5).unmeasured
    follow(one)
    assert "profiling" in one.device("GPU-0", after=5).unmeasured


def transmitted(node: Node, *, after: float) -> float:
    return node.device("GPU-0", after=after).sensors.by_label("pcie_bytes_total")["transmit"]


@pytest.fixture
def counting(one: Node) -> Node:
    """A board before Hopper that sends a MiB each second."""
    one.change_gpu(0, gpm=False)
    one.scenario.fields = [Field(0, TX, rate=MIB, type="uint")]
    one.start()
    one.read()
    return one


def test_a_sum_that_was_switched_off_goes_on_without_what_it_missed(counting: Node) -> None:
    before = transmitted(counting, after=1)
    follow(counting, disabled=frozenset({"pcie"}))
    assert not counting.device("GPU-0", after=3).sensors.by_label("pcie_bytes_total")
    follow(counting)
    assert transmitted(counting, after=1) == before
    assert transmitted(counting, after=1) == before + MIB


@pytest.mark.parametrize(
    ("changes", "call"),
    [
        ({"sensors_every_ns": 2 * SECOND_NS}, "nvmlDeviceGetPowerUsage"),
        ({"processes_every_ns": 2 * SECOND_NS}, "nvmlDeviceGetComputeRunningProcesses_v3"),
    ],
)
def test_a_cadence_is_followed(one: Node, changes: dict[str, float], call: str) -> None:
    one.start()
    one.read()
    follow(one, **changes)
    before = calls(one.read(after=2), call)
    assert calls(one.read(after=1), call) == before
    assert calls(one.read(after=1), call) == before + 1


def test_xids_are_not_watched_while_they_are_switched_off(one: Node) -> None:
    one.start()
    one.read()
    one.scenario.xids = [Xid(0, 31)]
    one.read(after=1)
    one.ask("xids", "GPU-0", 31, 1)
    follow(one, disabled=frozenset({"xid"}))
    assert not one.device("GPU-0", after=1).xids
    assert one.ask("unwatched")
    follow(one)
    one.read(after=1)
    assert one.ask("xids", "GPU-0", 31, 1)["31"].events >= 1


def test_counters_of_use_are_not_touched(one: Node) -> None:
    one.scenario.works = [Work(gpu=0, pid=101, start=START - 60)]
    one.start()
    one.read()
    busy = []
    for disabled in ({"power"}, {"profiling", "xid"}, set[str]()):
        follow(one, disabled=frozenset(disabled))
        window = known(one.device("GPU-0", after=1).window)
        busy.append((window.unobserved_ns, window.end_unix_ns - window.start_unix_ns))
    assert all(unobserved == 0 for unobserved, _ in busy)


def test_devices_that_are_found_later_are_read_by_it_too(one: Node) -> None:
    one.start()
    one.read()
    follow(one, disabled=frozenset({"power"}))
    one.scenario.gpus = [Gpu(0), Gpu(1)]
    one.read(after=31)
    assert one.device("GPU-1", after=1).sensors.value("power_watts") is None
