from typing import Any

from hypothesis import given, settings

from exporter.agent.simulation.load_scenario import describe
from exporter.agent.simulation.population import Population, busy_ns, cut, segments
from tests.agent.simulation.nodes import A10, SCENARIOS, process

SECOND = 10**9


def _population(**keys: object) -> Population:
    return Population(describe({"devices": [A10, A10], **keys}, "test"))


@settings(max_examples=settings().max_examples // 4)
@given(SCENARIOS)
def test_parts_add_up_to_the_union_of_the_demands(scenario: dict[str, Any]) -> None:
    bursts = _population(**scenario).bursts(0, 0, 8 * SECOND)
    parts = [ns for segment in segments(bursts) for _, ns in segment.parts()]
    assert all(ns >= 0 for ns in parts)
    assert sum(parts) == busy_ns(bursts) <= 8 * SECOND


@settings(max_examples=settings().max_examples // 4)
@given(SCENARIOS)
def test_segments_follow_one_another_without_overlap(scenario: dict[str, Any]) -> None:
    reached = 0
    for start, end, lives in segments(_population(**scenario).bursts(1, 0, 4 * SECOND)):
        assert reached <= start < end
        assert len({life.pid for life in lives}) == len(lives) > 0
        reached = end


def test_concurrent_processes_have_equal_parts() -> None:
    population = _population(processes=[process(), process(), process(start=1)])
    first, second = segments(population.bursts(0, 0, 2 * SECOND))
    assert [ns for _, ns in first.parts()] == [SECOND // 2] * 2
    assert sorted(ns for _, ns in second.parts()) == [333333333, 333333333, 333333334]


def test_cutting_changes_no_length() -> None:
    population = _population(processes=[process(duty=0.5, period="300ms"), process(start=1)])
    whole = list(segments(population.bursts(0, 0, 2 * SECOND)))
    bounds = range(0, 2 * SECOND, SECOND // 6)
    pieces = list(cut(whole, bounds))
    assert sum(s.end_ns - s.start_ns for s in pieces) == sum(s.end_ns - s.start_ns for s in whole)
    assert all(not any(s.start_ns < b < s.end_ns for b in bounds) for s in pieces)
