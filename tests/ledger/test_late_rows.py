"""Rows are made for their first reader, and say what was true when their cycle ended."""

import threading
from collections.abc import Callable, Iterable

import pytest
from hypothesis import given, settings

from exporter.model import DeviceState, MemoryHeld, Owner, Row, Unmeasured
from exporter.rows.lazy import LazyRows
from tests.ledger.node import GPU, GROUP, SECOND, A, B, Node, allotted, window
from tests.ledger.test_allotments import OTHER, SIDE, WHOLE_POD, Histories, histories

LEVELS = ("device", "container", "pod", "namespace", "group", "group_kind")


@settings(max_examples=100, deadline=None)
@given(histories)
def test_rows_read_late_say_what_they_would_have_said_at_once(history: Histories) -> None:
    node = Node((GPU, OTHER))
    node.owners = {1: A, 2: SIDE, 3: WHOLE_POD, 4: GROUP}
    clock, cycles = 0.0, []
    for number, (wait, use, states, allotments) in enumerate(history):
        clock += wait
        node.untold = {A: Unmeasured.MPS} if number % 3 == 0 else {}
        held: dict[Owner, MemoryHeld] = {A: MemoryHeld(number, 1), B: MemoryHeld(None, 1)}
        on = {"GPU-0": window(use, energy=10), "GPU-1": window(use)}
        at_once = node.cycle(
            *(clock, on),
            states=states,
            allotted=tuple(allotments),
            held=held if number % 2 else None,
            listed=bool(number % 5),
        )
        cycles.append((at_once, node.unread))

    for at_once, late in cycles:
        assert {level: list(rows) for level, rows in late.items()} == {
            level: list(rows.values()) for level, rows in at_once.items()
        }


def test_a_row_that_was_read_does_not_change() -> None:
    node = Node()
    node.cycle(0, {"GPU-0": window({1: SECOND})}, held={A: MemoryHeld(5, 1)})
    kept = node.unread
    before = repr(dict(kept))

    lost = {"GPU-0": DeviceState.LOST}
    node.cycle(1, {"GPU-0": window({1: SECOND})}, allotted=(allotted(A),))
    for second in range(2, 6):
        node.cycle(second, states=lost)

    assert repr(dict(kept)) == before


def test_two_threads_are_given_the_same_rows() -> None:
    both = threading.Barrier(2)

    def make() -> Iterable[Row]:
        both.wait()
        yield Row(("0", "GPU-0"), {"up": 1})

    rows = LazyRows({"device": make})
    found = []
    threads = [threading.Thread(target=lambda: found.append(rows["device"])) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert found[0] is found[1] is rows["device"]


def test_each_level_is_made_once() -> None:
    asked = []

    def make() -> Iterable[Row]:
        asked.append(1)
        yield Row(("0", "GPU-0"), {"up": 1})

    rows = LazyRows({"device": make, "pod": make})

    assert rows["device"] is rows["device"]
    assert len(asked) == 1


def test_rows_are_a_mapping_of_their_levels() -> None:
    node = Node()
    node.cycle(0)
    rows = node.unread

    assert tuple(rows) == LEVELS
    assert len(rows) == len(LEVELS)
    assert "pod" in rows
    assert "exporter" not in rows
    assert rows.get("exporter", ()) == ()
    assert rows == {level: rows[level] for level in LEVELS}
    with pytest.raises(KeyError):
        rows["exporter"]


@pytest.mark.parametrize("failure", [ValueError, KeyError])
@pytest.mark.parametrize("read", [LazyRows.__getitem__, LazyRows.get])
def test_making_them_fails_for_each_reader_anew(
    failure: type[Exception], read: Callable[[LazyRows, str], object]
) -> None:
    def fail() -> Iterable[Row]:
        raise failure("no rows")

    rows = LazyRows({"pod": fail})

    for _ in range(2):
        with pytest.raises(failure, match="no rows"):
            read(rows, "pod")
