"""The queries about allocations of docs/questions.md, over pages of a real run."""

from pathlib import Path

import pytest

from tests.rules.run import Rules, Series, documented, simulated

SCENARIO = Path(__file__).parent / "allocations.yaml"
MINUTES = (9, 12, 14, 18, 23, 27, 29, 32)
TITLES = (MEMORY, CORE, IDLE, UNASKED, MISPLACED, PAUSED, WAITING) = (
    "nearly out of GPU memory; above 1: over the allocation",
    "more than their share",
    "pods that have a GPU and did not use it for half an hour",
    "use of a GPU that nobody asked for",
    "containers on another card than the one that was allocated",
    "offline, and paused by others on the card",
    "the cause: over its share while a neighbour waits for its own",
)
QUESTIONS = documented("questions.md")
EXPRESSIONS = {title: QUESTIONS[title] for title in TITLES}

Found = dict[str, dict[int, set[str]]]

pytestmark = [pytest.mark.program("promtool"), pytest.mark.slow]


@pytest.fixture(scope="module")
def series() -> Series:
    return simulated(str(SCENARIO), max(MINUTES), cycle_s=5)


@pytest.fixture(scope="module")
def found(series: Series, tmp_path_factory: pytest.TempPathFactory) -> Found:
    """Expression → minute → the pods that it names."""
    return _found(series, tmp_path_factory.mktemp("rules"))


def _found(series: Series, folder: Path) -> Found:
    found: Found = {title: {minute: set() for minute in MINUTES} for title in EXPRESSIONS}
    for alert in Rules(EXPRESSIONS, series, folder).alerts(MINUTES):
        found[alert.title][alert.minute].add(alert.labels["pod"])
    return found


@pytest.mark.parametrize(
    ("title", "expected"),
    [
        (  # the first holds all of it, and not more
            MEMORY,
            dict.fromkeys(MINUTES, "bursting")
            | dict.fromkeys((18, 23, 27, 29, 32), "bursting leaking"),
        ),
        (
            CORE,
            dict.fromkeys(MINUTES, "bursting") | dict.fromkeys((9, 12, 14, 18), "bursting greedy"),
        ),
        (IDLE, {32: "idle"}),
        (UNASKED, {12: "unasked", 14: "unasked"}),
        (MISPLACED, {12: "astray", 14: "astray"}),
        (PAUSED, {12: "offline", 14: "offline", 18: "offline"}),
        (WAITING, {9: "greedy", 12: "greedy", 14: "greedy", 18: "greedy"}),
    ],
)
def test_each_expression_finds_what_it_is_for_while_it_lasts_and_nothing_else(
    found: Found, title: str, expected: dict[int, str]
) -> None:
    assert found[title] == {minute: set(expected.get(minute, "").split()) for minute in MINUTES}


def _without(series: Series, *words: str) -> Series:
    return {name: v for name, v in series.items() if not all(word in name for word in words)}


@pytest.mark.parametrize(
    ("title", "words"),
    [
        (MEMORY, ("memory_limit_utilization_ratio",)),
        (CORE, ("allocated_core_seconds", "mgpu_container")),
        (IDLE, ("allocation_info", 'pod="idle"')),
        (PAUSED, ("allocation_info", 'pod="online"')),
        (PAUSED, ("mgpu_container_processes",)),
        (WAITING, ("core_seconds", 'pod="waiting"')),
        (WAITING, ("mgpu_device_busy_seconds",)),
    ],
)
def test_what_an_expression_needs_to_know_silences_it_where_it_is_unknown(
    series: Series, tmp_path: Path, title: str, words: tuple[str, ...]
) -> None:
    unknown = _without(series, *words)
    assert len(unknown) < len(series)
    if title == CORE:
        unknown = _without(unknown, "mgpu_pod_core_limit_utilization")

    assert set().union(*_found(unknown, tmp_path)[title].values()) == set()
