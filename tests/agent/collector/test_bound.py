"""How many series a family may have: what is taken, what is left out, and what is said of it."""

import logging
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.agent.collector import CycleRules
from exporter.agent.collector.series_limit import DroppedSeries, LimitedFacts, limit_facts
from exporter.model import (
    CgroupIdentity,
    ContainerHolding,
    ContainerKey,
    Engines,
    Facts,
    GroupFacts,
    GroupHolding,
    GroupKey,
    HeldMemory,
    Unmeasured,
    Used,
    Waiting,
)
from tests.agent.collector.bench import SECOND, Bench

CORE = "mgpu_container_core_seconds_total"
WAITING_ON = "mgpu_container_core_waiting_on_seconds_total"
WHY = "mgpu_container_unmeasured"


def container(name: str, reasons: int = 0) -> ContainerHolding:
    return ContainerHolding(
        owner=ContainerKey("ns", "pod", name),
        index=0,
        uuid="GPU-0",
        used=Used(Engines(1)),
        memory=HeldMemory(processes=2),
        unmeasured={f"q{n}": Unmeasured.MIG for n in range(reasons)},
    )


def containers(*names: str, reasons: int = 0) -> Callable[[], Facts]:
    facts = Facts(containers=tuple(container(name, reasons) for name in names))
    return lambda: facts


def names(limited: LimitedFacts) -> set[str]:
    return {each.owner.container for each in limited.measured().containers}


def test_what_is_within_the_limit_is_as_it_was() -> None:
    built = containers("a", "b", reasons=1)

    taken = limit_facts(built, Facts, 2)

    assert taken.measured() == built()
    assert taken.dropped == {}


def test_of_what_is_new_the_first_by_labels_are_taken() -> None:
    taken = limit_facts(containers("c", "a", "b"), Facts, 2)

    assert names(taken) == {"a", "b"}
    assert taken.dropped == {CORE: 1, "mgpu_container_processes": 1}


def test_what_was_shown_stays_though_others_come_before_it() -> None:
    before = limit_facts(containers("x", "y"), Facts, 2)

    taken = limit_facts(containers("a", "b", "x", "y"), before.measured, 2)

    assert names(taken) == {"x", "y"}


def of_namespaces(counts: Mapping[str, int], reasons: int = 0) -> Callable[[], Facts]:
    holdings = (
        replace(container("", reasons), owner=ContainerKey(namespace, "pod", f"c{n:05}"))
        for namespace, count in counts.items()
        for n in range(count)
    )
    facts = Facts(containers=tuple(holdings))
    return lambda: facts


def counts(limited: LimitedFacts) -> Counter[str]:
    return Counter(each.owner.namespace for each in limited.measured().containers)


@pytest.mark.parametrize("shown", [{}, {"aaa": 12_000}], ids=["at once", "aaa was first"])
def test_a_namespace_of_many_containers_takes_no_other_ones_room(shown: dict[str, int]) -> None:
    before = limit_facts(of_namespaces(shown), Facts, 10_000)

    many = of_namespaces({"aaa": 12_000, "m": 3, "zz": 6_000})
    taken = limit_facts(many, before.measured, 10_000)

    assert counts(taken) == {"aaa": 4_999, "m": 3, "zz": 4_998}
    assert taken.dropped[CORE] == 18_003 - 10_000


def test_a_namespace_of_many_series_takes_no_other_ones_room() -> None:
    taken = limit_facts(of_namespaces({"aaa": 4, "zz": 1}, reasons=3), Facts, 8)

    assert counts(taken) == {"aaa": 1, "zz": 1}
    assert taken.dropped[WHY] == 9


def test_room_that_is_left_goes_to_the_next() -> None:
    before = limit_facts(containers("x", "y"), Facts, 2)

    taken = limit_facts(containers("b", "a", "y"), before.measured, 2)

    assert names(taken) == {"a", "y"}


def test_who_does_not_fit_with_all_its_series_is_left_out_whole() -> None:
    taken = limit_facts(containers("a", "b", "c", reasons=3), Facts, 7)

    assert names(taken) == {"a", "b"}
    assert taken.dropped == {CORE: 1, "mgpu_container_processes": 1, WHY: 3}


