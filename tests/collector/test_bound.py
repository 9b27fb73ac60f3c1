"""How many series a family may have: what is taken, what is left out, and what is said of it."""

import logging
from collections import Counter
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.collector import CycleRules
from exporter.collector.series_limit import DroppedSeries, Rows, limit_series
from exporter.model import CgroupIdentity, Row, Value
from exporter.rows.lazy import LazyRows
from tests.collector.bench import SECOND, Bench

CORE = "mgpu_container_core_seconds_total"
WHY = "mgpu_container_unmeasured"


def container(name: str, reasons: int = 0) -> Row:
    values: dict[str, Value] = {"core_seconds_total": 1, "processes": 2}
    if reasons:
        values["unmeasured"] = {(f"q{n}", "mig"): 1 for n in range(reasons)}
    return Row(("ns", "pod", name, "0", "GPU-0"), values)


def containers(*names: str, reasons: int = 0) -> Rows:
    return {"container": tuple(container(name, reasons) for name in names)}


def names(rows: Rows) -> set[str]:
    return {row.labels[2] for row in rows["container"]}


def test_what_is_within_the_limit_is_as_it_was() -> None:
    rows = containers("a", "b", reasons=1)

    taken = limit_series(rows, {}, 2)

    assert taken.rows == rows
    assert taken.dropped == {}


def test_of_what_is_new_the_first_by_labels_are_taken() -> None:
    taken = limit_series(containers("c", "a", "b"), {}, 2)

    assert names(taken.rows) == {"a", "b"}
    assert taken.dropped == {CORE: 1, "mgpu_container_processes": 1}


def test_what_was_shown_stays_though_others_come_before_it() -> None:
    before = limit_series(containers("x", "y"), {}, 2).rows

    taken = limit_series(containers("a", "b", "x", "y"), before, 2)

    assert names(taken.rows) == {"x", "y"}


def of_namespaces(counts: Mapping[str, int], reasons: int = 0) -> Rows:
    rows = (
        Row((namespace, "pod", f"c{n:05}", "0", "GPU-0"), container("", reasons).values)
        for namespace, count in counts.items()
        for n in range(count)
    )
    return {"container": tuple(rows)}


def counts(rows: Rows) -> Counter[str]:
    return Counter(row.labels[0] for row in rows["container"])


@pytest.mark.parametrize("shown", [{}, {"aaa": 12_000}], ids=["at once", "aaa was first"])
def test_a_namespace_of_many_containers_takes_no_other_ones_room(shown: dict[str, int]) -> None:
    before = limit_series(of_namespaces(shown), {}, 10_000).rows

    taken = limit_series(of_namespaces({"aaa": 12_000, "m": 3, "zz": 6_000}), before, 10_000)

    assert counts(taken.rows) == {"aaa": 4_999, "m": 3, "zz": 4_998}
    assert taken.dropped[CORE] == 18_003 - 10_000


def test_series_of_a_familys_own_labels_are_shared_by_namespace_too() -> None:
    taken = limit_series(of_namespaces({"aaa": 4, "zz": 1}, reasons=3), {}, 8)

    left = {row.labels[:3]: row.values["unmeasured"] for row in taken.rows["container"]}
    assert len(left["zz", "pod", "c00000"]) == 3  # type: ignore[arg-type] # labelled
    assert taken.dropped == {WHY: 7}


def test_room_that_is_left_goes_to_the_next() -> None:
    before = limit_series(containers("x", "y"), {}, 2).rows

    taken = limit_series(containers("b", "a", "y"), before, 2)

    assert names(taken.rows) == {"a", "y"}


def test_labels_of_the_familys_own_count() -> None:
    taken = limit_series(containers("a", "b", reasons=3), {}, 4)

    assert taken.dropped == {WHY: 2}
    assert [len(row.values["unmeasured"]) for row in taken.rows["container"]] == [3, 1]  # type: ignore[arg-type] # labelled
    assert names(taken.rows) == {"a", "b"}


def test_series_of_such_a_family_that_were_shown_stay() -> None:
    before = limit_series(containers("b", reasons=3), {}, 4).rows

    taken = limit_series(containers("a", "b", reasons=3), before, 4)

    assert [len(row.values["unmeasured"]) for row in taken.rows["container"]] == [1, 3]  # type: ignore[arg-type] # labelled


def test_what_the_exporter_says_of_itself_is_never_left_out() -> None:
    own = {"exporter": (Row((), {"source_up": {(str(n),): 1 for n in range(9)}}),)}

    taken = limit_series(own, {}, 1)

    assert taken.rows == own
    assert not taken.dropped


def test_rows_are_not_looked_at_where_there_cannot_be_too_many() -> None:
    rows = LazyRows({"container": lambda: pytest.fail("were made")})

    assert limit_series(rows, {}, 3, highest=3).rows is rows


def test_rows_are_counted_where_there_may_be_too_many() -> None:
    rows = containers("c", "a", "b")

    assert limit_series(rows, {}, 2, highest=4) == limit_series(rows, {}, 2)


@given(
    cycles=st.lists(
        st.sets(st.text("abcdefgh", min_size=1, max_size=2), max_size=12), min_size=1, max_size=6
    ),
    most=st.integers(1, 8),
)
def test_nothing_comes_and_goes_while_it_is_there(cycles: list[set[str]], most: int) -> None:
    before: Rows = {}
    for there in cycles:
        taken = limit_series(containers(*there), before, most)
        shown = names(taken.rows)
        assert len(shown) == min(len(there), most)
        assert taken.dropped.get(CORE, 0) == len(there) - len(shown)
        if before:
            assert names(before) & there <= shown
        before = taken.rows


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
    assert [[own.labels[1][:5] for own in each.rows["group"]] for each in limited] == [
        ["uid-7"]
    ] * 3
    assert [each.dropped[family] for each in limited] == [1, 1, 1]
    assert {own.labels[1][:5]: own.values["core_seconds_total"] for own in after.rows["group"]} == {
        "uid-7": SECOND,
        "uid-8": 4 * SECOND,
    }
    told = after.rows["exporter"][0].values["dropped_series_total"]
    assert isinstance(told, Mapping)
    assert told[(family,)] == 3
    assert after.dropped == {}
