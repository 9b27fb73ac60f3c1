"""What top asks of a fleet in a real Prometheus: sums, the largest rows, and what is open."""

import struct
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from exporter.answers.reading.feeds import view_of
from exporter.answers.reading.feeds.fleetlines import Look
from exporter.answers.reading.feeds.overview import LineKind, Overview, SortKey
from exporter.answers.reading.feeds.prometheus import FEW_NODES, PrometheusFeed
from exporter.answers.reading.feeds.sums import AS_RECORDED, NOT_RECORDED
from exporter.answers.reading.jsonclient import HttpClient
from exporter.answers.reading.queryapi import Prometheus
from exporter.answers.top.linetable import Tone, tone_of
from exporter.answers.top.once import OK, TROUBLE, print_once
from tests.answers.reading.views import everything, find
from tests.store import Store, Target, sent

pytestmark = [pytest.mark.slow, pytest.mark.program("prometheus")]

GIB = 1 << 30
SMALL, LARGE = 12, 240  # nodes
LOST = 3  # the node with a lost card, and no pods
ROWS = 10
OF_PODS = {LineKind.NAMESPACE, LineKind.POD}


def page(node: int) -> str:
    """A node with one card; node n uses n thousandths of it, which two pods share."""
    pods = 0 if node == LOST else 2
    uuid = f"GPU-{node:08x}-0000-0000-0000-000000000000"
    card = f'gpu="0",uuid="{uuid}"'
    core = node / 1000
    lines = [
        f'mgpu_device_info{{{card},vendor="nvidia",model="L4",parent_uuid=""}} 1',
        f"mgpu_device_up{{{card}}} {int(node != LOST)}",
        f"mgpu_device_memory_total_bytes{{{card}}} {24 * GIB}",
        "mgpu_exporter_simulated 0",
        'mgpu_exporter_source_up{source="nvml"} 1',
        f"process_start_time_seconds {1_700_000_000 + node}",
    ]
    if node == LOST:  # with its instances
        lines += [f'mgpu_device_up{{gpu="0",uuid="MIG-{part}"}} 0' for part in range(3)]
    if node != LOST:
        lines += [
            f"mgpu_device_utilization_ratio{{{card}}} {core}",
            f"mgpu_device_memory_used_bytes{{{card}}} {GIB}",
            f"mgpu_device_allocated_core_ratio{{{card}}} 0.5",
            f"mgpu_device_power_watts{{{card}}} 60",
        ]
    for number in range(pods):
        named = f'namespace="team-{number}",pod="server-{number}-of-{node}"'
        each = core / pods
        lines += [
            f'mgpu_pod_info{{{named},uid="{node}-{number}"}} 1',
            f"mgpu_pod_core_usage_gpus{{{named}}} {each}",
            f"mgpu_pod_core_limit_gpus{{{named}}} 0.25",
            f"mgpu_pod_memory_used_bytes{{{named}}} {GIB // pods}",
            f'mgpu_container_core_utilization_ratio{{{named},container="main",{card}}} {each}',
            f'mgpu_container_allocated_gpus{{{named},container="main",{card}}} 0.25',
        ]
    return "\n".join(lines)


def fill(store: Store, nodes: range) -> None:
    """Lets the store have a scrape of these nodes."""
    for node in nodes:
        store.scrape(Target({"job": "mgpu", "instance": name(node)}), page(node), time.time())


def name(node: int) -> str:
    return f"gpu-{node:04}:10045"


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[int, Store]]:
    """A store of a small fleet and one of a large fleet."""
    folders = [tmp_path_factory.mktemp("store") for _ in range(2)]
    with Store(folders[0]) as small, Store(folders[1]) as large:
        fill(small, range(SMALL))
        fill(large, range(LARGE))
        yield {SMALL: small, LARGE: large}


