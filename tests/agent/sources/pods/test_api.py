"""ApiPods against a real HTTP server: what it asks for, and what it learns."""

import logging
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from exporter.agent.sources.pods.podreader import ReaderTimings
from exporter.agent.sources.pods.podtable import GRACE_NS
from exporter.model import NodeFacts
from tests.agent.simulation.clock import ManualClock
from tests.agent.sources.pods.apiserver import ApiServer
from tests.agent.sources.pods.documents import container_id, node_document, pod_document
from tests.agent.sources.pods.watching import PATIENCE_S, QUICK, Watching, connector


def test_it_lists_this_nodes_pods_from_the_servers_memory_and_watches_from_there(
    server: ApiServer, tmp_path: Path
) -> None:
    server.add_pod(pod_document("mine"))
    server.add_pod(pod_document("elsewhere", node="node-2"))
    with Watching(connector(server, tmp_path)) as pods:
        pods.wait_until_up()
        assert pods.names() == {"mine"}
        assert pods.source.status().detail == ""
    (listed,) = server.requests("list")
    assert listed.query == {"fieldSelector": "spec.nodeName=node-1", "resourceVersion": "0"}
    (watched,) = server.requests("watch")
    assert watched.query["fieldSelector"] == "spec.nodeName=node-1"
    assert watched.query["resourceVersion"] == "102"
    assert watched.query["allowWatchBookmarks"] == "true"
    assert 60 <= int(watched.query["timeoutSeconds"]) <= 72


def test_added_modified_and_deleted_pods_are_followed(server: ApiServer, tmp_path: Path) -> None:
    clock = ManualClock()
    with Watching(connector(server, tmp_path), clock=clock) as pods:
        pods.wait_until_up()
        server.add_pod(pod_document("a", uid="u", containers={"main": None}))
        pods.wait_for_names("a")
        server.modify_pod(pod_document("a", uid="u", containers={"main": container_id("x")}))
        pods.wait_for(lambda: container_id("x") in pods.table.by_container_id, "container id")
        server.delete_pod("a")
        pods.wait_for_names()
        assert pods.table.by_container_id == {container_id("x"): ("u", "main")}
        assert len(server.requests("list")) == 1
        assert pods.names(deleted=True) == {"a"}
        clock.now_ns += GRACE_NS  # without any further event
        assert not pods.table.pods


def test_a_watch_that_ended_in_order_goes_on_from_the_last_bookmark_without_a_list(
    server: ApiServer, tmp_path: Path
) -> None:
    server.add_pod(pod_document("a"))
    with Watching(connector(server, tmp_path)) as pods:
        server.wait_for_watches(1)
        version = server.bookmark()
        server.end_watches()
        server.wait_for_requests("watch", 2)
        pods.wait_until_up()
    assert server.requests("watch")[1].query["resourceVersion"] == str(version)
    assert len(server.requests("list")) == 1


def test_a_position_too_old_brings_a_new_list_and_the_deletions_in_between(
    server: ApiServer, tmp_path: Path
) -> None:
    server.add_pod(pod_document("stays"))
    server.add_pod(pod_document("goes"))
    with Watching(connector(server, tmp_path)) as pods:
        server.wait_for_watches(1)
        server.hold("watch")
        server.end_watches()
        server.wait_for_requests("watch", 2)
        server.delete_pod("goes")
        server.add_pod(pod_document("comes"))
        server.expire(quietly=True)
        server.release()
        pods.wait_for_names("stays", "comes")
        assert pods.names(deleted=True) == {"goes"}


def test_an_open_watch_whose_position_grew_too_old_lists_again_and_was_never_down(
    server: ApiServer, tmp_path: Path
) -> None:
    with Watching(connector(server, tmp_path)) as pods:
        pods.wait_until_up()
        server.wait_for_watches(1)
        server.expire()
        server.wait_for_requests("watch", 2)
        assert len(server.requests("list")) == 2
        assert pods.source.status().up


def test_the_status_says_when_the_list_was_last_known_to_be_current(
    server: ApiServer, tmp_path: Path
) -> None:
    clock = ManualClock()
    with Watching(connector(server, tmp_path), clock=clock) as pods:
        pods.wait_until_up()
        first = clock.now_ns
        assert pods.source.status().last_success_unix_ns == first
        clock.now_ns += 7  # while the watch is open, the list is current
        assert pods.source.status().last_success_unix_ns == first + 7


def test_an_empty_list_suggests_that_the_node_name_is_wrong(
    server: ApiServer, tmp_path: Path
) -> None:
    server.add_pod(pod_document("a"))
    with Watching(connector(server, tmp_path), node="typo") as pods:
        pods.wait_until_up()
        assert "no pods on node 'typo'" in pods.source.status().detail


# --- the node ---


