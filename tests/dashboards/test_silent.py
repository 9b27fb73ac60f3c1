"""A node that is silent, a card that is lost: no panel shows what was as what is.

Of two nodes ``far`` was read until 20 minutes ago. On ``near`` the card ``gone`` fell off the bus
30 minutes ago. Pods ``on-far``, ``on-gone`` and ``well`` are at work on a card each; ``done`` had a
card until 40 minutes ago. ``stuck`` is on a card that was lost before the time range.
"""

import math
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

from dashboards.panels import NOT_KNOWN, UNKNOWN
from tests.dashboards.grafana import FOLDER, LARGEST, PATHS, RULES, fill, load, panels, queries
from tests.store import Store, Target

AT = 1_800_000_000.0
MINUTE = 60
EVERYTHING = {
    **dict.fromkeys(("cluster", "kind", "namespace", "node", "owner", "pod", "uuid"), ".*"),
    **{f"{label}_label": label for label in ("namespace", "pod", "container")},
    "job": "mgpu",
    "method": "allocation",
    "price_kwh": "0.2",
    "price_gpu_hour": "2",
    "datasource": "",
    "__range": "1h",
    "__range_s": "3600",
    **LARGEST,
    "__rate_interval": "1m",
}


def _card(gpu: int, uuid: str, up: int, *, seconds: float) -> str:
    of = f'gpu="{gpu}",uuid="{uuid}"'
    page = f"mgpu_device_up{{{of}}} {up}\n"
    page += f'mgpu_device_info{{{of},model="m",profile="",sharing="",gpu_instance=""}} 1\n'
    if up:
        page += f"mgpu_device_busy_seconds_total{{{of}}} {seconds / 2}\n"
        page += f"mgpu_device_utilization_ratio{{{of}}} 0.5\n"
        page += f'mgpu_device_temperature_celsius{{{of},sensor="gpu"}} 84\n'
        page += f"mgpu_device_power_watts{{{of}}} 300\n"
        page += f"mgpu_device_energy_joules_total{{{of}}} {seconds * 300}\n"
        page += f"mgpu_device_memory_used_bytes{{{of}}} 5\n"
    page += f"mgpu_device_memory_total_bytes{{{of}}} 10\n"
    return page


def _hit(name: str, gpu: int, uuid: str) -> str:
    """What is served of a pod whose card is lost."""
    pod = f'namespace="n",pod="{name}"'
    of = f'{pod},container="c",gpu="{gpu}",uuid="{uuid}"'
    return (
        f'mgpu_container_unmeasured{{{of},quantity="core",reason="gpu_lost"}} 1\n'
        f'mgpu_pod_info{{{pod},uid="u",qos="",owner_kind="",owner_name=""}} 1\n'
    )


def _pod(name: str, gpu: int, uuid: str, seconds: float) -> str:
    pod = f'namespace="n",pod="{name}"'
    of = f'{pod},container="c",gpu="{gpu}",uuid="{uuid}"'
    return (
        f'mgpu_container_allocation_info{{{of},scheme="s",policy="p",priority=""}} 1\n'
        f"mgpu_container_core_seconds_total{{{of}}} {seconds / 2}\n"
        f"mgpu_container_core_limit_ratio{{{of}}} 1\n"
        f"mgpu_container_memory_used_bytes{{{of}}} 5\n"
        f"mgpu_pod_last_active_timestamp_seconds{{{pod}}} {AT - 3600 + seconds}\n"
        f"mgpu_pod_core_seconds_total{{{pod}}} {seconds / 2}\n"
        f'mgpu_pod_info{{{pod},uid="u",qos="",owner_kind="",owner_name=""}} 1\n'
    )


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    folder = tmp_path_factory.mktemp("prometheus")
    with Store(folder) as store:
        near, far = (Target({"job": "mgpu", "instance": name}) for name in ("near", "far"))
        for minute in range(61):
            seconds = minute * MINUTE
            at = AT - 60 * MINUTE + seconds
            page = 'mgpu_exporter_build_info{version="1"} 1\n'
            page += _card(0, "well", 1, seconds=seconds) + _pod("well", 0, "well", seconds)
            lost = minute >= 30
            page += _card(1, "gone", int(not lost), seconds=seconds)
            page += _hit("on-gone", 1, "gone") if lost else _pod("on-gone", 1, "gone", seconds)
            page += _card(2, "dead", 0, seconds=seconds) + _hit("stuck", 2, "dead")
            page += _pod("done", 0, "well", seconds) if minute < 20 else ""
            store.scrape(near, page, at)
            page = 'mgpu_exporter_build_info{version="1"} 1\n'
            page += _card(0, "away", 1, seconds=seconds) + _pod("on-far", 0, "away", seconds)
            store.scrape(far, page if minute < 40 else None, at)
        store.evaluate(RULES, AT)
        yield store


