"""Waiting is an upper bound: never below the truth by more than the floor of sampling."""

import pytest

from benchmarks.accuracy.waiting import KINDS, PAGE, Kind, floor, run

LENGTH_S = 120


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["last", "random"])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_waiting_is_never_below_the_truth(kind: Kind, rule: str) -> None:
    waited = run(kind, rule, LENGTH_S)

    assert waited.measured >= waited.true - floor(LENGTH_S)


def test_the_page_has_a_row_for_each_kind_of_work() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert all(f"| {kind.name} |" in page for kind in KINDS)
