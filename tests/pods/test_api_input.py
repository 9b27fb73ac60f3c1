"""ApiPods against a server whose pods and events are broken."""

import json
from pathlib import Path

import pytest

from exporter.sources.pods.decode import KeyPrefixes
from exporter.sources.pods.wire import MAX_OBJECT
from tests.pods.apiserver import ApiServer
from tests.pods.documents import pod_document
from tests.pods.watching import Watching, connector


@pytest.mark.parametrize(
    "line",
    [
        b"{not json",
        b"",
        b"\xff\xff",
        b'{"type":"ADDED","object":[]}',
        b"[" * 5000,
        b"x" * (MAX_OBJECT + 1),
    ],
    ids=["garbage", "empty", "bytes", "no-object", "deep", "oversized"],
)
def test_an_unreadable_line_ends_its_watch_and_what_it_said_is_in_the_list_that_follows(
    server: ApiServer, tmp_path: Path, line: bytes
) -> None:
    with Watching(connector(server, tmp_path)) as pods:
        server.wait_for_watches(1)
        server.line(line)
        server.wait_for_requests("list", 2)
        server.wait_for_requests("watch", 2)
        server.add_pod(pod_document("after"))
        pods.wait_for_names("after")
        assert pods.source.rejected() == {"event_unreadable": 1}
        assert pods.source.status().up
    assert len(server.requests("list")) == 2


def test_an_unusable_pod_costs_itself_is_counted_each_time_and_logged_once(
    server: ApiServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    nameless = json.dumps({"type": "ADDED", "object": {"metadata": {"uid": "u"}}}).encode()
    with Watching(connector(server, tmp_path)) as pods:
        server.wait_for_watches(1)
        server.line(nameless)
        server.line(nameless)
        server.add_pod(pod_document("good"))
        pods.wait_for_names("good")
        assert pods.source.rejected() == {"pod_unusable": 2}
    assert caplog.text.count("pod_unusable") == 1


def test_an_unknown_type_of_event_is_ignored(server: ApiServer, tmp_path: Path) -> None:
    event = {"type": "NEWS", "object": pod_document("never")}
    with Watching(connector(server, tmp_path)) as pods:
        server.wait_for_watches(1)
        server.line(json.dumps(event).encode())
        server.add_pod(pod_document("good"))
        pods.wait_for_names("good")


def test_each_dropped_part_of_a_pod_is_counted(server: ApiServer, tmp_path: Path) -> None:
    server.add_pod(pod_document("a", annotations={"x/1": "v" * 70_000, "x/2": "v" * 70_000}))
    with Watching(connector(server, tmp_path), keep=KeyPrefixes(("x/",))) as pods:
        pods.wait_for_names("a")
        assert pods.source.rejected() == {"annotation_unusable": 2}
