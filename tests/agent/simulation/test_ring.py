from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exporter.agent.simulation.ring import DEPTH
from tests.agent.simulation.clock import START, ManualClock
from tests.agent.simulation.nodes import SCENARIOS, node, pod, process
from tests.agent.simulation.truth import truth_of

START_US = START // 1000
SAMPLE_US = 1_000_000 / 6


def test_the_ring_holds_72_samples_of_a_sixth_of_a_second() -> None:
    clock = ManualClock()
    ring = node(clock, processes=[process()])
    clock.move(60)
    samples = ring.busy_samples(0, "core", 0)
    assert len(samples) == 72
    gaps = {b.timestamp_us - a.timestamp_us for a, b in pairwise(samples)}
    assert gaps <= {166_666, 166_667}
    assert 0 <= clock.now_ns // 1000 - samples[-1].timestamp_us <= SAMPLE_US


def test_samples_older_than_asked_for_are_left_out() -> None:
    clock = ManualClock()
    ring = node(clock, processes=[process()])
    clock.move(5)
    whole = ring.busy_samples(0, "core", 0)
    assert ring.busy_samples(0, "core", whole[-3].timestamp_us) == whole[-2:]
    assert ring.busy_samples(0, "core", whole[-3].timestamp_us - 1) == whole[-3:]
    assert not ring.busy_samples(0, "core", whole[-1].timestamp_us)
    assert not ring.process_samples(0, whole[-1].timestamp_us)


def test_an_idle_device_has_samples_and_no_rows() -> None:
    clock = ManualClock()
    ring = node(clock)
    clock.move(20)
    assert {s.percent for s in ring.busy_samples(0, "core", 0)} == {0}
    assert not ring.process_samples(0, 0)


def test_a_row_is_an_average_over_all_samples_asked_for() -> None:
    clock = ManualClock()
    ring = node(clock, processes=[process(**{"for": "2s"})])  # 12 samples, and then idle
    clock.move(10)
    (row,) = ring.process_samples(0, START_US)
    assert 18 <= row.core <= 20  # the samples at both ends are not whole


def test_an_ended_process_stays_as_long_as_the_ring_holds_its_samples() -> None:
    clock = ManualClock()
    ring = node(clock, processes=[process(**{"for": "1s"})])
    clock.move(12)
    (row,) = ring.process_samples(0, 0)
    assert row.timestamp_us <= START_US + 1_000_000 + SAMPLE_US


def test_a_driver_may_forget_a_process_at_its_end_and_keep_its_samples() -> None:
    clock = ManualClock()
    ring = node(clock, processes=[process(**{"for": "1s"})], ended_rows="forgotten")
    clock.move(0.9)
    assert ring.process_samples(0, 0)
    clock.move(0.2)
    assert not ring.process_samples(0, 0)
    assert any(sample.percent for sample in ring.busy_samples(0, "core", 0))
    clock.move(1.5)
    assert not ring.process_samples(0, 0)


