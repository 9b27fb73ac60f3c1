"""Shares by the driver's sums: in full where they are known, by samples where they are not."""

import pytest

from exporter.model import Engines, ProcessActivity, Window
from exporter.sources.gpus.nvml.accounting import (
    STATS,
    AccountingChoice,
    Sums,
    accounted_activities,
    choice_of,
)
from tests.fakenvml.build import library
from tests.fakenvml.scenario import Fault, Gpu, Process, Work, truth
from tests.gpus.nvml.node import START, Node, calls

SECOND = 10**9
USE = AccountingChoice(use=True)
ENABLE = AccountingChoice(use=True, enable=True)
MODE = "nvmlDeviceGetAccountingMode"


@pytest.fixture
def counted(node: Node) -> Node:
    """One GPU in accounting mode; two processes that begin later share it in turns."""
    node.scenario.gpus = [Gpu(0, accounting=True, rule="longest")]
    node.scenario.processes = [Process(gpu=0, pid=pid) for pid in (101, 102)]
    node.scenario.works = [
        Work(gpu=0, pid=101, start=START + 1, period=1.9, duty=0.5, memory=0.5),
        Work(gpu=0, pid=102, start=START + 1, period=2.3, duty=0.3, encoder=0.5),
    ]
    return node


def window(node: Node, *, after: float = 1) -> Window:
    found = node.device("GPU-0", after=after).window
    assert found
    return found


def core_of(window: Window) -> dict[int, int]:
    return {process.pid: process.busy.core or 0 for process in window.processes}


def test_sums_of_the_driver_become_the_windows_shares(counted: Node) -> None:
    counted.start(accounting=USE)
    counted.read()
    windows = [window(counted) for _ in range(60)]
    true = truth(counted.scenario, 0, START, counted.now)
    for pid in (101, 102):
        seconds = sum(core_of(w).get(pid, 0) for w in windows) / SECOND
        assert seconds == pytest.approx(true[pid], rel=0.15)
    assert {w.methods.shares for w in windows} == {"accounting"}


def test_sums_are_not_cut_to_whole_percents(counted: Node) -> None:
    counted.scenario.works = [
        Work(gpu=0, pid=101, start=START + 1, core=0.005),
        Work(gpu=0, pid=102, start=START + 1, core=0.0),
    ]
    counted.start(accounting=USE)
    counted.read(after=0.9)
    counted.read(after=1)
    seen = window(counted)
    assert core_of(seen)[101] == pytest.approx(0.005 * seen.observed_ns, rel=0.01)


def test_encoder_comes_from_the_rows_and_memory_from_the_sums(counted: Node) -> None:
    counted.start(accounting=USE)
    counted.read()
    counted.read(after=2)
    busy = {process.pid: process.busy for process in window(counted, after=4).processes}
    assert busy[101].memory_active
    assert busy[101].encoder == 0
    assert busy[102].encoder


def test_processes_from_before_the_exporter_are_summed_after_their_first_rows(
    counted: Node,
) -> None:
    counted.advance(30)
    counted.start(accounting=USE)
    counted.read()
    methods = [window(counted, after=5).methods.shares for _ in range(3)]
    assert methods == ["process_utilization", "accounting", "accounting"]


def test_process_that_accounting_does_not_know_leaves_the_window_to_samples(
    counted: Node,
) -> None:
    counted.fail(Fault("error", STATS, code=6, skip=1))  # only the first one asked for is known
    counted.start(accounting=USE)
    counted.read()
    seen = window(counted, after=3)
    assert seen.methods.shares == "process_utilization"
    assert set(core_of(seen)) == {101, 102}


def test_short_process_that_has_ended_is_still_summed(counted: Node) -> None:
    counted.scenario.works = [Work(gpu=0, pid=103, start=START + 1.1, end=START + 1.6)]
    counted.scenario.processes = []
    counted.start(accounting=USE)
    counted.read(after=1)
    seen = window(counted, after=2)
    assert seen.methods.shares == "accounting"
    assert core_of(seen)[103] >= 0.5 * SECOND  # nobody else tells how many samples there were


def test_another_process_under_the_same_pid_begins_anew(counted: Node) -> None:
    counted.scenario.works = [Work(gpu=0, pid=103, start=START + 1)]
    counted.start(accounting=USE)
    counted.read()
    window(counted, after=10)
    counted.scenario.works = [Work(gpu=0, pid=103, start=counted.now)]
    seen = window(counted)
    assert seen.methods.shares == "accounting"
    assert core_of(seen)[103] == pytest.approx(seen.observed_ns, rel=0.2)


def test_mode_that_is_off_is_not_switched_on_unasked(counted: Node) -> None:
    counted.change_gpu(0, accounting=False)
    counted.start(accounting=USE)
    counted.read()
    assert window(counted, after=3).methods.shares == "process_utilization"
    assert any("--nvml.enable-accounting" in line for line in counted.ask("logged"))


