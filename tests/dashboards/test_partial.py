"""Nodes that serve a part of the families: what is not served is not known, and never zero.

``bare`` serves whether its cards can be read, ``some`` also what may be wrong, of which nothing is.
"""

from collections.abc import Iterator

import pytest

from tests.dashboards.grafana import FOLDER, fill, load, queries
from tests.dashboards.test_silent import AT, EVERYTHING, MINUTE
from tests.store import Store, Target

CARDS = "".join(
    f'mgpu_device_up{{gpu="{gpu}",uuid="{uuid}"}} {up}\n'
    f'mgpu_device_info{{gpu="{gpu}",uuid="{uuid}",model="m"}} 1\n'
    for gpu, uuid, up in ((0, "a", 1), (1, "b", 1))
)
BARE = 'mgpu_exporter_build_info{version="1"} 1\n' + CARDS
SOME = BARE + (
    'mgpu_device_xid_errors_total{gpu="0",uuid="a",xid="79"} 0\n'
    'mgpu_device_pcie_link_width{gpu="0",uuid="a"} 16\n'
    'mgpu_device_pcie_link_max_width{gpu="0",uuid="a"} 16\n'
)
LAST_XID = 'mgpu_device_xid_last_timestamp_seconds{{gpu="1",uuid="b",xid="13"}} {}\n'
PAGES = {
    "bare": BARE,
    "some": SOME,
    "worn": BARE + 'mgpu_device_row_remapping{gpu="1",uuid="b",state="failed"} 1\n',
    "xid": SOME + LAST_XID.format(AT - 5 * MINUTE),
    "past": SOME + LAST_XID.format(AT - 61 * MINUTE),
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with Store(tmp_path_factory.mktemp("prometheus")) as store:
        for minute in range(11):
            for node, page in PAGES.items():
                target = Target({"job": "mgpu", "instance": node})
                store.scrape(target, page, AT - (10 - minute) * MINUTE)
        yield store


def _found(store: Store, board: str, panel: str, letter: str, node: str) -> list[float]:
    """The values that a query of a panel finds of a node."""
    every = queries(load(FOLDER / f"mgpu-{board}.json"))
    (query,) = (one for one in every if (one.panel, one.letter) == (panel, letter))
    return [*store.values(fill(query.expr, EVERYTHING | {"node": node}), AT).values()]


@pytest.mark.program("prometheus")
@pytest.mark.parametrize(
    ("board", "panel", "letter", "zero", "one"),
    [
        ("overview", "Nodes now", "G", {"some", "past"}, {"worn", "xid"}),
        ("overview", "Nodes now", "F", set(PAGES), set()),
        ("node", "XIDs reported", "A", {"some", "past", "xid"}, set()),
    ],
)
def test_what_is_not_served_is_not_zero(
    store: Store, board: str, panel: str, letter: str, zero: set[str], one: set[str]
) -> None:
    found = {node: _found(store, board, panel, letter, node) for node in PAGES}
    expected = {node: [0.0] if node in zero else [1.0] if node in one else [] for node in PAGES}
    assert found == expected


@pytest.mark.program("prometheus")
def test_an_xid_is_marked_at_its_own_time_if_that_is_in_the_range(store: Store) -> None:
    """An exporter that saw it first has a series that begins with it: no counter increased."""
    (query,) = (one for one in queries(load(FOLDER / "mgpu-overview.json")) if one.panel == "XIDs")
    values = EVERYTHING | {"node": ".*", "__from": f"{(AT - 60 * MINUTE) * 1000}"}
    found = store.values(fill(query.expr, values), AT, "instance", "xid")
    assert found == {("xid", "13"): (AT - 5 * MINUTE) * 1000}


@pytest.mark.program("prometheus")
def test_a_timeline_says_that_there_was_none_only_of_what_is_served(store: Store) -> None:
    """Of XIDs that no exporter serves it says that nothing is known."""
    for node, letters in {"some": ["INSTEAD2"], "bare": ["INSTEAD1"]}.items():
        every = queries(load(FOLDER / "mgpu-node.json"))
        lines = [one for one in every if one.panel == "XIDs over time"]
        exprs = {one.letter: fill(one.expr, EVERYTHING | {"node": node}) for one in lines}
        assert [letter for letter, expr in exprs.items() if store.query(expr, AT)] == letters