def _values(
    store: Store, board: str, panel: str, letter: str, by: str, **of: str
) -> dict[str, float]:
    """What a query of a panel finds, by a label."""
    every = queries(load(FOLDER / f"mgpu-{board}.json"))
    (query,) = (one for one in every if (one.panel, one.letter) == (panel, letter))
    found = store.values(fill(query.expr, EVERYTHING | of), AT, by)
    return {name: value for (name,), value in found.items()}


@pytest.mark.program("prometheus")
@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_one_number_of_a_silent_node_is_not_known(store: Store, path: Path) -> None:
    for panel in panels(load(path)):
        if panel["type"] == "stat" and "or NaN * group(" in panel["targets"][0]["expr"]:
            expr = fill(panel["targets"][0]["expr"], EVERYTHING | {"node": "far"})
            values = [*store.values(expr, AT).values()]
            if panel["title"] == "Down":
                assert values == [1]
            else:
                assert all(math.isnan(value) for value in values), (panel["title"], values)


@pytest.mark.program("prometheus")
@pytest.mark.parametrize(
    ("board", "panel", "node", "expected"),
    [
        ("overview", "GPUs, all", ".*", 1),
        ("overview", "Not read, all", ".*", 3),
        ("overview", "Not read, all", "near", 2),
        ("overview", "Not read, all", "far", 1),
        ("node", "Not read", "far", 1),
        ("node", "Not read", ".*", 3),
        ("pod", "Not read", ".*", 3),
        ("pod", "Not read", "far", 1),
        ("pod", "GPUs used", ".*", 0.5),
    ],
)
def test_what_is_not_read_is_counted(
    store: Store, board: str, panel: str, node: str, expected: float
) -> None:
    (value,) = _values(store, board, panel, "A", "", node=node).values()
    assert value == pytest.approx(expected)


@pytest.mark.program("prometheus")
def test_a_silent_node_stays_among_the_nodes(store: Store) -> None:
    assert _values(store, "overview", "Nodes now", "A", "instance") == {"near": 1, "far": 0}
    assert _values(store, "overview", "Nodes now", "E", "instance") == {"near": 3, "far": 1}
    then = _values(store, "overview", "GPUs that could not be read", "A", "instance")
    assert then == {"near": 2, "far": 100}


@pytest.mark.program("prometheus")
def test_the_cards_of_a_silent_node_keep_their_rows(store: Store) -> None:
    states = _values(store, "node", "Devices now", "A", "uuid")
    assert states == {"well": 1, "gone": 0, "dead": 0, "away": -1}
    states = _values(store, "node", "What is wrong with which GPU", "A", "gpu", node="far")
    assert states == {"0": -1}


@pytest.mark.program("prometheus")
def test_each_card_has_a_cell_and_those_that_are_not_read_come_first(store: Store) -> None:
    every = queries(load(FOLDER / "mgpu-overview.json"))
    (query,) = (one for one in every if one.panel == "All GPUs now")
    found = store.query(fill(query.expr, EVERYTHING), AT)
    cells = [(one["metric"]["node"], one["metric"]["gpu"], one["value"][1]) for one in found]
    assert {*cells[:2]} == {("near ", "1", "-3"), ("near ", "2", "-3")}
    assert cells[2:] == [("far ", "0", "-2"), ("near ", "0", "0.5")]


@pytest.mark.program("prometheus")
def test_a_lost_card_and_that_of_a_silent_node_do_not_idle(store: Store) -> None:
    idle = _values(store, "overview", "GPUs that idle most, of all", "A", "gpu")
    assert idle == {"0": pytest.approx(0.5)}


