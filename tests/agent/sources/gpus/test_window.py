"""Windows out of a ring of samples: contiguous, complete, and never more than was seen."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from exporter.agent.sources.gpus.samples import newest_rows
from exporter.agent.sources.gpus.window import RING_US
from exporter.model import Methods, ProcessSample, Sample, Window
from tests.agent.sources.gpus.cursor import Cursor
from tests.agent.sources.gpus.known import known

NOW = 1_700_000_000_000_000  # microseconds since the epoch
PERIOD = 166_667
SECOND = 1_000_000


@dataclass
class Ring:
    """A device whose samples a test writes. ``arriving`` appear after the rows were read."""

    samples: dict[str, list[Sample] | None] = field(default_factory=dict)
    rates: dict[str, float] = field(default_factory=dict)
    rows: list[ProcessSample] | None = field(default_factory=list)
    depth: int = 72
    arriving: list[Sample] = field(default_factory=list)
    asked: list[int] = field(default_factory=list)
    engines: list[str] = field(default_factory=list)  # whose samples were asked for

    def busy_samples(self, engine: str, newer_than_us: int) -> Sequence[Sample] | None:
        self.engines.append(engine)
        samples = self.samples.get(engine)
        if samples is None:
            return None
        return [s for s in samples[-self.depth :] if s.timestamp_us > newer_than_us]

    def utilization(self, engine: str) -> float | None:
        return self.rates.get(engine)

    def process_samples(self, newer_than_us: int) -> Sequence[ProcessSample] | None:
        self.asked.append(newer_than_us)
        if self.arriving:
            core = known(self.samples["core"])
            core.append(self.arriving.pop(0))
        if self.rows is None:
            return None
        return [row for row in self.rows if row.timestamp_us > newer_than_us]

    def run(self, percents: Sequence[float], start: int = NOW) -> int:
        """Append core samples, one a period; gives the last one's timestamp."""
        core = known(self.samples.setdefault("core", []))
        last = core[-1].timestamp_us if core else start
        core += [Sample(last + PERIOD * (n + 1), p) for n, p in enumerate(percents)]
        return core[-1].timestamp_us


def row(pid: int = 7, timestamp_us: int = NOW, core: int = 50, memory: int = 0) -> ProcessSample:
    return ProcessSample(pid, timestamp_us, core, memory, 0, 0)


def begun(ring: Ring) -> tuple[Cursor, int]:
    """A cursor that stands at the newest of a few samples, and the time of that one."""
    now = ring.run([0] * 8)
    cursor = Cursor(ring)
    assert cursor.next(now, now) is None
    return cursor, now


def taken(cursor: Cursor, now: int, after: int | None = None) -> Window:
    window = cursor.next(now, now, after)
    assert window is not None
    return window


def test_window_ends_at_the_newest_sample_and_counts_each_sample_for_its_period() -> None:
    ring = Ring()
    cursor, start = begun(ring)
    end = ring.run([100, 0, 50])
    window = taken(cursor, end + 1000)
    assert (window.start_unix_ns, window.end_unix_ns) == (start * 1000, end * 1000)
    assert window.observed_ns == 3 * PERIOD * 1000
    assert window.unobserved_ns == 0
    assert window.busy.core == PERIOD * 1500


def test_rows_are_asked_for_the_same_window() -> None:
    ring = Ring()
    cursor, start = begun(ring)
    end = ring.run([100] * 6)
    ring.rows = [row(7, end, core=66, memory=20), row(8, end - PERIOD, core=33)]
    ring.samples["memory_active"] = [Sample(end, 30)]
    window = taken(cursor, end)
    assert set(ring.asked) == {start}
    assert [(p.pid, p.busy.core) for p in window.processes] == [
        (7, 4 * PERIOD * 1000),
        (8, 2 * PERIOD * 1000),
    ]
    assert window.busy.memory_active == int(window.observed_ns * 30 / 100)
    assert window.processes[0].busy.memory_active == window.observed_ns * 20 // 100


def test_samples_are_told_apart_where_the_device_keeps_them_and_names_processes() -> None:
    ring = Ring(rates={"core": 30.0})
    cursor, _ = begun(ring)
    end = ring.run([100, 40, 0])
    ring.rows = [row(7, end - 2 * PERIOD, core=33)]
    window = taken(cursor, end)
    assert window.per_sample
    assert [p.busy.core for p in window.processes] == [PERIOD * 1000]

    ring.rows = None
    assert not taken(cursor, ring.run([40])).per_sample
    ring.rows = []
    stand_in = taken(cursor, end + 10 * SECOND)
    assert not stand_in.per_sample


