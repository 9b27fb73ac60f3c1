"""The checks find what they are for, and the fault is met where it should be."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.doors.checks import findings
from tests.doors.matrix import LAST_S, Cell, Run, Values, cells, control, run
from tests.doors.outside import LIST, READ, Kind

CELL = Cell("i915", Kind(READ, "proc/N/fdinfo/N"), "EIO", "some", one=True)
CORE = "mgpu_container_core_seconds_total"


def at(pod: str) -> str:
    return next(k for k in control("i915").pages[-1] if k.startswith(CORE) and f'"{pod}"' in k)


def changed(from_s: int, change: Callable[[Values], Values], to_s: int = LAST_S) -> Run:
    known = control("i915")
    pages = [
        change(page) if from_s <= second < to_s else page for second, page in enumerate(known.pages)
    ]
    return replace(known, pages=tuple(pages))


def more(page: Values) -> Values:
    return {**page, at("near"): page[at("near")] + 5}


def still(page: Values) -> Values:
    return {**page, at("victim"): 3.0}


def gone(page: Values) -> Values:
    return {k: v for k, v in page.items() if at("victim") != k}


def other_card(page: Values) -> Values:
    return {k: v for k, v in page.items() if at("far") != k}


def lost(page: Values) -> Values:
    return {**page, 'mgpu_device_unmeasured{uuid="x",quantity="device",reason="gpu_lost"}': 1.0}


def down(page: Values) -> Values:
    return {key: 0.0 if key.startswith("mgpu_device_up") else value for key, value in page.items()}


@pytest.mark.parametrize(
    ("found", "faulty"),
    [
        ([], lambda: changed(0, dict)),
        (["more"], lambda: changed(9, more, 11)),
        (["still", "silent"], lambda: changed(7, still, 13)),
        (["silent", "after"], lambda: changed(7, gone)),
        (["sibling"], lambda: changed(7, other_card, 10)),
        (["mistaken"], lambda: changed(7, lost, 10)),
        (["sibling", "unchecked"], lambda: changed(12, down, 13)),
    ],
    ids=["nothing", "more", "still", "gone", "sibling", "lost", "down"],
)
def test_what_is_wrong_is_found(found: list[str], faulty: Callable[[], Run]) -> None:
    said = findings(CELL, faulty(), control("i915"))
    assert [each.partition(":")[0] for each in said] == found


def test_what_is_asked_is_listed_with_each_way_in_which_it_goes_wrong() -> None:
    listed = list(cells("i915"))
    kinds = {cell.what for cell in listed}
    assert {Kind(READ, "proc/N/fdinfo/N"), Kind(LIST, "proc"), Kind(LIST, "sys/class/drm")} <= kinds
    answers = {cell.answer for cell in listed if cell.what == CELL.what}
    assert answers >= {"absent", "refused", "EMFILE", "cut", "stale", "back", "enormous"}


@pytest.mark.parametrize("answer", ["EIO", "EMFILE", "cut", "stale"])
def test_a_fault_is_met_and_ends(answer: str) -> None:
    faulty = run("i915", replace(CELL, answer=answer, one=False))
    assert faulty.met > 0
    assert faulty.pages[: CELL.begins_s] == control("i915").pages[: CELL.begins_s]
