"""The cycle is slowed down to keep to the CPU budget, and nothing is lost by it."""

import logging
import threading
from dataclasses import replace

import pytest

from exporter.collector import CycleRules
from exporter.collector.budget import CpuThrottle, widened, widest
from exporter.model import CgroupIdentity, Snapshot
from exporter.sources.gpus.source import Demand
from tests.collector.bench import CID, POD, SECOND, Bench, row

BUDGET = CycleRules(budget=0.01)
DEAR_NS = SECOND // 40  # 2.5 % of a CPU at a cycle a second


class Run(threading.Event):
    """Lets the collector run for so many seconds, each of its cycles at this cost."""

    def __init__(self, bench: Bench, seconds: float, cost_ns: int) -> None:
        super().__init__()
        self._bench = bench
        self._until_ns = bench.clock.now_ns + int(seconds * SECOND)
        self._cost_ns = cost_ns
        self.snapshots: list[Snapshot] = []
        self.waits: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        """A cycle was done: its cost, and the time until the next one."""
        assert timeout is not None
        self.snapshots.append(self._bench.collector.snapshot)
        self.waits.append(timeout)
        self._bench.cpu_ns += self._cost_ns
        self._bench.clock.move(timeout)
        self._bench.use(7, int(timeout * SECOND) // 2)
        return False

    def is_set(self) -> bool:
        """Whether the time is over."""
        return self._bench.clock.now_ns >= self._until_ns


@pytest.fixture
def bench() -> Bench:
    bench = Bench()
    bench.use(7, SECOND // 2)
    bench.name_pod()
    bench.processes.identities = {7: CgroupIdentity(POD.uid, CID, "containerd")}
    bench.collector.follow(BUDGET)
    return bench


def run(bench: Bench, seconds: float, cost_ns: int = DEAR_NS) -> Run:
    stop = Run(bench, seconds, cost_ns)
    bench.collector.run(stop)
    return stop


def own(snapshot: Snapshot, family: str) -> object:
    return row(snapshot, "exporter").values.get(family)


def test_cycles_come_less_often_until_the_budget_is_kept(bench: Bench) -> None:
    run(bench, 120)
    before = bench.cpu_ns
    waits = run(bench, 60).waits

    assert 2.5 <= waits[-1] <= 3.0
    assert (bench.cpu_ns - before) / (60 * SECOND) <= 0.0105


def test_what_is_in_force_is_published(bench: Bench) -> None:
    last = run(bench, 120).snapshots[-1]
    interval_ns = own(last, "collection_interval_seconds")

    assert own(last, "cpu_budget_ratio") == 0.01
    assert interval_ns == last.interval_ns == bench.collector.pulse.interval_ns
    assert isinstance(interval_ns, int)
    assert 2.5 * SECOND <= interval_ns <= 3.0 * SECOND
    assert own(last, "cpu_used_ratio") == pytest.approx(DEAR_NS / interval_ns, rel=0.15)


def test_without_a_budget_there_are_no_figures_of_one(bench: Bench) -> None:
    bench.collector.follow(CycleRules())
    last = run(bench, 120).snapshots[-1]

    assert own(last, "collection_interval_seconds") == SECOND
    assert own(last, "cpu_budget_ratio") is None
    assert own(last, "cpu_used_ratio") is None


def test_sources_are_told_of_the_wider_intervals(bench: Bench) -> None:
    run(bench, 120)
    factor = bench.collector.snapshot.interval_ns / SECOND

    assert bench.gpus.demand is not None
    assert bench.gpus.demand.processes_every_s == pytest.approx(5 * factor)
    assert bench.gpus.demand.sensors_every_s == pytest.approx(5 * factor)
    assert bench.gpus.demand.deadline_s == BUDGET.demand.deadline_s


def test_counters_lose_nothing_by_it(bench: Bench) -> None:
    snapshots = run(bench, 200).snapshots
    counts = [
        row(one, "container", "ml", "train", "main", "0", "GPU-0").values["core_seconds_total"]
        for one in snapshots
    ]
    devices = [row(one, "device", "0", "GPU-0").values["busy_seconds_total"] for one in snapshots]
    elapsed_ns = snapshots[-1].mono_ns - snapshots[0].mono_ns

    numbers = [count for count in counts if isinstance(count, int)]

    assert counts == devices == numbers == sorted(numbers)
    assert numbers[-1] == pytest.approx(numbers[0] + elapsed_ns / 2, rel=1e-6)


def test_a_slower_cycle_is_no_overrun(bench: Bench) -> None:
    bench.gpus.took = lambda: bench.clock.move(1.5)  # longer than was set, but not than it is
    run(bench, 120)
    before = own(bench.collector.snapshot, "cycle_overruns_total")
    run(bench, 60)

    assert own(bench.collector.snapshot, "cycle_overruns_total") == before


def test_it_is_logged_once_where_it_begins_and_ends(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "exporter.collector.budget"):
        run(bench, 300)
        run(bench, 300, cost_ns=SECOND // 1000)
        run(bench, 300)

    assert [record.getMessage()[:30] for record in caplog.records] == [
        "2.5 % of a CPU was used and --",
        "cycles come every 1.0 s again,",
        "2.5 % of a CPU was used and --",
    ]


def test_a_budget_that_cannot_be_kept_is_logged_once(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    run(bench, 600, cost_ns=SECOND // 2)

    assert bench.collector.snapshot.interval_ns == 5 * SECOND
    assert caplog.text.count("as seldom as may be") == 1


def test_a_budget_is_taken_up_and_given_up_while_it_runs(bench: Bench) -> None:
    bench.collector.follow(CycleRules())
    widths = [run(bench, 120).waits[-1]]
    bench.collector.follow(BUDGET)
    widths.append(run(bench, 120).waits[-1])
    bench.collector.follow(CycleRules())
    widths.append(run(bench, 10).waits[-1])

    assert widths[0] == widths[2] == 1.0
    assert widths[1] > 2.0


@pytest.mark.parametrize(
    ("interval_s", "window_s", "factor"),
    [(1, 15, 5), (0.5, 15, 10), (5, 15, 1), (1, 2, 2), (2, 1, 1)],
)
def test_no_cycle_is_longer_than_the_ring_or_the_window_of_the_gauges(
    interval_s: float, window_s: float, factor: float
) -> None:
    rules = CycleRules(interval_ns=int(interval_s * SECOND), window_ns=int(window_s * SECOND))

    assert widest(rules) == factor
    assert widened(rules, factor).interval_ns <= max(5 * SECOND, rules.interval_ns)


def test_no_part_is_read_less_often_than_once_a_minute_but_where_it_was_set_so() -> None:
    demand = Demand(processes_every_s=20, sensors_every_s=60)
    wide = widened(replace(BUDGET, demand=demand), 5).demand

    assert (wide.processes_every_s, wide.sensors_every_s) == (60, 60)


def test_rules_that_are_not_widened_are_the_very_ones_that_were_set() -> None:
    keeper = CpuThrottle(BUDGET, lambda: 0)

    assert keeper.rules is BUDGET