def test_one_is_shown_though_it_alone_is_too_much() -> None:
    assert names(limit_facts(containers("a", "b", reasons=3), Facts, 2)) == {"a"}


def test_a_family_that_nobody_is_served_takes_no_room() -> None:
    waiting = Waiting(9, {ContainerKey("ns", name, "main"): 3 for name in ("x", "y", "z")})
    each = [replace(container(name), waiting=waiting) for name in ("a", "b")]
    facts = Facts(containers=tuple(each))

    assert names(limit_facts(lambda: facts, Facts, 4)) == {"a"}
    taken = limit_facts(lambda: facts, Facts, 4, left_out={WAITING_ON})
    assert names(taken) == {"a", "b"}
    assert taken.dropped == {}


def test_facts_are_not_built_where_there_cannot_be_too_many() -> None:
    def built() -> Facts:
        pytest.fail("were built")

    assert limit_facts(built, Facts, 3, highest=3).measured is built


def test_facts_are_counted_where_there_may_be_too_many() -> None:
    built = containers("c", "a", "b")

    assert names(limit_facts(built, Facts, 2, highest=4)) == {"a", "b"}


@given(
    cycles=st.lists(
        st.sets(st.text("abcdefgh", min_size=1, max_size=2), max_size=12), min_size=1, max_size=6
    ),
    most=st.integers(1, 8),
)
def test_nothing_comes_and_goes_while_it_is_there(cycles: list[set[str]], most: int) -> None:
    shown_before: set[str] = set()
    before: Callable[[], Facts] = Facts
    for there in cycles:
        taken = limit_facts(containers(*there), before, most)
        shown = names(taken)
        assert len(shown) == min(len(there), most)
        assert taken.dropped.get(CORE, 0) == len(there) - len(shown)
        assert shown_before & there <= shown
        before, shown_before = taken.measured, shown


def test_what_is_left_out_is_summed_and_said_once(caplog: pytest.LogCaptureFixture) -> None:
    dropped_series = DroppedSeries()
    for dropped in ({CORE: 2}, {CORE: 3}, {CORE: 3, WHY: 1}, {}, {CORE: 1}):
        dropped_series.count(dropped, 10)

    assert dropped_series.total == Counter({CORE: 9, WHY: 1})
    lines = [record.getMessage() for record in caplog.records]
    assert [CORE in line for line in lines] == [True, False, True]
    assert "2 series are left out: more than 10 of mgpu_container_core_seconds_total" in lines[0]
    assert caplog.records[0].levelno == logging.WARNING


def test_what_was_left_out_comes_back_with_all_that_it_used() -> None:
    bench = Bench()
    bench.processes.identities = {
        7: CgroupIdentity("uid-7", "7" * 64, "containerd"),
        8: CgroupIdentity("uid-8", "8" * 64, "containerd"),
    }
    bench.use(7, SECOND)
    bench.cycle()
    bench.collector.follow(CycleRules(most_series=1))
    bench.use(8, SECOND)
    limited = [bench.cycle() for _ in range(3)]
    bench.collector.follow(CycleRules())
    after = bench.cycle()

    family = "mgpu_group_core_seconds_total"
    shown = [[own.owner.group[:5] for own in each.facts.groups] for each in limited]
    assert shown == [["uid-7"]] * 3
    assert {own.owner.group[:5]: own.used.busy.core for own in after.facts.groups} == {
        "uid-7": SECOND,
        "uid-8": 4 * SECOND,
    }
    assert after.exporter is not None
    assert after.exporter.dropped[family] == 3


def test_a_user_of_many_groups_takes_no_other_users_room() -> None:
    """All users of a machine have their groups in one kind."""

    def group(name: str, uid: int) -> GroupHolding:
        return GroupHolding(
            owner=GroupKey("docker", name),
            index=0,
            uuid="GPU-0",
            used=Used(Engines(1)),
            info=GroupFacts(name, uid=uid),
        )

    many = tuple(group(f"a{number}", 1000) for number in range(20))
    control = Facts(groups=(group("z", 1001),))
    taken = limit_facts(lambda: Facts(groups=(*many, *control.groups)), Facts, 10).measured()

    assert len(taken.groups) == 10
    assert control.groups[0] in taken.groups
