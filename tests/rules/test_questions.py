"""The queries of docs/questions.md: each finds what it asks for, over pages of a real run."""

import re
from pathlib import Path

import pytest

from tests.rules.run import Rules, Series, simulated

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "questions.md").read_text()
SCENARIO = Path(__file__).parent / "allocations.yaml"
MINUTES = (12, 18, 31)
ODD = 'gpu="0",uuid="GPU-odd"'
UNREADABLE = "GPUs that cannot be read"
# What no simulated run has: by the query that is to find it.
FAULTS = {
    UNREADABLE: {f"mgpu_device_up{{{ODD}}}": ["0x140"]},
    "errors that the driver reported in the last hour (XIDs)": {
        f'mgpu_device_xid_errors_total{{{ODD},xid="79"}}': ["0x30 1x110"]
    },
    "share of time in which heat or the power supply held clocks down": {
        f'mgpu_device_throttle_seconds_total{{{ODD},reason="hw_thermal"}}': ["0+5x140"]
    },
    "cards with more memory allocated than they have": {
        f"mgpu_device_allocated_memory_bytes{{{ODD}}}": ["9x140"],
        f"mgpu_device_memory_total_bytes{{{ODD}}}": ["8x140"],
    },
    "cards that nobody used for half an hour": {
        f"mgpu_device_utilization_ratio{{{ODD}}}": ["0x140"],
    },
    "use that could not be attributed, and why": {
        f'mgpu_device_unattributed_core_seconds_total{{{ODD},reason="no_pid"}}': ["0+3x140"],
    },
    "parts of the exporter that get no answer": {
        'mgpu_exporter_source_up{source="nvml"}': ["0x140"],
    },
}
# Of these the healthy demonstration has an example; of the others the node on which much is odd.
HEALTHY = ("Who uses what?", "Is my job using its card?", "What is left to give?")

pytestmark = [pytest.mark.program("promtool"), pytest.mark.slow]


def documented() -> dict[str, dict[str, str]]:
    """By question: title → query."""
    found = {}
    for section in PAGE.split("\n## ")[1:]:
        question = section.partition("\n")[0]
        blocks = re.findall(r"```promql\n(.*?)```", section, re.DOTALL)
        queries = [query.partition("\n") for block in blocks for query in block.split("\n\n")]
        found[question] = {title.removeprefix("# "): query for title, _, query in queries}
    return found


QUESTIONS = documented()
QUERIES = {title: query for queries in QUESTIONS.values() for title, query in queries.items()}
FOUND_IN = [
    (question, title)
    for question, queries in QUESTIONS.items()
    for title in queries
    if title not in FAULTS
]


@pytest.fixture(scope="module")
def healthy() -> Series:
    return simulated("demo", max(MINUTES), cycle_s=5)


@pytest.fixture(scope="module")
def odd() -> Series:
    return simulated(str(SCENARIO), max(MINUTES), cycle_s=5)


def titles(queries: dict[str, str], series: Series, folder: Path) -> set[str]:
    """The queries that find something at one of the minutes."""
    return {alert.title for alert in Rules(queries, series, folder).alerts(MINUTES)}


@pytest.fixture(scope="module")
def of_healthy(healthy: Series, tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    return titles(QUERIES, healthy, tmp_path_factory.mktemp("healthy"))


@pytest.fixture(scope="module")
def of_odd(odd: Series, tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    queries = {title: query.replace("research", "crowded") for title, query in QUERIES.items()}
    return titles(queries, odd, tmp_path_factory.mktemp("odd"))


def test_every_question_of_the_front_page_has_queries() -> None:
    front = (ROOT / "docs" / "index.md").read_text()
    asked = {question for question in QUESTIONS if f"(questions.md#{anchor(question)})" in front}

    assert asked == set(QUESTIONS)
    assert all(QUESTIONS.values())


def anchor(heading: str) -> str:
    """A heading as a link names it."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


@pytest.mark.parametrize(("question", "title"), FOUND_IN)
def test_a_query_finds_what_it_asks_for(
    of_healthy: set[str], of_odd: set[str], question: str, title: str
) -> None:
    assert title in (of_healthy if question in HEALTHY else of_healthy | of_odd)


def test_what_is_left_of_a_board_with_mig_is_what_no_instance_was_given(tmp_path: Path) -> None:
    titles = [title for title in QUESTIONS["What is left to give?"] if "each card" in title]
    without = [title for title in QUESTIONS["What is left to give?"] if "without MIG" in title]
    queries = {title: QUERIES[title] for title in (*titles, *without)}

    series = simulated(str(ROOT / "examples/demo/mig.yaml"), 8, cycle_s=5)
    found = Rules(queries, series, tmp_path).alerts([8])

    assert [title for title, *_ in found].count(titles[0]) == 2  # the two boards
    assert [one.labels["gpu"] for one in found if one.title in without] == ["1"]


@pytest.mark.parametrize("title", FAULTS)
def test_a_fault_is_found_and_nothing_without_it(
    of_healthy: set[str], tmp_path: Path, title: str
) -> None:
    assert title not in of_healthy
    assert titles({title: QUERIES[title]}, FAULTS[title], tmp_path) == {title}


def test_a_card_that_is_lost_is_not_left_to_give(tmp_path: Path) -> None:
    [title] = (one for one in QUESTIONS["What is left to give?"] if "without MIG" in one)
    info = {f'mgpu_device_info{{{ODD},parent_uuid="",sharing="none"}}': ["1x140"]}

    assert titles({title: QUERIES[title]}, info | FAULTS[UNREADABLE], tmp_path) == set()
    up = {name: ["1x140"] for name in FAULTS[UNREADABLE]}
    assert titles({title: QUERIES[title]}, info | up, tmp_path) == {title}