def test_averages_stand_where_rows_are_not_of_the_devices_samples() -> None:
    ring = Ring()
    cursor, _ = begun(ring)
    end = ring.run([100] * 4)
    ring.rows = [row(7, end - PERIOD // 2, core=50)]
    window = taken(cursor, end)
    assert not window.per_sample
    assert window.processes[0].busy.core == window.observed_ns * 50 // 100


def test_rows_are_read_again_when_a_sample_arrives_meanwhile() -> None:
    ring = Ring()
    cursor, _ = begun(ring)
    end = ring.run([100] * 5)
    ring.arriving = [Sample(end + PERIOD, 100)]
    window = taken(cursor, end, end + PERIOD)
    assert len(ring.asked) == 2
    assert window.end_unix_ns == (end + PERIOD) * 1000


@pytest.mark.parametrize(("memory", "times"), [([0], 1), ([-PERIOD], 2), ([], 2), ([0, PERIOD], 2)])
def test_the_core_is_read_once_where_the_memorys_samples_end_with_its_own(
    memory: list[int], times: int
) -> None:
    ring = Ring()
    cursor, _ = begun(ring)
    end = ring.run([100] * 5)
    ring.samples["memory_active"] = [Sample(end + after, 50) for after in memory]
    ring.engines.clear()
    window = taken(cursor, end)
    assert ring.engines.count("core") == times
    assert window.end_unix_ns == end * 1000
    assert window.busy.memory_active == (window.observed_ns // 2 if memory else None)


def test_a_call_that_hung_for_longer_than_the_future_may_be_ahead_brings_one_whole_window() -> None:
    ring = Ring()
    cursor, start = begun(ring)
    end = ring.run([100] * 60)  # ten seconds, all after the moment when the call was made
    ring.rows = [row(7, end, core=100)]
    window = taken(cursor, start + PERIOD, end)
    assert window.end_unix_ns == end * 1000
    assert [p.busy.core for p in window.processes] == [window.busy.core]
    assert window.rejected == {}


def test_a_sample_of_the_far_future_is_left_out() -> None:
    ring = Ring()
    cursor, _ = begun(ring)
    end = ring.run([100] * 5)
    core = known(ring.samples["core"])
    core.append(Sample(end + 60 * SECOND, 100))
    assert taken(cursor, end).end_unix_ns == end * 1000


@pytest.mark.parametrize("blank", [0xFFFFFFFF, 2_147_483_632.0, 101.0, -(2.0**31), float("nan")])
def test_a_blank_value_is_no_busy_time(blank: float) -> None:
    ring = Ring()
    cursor, _ = begun(ring)
    ring.run([50, blank, 50])
    window = taken(cursor, ring.run([50]))
    assert known(window.busy.core) <= 4 * PERIOD * 500
    assert window.busy.core == window.observed_ns // 2


def test_what_fell_out_of_the_ring_is_unobserved() -> None:
    ring = Ring(depth=72)
    cursor, start = begun(ring)
    end = ring.run([100] * 100)
    window = taken(cursor, end)
    assert window.end_unix_ns - window.start_unix_ns == (end - start) * 1000
    seen_ns = int(72.5 * PERIOD * 1000)  # the oldest may speak for up to one and a half periods
    assert window.observed_ns == pytest.approx(seen_ns, abs=1000)
    assert window.busy.core == pytest.approx(seen_ns, abs=1000)


def test_driver_that_stopped_sampling_an_idle_device_is_idle_not_blind() -> None:
    ring = Ring(rates={"core": 0.0})
    cursor, start = begun(ring)
    assert cursor.next(start + SECOND, start + SECOND) is None
    window = taken(cursor, start + 4 * SECOND)
    assert (window.busy.core, window.unobserved_ns) == (0, 0)
    assert window.end_unix_ns == (start + 4 * SECOND) * 1000


def test_stand_in_speaks_for_no_more_than_a_ring() -> None:
    ring = Ring(rates={"core": 100.0})
    cursor, start = begun(ring)
    window = taken(cursor, start + 60 * SECOND)
    assert window.observed_ns == window.busy.core == RING_US * 1000
    assert window.unobserved_ns == 60 * SECOND * 1000 - window.observed_ns


@pytest.mark.parametrize(
    ("sampled", "rows", "methods"),
    [
        (True, [], Methods("samples", "process_utilization")),
        (True, None, Methods("samples", "none")),
        (False, [], Methods("rates", "process_utilization")),
        (False, None, Methods("rates", "none")),
    ],
)
def test_window_says_how_it_was_measured(
    sampled: bool,  # noqa: FBT001 - a table's column
    rows: list[ProcessSample] | None,
    methods: Methods,
) -> None:
    ring = Ring(rates={"core": 0.0}, rows=rows)
    cursor, start = begun(ring)
    if sampled:
        ring.run([0] * 24)
    assert taken(cursor, start + 4 * SECOND).methods == methods


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (row(pid=0), "pid"),
        (row(pid=0xFFFFFFFF), "pid"),
        (row(core=4096), "percentage"),
        (row(memory=101), "percentage"),
        (row(timestamp_us=NOW - 10), "timestamp"),
        (row(timestamp_us=NOW - SECOND), "timestamp"),
        (row(timestamp_us=NOW + 2), "timestamp"),
    ],
)
def test_rows_that_cannot_be_true_are_counted(bad: ProcessSample, reason: str) -> None:
    good = row(pid=8)
    assert newest_rows([bad, good], NOW - 10, NOW + 1) == ([good], {reason: 1})


def test_newest_row_of_a_pid_counts() -> None:
    older, newer = row(timestamp_us=NOW - 5, core=10), row(timestamp_us=NOW, core=20)
    for rows in ([older, newer], [newer, older]):
        assert newest_rows(rows, NOW - 10, NOW) == ([newer], {})


uint32 = st.integers(0, 2**32 - 1)
percents = st.one_of(st.integers(0, 100), uint32)
any_row = st.builds(
    ProcessSample,
    pid=st.one_of(st.just(0), st.just(0xFFFFFFFF), st.integers(1, 5), uint32),
    timestamp_us=st.one_of(st.integers(NOW - SECOND, NOW + 60 * SECOND), st.integers(0, 2**64 - 1)),
    core=percents,
    memory_active=percents,
    encoder=percents,
    decoder=percents,
)


@given(st.lists(any_row), st.integers(NOW, NOW + 60 * SECOND))
def test_sifted_rows_are_plausible_and_all_are_accounted_for(
    rows: list[ProcessSample], latest: int
) -> None:
    kept, rejected = newest_rows(rows, NOW, latest)
    assert len({pid for pid, *_ in kept}) == len(kept)
    for pid, timestamp_us, *percents in kept:
        assert 0 < pid < 0xFFFFFFFF
        assert max(percents) <= 100
        assert NOW < timestamp_us <= latest
    assert sum(rejected.values()) + len(kept) <= len(rows)


polls = st.lists(
    st.tuples(
        st.integers(0, 40 * SECOND),  # time since the last poll
        st.lists(st.integers(1, 5 * SECOND), max_size=8),  # gaps between the samples meanwhile
        st.lists(any_row, max_size=4),
    ),
    max_size=12,
)


@given(polls, st.floats(-50, 500), st.one_of(st.none(), st.floats(0, 1000)))
@example(steps=[(0, [], []), (2 * SECOND + 4, [], []), (1, [1], [])], percent=0, rate=0)
def test_windows_are_contiguous_and_complete_whatever_the_driver_says(
    steps: list[tuple[int, list[int], list[ProcessSample]]], percent: float, rate: float | None
) -> None:
    core: list[Sample] = []
    ring = Ring(samples={"core": core}, rates={} if rate is None else {"core": rate})
    cursor = Cursor(ring)
    now, newest = NOW, NOW
    windows = []
    for wait, gaps, rows in steps:
        now += wait
        for gap in gaps:
            newest += gap
            core.append(Sample(newest, percent))
        ring.rows = rows
        if window := cursor.next(now, now):
            windows.append(window)
    for window in windows:
        length = window.end_unix_ns - window.start_unix_ns
        assert length > 0
        assert window.observed_ns + window.unobserved_ns == length
        assert window.observed_ns >= 0
        assert window.unobserved_ns >= 0
        assert window.busy.core is not None
        assert 0 <= window.busy.core <= window.observed_ns
        for process in window.processes:
            assert process.busy.core is not None
            assert 0 <= process.busy.core <= window.observed_ns
    assert all(a.end_unix_ns == b.start_unix_ns for a, b in pairwise(windows))


@given(
    st.lists(st.integers(0, 100), min_size=80, max_size=300),
    st.lists(st.integers(1, 60), min_size=1, max_size=40),
)
def test_busy_time_does_not_depend_on_when_it_is_asked_for(
    busy: list[int], strides: list[int]
) -> None:
    ring = Ring()
    cursor, _ = begun(ring)
    total = 0
    position = turn = 0
    while position < len(busy):
        stride = strides[turn % len(strides)]
        end = ring.run(busy[position : position + stride])
        position, turn = position + stride, turn + 1
        total += taken(cursor, end).busy.core or 0
    assert total == sum(busy) * PERIOD * 10