def test_averages_are_cut_to_whole_percents() -> None:
    clock = ManualClock()
    ring = node(clock, processes=[process(duty=0.999, period="1s", memory_active=0.5)])
    clock.move(7)
    (row,) = ring.process_samples(0, START_US + 6_000_000 - 200_000)
    assert row.core < 100
    assert isinstance(row.core, int)
    assert row.memory_active in {row.core // 2, (row.core + 1) // 2}


def test_under_contention_each_sample_names_one_process() -> None:
    clock = ManualClock()
    ring = node(clock, processes=[process(), process(), process()])
    clock.move(12)
    rows = ring.process_samples(0, clock.now_ns // 1000 - 1_000_000)
    assert sum(row.core for row in rows) <= 100
    assert {row.core for row in rows} <= {16, 33, 50}  # sixths: one sample of six each


@pytest.mark.parametrize(
    ("rule", "pids"),
    [("last", {2002}), ("end", {2002}), ("longest", {2001}), ("random", {2001, 2002})],
)
def test_the_sample_rule_decides_which_process_is_named(rule: str, pids: set[int]) -> None:
    # In one sample the first process has more of the time, and the second is there at the end.
    named: set[int] = set()
    for seed in range(20):
        keys: dict[str, Any] = {"sample_rule": rule, "seed": seed}
        end_us = node(**keys).busy_samples(0, "core", 0)[-1].timestamp_us + 2_000_000
        turn = f"{(end_us - START_US - 60_000) / 1000}ms"
        clock = ManualClock()
        ring = node(clock, processes=[process(**{"for": turn}), process(start=turn)], **keys)
        clock.move(2)
        (row,) = ring.process_samples(0, end_us - 100_000)
        named.add(row.pid)
    assert named == pids


def test_of_two_that_ran_the_last_is_named_though_the_device_is_idle_at_the_end() -> None:
    clock = ManualClock()
    turns = [process(**{"for": "20ms"}), process(start="20ms", **{"for": "10ms"})]
    ring = node(clock, processes=turns, sample_rule="last", sample_period="1s", seed=1)
    clock.move(3)
    (row,) = ring.process_samples(0, START_US)
    assert row.pid == 2002


@pytest.mark.parametrize(("period", "us"), [("500ms", 500_000), ("1s", 1_000_000)])
def test_the_ring_has_the_samples_of_its_board(period: str, us: int) -> None:
    clock = ManualClock()
    ring = node(clock, processes=[process()], sample_period=period)
    clock.move(100)
    stamps = [sample.timestamp_us for sample in ring.busy_samples(0, "core", 0)]
    assert len(stamps) == DEPTH
    assert {b - a for a, b in pairwise(stamps)} == {us}


def test_a_burst_that_ends_within_the_sample_is_credited_to_nobody_by_the_end_rule() -> None:
    clock = ManualClock()
    ring = node(clock, processes=[process(**{"for": "20ms"})], sample_rule="end")
    clock.move(1)
    busy = sum(s.percent for s in ring.busy_samples(0, "core", START_US))
    assert busy > 0
    assert not ring.process_samples(0, START_US)


def test_engines_are_busy_in_proportion_to_the_cores() -> None:
    clock = ManualClock()
    ring = node(clock, processes=[process(memory_active=0.4, encoder=0.9)])
    clock.move(3)
    newest = {e: ring.busy_samples(0, e, 0)[-1].percent for e in ("memory_active", "encoder")}
    assert newest == {"memory_active": 40, "encoder": 90}
    assert ring.busy_samples(0, "decoder", 0)[-1].percent == 0
    (row,) = ring.process_samples(0, clock.now_ns // 1000 - 1_000_000)
    assert row[2:] == (100, 40, 90, 0)


@settings(max_examples=settings().max_examples // 4)
@given(SCENARIOS, st.lists(st.integers(0, 30_000), min_size=2, max_size=6))
def test_the_order_of_questions_changes_no_answer(
    scenario: dict[str, Any], moments: list[int]
) -> None:
    def answers(order: list[int]) -> dict[int, object]:
        clock = ManualClock()
        asked = node(clock, devices=2, **scenario)
        found: dict[int, object] = {}
        for ms in order:
            clock.now_ns = START + ms * 10**6
            found[ms] = (
                asked.busy_samples(0, "core", 0),
                asked.process_samples(1, START_US + ms * 900),
                asked.energy_uj(0),
                asked.sensors(1),
                asked.pod_table(),
                asked.cgroup_paths(),
                asked.memory(0),
            )
        return found

    assert answers(moments) == answers(sorted(moments, reverse=True))


@settings(max_examples=settings().max_examples // 4)
@given(SCENARIOS)
def test_samples_add_up_to_the_truth_but_for_rounding(scenario: dict[str, Any]) -> None:
    clock = ManualClock()
    asked = node(clock, devices=2, **scenario)
    clock.move(10)
    for device in asked.devices():
        samples = asked.busy_samples(device.index, "core", 0)[-50:]
        end_us = samples[-1].timestamp_us
        begin_us = asked.busy_samples(device.index, "core", 0)[-51].timestamp_us
        busy_us = sum(s.percent for s in samples) / 100 * SAMPLE_US
        truth = truth_of(asked, begin_us * 1000, end_us * 1000).device_core_ns[device.uuid]
        assert abs(busy_us - truth / 1000) <= 50 * SAMPLE_US * 0.0051


def test_what_is_kept_does_not_grow_over_a_day() -> None:
    clock = ManualClock()
    jobs = pod("job", process(), every="3s", **{"for": ["500ms", "5s"]})
    asked = node(clock, pods=[jobs])
    sizes: list[int] = []
    for _ in range(24):
        clock.move(3600)
        asked.busy_samples(0, "core", 0)
        asked.pod_table()
        sizes.append(len(asked._rings[0]._kept) + len(asked.pod_table().pods))
    assert max(sizes) <= DEPTH + 12
