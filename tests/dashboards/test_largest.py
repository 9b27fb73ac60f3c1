"""A fleet with more pods than a table has rows: the largest are shown, and of how many."""

from collections.abc import Iterator
from functools import partial

import pytest

from dashboards.tables import LARGEST
from tests.dashboards.grafana import FOLDER, RULES, fill, load, queries, resolve
from tests.dashboards.grafana import LARGEST as NAMED
from tests.dashboards.test_silent import AT, EVERYTHING, MINUTE
from tests.store import Store, Target

FEW, MANY = 3, LARGEST + 20
UNKNOWN = "of-unknown-use"  # allocated a card, and nothing of it can be measured


def _page(pods: int, minutes: int) -> str:
    lines = ['mgpu_exporter_build_info{version="1"} 1']
    for number in range(pods):
        own = f'namespace="team",pod="pod-{number}"'
        used = number * minutes * MINUTE / MANY
        lines.append(f'mgpu_pod_info{{{own},owner_kind="Pod",owner_name="pod-{number}"}} 1')
        lines.append(f"mgpu_pod_core_seconds_total{{{own}}} {used}")
        lines.append(f"mgpu_pod_allocated_core_seconds_total{{{own}}} {minutes * MINUTE}")
    own = f'namespace="team",pod="{UNKNOWN}"'
    lines.append(f'mgpu_pod_info{{{own},owner_kind="Pod",owner_name="{UNKNOWN}"}} 1')
    lines.append(f"mgpu_pod_allocated_core_seconds_total{{{own}}} {minutes * MINUTE}")
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with Store(tmp_path_factory.mktemp("prometheus")) as store:
        for minute in range(11):
            for node, pods in (("few", FEW), ("many", MANY)):
                page = _page(pods, minute)
                store.scrape(
                    Target({"job": "mgpu", "instance": node}), page, AT - (10 - minute) * MINUTE
                )
        store.evaluate(RULES, AT)
        yield store


def _asked(store: Store, panel: str, node: str) -> dict[str, str]:
    """The queries of a panel about one node, by their letters, with the board's own lists."""
    board = load(FOLDER / "mgpu-overview.json")
    own = {name: value for name, value in EVERYTHING.items() if name not in NAMED}
    own |= {"node": node, "owner": ".*"}
    values = resolve(board, partial(store.query, at=AT), own)
    return {one.letter: fill(one.expr, values) for one in queries(board) if one.panel == panel}


@pytest.mark.program("prometheus")
@pytest.mark.parametrize(("panel", "label"), [("Pods now", "pod"), ("Workloads now", "owner_name")])
def test_the_largest_are_shown_in_all_columns_and_a_row_says_of_how_many(
    store: Store, panel: str, label: str
) -> None:
    asked = _asked(store, panel, "many")
    used, promised = (
        {one["metric"][label] for one in store.query(asked[letter], AT)} for letter in "AB"
    )

    assert used == {f"pod-{number}" for number in range(MANY - LARGEST, MANY)}
    assert promised == used
    (row,) = store.query(asked["INSTEAD"], AT)
    assert row["metric"] == {"of_all": f"largest {LARGEST} of {MANY + 1}"}


@pytest.mark.program("prometheus")
@pytest.mark.parametrize("panel", ["Pods now", "Workloads now"])
def test_where_all_are_shown_no_row_says_anything_and_unknown_use_hides_none(
    store: Store, panel: str
) -> None:
    asked = _asked(store, panel, "few")
    assert len(store.query(asked["A"], AT)) == FEW
    assert len(store.query(asked["B"], AT)) == FEW + 1
    assert store.query(asked["INSTEAD"], AT) == []
