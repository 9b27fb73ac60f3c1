"""How often a device is read, and how it is looked at in between."""

from itertools import pairwise

import pytest

from exporter.agent.sources.gpus.gpusource import Demand
from exporter.model import DeviceReading, DeviceState
from tests.agent.sources.gpus.nvml.node import START, Node, by_uuid, calls
from tests.fakenvml.scenario import Fault, Gpu, Process, Work

SECOND = 10**9
SELDOM = Demand(deadline_s=60, samples_every_ns=5 * SECOND)
SAMPLES, ENERGY = "nvmlDeviceGetSamples", "nvmlDeviceGetTotalEnergyConsumption"
LISTS, ROWS = "nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetProcessUtilization"
MEMORY = "nvmlDeviceGetMemoryInfo"


@pytest.fixture
def one(node: Node) -> Node:
    """One GPU with one process that is always busy. Its ring holds 14 s."""
    node.scenario.gpus = [Gpu(0, sample_period=0.2)]
    node.scenario.processes = [Process(gpu=0, pid=101, memory=2 << 30)]
    node.scenario.works = [Work(gpu=0, pid=101, start=START - 60)]
    return node


def settled(node: Node) -> None:
    """Begin, and read until the ring's depth is known."""
    node.start(SELDOM)
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
    assert calls(after, LISTS) - calls(before, LISTS) == 2
    assert calls(after, MEMORY) - calls(before, MEMORY) >= 10, "where it stays, so do processes"
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


def test_a_device_lost_after_its_rings_were_read_loses_no_window(one: Node) -> None:
    settled(one)
    seen = reads(one, 9)
    one.fail(Fault("error", "nvmlDeviceGetFieldValues", gpu=0, code=15))
    seen += reads(one, 1)
    assert seen[-1].state is DeviceState.LOST
    one.fail()
    windows = [window for each in (*seen, *reads(one, 10)) for window in each.windows]
    assert len(windows) >= 15
    assert all(a.end_unix_ns == b.start_unix_ns for a, b in pairwise(windows))


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


def used_s(seen: list[DeviceReading]) -> dict[int, float]:
    """The core time of each process in seconds, by pid; that of nobody by 0."""
    used: dict[int, int] = {0: 0}
    for window in [window for each in seen for window in each.windows]:
        used[0] += window.busy.core or 0
        for pid, engines in window.processes:
            used[pid] = used.get(pid, 0) + (engines.core or 0)
            used[0] -= engines.core or 0
    return {pid: ns / SECOND for pid, ns in used.items()}


@pytest.mark.parametrize("more_bytes", [1, 0])
def test_a_process_has_nothing_of_the_one_whose_place_it_took(one: Node, more_bytes: int) -> None:
    """On an H200 the driver says that a new process used what the one before it did."""
    one.scenario.gpus = [Gpu(0, sample_period=0.2, inherits=True)]
    one.scenario.processes = [
        Process(gpu=0, pid=101, memory=2 << 30, end=START + 92.6),
        Process(gpu=0, pid=102, memory=(2 << 30) + more_bytes, start=START + 92.8),
    ]
    one.scenario.works = [
        Work(gpu=0, pid=101, start=START - 60, end=START + 92.6),
        Work(gpu=0, pid=102, start=START + 93.8, end=START + 94.4),
    ]
    settled(one)
    reads(one, 88)
    used = used_s(reads(one, 15))
    assert used[102] <= 1.7, "0.6 s of its own, and at most what was used since a look missed it"
    # One that takes just as much memory within the same second is seen by the next list only.
    assert used[102] >= (0.5 if more_bytes else 0.3)


def listed(seen: list[DeviceReading]) -> list[set[int]]:
    """The processes that each reading lists."""
    memories = [each.memory for each in seen]
    return [{one.pid for one in memory.processes or ()} for memory in memories if memory]


def test_a_process_that_comes_is_listed_in_the_next_second(one: Node) -> None:
    one.scenario.processes.append(Process(gpu=0, pid=102, memory=1 << 20, start=START + 20.5))
    settled(one)
    reads(one, 18)
    assert listed(reads(one, 3)) == [{101}, {101, 102}, {101, 102}]


def test_a_process_that_goes_is_missed_in_the_next_second(one: Node) -> None:
    one.scenario.processes.append(Process(gpu=0, pid=102, memory=1 << 20, end=START + 20.5))
    settled(one)
    reads(one, 18)
    assert listed(reads(one, 3)) == [{101, 102}, {101}, {101}]


def test_while_processes_come_and_go_the_list_is_read_each_second(one: Node) -> None:
    """Jobs of a chain take the same memory, one after the other."""
    one.scenario.processes += [
        Process(gpu=0, pid=200 + n, memory=1 << 20, start=START + 20 + n, end=START + 21 + n)
        for n in range(20)
    ]
    settled(one)
    reads(one, 18)
    named = set[int]().union(*listed(reads(one, 21)))
    assert named == {101, *range(200, 220)}


def test_while_processes_come_and_go_rows_are_read_each_second(one: Node) -> None:
    one.scenario.gpus = [Gpu(0, sample_period=0.2, inherits=True)]
    jobs = [START + 20 + 2.3 * number for number in range(10)]
    one.scenario.processes = [
        Process(gpu=0, pid=200 + number, memory=2 << 30, start=at, end=at + 1.5)
        for number, at in enumerate(jobs)
    ]
    one.scenario.works = [
        Work(gpu=0, pid=200 + number, start=at + 0.3, end=at + 1.5)
        for number, at in enumerate(jobs)
    ]
    settled(one)
    used = used_s(reads(one, 50))
    named = {pid: seconds for pid, seconds in used.items() if pid}
    assert len(named) == len(jobs), "each is named"
    assert max(named.values()) <= 1.5, "none has more than its whole life"
    assert sum(named.values()) >= 0.5 * 1.2 * len(jobs), used


def test_of_a_young_process_rows_alone_are_read_and_ever_more_seldom(one: Node) -> None:
    one.scenario.processes.append(Process(gpu=0, pid=102, memory=2 << 30, start=START + 10))
    settled(one)
    reads(one, 12)
    asked, rings, windows = [], [], []
    for _ in range(4):
        before = one.read()
        windows.append(sum(bool(each.windows) for each in reads(one, 30)))
        after = one.read()
        asked.append(calls(after, ROWS) - calls(before, ROWS))
        rings.append(calls(after, SAMPLES) - calls(before, SAMPLES))
    assert windows == [6] * 4
    assert max(rings) <= 6 * 3 + 4, "four more at most, when the depth is learnt"
    assert asked[0] >= 20
    assert asked == sorted(asked, reverse=True)
    assert asked[-1] == 6


def test_where_lists_cost_much_a_new_process_is_named_and_listed_in_the_second_it_works(
    one: Node,
) -> None:
    one.scenario.processes.append(Process(gpu=0, pid=102, memory=2 << 30, start=START + 23.5))
    one.scenario.works.append(Work(gpu=0, pid=102, start=START + 23.6, end=START + 25))
    settled(one)
    one.ask("take", 2_000_000)
    *before, came = reads(one, 23)
    assert all(102 not in each.seen for each in before)
    assert came.memory is not None
    listed = {process.pid for process in came.memory.processes or ()}
    assert 102 in came.seen | {own.pid for w in came.windows for own in w.processes}
    assert 102 in listed
