"""What the driver is slow to tell is asked for less often, on that device and for that long."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.agent.sources.gpus.gpusource import Demand
from exporter.agent.sources.gpus.nvml.cadence import (
    LONGEST_NS,
    MAX_SHARE,
    PROCESSES,
    SAMPLES,
    SECOND,
    SENSORS,
    AdaptiveInterval,
    ReadPhases,
)
from exporter.model import Reading
from tests.agent.simulation.clock import ManualClock
from tests.agent.sources.gpus.nvml.node import Node, calls
from tests.fakenvml.scenario import Gpu, Process

MS = 1_000_000
FIVE_NS = 5 * SECOND
LIST = "nvmlDeviceGetComputeRunningProcesses_v3"
POWER = "nvmlDeviceGetPowerUsage"
RING = "nvmlDeviceGetSamples"


def after(*costs_ms: float, every_ns: int = FIVE_NS) -> int:
    """The interval after turns that took so long."""
    pace = AdaptiveInterval()
    for cost in costs_ms:
        pace.observe(int(cost * MS), every_ns)
    return pace.widened_ns(every_ns)


@pytest.mark.parametrize(
    ("costs_ms", "seconds"),
    [
        ((), 5),
        ((1, 1), 5),
        ((50, 50), 5),
        ((51, 51), 10),
        ((101, 101), 20),
        ((400, 400), 40),
        ((2000, 2000), 60),
        ((2000,), 5),  # one slow turn says nothing
        ((2000, 1, 2000), 5),
        ((400, 400, 1), 5),  # quick again
        ((400, 400, 150), 20),
        ((60, 60, 45, 45), 10),  # on the edge it stays
        ((60, 60, 39), 5),
    ],
)
def test_a_turn_may_cost_a_hundredth_of_the_time_until_the_next(
    costs_ms: tuple[float, ...], seconds: int
) -> None:
    assert after(*costs_ms) == seconds * SECOND


@given(st.lists(st.integers(0, 10**12), max_size=30), st.integers(0, 120 * SECOND))
def test_an_interval_is_never_shortened_nor_widened_beyond_a_minute(
    costs: list[int], every_ns: int
) -> None:
    pace = AdaptiveInterval()
    for cost in costs:
        pace.observe(cost, every_ns)

    assert every_ns <= pace.widened_ns(every_ns) <= max(every_ns, LONGEST_NS)


@given(st.integers(0, 10**12), st.integers(1, 60 * SECOND))
def test_a_steady_cost_keeps_to_its_share_or_the_interval_is_the_widest(
    cost: int, every_ns: int
) -> None:
    pace = AdaptiveInterval()
    for _ in range(3):
        pace.observe(cost, every_ns)
    widened_ns = pace.widened_ns(every_ns)

    assert widened_ns >= LONGEST_NS or cost <= MAX_SHARE * widened_ns + 64


def test_what_is_read_each_cycle_is_never_put_off() -> None:
    assert after(900, 900, every_ns=0) == 0


def test_a_turn_in_a_hurry_is_put_off_in_the_same_measure() -> None:
    clock = ManualClock()
    parts = ReadPhases(clock, Demand())
    waits = []
    for _ in range(4):
        parts.read(PROCESSES, parts.note_call, 190 * MS)
    for hurry_ns in (None, SECOND):
        assert parts.cadence(PROCESSES).begin_if_due()
        seconds = 0
        while not parts.cadence(PROCESSES).begin_if_due(hurry_ns):
            clock.move(1)
            seconds += 1
        waits.append(seconds)
        parts.cadence(PROCESSES).restart()

    assert waits == [20, 4]


@pytest.fixture
def one(node: Node) -> Node:
    """A GPU with a process, whose driver takes as long for each call as the test says."""
    node.scenario.gpus = [Gpu(0)]
    node.scenario.processes = [Process(0, 101)]
    node.start()
    node.ask("follow", Demand(deadline_s=60))
    node.read()
    return node


def cycles(node: Node, number: int) -> Reading:
    for _ in range(number - 1):
        node.read(after=1)
    return node.read(after=1)


def made(node: Node, call: str, seconds: int) -> int:
    """How often a call is made in so many cycles of a second."""
    before = calls(node.read(), call)
    return calls(cycles(node, seconds), call) - before


def test_a_slow_driver_is_asked_less_often_for_all_but_samples(one: Node) -> None:
    often = {call: made(one, call, 20) for call in (LIST, POWER, RING)}
    one.ask("take", 30 * MS)
    cycles(one, 30)
    seldom = {call: made(one, call, 20) for call in (LIST, POWER, RING)}

    assert (often[LIST], often[POWER]) == (4, 4)
    assert seldom[LIST] <= 2
    assert seldom[POWER] <= 2
    assert seldom[RING] == often[RING]


def test_it_is_published_and_ends_when_the_driver_is_quick_again(one: Node) -> None:
    one.ask("take", 30 * MS)
    slow = cycles(one, 30).devices[0].costs
    one.ask("take", 0)
    quick = cycles(one, 60).devices[0].costs

    assert (slow[PROCESSES].every_ns or 0) >= 2 * FIVE_NS
    assert slow[SAMPLES].every_ns is None
    assert quick[PROCESSES].every_ns == quick[SENSORS].every_ns == FIVE_NS


def test_what_devices_cost_is_what_their_calls_took(one: Node) -> None:
    one.scenario.gpus.append(Gpu(1))
    one.read(after=40)  # a look finds it
    one.ask("take", 2 * MS)
    before, after = cycles(one, 8), cycles(one, 10)  # no look falls into these ten
    costs = [
        sum(cost.duration_ns for device in reading.devices for cost in device.costs.values())
        for reading in (before, after)
    ]
    whole = [
        sum(call.duration_ns for name, call in reading.calls.items() if "Event" not in name)
        for reading in (before, after)  # events are waited for on behalf of all
    ]

    assert calls(before, "nvmlDeviceGetCount") == calls(after, "nvmlDeviceGetCount")
    assert costs[1] - costs[0] == whole[1] - whole[0] > 0


def test_a_device_that_is_lost_still_tells_what_it_cost(one: Node) -> None:
    one.ask("take", 2 * MS)
    before = one.device("GPU-0", after=1).costs
    one.change_gpu(0, lost=True)
    lost = one.device("GPU-0", after=1)

    assert lost.state == "gpu_lost"
    assert lost.costs[SAMPLES].duration_ns >= before[SAMPLES].duration_ns > 0
