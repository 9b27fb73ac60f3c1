"""Credit: nobody is given more than it may have used, and what is given adds up."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.attribution.shares import FADING_NS, SILENCE_NS, apportion, decay, spend_credit
from exporter.model import ContainerKey, GroupKey, IdleCredit, Owner, Unattributed

SECOND = 10**9
A, B = ContainerKey("n", "a", "c"), ContainerKey("n", "b", "c")

owners: st.SearchStrategy[Owner] = st.sampled_from([A, B, GroupKey("docker", "x"), *Unattributed])
credit_of_owners = st.dictionaries(
    owners, st.builds(IdleCredit, st.integers(0, 10**12), st.integers(0, SILENCE_NS))
)
amounts = st.integers(0, 10**12)


def test_idle_time_within_its_samples_is_an_owners_credit() -> None:
    credit = decay({}, {A: 100, B: 0}, SECOND)

    assert credit == {A: IdleCredit(100)}


def test_credit_fades() -> None:
    credit: dict[Owner, IdleCredit] = {A: IdleCredit(900)}

    assert decay(credit, {A: 0}, FADING_NS) == {A: IdleCredit(450)}


def test_credit_of_who_is_not_named_for_longer_than_a_ring_is_gone() -> None:
    credit = decay({A: IdleCredit(10**9)}, {}, SILENCE_NS)
    assert credit[A].silent_ns == SILENCE_NS

    assert decay(credit, {}, 1) == {}


def test_who_is_named_again_is_silent_no_more() -> None:
    credit: dict[Owner, IdleCredit] = {A: IdleCredit(900, SILENCE_NS)}

    assert decay(credit, {A: 0}, 1)[A].silent_ns == 0


def test_unclaimed_time_goes_by_credit() -> None:
    parts, left = spend_credit(300, {A: IdleCredit(400), B: IdleCredit(200)})

    assert parts == {A: 200, B: 100}
    assert left == {A: IdleCredit(200), B: IdleCredit(100)}


def test_no_more_is_given_than_there_is_credit() -> None:
    parts, left = spend_credit(1000, {A: IdleCredit(400), B: IdleCredit(200)})

    assert parts == {A: 400, B: 200}
    assert {credit.credit_ns for credit in left.values()} == {0}


@given(amounts, credit_of_owners)
def test_grants_add_up_and_leave_nobody_in_debt(
    unclaimed: int, credit: dict[Owner, IdleCredit]
) -> None:
    parts, left = spend_credit(unclaimed, credit)

    whole = sum(c.credit_ns for c in credit.values())
    assert sum(parts.values()) == min(unclaimed, whole)
    for owner, before in credit.items():
        assert 0 <= left[owner].credit_ns <= before.credit_ns
        assert before.credit_ns - left[owner].credit_ns == parts.get(owner, 0)


@given(credit_of_owners, st.dictionaries(owners, amounts), st.integers(1, 10**12))
def test_carried_credit_is_never_more_than_what_was_shown(
    credit: dict[Owner, IdleCredit], spare: dict[Owner, int], elapsed: int
) -> None:
    for owner, after in decay(credit, spare, elapsed).items():
        before = credit.get(owner, IdleCredit(0)).credit_ns
        assert 0 < after.credit_ns <= before + spare.get(owner, 0)


@given(amounts, st.dictionaries(owners, amounts))
def test_apportioned_parts_add_up_and_follow_their_weights(
    total: int, weights: dict[Owner, int]
) -> None:
    parts = apportion(total, weights)

    whole = sum(weights.values())
    assert sum(parts.values()) == (total if whole else 0)
    for owner, part in parts.items():
        assert part == pytest.approx(total * weights[owner] / whole, rel=1e-9, abs=1)
