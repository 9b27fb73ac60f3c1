"""A board that is divided into MIG instances counts once in each sum over a node's cards."""

from collections.abc import Iterator

import pytest

from dashboards.node import OF_BOARD
from tests.dashboards.grafana import FOLDER, fill, load, queries
from tests.store import Store, Target

AT = 1_800_000_000.0
GIB = 2**30
# Device 0 is divided, 1 is whole, 2 is divided and lost, 3 is whole and its use is not known.
PAGE = f"""\
mgpu_device_up{{gpu="0",uuid="board"}} 1
mgpu_device_up{{gpu="0",uuid="part-a"}} 1
mgpu_device_up{{gpu="0",uuid="part-b"}} 1
mgpu_device_up{{gpu="1",uuid="whole"}} 1
mgpu_device_up{{gpu="2",uuid="gone"}} 0
mgpu_device_up{{gpu="2",uuid="gone-a"}} 0
mgpu_device_up{{gpu="2",uuid="gone-b"}} 0
mgpu_device_up{{gpu="3",uuid="dark"}} 1
mgpu_device_info{{gpu="0",uuid="board",model="m",sharing="mig"}} 1
mgpu_device_info{{gpu="0",uuid="part-a",model="m",gpu_instance="1",parent_uuid="board"}} 1
mgpu_device_info{{gpu="3",uuid="dark",model="m"}} 1
mgpu_device_power_watts{{gpu="0",uuid="board"}} 100
mgpu_device_unobserved_seconds_total{{gpu="0",uuid="part-a"}} 0
mgpu_device_unobserved_seconds_total{{gpu="0",uuid="part-b"}} 0
mgpu_device_memory_total_bytes{{gpu="0",uuid="board"}} {80 * GIB}
mgpu_device_memory_total_bytes{{gpu="0",uuid="part-a"}} {40 * GIB}
mgpu_device_memory_total_bytes{{gpu="0",uuid="part-b"}} {40 * GIB}
mgpu_device_memory_total_bytes{{gpu="1",uuid="whole"}} {80 * GIB}
mgpu_device_memory_total_bytes{{gpu="3",uuid="dark"}} {80 * GIB}
mgpu_device_memory_used_bytes{{gpu="0",uuid="part-a"}} {30 * GIB}
mgpu_device_memory_used_bytes{{gpu="0",uuid="part-b"}} {10 * GIB}
mgpu_device_memory_used_bytes{{gpu="1",uuid="whole"}} {40 * GIB}
mgpu_group_info{{kind="docker",group="x",gpu="1",uuid="whole",name="x",user="u"}} 1
mgpu_group_memory_used_bytes{{kind="docker",group="x",gpu="1",uuid="whole"}} {40 * GIB}
mgpu_group_core_utilization_ratio{{kind="docker",group="x",gpu="1",uuid="whole"}} 0.5
"""
EVERYTHING = {
    **dict.fromkeys(("cluster", "kind", "namespace", "node", "owner", "pod", "uuid"), ".*"),
    "job": "mgpu",
    "__range": "1h",
    "__rate_interval": "1m",
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with Store(tmp_path_factory.mktemp("prometheus")) as store:
        node = Target({"job": "mgpu", "instance": "node"})
        for second in (AT - 30, AT):
            store.scrape(node, PAGE, second)
        yield store


@pytest.mark.program("prometheus")
@pytest.mark.parametrize(
    ("board", "panel", "letter", "expected"),
    [
        ("overview", "Memory in use", "A", 80 / 160),
        ("overview", "Nodes now", "D", 80 / 160),
        ("node", "Memory in use", "A", 80 / 160),
        ("groups", "Groups", "D", 40 / 160),
        ("overview", "GPUs, all", "A", 3),
        ("overview", "Not read, all", "A", 1),
        ("overview", "Nodes now", "F", 1),
    ],
)
def test_a_divided_board_counts_once(
    store: Store, board: str, panel: str, letter: str, expected: float
) -> None:
    every = queries(load(FOLDER / f"mgpu-{board}.json"))
    (query,) = (one for one in every if (one.panel, one.letter) == (panel, letter))

    (found,) = store.query(fill(query.expr, EVERYTHING), AT)

    assert float(found["value"][1]) == pytest.approx(expected)


@pytest.mark.program("prometheus")
def test_a_part_says_that_its_power_is_the_boards(store: Store) -> None:
    """A card whose power is not known has none; a part's is never measured."""
    every = queries(load(FOLDER / "mgpu-node.json"))
    (query,) = (one for one in every if (one.panel, one.letter) == ("Devices now", "G"))

    found = store.values(fill(query.expr, EVERYTHING), AT, "uuid")

    assert found == {("board",): 100, ("part-a",): OF_BOARD}


@pytest.mark.program("prometheus")
def test_a_divided_board_is_one_line_of_what_was_unobserved(store: Store) -> None:
    """The line's name has the card's number alone, which its parts have too."""
    every = queries(load(FOLDER / "mgpu-exporter.json"))
    cards, average = (one for one in every if one.panel == "Unobserved")

    (found,) = store.query(fill(cards.expr, EVERYTHING), AT)
    (of_all,) = store.query(fill(average.expr, EVERYTHING), AT)

    assert found["metric"]["gpu"] == "0"
    assert of_all["value"][1] == found["value"][1]


@pytest.mark.program("prometheus")
def test_a_container_that_has_ended_is_none_of_those_of_now(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Its counters stay for minutes, and it has nothing else."""
    core = "mgpu_container_core_seconds_total"
    device = 'mgpu_device_info{gpu="0",uuid="u"} 1\n'
    with Store(tmp_path_factory.mktemp("ended")) as store:
        node = Target({"job": "mgpu", "instance": "node"})
        for second in (AT - 30, AT):
            page = device
            for pod, used in (("works", second), ("rests", 5), ("ended", 5)):
                of = f'{{gpu="0",uuid="u",namespace="n",pod="{pod}",container="c"}}'
                page += f"{core}{of} {used}\n"
                if pod != "ended":
                    page += f"mgpu_container_processes{of} 0\n"
            store.scrape(node, page, second)
        every = queries(load(FOLDER / "mgpu-node.json"))
        (query,) = (one for one in every if (one.panel, one.letter) == ("Containers now", "A"))
        names = {"namespace_label": "namespace", "pod_label": "pod", "container_label": "container"}

        found = store.values(fill(query.expr, {**EVERYTHING, **names}), AT, "pod")

    assert found == {("works",): 1, ("rests",): 0}
