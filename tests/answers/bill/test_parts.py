"""The parts of a card's time: they add up, and who pays is what the documents say."""

from hypothesis import given
from hypothesis import strategies as st

from exporter.answers.bill.parts import (
    ALLOCATION,
    METHODS,
    NOBODY,
    USE,
    CardStep,
    Had,
    Part,
    Payer,
    divide,
)

A, B, HPC = Payer("a"), Payer("b"), Payer("", "slurm")
SECONDS = st.floats(0, 3600, allow_subnormal=False)


def hour() -> CardStep:
    """A is allocated 30 % and uses 20 %; B 50 % and uses 60 %."""
    return CardStep({A: Had(1080, 720), B: Had(1800, 2160, 360)}, unallocated=720)


def shares(step: CardStep, method: str) -> dict[tuple[Payer, Part], float]:
    return {key: round(seconds / 3600, 6) for key, seconds in divide(step, method).items()}


def test_by_allocation_what_was_borrowed_is_not_charged() -> None:
    assert shares(hour(), ALLOCATION) == {
        (A, Part.USED): 0.2,
        (A, Part.ALLOCATED_IDLE): 0.1,
        (B, Part.USED): 0.5,
        (NOBODY, Part.UNALLOCATED): 0.2,
    }


def test_by_use_what_was_borrowed_comes_from_what_nobody_had() -> None:
    assert shares(hour(), USE) == {
        (A, Part.USED): 0.2,
        (A, Part.ALLOCATED_IDLE): 0.1,
        (B, Part.USED): 0.6,
        (NOBODY, Part.UNALLOCATED): 0.1,
    }


def test_by_use_what_is_borrowed_beyond_the_free_part_comes_from_the_others_idle_part() -> None:
    step = CardStep({A: Had(1800, 0), B: Had(1800, 2700, 900)})
    assert shares(step, USE) == {(A, Part.ALLOCATED_IDLE): 0.25, (B, Part.USED): 0.75}


def test_allocations_beyond_the_card_are_scaled() -> None:
    step = CardStep({A: Had(3600, 0), B: Had(3600, 0)}, overcommitted=3600)
    expected = {(A, Part.ALLOCATED_IDLE): 0.5, (B, Part.ALLOCATED_IDLE): 0.5}
    assert shares(step, ALLOCATION) == shares(step, USE) == expected


def test_a_group_without_an_allocation_pays_for_its_use_of_what_nobody_had() -> None:
    step = CardStep({HPC: Had(0, 1800, allocatable=False)}, 3600, unattributed=900)
    assert shares(step, ALLOCATION) == {
        (HPC, Part.USED): 0.5,
        (NOBODY, Part.UNATTRIBUTED): 0.25,
        (NOBODY, Part.UNALLOCATED): 0.25,
    }


def test_use_that_is_not_known_is_neither_used_nor_idle() -> None:
    step = CardStep({A: Had(1800, None)}, unallocated=1800)
    expected = {(A, Part.UNOBSERVED): 0.5, (NOBODY, Part.UNALLOCATED): 0.5}
    assert shares(step, ALLOCATION) == shares(step, USE) == expected


def test_time_without_a_reading_of_the_driver_is_unobserved_and_not_idle() -> None:
    """By allocation the card's owners pay for it, because it was kept for them all the same."""
    step = CardStep({A: Had(1800, 900)}, unallocated=1800, unobserved=1800)
    used = {(A, Part.USED): 0.25}
    assert shares(step, ALLOCATION) == used | {
        (A, Part.UNOBSERVED): 0.25,
        (NOBODY, Part.UNALLOCATED): 0.5,
    }
    assert shares(step, USE) == used | {
        (NOBODY, Part.UNOBSERVED): 0.5,
        (NOBODY, Part.UNALLOCATED): 0.25,
    }


HAD = st.builds(Had, SECONDS, st.none() | SECONDS, SECONDS, st.booleans())
STEPS = st.builds(
    CardStep,
    st.dictionaries(st.sampled_from([A, B, HPC, Payer("c", "Job", "x")]), HAD),
    *[SECONDS] * 4,
)


@given(STEPS, st.sampled_from(METHODS))
def test_the_parts_add_up_to_what_was_counted(step: CardStep, method: str) -> None:
    parts = divide(step, method)
    assert all(seconds >= 0 for seconds in parts.values())
    assert abs(sum(parts.values()) - step.total) < 1e-6