class Counting(HttpClient):
    """A client that notes how long each answer is."""

    def __init__(self, store: Store) -> None:
        super().__init__(f"http://{store.address}")
        self.lengths: list[int] = []

    def _read(self, path: str, query: Mapping[str, str] | None, largest: int) -> bytes:
        body = super()._read(path, query, largest)
        self.lengths.append(len(body))
        return body


def feed_of(store: Store, namespace: str = "", look: Look | None = None) -> PrometheusFeed:
    feed = PrometheusFeed(Prometheus(HttpClient(f"http://{store.address}")), namespace)
    feed.look(look or Look(rows=ROWS))
    return feed


def seen(store: Store, namespace: str = "", look: Look | None = None) -> Overview:
    feed = feed_of(store, namespace, look)
    return view_of(feed.read(), feed.name)


def nodes_of(view: Overview) -> list[str]:
    return [line.name for line in everything(view.lines) if line.kind is LineKind.NODE]


def test_questions_and_answers_do_not_grow_with_the_fleet(stores: Mapping[int, Store]) -> None:
    lengths = {}
    for count, store in stores.items():
        client = Counting(store)
        feed = PrometheusFeed(Prometheus(client))
        feed.look(Look(rows=ROWS))
        feed.read()
        lengths[count] = client.lengths

    assert len(lengths[SMALL]) == len(lengths[LARGE]) <= 6
    assert sum(lengths[LARGE]) < 1.2 * sum(lengths[SMALL])


def test_the_largest_come_first_and_sums_are_of_all(stores: Mapping[int, Store]) -> None:
    view = seen(stores[LARGE])

    largest = [name(node) for node in range(LARGE - 1, LARGE - 1 - ROWS, -1)]
    assert nodes_of(view) == [*largest, name(LOST)]
    whole = sum(range(LARGE)) - LOST
    assert view.totals.core == pytest.approx(whole / 1000)
    assert view.totals.memory == (LARGE - 1) * GIB
    assert (view.totals.gpus, view.totals.lost, view.pods) == (LARGE - 1, 1, 2 * LARGE - 2)
    largest_one = find(view.lines, name(LARGE - 1)).core
    assert largest_one.value == pytest.approx(0.239)
    assert largest_one.limit == 0.5
    assert find(view.lines, name(LOST)).marks[0].kind == "unreadable"
    assert f"the largest of {LARGE}" in view.lines[1].name
    teams = view.lines[0].children
    assert [line.name for line in teams] == ["team-0", "team-1"]
    assert teams[0].core.value == pytest.approx(whole / 2000)


def test_by_memory_others_are_the_largest(stores: Mapping[int, Store]) -> None:
    assert len(nodes_of(seen(stores[LARGE], look=Look(rows=3, by=SortKey.MEMORY)))) == 3 + 1


def test_a_node_that_is_open_has_its_cards_and_pods(stores: Mapping[int, Store]) -> None:
    feed = feed_of(stores[LARGE])
    feed.read()
    feed.look(Look(rows=ROWS, opened=frozenset({(name(LARGE - 1),)})))
    view = view_of(feed.read(), feed.name)

    node = find(view.lines, name(LARGE - 1))
    [card] = node.children
    assert card.name == "0 L4"
    assert card.core.value == pytest.approx((LARGE - 1) / 1000)
    assert {pod.name for pod in card.children} >= {f"team-0/server-0-of-{LARGE - 1}"}
    assert not find(view.lines, name(LARGE - 2)).children
    feed.look(Look(rows=ROWS, opened=frozenset({(name(LOST),)})))
    alone = view_of(feed.read(), feed.name)
    assert find(alone.lines, name(LOST)).children[0].marks[0].kind == "unreadable"
    assert alone.troubles == ()


def test_a_namespace_that_is_open_has_its_largest_pods(stores: Mapping[int, Store]) -> None:
    key = ("", "namespaces", "", "team-1")
    view = seen(stores[LARGE], look=Look(rows=ROWS, opened=frozenset({key})))

    pods = find(view.lines, "team-1").children
    assert [pod.name for pod in pods] == [
        f"team-1/server-1-of-{node}" for node in range(LARGE - 1, LARGE - 1 - ROWS, -1)
    ]
    assert ("node", name(LARGE - 1)) in pods[0].details