@pytest.mark.program("prometheus")
def test_a_pod_that_cannot_be_measured_keeps_its_row(store: Store) -> None:
    states = _values(store, "pod", "Containers now", "A", "pod")
    assert states == {"on-gone": 0, "stuck": 0, "well": 1, "on-far": 2, "done": 3}


@pytest.mark.program("prometheus")
def test_the_overview_names_the_pods_that_a_fault_hits(store: Store) -> None:
    hits = _values(store, "overview", "Pods affected", "A", "pod")
    assert hits == {"on-gone": 0, "stuck": 0, "on-far": 1}


@pytest.mark.program("prometheus")
@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_no_table_of_now_has_a_figure_of_a_silent_node(store: Store, path: Path) -> None:
    """But for its state, and how many cards it had."""
    for panel in panels(load(path)):
        if panel["type"] != "table" or not panel["title"].endswith("now"):
            continue
        for target in panel["targets"]:
            found = store.query(fill(target["expr"], EVERYTHING), AT)
            silent = [one for one in found if one["metric"].get("instance") == "far"]
            assert not silent or "last_over_time" in target["expr"], (panel["title"], target)


@pytest.mark.program("prometheus")
@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_an_install_in_its_first_hour_has_no_line_of_the_time_before(
    store: Store, path: Path
) -> None:
    """The two hours before are asked for, of which there is one."""
    span = {"start": str(AT - 2 * 3600), "end": str(AT), "step": "60"}
    for query in queries(load(path)):
        if query.legend == NOT_KNOWN:
            expr = fill(query.expr, EVERYTHING | {"__range": "2h"})
            if store.query(expr.removeprefix(f"vector({UNKNOWN}) unless on () "), AT):
                assert not store.get("query_range", query=expr, **span)["result"], query.panel


# What is said of a node that is silent, or of a card that is lost: that it is so, since when or of
# how many; and the energy of the time range.
SAID_OF_SILENT = {
    ("mgpu-cost", "Energy, all"),
    ("mgpu-cost", "Cost of that energy"),
    ("mgpu-exporter", "Down"),
    ("mgpu-exporter", "Can be scraped"),
    ("mgpu-node", "Not read"),
    ("mgpu-node", "Devices now"),
    ("mgpu-node", "What is wrong with which GPU"),
    ("mgpu-overview", "Not read, all"),
    ("mgpu-overview", "All GPUs now"),
    ("mgpu-overview", "Pods affected"),
    ("mgpu-overview", "Nodes now"),
    ("mgpu-overview", "GPUs that could not be read"),
    ("mgpu-pod", "Not read"),
    ("mgpu-pod", "Containers now"),
}
SAID_OF_LOST = {
    ("mgpu-node", "What is wrong with which GPU"),
    ("mgpu-node", "Can be read"),
    ("mgpu-overview", "All GPUs now"),
    ("mgpu-overview", "Pods affected"),
    ("mgpu-pod", "Containers now"),
    ("mgpu-pod", "What cannot be measured"),
}


@pytest.mark.program("prometheus")
def test_of_a_silent_node_every_panel_says_that_or_nothing(store: Store) -> None:
    """Those of folded rows too; a grey row, a gap and why there is nothing are no figure."""
    assert _said(store, {"node": "far"}) == SAID_OF_SILENT


@pytest.mark.program("prometheus")
def test_of_a_lost_card_every_panel_says_that_or_nothing(store: Store) -> None:
    assert _said(store, {"node": "near"}, {"1", "2", "on-gone", "stuck"}) == SAID_OF_LOST


def _said(store: Store, chosen: dict[str, str], of: Collection[str] = ()) -> set[tuple[str, str]]:
    """The board and title of the panels that have a figure of what is chosen; of cards and pods."""
    return {
        (path.stem, query.panel)
        for path in PATHS
        for query in queries(load(path))
        if query.legend != NOT_KNOWN
        for one in store.query(fill(query.expr, EVERYTHING | chosen), AT)
        if one["value"][1] != "NaN" and "why" not in one["metric"]
        if not of or not {one["metric"].get("gpu"), one["metric"].get("pod")}.isdisjoint(of)
    }