def test_no_pod_is_told_of_before_the_node_was_asked_for(server: ApiServer, tmp_path: Path) -> None:
    server.set_node(node_document("node-1", {"gpu": "a"}, {}))
    server.add_pod(pod_document("a"))
    server.hold("node")
    with Watching(
        connector(server, tmp_path), timings=replace(QUICK, node_wait_s=PATIENCE_S)
    ) as pods:
        server.wait_for_requests("node", 1)
        assert not pods.table.pods
        assert server.requests("list") == []
        server.release()
        pods.wait_for_names("a")
        assert pods.source.node().labels == {"gpu": "a"}


def test_a_node_that_is_not_answered_delays_the_pods_once_and_is_asked_for_again(
    server: ApiServer, tmp_path: Path
) -> None:
    server.set_node(node_document("node-1", {"gpu": "a"}, {}))
    server.add_pod(pod_document("a"))
    server.hold("node")
    with Watching(connector(server, tmp_path), timings=replace(QUICK, node_wait_s=0.05)) as pods:
        pods.wait_for_names("a")
        pods.wait_until_up()
        assert len(server.requests("node")) == 1
        server.release()
        server.wait_for_watches(1)
        server.end_watches()
        pods.wait_for(lambda: pods.source.node().labels == {"gpu": "a"}, "labels")


def test_the_node_is_read_again_while_the_watch_is_open(server: ApiServer, tmp_path: Path) -> None:
    """A device plugin may write what its units mean long after the watch began."""
    server.set_node(node_document("node-1", {"gpu": "a"}, {"nvidia.com/gpu": "8"}))
    clock = ManualClock()
    with Watching(connector(server, tmp_path), clock=clock) as pods:
        server.wait_for_watches(1)
        assert pods.source.node().allocatable == {"nvidia.com/gpu": "8"}
        server.set_node(node_document("node-1", {"gpu": "b"}, {}))
        server.add_pod(pod_document("early"))
        pods.wait_for_names("early")
        assert pods.source.node().labels == {"gpu": "a"}
        clock.now_ns += 60 * 10**9
        server.add_pod(pod_document("late"))
        pods.wait_for_names("early", "late")
        assert pods.source.node().labels == {"gpu": "b"}
    assert len(server.requests("node")) == 2
    assert len(server.requests("watch")) == 1


def test_it_ends_at_once_after_the_node_was_read_during_the_watch(
    server: ApiServer, tmp_path: Path
) -> None:
    server.set_node(node_document("node-1", {"gpu": "a"}, {}))
    clock = ManualClock()
    with Watching(connector(server, tmp_path), clock=clock) as pods:
        server.wait_for_watches(1)
        clock.now_ns += 60 * 10**9
        server.bookmark()
        server.wait_for_requests("node", 2)
        server.add_pod(pod_document("a"))
        pods.wait_for_names("a")
        pods.source.close()
        assert not pods.source._thread.is_alive()


@pytest.mark.parametrize(
    ("status", "level"), [(403, "INFO"), (404, "WARNING"), (500, "INFO"), (503, "INFO")]
)
def test_a_node_that_is_refused_is_said_once_and_costs_nothing(
    server: ApiServer, tmp_path: Path, caplog: pytest.LogCaptureFixture, status: int, level: str
) -> None:
    caplog.set_level(logging.INFO)
    server.fail("node", status, "nodes is forbidden", times=100)
    server.add_pod(pod_document("a"))
    clock = ManualClock()
    with Watching(connector(server, tmp_path), clock=clock) as pods:
        server.wait_for_watches(1)
        clock.now_ns += 600 * 10**9
        server.end_watches()
        server.wait_for_requests("watch", 2)
        pods.wait_for_names("a")
        assert pods.source.status().up
        assert pods.source.node() == NodeFacts()
    said = [record.levelname for record in caplog.records if "nodes is forb" in record.message]
    assert said == [level]
    assert len(server.requests("list")) == 1


# --- the first list ---


def test_closing_does_not_wait_for_a_server_that_does_not_answer_and_is_no_failure(
    server: ApiServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server.hold("list")
    with Watching(connector(server, tmp_path), timings=ReaderTimings(list_s=60)) as pods:
        server.wait_for_requests("list", 1)
        waiter = threading.Thread(target=pods.source.wait, args=(3600,), daemon=True)
        waiter.start()
        pods.source.close()
        waiter.join(PATIENCE_S)
        assert not waiter.is_alive()
        server.release()
        pods.source._thread.join(PATIENCE_S)
    assert "cannot be read" not in caplog.text


def test_the_first_list_can_be_waited_for(server: ApiServer, tmp_path: Path) -> None:
    server.add_pod(pod_document("a"))
    server.hold("list")
    with Watching(connector(server, tmp_path)) as pods:
        server.wait_for_requests("list", 1)
        assert not pods.source.wait(0)
        server.release()
        assert pods.source.wait(PATIENCE_S)
        assert pods.names() == {"a"}
