"""Two clusters whose nodes, pods and cards have the same names: each keeps rows of its own.

Both are ten minutes old.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.dashboards.grafana import FOLDER, PATHS, RULES, fill, load, panels, queries
from tests.dashboards.test_silent import AT, EVERYTHING, MINUTE, _card, _hit, _pod
from tests.store import Store, Target

CLUSTERS = ("east", "west")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with Store(tmp_path_factory.mktemp("prometheus")) as store:
        for minute in range(11):
            seconds = minute * MINUTE
            page = 'mgpu_exporter_build_info{version="1"} 1\n'
            page += _card(0, "well", 1, seconds=seconds) + _pod("well", 0, "well", seconds)
            page += _card(1, "gone", 0, seconds=seconds) + _hit("on-gone", 1, "gone")
            for cluster in CLUSTERS:
                target = Target({"job": "mgpu", "instance": "node", "cluster": cluster})
                store.scrape(target, page, AT - 10 * MINUTE + seconds)
        store.evaluate(RULES, AT)
        yield store


def _is_row(one: Mapping[str, Any]) -> bool:
    """Whether it is of something, and not why there is nothing."""
    return bool(one["metric"]) and not {"why", "of_all"} & one["metric"].keys()


@pytest.mark.program("prometheus")
@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_row_of_a_table_is_of_one_cluster(store: Store, path: Path) -> None:
    asked = 0
    for panel in panels(load(path)):
        for target in panel["targets"] if panel["type"] == "table" else ():
            both, east = (
                store.query(fill(target["expr"], EVERYTHING | {"cluster": cluster}), AT)
                for cluster in (".*", "east")
            )
            rows, own = ([one for one in found if _is_row(one)] for found in (both, east))
            assert {one["metric"].get("cluster") for one in rows} <= {*CLUSTERS}, panel["title"]
            assert {one["metric"].get("cluster") for one in own} <= {"east"}, panel["title"]
            assert len(rows) == 2 * len(own), (panel["title"], target["refId"])
            asked += len(rows)
    assert asked or path.stem not in {"mgpu-overview", "mgpu-node", "mgpu-pod"}


@pytest.mark.program("prometheus")
def test_a_number_counts_both(store: Store) -> None:
    every = {query.panel: query for query in queries(load(FOLDER / "mgpu-overview.json"))}
    for panel, expected in {"GPUs, all": 2, "Not read, all": 2, "In use, all": 1}.items():
        (value,) = store.values(fill(every[panel].expr, EVERYTHING), AT).values()
        assert value == pytest.approx(expected), panel


@pytest.mark.program("prometheus")
@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_the_time_before_the_first_hour_changes_no_figure(store: Store, path: Path) -> None:
    """Of what is ten minutes old, an hour says what ten minutes say: the rest is not idle time."""
    for query in queries(load(path)):
        hour, since = (
            _figures(
                store, fill(query.expr, EVERYTHING | {"__range": f"{s}s", "__range_s": str(s)})
            )
            for s in (3600, 600)
        )
        assert hour == pytest.approx(since, nan_ok=True), query


def _figures(store: Store, expr: str) -> dict[Any, float]:
    found = {tuple(one["metric"].items()): one["value"][1] for one in store.query(expr, AT)}
    return {labels: float(value) for labels, value in found.items()}