def test_mode_switched_on_by_somebody_else_is_noticed(counted: Node) -> None:
    counted.change_gpu(0, accounting=False)
    counted.start(accounting=USE)
    counted.read()
    window(counted)
    counted.change_gpu(0, accounting=True)
    methods = [window(counted).methods.shares for _ in range(6)]
    assert methods[-1] == "accounting"


@pytest.mark.root
def test_mode_is_switched_on_when_asked_for(counted: Node) -> None:
    counted.change_gpu(0, accounting=False)
    counted.start(accounting=ENABLE)
    counted.read()
    window(counted)
    assert window(counted, after=3).methods.shares == "accounting"
    assert any("accounting mode is on" in line for line in counted.ask("logged"))


@pytest.mark.root
def test_mode_is_switched_on_even_where_samples_are_used(counted: Node) -> None:
    counted.change_gpu(0, accounting=False)
    counted.start(accounting=AccountingChoice(use=False, enable=True))
    counted.read()
    reading = counted.read(after=3)
    assert reading.devices[0].window
    assert reading.devices[0].window.methods.shares == "process_utilization"
    assert calls(reading, "nvmlDeviceSetAccountingMode") == 1
    assert calls(counted.read(after=3), STATS) == 0


def test_refusal_to_switch_it_on_is_said_with_what_to_do(counted: Node) -> None:
    counted.change_gpu(0, accounting=False)
    counted.fail(Fault("error", "nvmlDeviceSetAccountingMode", code=4))
    counted.start(accounting=ENABLE)
    counted.read()
    assert window(counted, after=3).methods.shares == "process_utilization"
    window(counted, after=3)
    told = [line for line in counted.ask("logged") if "no accounting" in line]
    assert len(told) == 1
    assert "root" in told[0]


def test_driver_without_the_sums_uses_samples(counted: Node) -> None:
    counted.start(path=library(omit={STATS}), accounting=USE)
    counted.read()
    assert window(counted, after=3).methods.shares == "process_utilization"
    assert any("610" in line for line in counted.ask("logged"))


def test_sums_that_fail_leave_the_window_to_samples_and_come_back(counted: Node) -> None:
    counted.scenario.works = [Work(gpu=0, pid=101, start=START + 1)]
    counted.start(accounting=USE)
    counted.read()
    window(counted, after=3)
    counted.fail(Fault("error", STATS, code=999))
    assert window(counted).methods.shares == "process_utilization"
    counted.fail()
    methods = [window(counted).methods.shares for _ in range(2)]
    assert methods == ["process_utilization", "accounting"]  # what was missed is not made up for


def test_ended_process_is_asked_for_no_longer(counted: Node) -> None:
    counted.scenario.works = [Work(gpu=0, pid=103, start=START + 1, end=START + 2)]
    counted.start(accounting=USE)
    counted.read()
    counted.read(after=3)
    after = counted.read(after=1)
    assert calls(counted.read(after=1), STATS) == calls(after, STATS) == 2


def test_nobody_asks_for_sums_unless_they_are_chosen(counted: Node) -> None:
    counted.start()
    counted.read()
    reading = counted.read(after=3)
    assert (calls(reading, STATS), calls(reading, MODE)) == (0, 0)


@pytest.mark.parametrize(
    ("shares", "use"), [("auto", False), ("samples", False), ("accounting", True)]
)
def test_what_the_settings_choose(shares: str, use: bool) -> None:  # noqa: FBT001 - a table's column
    assert choice_of(shares, enable=True) == AccountingChoice(use, enable=True)


def seen(rows: dict[int, int]) -> Window:
    processes = tuple(ProcessActivity(pid, Engines(core, 0, 7, 0)) for pid, core in rows.items())
    return Window(0, SECOND, SECOND, 0, Engines(SECOND, 0, 0, 0), processes)


def sums(samples: int, core: int) -> Sums:
    return Sums(0, True, samples, core, 0)


def test_process_that_began_within_the_window_has_its_part_of_it() -> None:
    found = accounted_activities(seen({1: 1, 2: 1}), {1: sums(6, 30_000), 2: sums(3, 30_000)})
    assert found
    assert {p.pid: p.busy.core for p in found} == {1: SECOND // 2, 2: SECOND // 2}


def test_ring_that_was_counted_twice_changes_nothing() -> None:
    once = accounted_activities(seen({1: 1}), {1: sums(6, 30_000)})
    twice = accounted_activities(seen({1: 1}), {1: sums(12, 60_000)})
    assert once == twice


def test_sums_that_lag_behind_the_rows_are_not_taken_for_idleness() -> None:
    assert accounted_activities(seen({1: 500}), {1: sums(0, 0)}) is None
    assert accounted_activities(seen({1: 500}), {1: sums(6, 0)}) is None


def test_idle_window_needs_no_rows() -> None:
    assert accounted_activities(seen({}), {1: sums(0, 0)}) == ()
    assert accounted_activities(seen({}), {}) == ()
