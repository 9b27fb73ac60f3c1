"""A tenant who changes his pod without end costs little, and no other pod's news waits for his."""

from pathlib import Path

import pytest

from exporter.agent.sources.pods.decode import decode_pod
from exporter.agent.sources.pods.pace import MOST_NS, MOST_WAITING, Paced
from exporter.model import SECOND_NS
from tests.agent.simulation.clock import ManualClock
from tests.agent.sources.pods.apiserver import ApiServer
from tests.agent.sources.pods.documents import Document, container_id, pod_document
from tests.agent.sources.pods.watching import Watching, connector

READ_S = 0.005  # what an object of 12,000 annotations takes
CHANGES = 300


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch, clock: ManualClock) -> list[str]:
    """The namespaces of the pods that were read; each took its time by the test's clock."""
    found: list[str] = []

    def slow(document: Document, *more: object) -> object:
        found.append(document["metadata"]["namespace"])
        clock.move(READ_S)
        return decode_pod(document, *more)  # type: ignore[arg-type] # passed on as they come

    monkeypatch.setattr("exporter.agent.sources.pods.podreader.decode_pod", slow)
    return found


def state(number: int) -> Document:
    ids = {"main": container_id(f"c{number}")}
    return pod_document("p", namespace="tenant", uid="u", containers=ids)


def test_a_pod_that_changes_without_end_is_read_some_times_a_second(
    server: ApiServer, tmp_path: Path, clock: ManualClock, read: list[str]
) -> None:
    server.add_pod(state(0))
    with Watching(connector(server, tmp_path), clock=clock) as pods:
        pods.wait_until_up()
        for number in range(1, CHANGES + 1):
            server.modify_pod(state(number))
        server.add_pod(pod_document("train", namespace="victim"))
        pods.wait_for_names("p", "train")  # at once: the clock stands still but for the reading

        assert read.count("victim") == 1
        assert read.count("tenant") <= 2 + MOST_NS / (READ_S * SECOND_NS)
        clock.move(1)  # what waited is read in the next cycle, and of it the newest state only
        before = read.count("tenant")
        assert pods.table.by_container_id[container_id(f"c{CHANGES}")] == ("u", "main")
        assert read.count("tenant") == before + 1


def test_a_pod_that_is_deleted_does_not_come_back(
    server: ApiServer, tmp_path: Path, clock: ManualClock, read: list[str]
) -> None:
    server.add_pod(state(0))
    with Watching(connector(server, tmp_path), clock=clock) as pods:
        pods.wait_until_up()
        for number in range(1, 50):
            server.modify_pod(state(number))
        server.delete_pod("p", "tenant")
        pods.wait_for(lambda: pods.names(deleted=True) == {"p"}, "the deletion")
        clock.move(1)
        assert pods.names() == set()
        assert read.count("tenant") < 10


def test_what_waits_is_bounded(clock: ManualClock) -> None:
    paced = Paced(clock)
    head = '{"type":"MODIFIED","object":{"metadata":{"name":"%s","namespace":"tenant"}}}'
    lines = [(head % f"p{n}").encode() + b" " * (MOST_WAITING // 4) for n in range(9)]
    paced.took(lines[0], MOST_NS)
    assert [paced.keeps(line) for line in lines] == [True] * 3 + [False] * 6
    assert paced.keeps(lines[0])  # in place of the one that waits
    clock.move(1)
    due = []
    while (line := paced.due()) is not None:
        due.append(line)
    assert sorted(due) == lines[:3]
