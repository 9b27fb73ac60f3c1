"""What `kubectl mgpu top` asks the exporters of a fleet: what is open, and of the others some."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from exporter.answers.kubectl.cluster import Exporter
from exporter.answers.kubectl.clusterfeed import A_TURN, FleetFeed
from exporter.answers.reading.feeds import FeedResult, view_of
from exporter.answers.reading.feeds.fleetlines import Look, namespace_key
from exporter.answers.reading.feeds.overview import LineKind
from exporter.answers.reading.jsonclient import HttpClient
from exporter.answers.top.once import print_once
from exporter.httpclient import NoAnswerError
from tests.agent.api.nodes import demo
from tests.answers.reading.test_remote import Answer, Server
from tests.answers.reading.views import document, everything, find, view

NODES = 3 * A_TURN // 2  # more than one turn, less than two
SMALL = demo(5, "turing")


class Nodes:
    """Exporters, each with the cards and pods of one snapshot, under the name of its node."""

    def __init__(self) -> None:
        self.server = Server()
        self.server.answer = self._answer
        self.gone: set[str] = set()
        self._text = json.dumps(document(SMALL, "NODE"))
        self.asked: list[str] = []

    def _answer(self, path: str, _: str) -> Answer:
        node = path.split("/")[1]
        if node in self.gone:
            return 500, {}, b""
        if not path.endswith("/snapshot"):
            return 404, {}, b""
        self.asked.append(node)
        text = self._text.replace("NODE", node).replace("GPU-", f"GPU-{node}-")
        return 200, {}, text.encode()

    def feed(self, namespace: str = "", count: int = NODES) -> FleetFeed:
        found = [
            Exporter("mgpu-exporter", f"mgpu-{n}", f"n{n:03}", 1, is_tls=False)
            for n in range(count)
        ]

        def http(exporter: Exporter) -> HttpClient:
            return HttpClient(f"{self.server.url}/{exporter.node}", name=exporter.node)

        return FleetFeed(lambda: found, http, namespace=namespace)

    def asked_in(self, feed: FleetFeed) -> tuple[FeedResult, set[str]]:
        self.asked.clear()
        result = feed.read()
        return result, set(self.asked)


@pytest.fixture
def nodes() -> Iterator[Nodes]:
    one = Nodes()
    yield one
    one.server.stop()


def test_a_read_asks_for_a_turn_and_soon_all_are_known(nodes: Nodes) -> None:
    feed = nodes.feed()
    first, asked = nodes.asked_in(feed)
    assert len(asked) == A_TURN
    assert f"{A_TURN} of {NODES} nodes are read so far" in first.troubles
    second, later = nodes.asked_in(feed)
    while len(nodes.asked) and any("so far" in text for text in second.troubles):
        second, more = nodes.asked_in(feed)
        later |= more
    assert len(asked | later) == NODES
    alone = view(SMALL)
    assert alone.totals.core is not None
    assert alone.totals.memory is not None
    shown = view_of(second, "fleet")
    assert shown.totals.core == pytest.approx(NODES * alone.totals.core)
    assert shown.totals.memory == NODES * alone.totals.memory
    assert shown.totals.gpus == NODES * alone.totals.gpus
    assert shown.pods == NODES * alone.pods
    feed.close()


def test_what_is_open_is_read_each_time_and_in_full(nodes: Nodes) -> None:
    feed = nodes.feed()
    for opened in ("n000", f"n{NODES - 1:03}"):  # one that was read, and one that was not
        feed.look(Look(rows=4, opened=frozenset({(opened,)})))
        for _ in range(1 + (opened == "n000")):
            result, asked = nodes.asked_in(feed)
            assert opened in asked
            assert len(asked) <= A_TURN + 1
            assert [node.name for node in result.nodes] == [opened]
    feed.close()


def test_an_open_namespace_has_its_largest_pods(nodes: Nodes) -> None:
    feed = nodes.feed(count=9)
    whole = view_of(feed.read(), "fleet")
    [space, *_] = [one for one in everything(whole.lines) if one.kind is LineKind.NAMESPACE]
    feed.look(Look(rows=4, opened=frozenset({namespace_key({"namespace": space.name})})))
    line = find(view_of(feed.read(), "fleet").lines, space.name)
    assert 1 <= len(line.children) <= 4
    pod = line.children[0].name
    feed.look(Look(rows=4, needle=pod.rpartition("/")[2].upper()))
    assert len(feed.read().nodes) == 4
    feed.close()


def test_a_node_that_is_gone_is_in_no_sum(nodes: Nodes) -> None:
    feed = nodes.feed(count=9)
    whole = view_of(feed.read(), "fleet")
    nodes.gone = {"n004"}
    result = feed.read()
    assert view_of(result, "fleet").totals.gpus == whole.totals.gpus / 9 * 8
    [trouble] = [text for text in result.troubles if "n004" in text]
    assert "500" in trouble
    nodes.gone = {f"n{n:03}" for n in range(9)}
    with pytest.raises(NoAnswerError, match="500"):
        feed.read()
    feed.close()


def test_a_table_has_each_node_once_and_then_the_sums(
    nodes: Nodes, capsys: pytest.CaptureFixture[str]
) -> None:
    namespace = next(one["namespace"] for one in _pods(document(SMALL)))
    for chosen in ("", namespace):
        feed = nodes.feed(chosen, count=12)
        nodes.asked.clear()
        print_once(feed, 0)
        feed.close()
        said = capsys.readouterr().out
        assert sorted(nodes.asked) == [f"n{n:03}" for n in range(12)]
        first, last = said.index("n000"), said.index("12 nodes")
        assert first < said.index("n011") < last
        assert said.count("12 nodes") == 1


def test_documents_come_one_after_the_other(nodes: Nodes) -> None:
    nodes.gone = {"n001"}
    feed = nodes.feed(count=20)
    documents = feed.documents()
    first = next(documents)
    assert not isinstance(first, NoAnswerError)
    assert len(nodes.asked) < 20
    others = list(documents)
    assert isinstance(others[0], NoAnswerError)
    assert len(others) == 19
    feed.close()


def _pods(made: dict[str, Any]) -> Sequence[dict[str, Any]]:
    found: Sequence[dict[str, Any]] = made["pods"]
    return found
