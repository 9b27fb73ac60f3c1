"""A board's counter is accepted while it moves; power stands in for one that does not."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.agent.sources.gpus.board_energy import BoardEnergy
from exporter.agent.sources.gpus.heights import Rising

SECOND, JOULE = 10**9, 10**6
Told = tuple[int | None, int | None]
"""What a board reports at a moment: its counter in joules, and its power in watts."""


def joules(
    told: Sequence[Told], energy: BoardEnergy | None = None, step_s: float = 1.0
) -> list[tuple[float | None, str]]:
    """The energy of each window, and how it is measured."""
    energy, found = energy or BoardEnergy(), []
    for number, (counter, watts) in enumerate(told):
        milliwatts = None if watts is None else watts * 1000
        used = energy.take(
            None if counter is None else counter * JOULE,
            lambda milliwatts=milliwatts: milliwatts,  # type: ignore[misc] # of this moment
            int(number * step_s * SECOND),
            None,
        )
        found.append((None if used.used_uj is None else used.used_uj / JOULE, energy.method))
    return found[1:]


@pytest.mark.parametrize(
    ("told", "found"),
    [
        pytest.param(
            [(7, 300)] * 5,
            [(None, "counter"), (600, "power"), *[(300, "power")] * 2],
            id="it has never moved",
        ),
        pytest.param(
            [(0, 0)] * 4,
            [(None, "counter"), *[(None, "none")] * 2],
            id="and there is no power",
        ),
        pytest.param(
            [(7, None)] * 4,
            [(None, "counter"), *[(None, "none")] * 2],
            id="nor any figure of it",
        ),
        pytest.param([(7, 300), (300, 300)], [(293, "counter")], id="it moves"),
        pytest.param([(7, None), (300, None)], [(293, "counter")], id="without a figure of power"),
        pytest.param(
            [(None, 100), (9000, 100), (9300, 100)],
            [(100, "power"), (300, "counter")],
            id="it comes later",
        ),
        pytest.param(
            [(0, 90), (90, 90), (90, 90), (180, 90), (270, 90)],
            [(90, "counter"), (0, "counter"), (90, "counter"), (90, "counter")],
            id="it is late once",
        ),
        pytest.param(
            [(0, 90), (90, 90), *[(90, 90)] * 4],
            [(90, "counter"), (0, "counter"), (180, "power"), (90, "power"), (90, "power")],
            id="it stops",
        ),
        pytest.param(
            [(0, None), (90, None), *[(90, None)] * 3],
            [(90, "counter"), (0, "counter"), *[(None, "counter")] * 2],
            id="it stops, and there is no figure of power",
        ),
        pytest.param(
            [*[(0, 100)] * 4, (400, 100), (400, 100), (400, 100), (700, 100)],
            [(None, "counter"), (200, "power"), *[(100, "power")] * 5],
            id="it moves now and then: what it says then was counted",
        ),
        pytest.param(
            [*[(0, 100)] * 4, (90, 100), (180, 100), (270, 100), (360, 100)],
            [(None, "counter"), (200, "power"), *[(100, "power")] * 3, *[(90, "counter")] * 2],
            id="it moves again",
        ),
        pytest.param(
            [(9, 100), (9, None), (9, 100), (9, 100)],
            [(None, "counter"), (200, "power"), (100, "power")],
            id="power fails once",
        ),
    ],
)
def test_a_counter_is_used_while_it_moves(
    told: list[Told], found: list[tuple[float | None, str]]
) -> None:
    assert joules(told)[: len(found)] == found


def test_between_two_steps_of_a_counter_it_does_not_stand_still() -> None:
    """The counter steps ten times a second, and windows may be shorter."""
    told = [(number // 4 * 10, 100) for number in range(40)]

    windows = joules(told, step_s=0.025)

    assert sum(used or 0 for used, _ in windows) == 90
    assert {method for _, method in windows[5:]} == {"counter"}


def test_what_does_not_move_while_the_board_sleeps_is_accepted_afterwards() -> None:
    energy = BoardEnergy()
    assert joules([(0, 90), (90, 90)], energy) == [(90, "counter")]
    energy.sleep()  # what it drew meanwhile is not known, and not compared

    used = energy.take(90 * JOULE, lambda: 90_000, 60 * SECOND, None)

    assert (used.used_uj, energy.method) == (0, "counter")


@pytest.mark.parametrize("watts", [20, 1500])
def test_a_counter_that_moves_otherwise_than_power_says_is_not_used(watts: int) -> None:
    """As one in another unit: over a quarter of a minute, twice in a row, no load is so uneven."""
    told = [(number * watts, 300) for number in range(100)]

    windows = joules(told)

    assert windows[:28] == [(watts, "counter")] * 28
    assert windows[31:] == [(300, "power")] * 68


def test_a_counter_is_used_again_once_it_moves_as_power_says() -> None:
    told = [(number * 20, 300) for number in range(60)]
    told += [(1200 + number * 290, 300) for number in range(60)]

    windows = joules(told)

    assert windows[57:59] + windows[-20:] == [*[(300, "power")] * 2, *[(290, "counter")] * 20]


@pytest.mark.parametrize("duty", [(90, 700), (700, 90, 90, 90), (5, 90, 700, 90)])
def test_a_load_that_comes_and_goes_between_two_looks_at_power_is_no_disagreement(
    duty: tuple[int, ...],
) -> None:
    counters = [0]
    for number in range(200):
        counters.append(counters[-1] + duty[number % len(duty)])

    windows = joules([(c, duty[n % len(duty)]) for n, c in enumerate(counters)])

    assert {method for _, method in windows} == {"counter"}


def test_a_driver_of_costly_calls_is_asked_for_power_while_the_counter_stands_alone() -> None:
    energy = BoardEnergy(compares=False)
    asked: list[int] = []

    def power() -> int:
        asked.append(1)
        return 90_000

    for number in range(5):
        energy.take(number * 90 * JOULE, power, number * SECOND, None)
    before = len(asked)
    stands = [energy.take(360 * JOULE, power, n * SECOND, None).used_uj for n in range(5, 9)]

    assert before == 0
    assert stands == [0, 90 * JOULE, 90 * JOULE, 90 * JOULE]


@pytest.mark.parametrize(
    ("counter", "used"),
    [
        pytest.param([1000, 1013, 10, 1039, 1052], 52, id="for one reading"),
        pytest.param([1000, 1013, 10, 23, 36, 1065, 1078], 78, id="for some, in which it goes on"),
        pytest.param([1000, 1013, 10, 10, 10, 1065, 1078], 78, id="for some, in which it stands"),
        pytest.param([1000, 1013, 10, 1039, 20, 1065, 1078], 78, id="twice"),
        pytest.param([1000, 1013, 990, 1003, 1016, 1029], 39, id="by a little, for good"),
        pytest.param([1000, 1013, 0, 13, 26, 39], 52, id="to nothing, as after a reset"),
        pytest.param(
            [30, 43, 0, 13, 26, 39, 52, 65], 78, id="after which it passes its old height"
        ),
    ],
)
def test_a_counter_that_steps_back_counts_nothing_of_its_return(
    counter: list[int], used: int
) -> None:
    found = joules([(value, None) for value in counter])
    assert used - 26 <= sum(joule or 0 for joule, _ in found) <= used


@given(st.lists(st.tuples(st.integers(0, 500), st.sampled_from([0, 0, 20_000])), max_size=40))
def test_a_counter_never_counts_more_than_it_rose_by(steps: list[tuple[int, int]]) -> None:
    rising, truth = Rising(), 50_000
    assert rising.take(truth) == 50_000
    for used, back in steps:
        truth += used
        # Now and then it says so much less, and then the truth again.
        rising.take(truth - back)
    assert (rising.take(truth) or 0) <= truth
