from dataclasses import replace

import pytest

from exporter.answers.reading.feeds.overview import (
    Arrangement,
    Figure,
    Line,
    LineKind,
    SortKey,
    rows,
)
from tests.agent.api.nodes import demo
from tests.answers.reading.views import process, view

A = process("a", 0.1, 30, pid=3)
B = process("b", 0.3, 10, pid=1)
C = process("c", None, 20, pid=2)
REST = replace(process("rest", 0.9), kind=LineKind.REST, key=("rest",))
GPU = Line(("gpu",), LineKind.DEVICE, "gpu", children=(A, REST, C, B))
SHARED = tuple(
    replace(
        line, core=Figure(line.core.value, limit, line.core.why, (line.core.value or 0) / limit)
    )
    for line, limit in ((A, 0.1), (B, 0.6), (C, 0.5))
)


def names(lines: tuple[Line, ...], arrangement: Arrangement) -> list[str]:
    return [row.line.name for row in rows(lines, arrangement)[1:]]


@pytest.mark.parametrize(
    ("by", "reverse", "expected"),
    [
        (SortKey.NAME, False, "a b c"),
        (SortKey.CORE, False, "b a c"),
        (SortKey.MEMORY, False, "a c b"),
        (SortKey.PID, False, "b c a"),
        (SortKey.SHARE, False, "a b c"),
        (SortKey.NAME, True, "c b a"),
        (SortKey.CORE, True, "a b c"),
        (SortKey.PID, True, "a c b"),
    ],
)
def test_lines_are_sorted_within_their_device_the_unknown_and_the_rest_always_last(
    by: SortKey,
    reverse: bool,  # noqa: FBT001 - a case
    expected: str,
) -> None:
    assert names((GPU,), Arrangement(by, reverse)) == [*expected.split(), "rest"]


def test_the_share_of_the_limit_counts_not_the_amount() -> None:
    gpu = replace(GPU, children=SHARED)

    assert names((gpu,), Arrangement(SortKey.SHARE, deepest=4)) == ["a", "b", "c"]


@pytest.mark.parametrize("key", [SortKey.CORE, SortKey.MEMORY])
def test_equal_figures_are_in_the_order_of_names_whatever_order_they_were_added_in(
    key: SortKey,
) -> None:
    parts = [0.1, 0.2, 0.3]
    sums = {"a": sum(parts), "b": sum(reversed(parts))}
    assert sums["a"] != sums["b"]  # by the last bit

    for one, other in (("a", "b"), ("b", "a")):
        lines = (process("a", sums[one], sums[one]), process("b", sums[other], sums[other]))
        shown = (replace(GPU, children=lines),)
        assert names(shown, Arrangement(key, deepest=4)) == ["a", "b"]


def test_devices_are_sorted_too_and_by_name_in_the_order_of_their_index() -> None:
    lines = view(demo()).lines

    def shown(by: SortKey, *, reverse: bool = False) -> list[Line]:
        return [row.line for row in rows(lines, Arrangement(by, reverse=reverse, deepest=1))]

    assert shown(SortKey.NAME) == list(lines)
    assert shown(SortKey.NAME, reverse=True) == list(lines[::-1])
    cores = [line.core.value or 0 for line in shown(SortKey.CORE)]
    assert cores == sorted(cores, reverse=True)
    assert cores != [line.core.value for line in lines]


def test_a_filter_keeps_what_is_above_and_below_and_knows_containers_by_their_names() -> None:
    lines = view(demo()).lines

    assert [row.line.kind for row in rows(lines, Arrangement(needle="CHAT-7B"))] == [
        *(LineKind.DEVICE, LineKind.POD),
    ]
    found = {row.line.name for row in rows(lines, Arrangement(needle="JUPYTER"))}
    assert "research/notebook-alice-0" in found
    assert rows(lines, Arrangement(needle="nobody")) == []


def test_of_what_does_not_fit_the_least_is_left_out_and_counted() -> None:
    crowd = [process(f"p{n}", n / 100) for n in range(10)]
    tenants = tuple(replace(line, kind=LineKind.GROUP) for line in crowd)
    gpu = replace(GPU, children=tenants)

    shown = rows((gpu,), Arrangement(fits=True), 6)

    assert [row.line.name for row in shown] == ["gpu", "p5", "p6", "p7", "p8", "p9"]
    assert [row.more for row in shown] == [5, 0, 0, 0, 0, 0]


def test_what_is_beyond_its_limit_or_unknown_stays() -> None:
    over = replace(A, kind=LineKind.GROUP, core=Figure(0.02, 0.01, share=2.0))
    unknown = replace(C, kind=LineKind.GROUP)
    idle = tuple(replace(B, kind=LineKind.GROUP, key=(f"b{n}",)) for n in range(5))
    gpu = replace(GPU, children=(over, unknown, *idle))

    shown = rows((gpu,), Arrangement(fits=True), 3)

    assert {row.line.name for row in shown[1:]} == {"a", "c"}


@pytest.mark.parametrize("deepest", [1, 2, 3, 4])
def test_depth_shows_so_many_levels(deepest: int) -> None:
    shown = rows(view(demo()).lines, Arrangement(deepest=deepest))

    kinds = {row.line.kind for row in shown}
    assert (LineKind.POD in kinds) == (deepest > 1)
    assert (LineKind.CONTAINER in kinds) == (deepest > 2)
    assert (LineKind.PROCESS in kinds) == (deepest > 3)
    assert all(row.hidden == bool(row.line.children) for row in shown) == (deepest == 1)


def test_what_is_folded_says_so() -> None:
    lines = view(demo()).lines

    shown = rows(lines, Arrangement(folded={lines[0].key}))

    assert shown[0].hidden
    assert shown[1].line is lines[1]
    assert not shown[1].hidden