def test_a_filter_is_asked_of_all_pods_and_nodes(stores: Mapping[int, Store]) -> None:
    view = seen(stores[LARGE], look=Look(rows=ROWS, needle="SERVER-1-of-7"))

    node = find(view.lines, name(7))
    assert [pod.name for card in node.children for pod in card.children if pod.core.value] == [
        "team-0/server-0-of-7",
        "team-1/server-1-of-7",
    ]
    assert name(70) in nodes_of(view)
    assert name(8) not in nodes_of(view)
    assert nodes_of(seen(stores[LARGE], look=Look(rows=ROWS, needle="0009:1"))) == [name(9)]


def test_one_namespace_of_a_fleet(stores: Mapping[int, Store]) -> None:
    view = seen(stores[LARGE], "team-1")

    assert nodes_of(view)[0] == name(LARGE - 1)
    assert len(nodes_of(view)) == ROWS
    assert view.totals.core == pytest.approx((sum(range(LARGE)) - LOST) / 2000)
    assert (view.totals.gpus, view.pods) == (LARGE - 1, LARGE - 1)


def record(store: Store, figure: str, value: float, **labels: str) -> None:
    """Lets the store have what a rule records of a namespace on a node."""
    named = {"__name__": f"namespace_instance:mgpu_{figure}", "job": "mgpu", **labels}
    at_ms = round(time.time() * 1000)
    store.write([sent(tuple(sorted(named.items())), [(at_ms, struct.pack("<d", value))])])


