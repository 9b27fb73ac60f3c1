"""ApiPods against a server whose pods and events are broken."""

import json
from pathlib import Path

import pytest

from exporter.agent.sources.pods.wire import MAX_OBJECT
from tests.agent.sources.pods.apiserver import ApiServer
from tests.agent.sources.pods.documents import Document, pod_document
from tests.agent.sources.pods.watching import Watching, connector


def bulky(name: str, size: int) -> Document:
    """A pod whose document has so many characters, each of which Go writes as six."""
    pod = pod_document(name)
    pod["spec"]["containers"][0]["args"] = ["<" * size]
    return pod


DEEP = "[" * 5000 + "]" * 5000


@pytest.fixture
def as_go_writes(server: ApiServer) -> ApiServer:
    server.state.escaped = "<"
    return server


def test_a_pod_as_large_as_etcd_allows_takes_no_names_away_and_has_its_own(
    as_go_writes: ApiServer, tmp_path: Path
) -> None:
    as_go_writes.add_pod(pod_document("before"))
    as_go_writes.add_pod(bulky("listed", 1_300_000))
    as_go_writes.add_pod(pod_document("behind"))
    with Watching(connector(as_go_writes, tmp_path)) as pods:
        pods.wait_for_names("before", "listed", "behind")
        pods.wait_until_up()
        as_go_writes.add_pod(bulky("watched", 1_300_000))
        as_go_writes.add_pod(pod_document("last"))
        pods.wait_for_names("before", "listed", "behind", "watched", "last")
        assert pods.source.rejected() == {}


def test_a_pod_that_is_too_large_costs_only_itself_and_is_named_with_what_to_do(
    as_go_writes: ApiServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    as_go_writes.add_pod(pod_document("before"))
    as_go_writes.add_pod(bulky("listed", 2_000_000))
    as_go_writes.add_pod(pod_document("behind"))
    with Watching(connector(as_go_writes, tmp_path)) as pods:
        pods.wait_for_names("before", "behind")
        pods.wait_until_up()
        as_go_writes.add_pod(bulky("watched", 2_000_000))
        as_go_writes.add_pod(pod_document("last"))
        pods.wait_for_names("before", "behind", "last")
        assert pods.source.rejected() == {"pod_too_large": 2}
    said = [line.partition(" is left out: ") for line in caplog.messages if "too_large" in line]
    assert [name for name, *_ in said] == ["pod default/listed", "pod default/watched"]
    assert "shorten its arguments, environment or annotations" in caplog.text


def test_pods_that_have_ended_do_not_hide_those_that_run(
    server: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a quota nor the kubelet bounds failed pods: a tenant may have thousands on a node."""
    monkeypatch.setattr("exporter.agent.sources.pods.podreader.MAX_LIVING", 2)
    monkeypatch.setattr("exporter.agent.sources.pods.podreader.MAX_ENDED", 1)
    for name in "abc":
        server.add_pod(pod_document(name, namespace="aaa", phase="Failed"))
    server.add_pod(pod_document("first", namespace="zz"))
    server.add_pod(pod_document("last", namespace="zz"))
    with Watching(connector(server, tmp_path)) as pods:
        pods.wait_for_names("a", "first", "last")
        assert pods.source.rejected() == {"pod_over_limit": 2}


def test_a_namespace_with_too_many_pods_takes_none_of_another_from_a_list(
    server: ApiServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A list is sorted by namespace, so that the last are those whose place others take."""
    monkeypatch.setattr("exporter.agent.sources.pods.podreader.MAX_LIVING", 4)
    for name in "abcdef":
        server.add_pod(pod_document(name, namespace="aaa"))
    server.add_pod(pod_document("first", namespace="zz"))
    server.add_pod(pod_document("last", namespace="zz"))
    with Watching(connector(server, tmp_path)) as pods:
        pods.wait_for_names("a", "b", "first", "last")
        assert pods.source.rejected() == {"pod_over_limit": 4}
    said = [line for line in caplog.messages if "pod_over_limit" in line]
    assert len(said) == 1
    assert "namespace aaa" in said[0]


def test_a_pod_whose_json_cannot_be_read_costs_only_itself(
    server: ApiServer, tmp_path: Path
) -> None:
    """Who may write ``managedFields`` may nest them deeper than Python's decoder goes."""
    deep = json.dumps(pod_document("deep")).replace('"containerd', DEEP + ',"x":"containerd', 1)
    items = [json.dumps(pod_document("before")), deep, json.dumps(pod_document("behind"))]
    server.answer_lists_with(
        f'{{"metadata":{{"resourceVersion":"100"}},"items":[{",".join(items)}]}}'.encode()
    )
    with Watching(connector(server, tmp_path)) as pods:
        pods.wait_for_names("before", "behind")
        assert pods.source.rejected() == {"pod_unreadable": 1}


@pytest.mark.parametrize(
    "line",
    [
        b"{not json",
        b"",
        b"\xff\xff",
        b'{"type":"ADDED","object":[]}',
        b'{"type":"ADDED"}',
        b"[]",
        b"[" * 5000,
        b"x" * (MAX_OBJECT + 1),
    ],
    ids=["garbage", "empty", "bytes", "no-object", "nothing", "no-event", "deep", "oversized"],
)
def test_an_unreadable_line_is_skipped_and_what_it_said_is_in_the_list_after_this_watch(
    server: ApiServer, tmp_path: Path, line: bytes
) -> None:
    with Watching(connector(server, tmp_path)) as pods:
        server.wait_for_watches(1)
        server.line(line)
        server.add_pod(pod_document("after"))
        pods.wait_for_names("after")
        assert sum(pods.source.rejected().values()) == 1
        assert pods.source.status().up
        assert len(server.requests("list")) == 1
        server.end_watches()
        server.wait_for_requests("watch", 2)
        assert len(server.requests("list")) == 2


def test_an_unusable_pod_costs_itself_is_counted_each_time_and_logged_once(
    server: ApiServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    nameless = json.dumps({"type": "ADDED", "object": {"metadata": {"uid": "u"}}}).encode()
    unknown = json.dumps({"type": "NEWS", "object": pod_document("never")}).encode()
    with Watching(connector(server, tmp_path)) as pods:
        server.wait_for_watches(1)
        server.line(unknown)
        server.line(nameless)
        server.line(nameless)
        server.add_pod(pod_document("good"))
        pods.wait_for_names("good")
        assert pods.source.rejected() == {"pod_unusable": 2}
    assert caplog.text.count("pod_unusable") == 1
