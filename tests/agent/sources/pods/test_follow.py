"""What is kept of pods, changed while the sources are at work."""

import logging
from pathlib import Path

import pytest

from exporter.agent.sources.pods.decode import KeyPrefixes
from exporter.apiserver.client import KubeClient
from tests.agent.sources.pods.apiserver import ApiServer
from tests.agent.sources.pods.documents import pod_document
from tests.agent.sources.pods.test_kubelet import at
from tests.agent.sources.pods.watching import Polling, Watching, connector

ANNOTATIONS = {"x/a": "1", "y/a": "2"}
X, BOTH = KeyPrefixes(("x/",)), KeyPrefixes(("x/", "y/"))


@pytest.fixture
def peopled(server: ApiServer) -> ApiServer:
    server.add_pod(pod_document("a", uid="u", annotations=ANNOTATIONS))
    return server


def test_pods_that_are_known_are_listed_anew_by_the_api_server(
    peopled: ApiServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    with Watching(connector(peopled, tmp_path), keep=X) as pods:
        pods.wait_until_up()
        statuses = []
        pods.source.follow(BOTH)

        def all_kept() -> bool:
            statuses.append(pods.source.status().up)
            return pods.table.pods["u"].annotations == ANNOTATIONS

        pods.wait_for(all_kept, "both annotations")
        peopled.wait_for_requests("watch", 2)
        peopled.add_pod(pod_document("b", uid="v", annotations=ANNOTATIONS))
        pods.wait_for_names("a", "b")

        assert pods.table.pods["v"].annotations == ANNOTATIONS
        assert all(statuses)
    assert "no news of pods" not in caplog.text
    assert len(peopled.requests("list")) == 2


def test_a_change_while_the_list_is_on_its_way_is_heeded(
    peopled: ApiServer, tmp_path: Path
) -> None:
    peopled.hold("list")
    with Watching(connector(peopled, tmp_path), keep=X) as pods:
        peopled.wait_for_requests("list", 1)
        pods.source.follow(BOTH)
        peopled.release()
        pods.wait_for(
            lambda: "u" in pods.table.pods and pods.table.pods["u"].annotations == ANNOTATIONS,
            "both annotations",
        )


def test_a_change_while_the_connection_is_lost_is_heeded(
    peopled: ApiServer, tmp_path: Path
) -> None:
    connect = connector(peopled, tmp_path)
    connections = []

    def reconnect() -> KubeClient:
        connections.append(1)
        if len(connections) > 1:  # the watch broke; its position is still known
            pods.source.follow(BOTH)
        return connect()

    pods = Watching(reconnect, keep=X)
    with pods:
        pods.wait_until_up()
        peopled.wait_for_watches(1)
        peopled.drop_connections()
        pods.wait_for(
            lambda: pods.table.pods["u"].annotations == ANNOTATIONS,
            "both annotations",
        )


def test_a_kubelet_is_asked_for_it_the_next_time(peopled: ApiServer) -> None:
    with Polling(at(peopled)) as pods:
        pods.wait_for_names("a")
        pods.source.follow(BOTH)
        pods.wait_for(lambda: pods.source.table().pods["u"].annotations == ANNOTATIONS)
        assert pods.source.status().up
