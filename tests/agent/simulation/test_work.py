from hypothesis import given
from hypothesis import strategies as st

from exporter.agent.simulation.work import FOREVER, Curve, Lifetime, Work

SECOND = 10**9
WORKS = st.builds(
    Work,
    duty=st.floats(0, 1).map(lambda duty: Curve(((0, duty),))),
    period_ns=st.integers(10**6, SECOND),
    phase_ns=st.none() | st.integers(0, SECOND),
    jitter=st.floats(0, 1),
)


def test_something_without_an_end_lives_forever_from_its_start() -> None:
    span = Lifetime(start_ns=5)
    assert not list(span.occurrences(0, 0, 5))
    assert list(span.occurrences(0, 10**18, 10**18 + 1)) == [(0, 5, FOREVER)]


def test_a_recurring_span_lives_again_and_again_with_gaps() -> None:
    span = Lifetime(start_ns=1, shortest_ns=2, longest_ns=2, every_ns=10)
    assert list(span.occurrences(0, 0, 25)) == [(0, 1, 3), (1, 11, 13), (2, 21, 23)]
    assert list(span.occurrences(0, 12, 13)) == [(1, 11, 13)]
    assert not list(span.occurrences(0, 13, 21))


@given(st.integers(0, 2**64 - 1), st.integers(0, 1000), st.integers(1, 300))
def test_occurrences_are_the_same_for_a_part_of_the_time_as_for_the_whole(
    key: int, begin: int, length: int
) -> None:
    span = Lifetime(start_ns=7, shortest_ns=3, longest_ns=90, every_ns=25)
    whole = list(span.occurrences(key, 0, 2000))
    part = [o for o in whole if o.start_ns < begin + length and o.end_ns > begin]
    assert list(span.occurrences(key, begin, begin + length)) == part
    assert all(3 <= o.end_ns - o.start_ns <= 90 for o in whole)


def test_a_far_future_costs_no_more_than_the_present() -> None:
    span = Lifetime(shortest_ns=1, longest_ns=5, every_ns=10)
    assert len(list(span.occurrences(1, 10**18, 10**18 + 100))) <= 11


def test_bursts_fill_the_duty_of_each_period_from_the_phase_on() -> None:
    work = Work(Curve(((0, 0.25),)), period_ns=100, phase_ns=10)
    assert list(work.bursts(0, (0, 1000), 0, 300)) == [(0, 15), (90, 115), (190, 215), (290, 300)]


@given(WORKS, st.integers(0, 2**64 - 1), st.integers(0, SECOND), st.integers(1, SECOND))
def test_bursts_are_in_order_apart_and_inside_the_life(
    work: Work, key: int, begin: int, length: int
) -> None:
    life = (SECOND // 3, SECOND)
    reached = max(begin, life[0])
    for start, end in work.bursts(key, life, begin, begin + length):
        assert reached <= start < end <= min(begin + length, life[1])
        reached = end


@given(WORKS, st.integers(0, 2**64 - 1), st.integers(1, SECOND - 1))
def test_bursts_of_two_parts_add_up_to_the_bursts_of_the_whole(
    work: Work, key: int, middle: int
) -> None:
    def busy(begin: int, end: int) -> int:
        return sum(right - left for left, right in work.bursts(key, (0, SECOND), begin, end))

    assert busy(0, middle) + busy(middle, SECOND) == busy(0, SECOND)


def test_jitter_keeps_the_mean_duty() -> None:
    work = Work(Curve(((0, 0.4),)), period_ns=10**6, jitter=0.8)
    busy = sum(end - start for start, end in work.bursts(3, (0, 10**10), 0, 10**10))
    assert abs(busy / 10**10 - 0.4) < 0.01
