from collections.abc import Iterable

import pytest

from exporter.model import History, Row
from exporter.rows.history import (
    MOST_SERIES,
    POINT_BYTES,
    POINTS,
    Gauges,
    extended,
    gauges_of,
    points,
)
from tests.ledger.node import at

KEY = ("n", "p", "c", "0", "GPU-0")


def rows(core: float | None = 0.5, memory: int | None = 2**30) -> Iterable[Gauges]:
    values = {"core_utilization_ratio": core, "memory_used_bytes": memory}
    known = {name: value for name, value in values.items() if value is not None}
    return gauges_of({"container": (Row(KEY, known),)})


def test_the_first_point_is_taken_at_once() -> None:
    history = extended(History(), rows(), at(1))
    assert points(history.series[KEY]) == ([0.5], [2**30])
    assert history.end_unix_ns == at(1).unix_ns


def test_a_point_is_taken_each_five_seconds_and_not_between() -> None:
    history = extended(History(), rows(), at(1))
    assert extended(history, rows(), at(5.9)) is history
    assert points(extended(history, rows(0.25), at(6)).series[KEY])[0] == [0.5, 0.25]


def test_cycles_that_come_a_little_late_do_not_make_points_rarer() -> None:
    history = extended(History(), rows(), at(0))
    for second in range(1, 101):
        history = extended(history, rows(), at(second + 0.01 * second))
    assert len(points(history.series[KEY])[0]) == 21


def test_what_was_not_known_is_not_zero() -> None:
    history = extended(History(), rows(None, None), at(1))
    assert points(history.series[KEY]) == ([None], [None])


def test_points_that_nobody_took_are_unknown() -> None:
    history = extended(History(), rows(), at(0))
    assert points(extended(history, rows(), at(17)).series[KEY])[0] == [0.5, None, None, 0.5]


def test_a_history_is_not_changed_by_its_next_point() -> None:
    before = extended(History(), rows(), at(0))
    extended(before, rows(0.9), at(5))
    assert points(before.series[KEY])[0] == [0.5]


@pytest.mark.parametrize("pause", [5, 10**6])
def test_ten_minutes_are_kept(pause: int) -> None:
    history = History()
    for number in range(POINTS + 5):
        history = extended(history, rows(), at(number * pause))
    assert len(history.series[KEY]) == POINTS * POINT_BYTES


def test_who_is_not_there_any_more_has_no_history() -> None:
    history = extended(History(), rows(), at(0))
    assert not extended(history, (), at(5)).series


def test_the_number_of_series_is_bounded() -> None:
    many = tuple(Row((*KEY[:4], f"GPU-{n}"), {}) for n in range(MOST_SERIES))
    history = extended(History(), gauges_of({"container": many, "group": many}), at(0))
    assert len(history.series) == MOST_SERIES


def test_devices_and_groups_have_a_history_of_their_own() -> None:
    use = {"utilization_ratio": 0.75, "memory_used_bytes": 10}
    group = {"core_utilization_ratio": 0.125, "memory_used_bytes": 5}
    both = {
        "device": (Row(("0", "GPU-0"), use),),
        "group": (Row(("docker", "x", "0", "GPU-0"), group),),
    }
    series = extended(History(), gauges_of(both), at(0)).series
    assert [points(packed) for packed in series.values()] == [([0.75], [10]), ([0.125], [5])]
