"""Samples are told apart by what the driver says of devices and of processes."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exporter.agent.simulation.ring import RingSample
from exporter.agent.sources.gpus.sample_attribution import (
    SampleSpan,
    attribute_samples,
)
from exporter.model import ProcessSample
from tests.agent.simulation.clock import ManualClock
from tests.agent.simulation.nodes import SCENARIOS, node
from tests.agent.sources.gpus.known import known

SAMPLE_NS = 1_000  # so that a percent is ten
NOBODY = 0
Sampled = Sequence[tuple[int, int]]  # percent, pid


def row(pid: int, timestamp_us: int, core: int) -> ProcessSample:
    return ProcessSample(pid, timestamp_us, core, 0, 0, 0)


def sample_spans(samples: Sampled) -> list[SampleSpan]:
    return [
        SampleSpan(n * SAMPLE_NS * 10, float(percent), SAMPLE_NS, percent * 10)
        for n, (percent, _) in enumerate(samples)
    ]


def rows(samples: Sampled) -> list[ProcessSample]:
    """One row a process, as the driver makes them."""
    found = []
    for pid in {pid for _, pid in samples} - {NOBODY}:
        own = [(n, percent) for n, (percent, named) in enumerate(samples) if named == pid]
        average = sum(percent for _, percent in own) // len(samples)
        found.append(row(pid, own[-1][0] * SAMPLE_NS * 10, average))
    return found


def told(samples: Sampled) -> Mapping[int, int] | None:
    return attribute_samples(sample_spans(samples), rows(samples))


def busy(*percents: int) -> int:
    return sum(percents) * 10


@pytest.mark.parametrize(
    ("samples", "expected"),
    [
        ([(100, 1), (100, 1), (40, 1), (0, 0), (0, 0), (70, 2)], {1: (100, 100, 40), 2: (70,)}),
        ([(84, 2), (100, 2), (87, 2), (22, 1), (100, 1), (100, 1)], {2: (84, 100, 87)}),
        ([(100, 1), (100, 2), (100, 3), (100, 1), (100, 2), (100, 3)], {2: (100, 100)}),
        ([(5, 1), (0, 0), (0, 0), (0, 0), (0, 0), (0, 0)], {1: (5,)}),
        ([(30, 1), (100, 2), (20, 0), (30, 1), (100, 2), (100, 2)], {1: (30, 30)}),
        ([(100, 1)], {1: (100,)}),
    ],
)
def test_a_process_has_the_samples_that_name_it(
    samples: Sampled, expected: dict[int, tuple[int, ...]]
) -> None:
    naming = known(told(samples))

    for pid, percents in expected.items():
        assert naming[pid] == busy(*percents)


def test_a_process_that_a_sample_names_for_another_engine_has_nothing_of_it() -> None:
    samples = sample_spans([(100, 1), (100, 1)])

    naming = attribute_samples(samples, [row(1, 10_000, 100), row(2, 10_000, 0)])

    assert naming is not None
    assert naming == {1: busy(100, 100), 2: busy()}


@given(st.lists(st.integers(1, 4), min_size=2, max_size=20), st.data())
def test_where_a_process_has_worked_on_memory_alone_the_cores_sample_is_still_somebodys(
    named: list[int], data: st.DataObject
) -> None:
    """A row's time is the last one of any engine, and each engine's samples name their own."""
    samples = [(100, pid) for pid in named]
    at = data.draw(st.lists(st.integers(0, len(named) - 1), max_size=3))
    on_memory = [
        ProcessSample(10 + place, n * SAMPLE_NS * 10, 0, 7, 0, 0) for place, n in enumerate(at)
    ]

    naming = known(attribute_samples(sample_spans(samples), [*rows(samples), *on_memory]))

    assert {pid: busy_ns for pid, busy_ns in naming.items() if busy_ns} == {
        pid: busy(*[100] * named.count(pid)) for pid in named
    }


def test_rows_of_other_samples_than_the_devices_are_not_told_apart() -> None:
    samples = sample_spans([(50, 1), (50, 1)])

    assert attribute_samples(samples, [row(1, 12_000, 50)]) is None


@pytest.mark.parametrize("rounded_us", [-SAMPLE_NS, SAMPLE_NS])
def test_a_row_whose_time_is_rounded_otherwise_has_the_same_samples(rounded_us: int) -> None:
    samples = [(100, 1), (100, 2), (100, 1), (50, 2), (30, 0)]
    off = [row(pid, time + rounded_us, core) for pid, time, core, *_ in rows(samples)]

    assert attribute_samples(sample_spans(samples), off) == told(samples)


def test_a_row_that_the_samples_cannot_hold_is_not_told_apart() -> None:
    samples = sample_spans([(10, 1), (10, 0), (10, 0), (10, 0)])

    assert attribute_samples(samples, [row(1, 0, 60)]) is None


def test_no_process_has_more_than_its_average_rounded_up() -> None:
    """33 % of three samples is less than 102: 50 and 53 are more, so 47 is the other one."""
    naming = attribute_samples(
        sample_spans([(53, 0), (47, 1), (50, 1)]), [row(1, 2 * SAMPLE_NS * 10, 33)]
    )

    assert naming is not None
    assert naming[1] == busy(50, 47)


def test_where_averages_leave_only_what_was_cut_from_them_each_sample_is_somebodys() -> None:
    percents = [65, 49, 66, 65, 95, 42, 79, 51, 73, 56, 75, 71]
    spans = sample_spans([(percent, 0) for percent in percents])
    last = [n * SAMPLE_NS * 10 for n in (10, 11)]

    naming = known(attribute_samples(spans, [row(1, last[0], 12), row(2, last[1], 52)]))

    assert sum(naming.values()) == busy(*percents)


def test_what_nobody_is_named_for_is_nobodys_though_it_is_little() -> None:
    naming = known(told([*[(50, 1)] * 18, (40, NOBODY), (50, 1)]))

    assert naming == {1: busy(*[50] * 19)}


@given(st.lists(st.tuples(st.integers(0, 100), st.integers(0, 4)), min_size=1, max_size=72))
def test_no_sample_is_counted_twice(samples: Sampled) -> None:
    active = [(percent, pid if percent else NOBODY) for percent, pid in samples]
    naming = told(active)

    if naming is None:
        return
    whole = sum(percent for percent, _ in active) * 10
    assert all(busy_ns >= 0 for busy_ns in naming.values())
    assert sum(naming.values()) <= whole


def seconds_of(scenario: dict[str, Any]) -> Iterator[tuple[list[RingSample], list[ProcessSample]]]:
    """Twelve seconds of a scenario's first device: the samples and rows of each."""
    clock = ManualClock()
    asked = node(clock, devices=2, **scenario)
    ring, since = asked._rings[0], 0
    for _ in range(12):
        clock.move(1)
        now = (clock.now_ns - asked.start_unix_ns) // 1000
        samples = ring.samples(now, since)
        yield samples, ring.rows(now, since)
        since = samples[-1].end_us


def naming_of(
    samples: Sequence[RingSample], rows: Iterable[ProcessSample]
) -> Mapping[int, int] | None:
    parts = [
        SampleSpan(s.end_us, (s.hundredths(0) + 50) // 100, 1000, s.hundredths(0) // 10)
        for s in samples
    ]
    return attribute_samples(parts, [row(r.pid, r.timestamp_us, r.core) for r in rows])


@settings(max_examples=settings().max_examples // 2)
@given(SCENARIOS)
def test_samples_told_apart_are_off_by_one_sample_a_process_at_most(
    scenario: dict[str, Any],
) -> None:
    for samples, rows in seconds_of(scenario):
        naming = naming_of(samples, rows)
        for pid, busy_ns in (naming or {}).items():
            true = sum(s.hundredths(0) // 10 for s in samples if s.pids[0] == pid)
            assert abs(busy_ns - true) <= 1000 + 20 * len(samples)  # and what was cut off
