"""Waiting: an upper bound of how long an owner waited for others in one window."""

from hypothesis import given
from hypothesis import strategies as st

from exporter.agent.attribution.contention import waiting
from exporter.model import ContainerKey, GroupKey, Owner, Unattributed

A, B, C = (ContainerKey("n", name, "c") for name in "abc")
JOB = GroupKey("slurm", "1")
DT = 1000


def test_it_waits_no_longer_than_others_ran_and_no_longer_than_it_did_not_run() -> None:
    assert waiting(DT, {A: 100, B: 300}, [A, B]) == {A: {B: 300}, B: {A: 100}}
    assert waiting(DT, {A: 600, B: 600}, [A]) == {A: {B: 400}}


def test_it_waits_for_each_in_proportion_to_what_that_ran() -> None:
    assert waiting(DT, {A: 0, B: 300, JOB: 600}, [A]) == {A: {B: 300, JOB: 600}}
    assert waiting(DT, {A: 400, B: 400, C: 800}, [A]) == {A: {B: 200, C: 400}}


def test_who_is_alone_or_is_not_active_waits_for_nobody() -> None:
    assert waiting(DT, {A: 500}, [A]) == {}
    assert waiting(DT, {B: 500}, []) == {}


def test_use_that_may_be_its_own_is_nothing_to_wait_for() -> None:
    core: dict[Owner, int] = {A: 100, Unattributed.NO_PID: 500, Unattributed.HOST_PROCESS: 200}
    assert waiting(DT, core, [A]) == {A: {Unattributed.HOST_PROCESS: 200}}


USED = st.dictionaries(st.sampled_from([A, B, C, JOB]), st.integers(0, DT), min_size=1)


@given(USED)
def test_it_is_divided_to_the_last_nanosecond(core: dict[Owner, int]) -> None:
    active = [owner for owner in core if not isinstance(owner, Unattributed)]
    for owner, by_owner in waiting(DT, core, active).items():
        others = sum(ran for other, ran in core.items() if other != owner)
        assert sum(by_owner.values()) == min(DT - core[owner], others)
        assert owner not in by_owner