def test_what_rules_record_of_namespaces_is_read_where_it_is(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        fill(store, range(SMALL))
        assert NOT_RECORDED in dict(seen(store).lines[0].details).values()
        of_node = {"namespace": "team-9", "instance": name(1)}
        for replica in ("a", "b"):  # of a Prometheus: what both record counts once
            record(store, "core_seconds:sum_rate5m", 2.0, **of_node, replica=replica)
        # its core cannot be measured, as on an instance of MIG that several share
        unmeasured = {"namespace": "team-8", "instance": name(2)}
        record(store, "memory_used_bytes:sum", GIB, **unmeasured)
        record(store, "pods:count", 1.0, **unmeasured)
        view = seen(store)
        fleet = feed_of(store).read().fleet

    assert dict(view.lines[0].details)["figures"] == AS_RECORDED
    found = [(one.name, one.core.value, one.memory.value) for one in view.lines[0].children]
    assert found == [("team-9", 2.0, None), ("team-8", None, GIB)]
    assert fleet is not None
    assert fleet.totals.namespaces == 2


@pytest.mark.parametrize("namespace", ["", "team-0"])
def test_use_without_a_limit_is_over_nobodys(namespace: str, tmp_path: Path) -> None:
    """A pod without a share uses three cards beside one that is within its share."""
    node = SMALL - 1
    limited = f'namespace="team-0",pod="server-0-of-{node}"'
    free = 'namespace="team-0",pod="free"'
    more = [
        f"mgpu_pod_memory_limit_bytes{{{limited}}} {GIB}",
        f"mgpu_pod_memory_limit_utilization_ratio{{{limited}}} 0.5",
        f'mgpu_pod_info{{{free},uid="free"}} 1',
        f"mgpu_pod_core_usage_gpus{{{free}}} 3",
        f"mgpu_pod_memory_used_bytes{{{free}}} {20 * GIB}",
        # on an instance of the card that others are on too
        f'mgpu_container_allocated_gpus{{{limited},container="two",gpu="0",uuid="MIG"}} 0.25',
    ]
    key = ("", "namespaces", "", "team-0")
    with Store(tmp_path) as store:
        fill(store, range(node))
        target = Target({"job": "mgpu", "instance": name(node)})
        store.scrape(target, "\n".join((page(node), *more)), time.time())
        view = seen(store, namespace, Look(rows=ROWS, opened=frozenset({key})))

    lines = [one for one in everything(view.lines) if one.kind in {LineKind.NODE, *OF_PODS}]
    assert {tone_of(one, figure) for one in lines for figure in (one.core, one.memory)} == {
        Tone.CALM
    }
    assert view.totals.gpus == node  # all but the lost one
    if not namespace:
        held = find(view.lines, f"team-0/server-0-of-{node}").memory
        assert (held.limit, held.share) == (GIB, 0.5)


def test_once_all_is_printed_a_few_nodes_after_the_others(
    stores: Mapping[int, Store], capsys: pytest.CaptureFixture[str]
) -> None:
    assert print_once(feed_of(stores[SMALL]), 0) == TROUBLE  # a card is lost

    said = capsys.readouterr().out
    for node in set(range(SMALL)) - {LOST}:
        assert said.count(f"team-1/server-1-of-{node} ") == 1, node
    assert said.count(f"{name(LOST)} 0 L4") > 0
    assert "no series" not in said
    assert said.index("namespaces") < said.index(name(SMALL - 1)) < said.index("server-1-of-0 ")


def test_of_a_few_nodes_all_is_read_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Store(tmp_path) as store:
        fill(store, range(10, 10 + FEW_NODES))
        result = feed_of(store).read()
        assert print_once(feed_of(store), 0) == OK

    assert result.fleet is None
    assert len(result.nodes) == FEW_NODES
    rows = (line for line in capsys.readouterr().out.splitlines() if "did not ask" not in line)
    assert sum("server-0-of-" in row for row in rows) == FEW_NODES


@pytest.mark.parametrize(
    ("nodes", "most"), [(range(10, 10 + FEW_NODES), 60), (range(SMALL), 90)], ids=["few", "fleet"]
)
def test_a_store_that_refuses_many_samples_is_asked_for_fewer(
    nodes: range, most: int, stores: Mapping[int, Store], tmp_path: Path
) -> None:
    strict = tmp_path / "strict"
    strict.write_text(f'#!/bin/sh\nexec prometheus --query.max-samples={most} "$@"\n')
    strict.chmod(0o755)
    with Store(tmp_path, program=str(strict)) as store:
        fill(store, nodes)
        parts = [*feed_of(store).parts()]

    seen_nodes = {node.name for part in parts for node in part.nodes}
    assert seen_nodes == {name(node) for node in nodes}
    if len(nodes) > FEW_NODES:
        fleet, whole = parts[0].fleet, feed_of(stores[SMALL]).read().fleet
        assert fleet is not None
        assert whole is not None
        assert [one.core for one in fleet.nodes] == [one.core for one in whole.nodes]


@pytest.mark.parametrize(("scrapes", "unattributed"), [(1, None), (8, 0.25)])
def test_what_nobody_owns_is_unknown_after_one_scrape_and_known_of_scrapes_a_minute_apart(
    tmp_path: Path, scrapes: int, unattributed: float | None
) -> None:
    now = int(time.time())
    with Store(tmp_path) as store:
        target = Target({"job": "mgpu", "instance": "a:10045", "node": "n1"})
        for number in range(scrapes):
            counted = 1000 + number * 15
            counter = 'mgpu_device_unattributed_core_seconds_total{gpu="0",uuid="GPU-00000001-0000-'
            counter += f'0000-0000-000000000000",reason="exited"}} {counted}'
            store.scrape(target, f"{page(1)}\n{counter}\n", now - 60 * (scrapes - number) + 30)
        feed = PrometheusFeed(Prometheus(HttpClient(f"http://{store.address}")))
        totals = view_of(feed.read(), feed.name).totals
    assert totals.core == pytest.approx(0.001)
    assert totals.unattributed == (
        unattributed if unattributed is None else pytest.approx(0.25, abs=0.02)
    )
