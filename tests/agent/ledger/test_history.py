from collections.abc import Callable
from functools import partial

import pytest

from exporter.agent.facts.history import (
    MAX_SERIES,
    POINTS,
    Gauges,
    Known,
    Past,
    extended,
)
from exporter.model import ContainerKey, GroupKey, History, SeriesKey
from tests.agent.ledger.node import at

KEY = SeriesKey(ContainerKey("n", "p", "c"), "GPU-0")


def cores(history: History, key: SeriesKey = KEY) -> Known:
    return Past(history)[key]["core_utilization_ratio"]


def held(history: History, key: SeriesKey = KEY) -> Known:
    return Past(history)[key]["memory_used_bytes"]


def rows(core: float | None = 0.5, memory: float | None = 2**30) -> Callable[[], list[Gauges]]:
    return lambda: [(KEY, core, memory)]


def nothing() -> list[Gauges]:
    return []


def test_the_first_point_is_taken_at_once() -> None:
    history = extended(History(), rows(), at(1))
    assert (cores(history), held(history)) == ([0.5], [2**30])
    assert history.end_unix_ns == at(1).unix_ns


def test_a_point_is_taken_each_ten_seconds_and_not_between() -> None:
    history = extended(History(), rows(), at(1))
    assert extended(history, rows(), at(10.9)) is history
    assert cores(extended(history, rows(0.25), at(11))) == [0.5, 0.25]


def test_cycles_that_come_a_little_late_do_not_make_points_rarer() -> None:
    history = extended(History(), rows(), at(0))
    for second in range(1, 201):
        history = extended(history, rows(), at(second + 0.01 * second))
    assert len(cores(history)) == 21


def test_what_was_not_known_is_not_zero() -> None:
    history = extended(History(), rows(None, None), at(1))
    assert (cores(history), held(history)) == ([None], [None])


def test_zero_is_known() -> None:
    history = extended(History(), rows(0, 0), at(1))
    assert (cores(history), held(history)) == ([0], [0])


def test_what_is_too_large_is_the_largest() -> None:
    history = extended(History(), rows(1e9, 2**60), at(1))
    assert cores(history) == [pytest.approx(6.5534)]
    assert held(history) == [pytest.approx(2**42, rel=1e-6)]


def test_points_that_nobody_took_are_unknown() -> None:
    history = extended(History(), rows(), at(0))
    assert cores(extended(history, rows(), at(34))) == [0.5, None, None, 0.5]


def test_a_history_is_not_changed_by_its_next_point() -> None:
    before = extended(History(), rows(), at(0))
    extended(before, rows(0.9), at(10))
    assert cores(before) == [0.5]


@pytest.mark.parametrize("pause", [10, 10**6])
def test_an_hour_is_kept(pause: int) -> None:
    history = History()
    for number in range(POINTS + 5):
        history = extended(history, rows(), at(number * pause))
    assert len(history.points) == POINTS
    assert cores(history)[-1] == 0.5


def test_who_is_not_there_any_more_has_no_history() -> None:
    history = extended(History(), rows(), at(0))
    assert not extended(history, nothing, at(10)).series


def test_who_comes_back_has_its_history_with_a_gap() -> None:
    history = extended(History(), rows(), at(0))
    history = extended(history, nothing, at(10))
    assert cores(extended(history, rows(0.25), at(20))) == [0.5, None, 0.25]


def other(*names: str) -> Callable[[], list[Gauges]]:
    return lambda: [(KEY._replace(uuid=name), 0.125, 0) for name in names]


def test_nobody_inherits_the_history_of_another() -> None:
    history = extended(History(), rows(), at(0))
    for number in range(1, POINTS + 3):
        history = extended(history, other("GPU-1"), at(10 * number))
    history = extended(history, other("GPU-1", "GPU-2"), at(10 * POINTS + 100))
    assert cores(history, KEY._replace(uuid="GPU-2")) == [0.125]
    assert not history.ended
    assert max(history.series.values()) == 1  # the place of the first is used again


def test_a_newcomer_does_not_take_the_place_of_one_that_ended_lately() -> None:
    history = extended(History(), rows(), at(0))
    history = extended(history, other("GPU-1"), at(10))
    assert cores(history, KEY._replace(uuid="GPU-1")) == [0.125]
    assert len(set(history.series.values()) | {place for place, _ in history.ended.values()}) == 2


def test_the_number_of_series_is_bounded() -> None:
    many = (f"GPU-{n}" for n in range(MAX_SERIES + 5))
    history = extended(History(), other(*many), at(0))
    more = (f"more-{n}" for n in range(MAX_SERIES))
    history = extended(history, other(*more), at(10))
    assert len(history.series) + len(history.ended) <= MAX_SERIES
    assert len(history.points[-1].cores) <= 2 * MAX_SERIES


@pytest.mark.parametrize("at_once", [True, False])
def test_a_namespace_of_many_series_leaves_places_for_others(*, at_once: bool) -> None:
    def of(namespace: str, count: int) -> list[Gauges]:
        names = (ContainerKey(namespace, "p", f"c{number}") for number in range(count))
        return [(SeriesKey(name, "GPU-0"), 0.5, 0) for name in names]

    many, few = of("tenant", 2 * MAX_SERIES), of("victim", 3)
    device: Gauges = (SeriesKey(None, "GPU-0"), 0.5, 0)
    history = History()
    if not at_once:
        for number in range(3):  # what has ended holds its place for an hour
            history = extended(history, partial(list, many[900 * number :]), at(10 * number))
    history = extended(history, lambda: [*many, device, *few], at(100))

    control = extended(History(), lambda: [device, *few], at(100))
    for key in control.series:
        assert [*Past(history)[key].values()] == [*Past(control)[key].values()]
    assert MAX_SERIES * 0.75 < len(history.series) + len(history.ended) <= MAX_SERIES


def test_devices_and_groups_have_a_history_of_their_own() -> None:
    device, group = SeriesKey(None, "GPU-0"), SeriesKey(GroupKey("docker", "x"), "GPU-0")
    past = Past(extended(History(), lambda: [(device, 0.75, 10240), (group, 0.125, 5120)], at(0)))
    assert [list(series.values()) for series in past.values()] == [
        *([[0.75], [10240]], [[0.125], [5120]]),
    ]
