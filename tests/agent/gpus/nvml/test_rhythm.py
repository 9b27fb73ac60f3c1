"""How often a device is read, and how it is looked at in between."""

from itertools import pairwise

import pytest

from exporter.agent.sources.gpus.source import Demand
from exporter.model import DeviceReading, DeviceState
from tests.agent.gpus.nvml.node import START, Node, by_uuid, calls
from tests.fakenvml.scenario import Fault, Gpu, Process, Work

SECOND = 10**9
SELDOM = Demand(deadline_s=60, samples_every_ns=5 * SECOND)
SAMPLES, ENERGY = "nvmlDeviceGetSamples", "nvmlDeviceGetTotalEnergyConsumption"
LISTS, ROWS = "nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetProcessUtilization"


@pytest.fixture
def one(node: Node) -> Node:
    """One GPU with one process that is always busy. Its ring holds 14 s."""
    node.scenario.gpus = [Gpu(0, sample_period=0.2)]
    node.scenario.processes = [Process(gpu=0, pid=101, memory=2 << 30)]
    node.scenario.works = [Work(gpu=0, pid=101, start=START - 60)]
    return node


def settled(node: Node, demand: Demand = SELDOM) -> None:
    """Begin, and read until the ring's depth is known."""
    node.start(demand)
    node.read()
    node.read(after=1)


def reads(node: Node, seconds: int) -> list[DeviceReading]:
    return [by_uuid(node.read(after=1))["GPU-0"] for _ in range(seconds)]


def test_rings_and_energy_are_read_each_five_seconds_and_cut_into_seconds(one: Node) -> None:
    settled(one)
    before = one.read()
    seen = reads(one, 10)
    after = one.read()
    assert [len(each.windows) for each in seen] == [0, 0, 0, 0, 5] * 2
    # Core and memory; encoder and decoder each second time, because they idle.
    assert calls(after, SAMPLES) - calls(before, SAMPLES) == 2 * 2 + 2
    assert calls(after, ENERGY) - calls(before, ENERGY) == 2
    assert calls(after, LISTS) - calls(before, LISTS) >= 9
    windows = [window for each in seen for window in each.windows]
    assert all(a.end_unix_ns == b.start_unix_ns for a, b in pairwise(windows))
    assert all(abs(w.length_ns - SECOND) < SECOND / 3 for w in windows)
    assert sum(w.unobserved_ns for w in windows) == 0


def test_a_shallow_ring_is_read_as_often_as_it_needs(one: Node) -> None:
    one.change_gpu(0, ring=36)  # seven seconds
    settled(one)
    assert [len(each.windows) for each in reads(one, 6)] == [0, 2] * 3


def test_a_device_with_rates_only_is_read_in_each_cycle(one: Node) -> None:
    one.scenario.faults = [Fault("error", SAMPLES, code=3)]
    settled(one)
    assert all(len(each.windows) == 1 for each in reads(one, 5))


def test_a_lost_device_is_noticed_in_the_next_second(one: Node) -> None:
    settled(one)
    reads(one, 2)
    one.fail(Fault("error", "nvmlDevice*", gpu=0, code=15))
    assert reads(one, 1)[0].state is DeviceState.LOST


def test_where_lists_cost_much_the_rows_say_who_is_new(one: Node) -> None:
    settled(one)
    one.ask("take", 2_000_000)  # each call of the driver, from now on
    reads(one, 10)
    before = one.read()
    seen = reads(one, 10)
    after = one.read()
    assert calls(after, LISTS) - calls(before, LISTS) <= 3
    assert calls(after, ROWS) - calls(before, ROWS) >= 10
    assert all(each.seen for each in seen if not each.windows)


@pytest.mark.parametrize("step_s", [-3600, 3600])
def test_after_a_step_of_the_clock_each_cycle_reads(one: Node, step_s: int) -> None:
    settled(one)
    one.ask("set_wall", step_s * SECOND)
    reads(one, 1)
    assert any(each.windows for each in reads(one, 3))
