"""KubeletPods against a real server that answers ``/pods`` as a kubelet does, or does not."""

import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from exporter.agent.sources.pods.podtable import GRACE_NS
from exporter.apiserver.client import KubeClient, connect_kubelet, from_service_account
from tests.agent.simulation.clock import ManualClock
from tests.agent.sources.pods.apiserver import ApiServer
from tests.agent.sources.pods.authority import make_certificate
from tests.agent.sources.pods.documents import pod_document
from tests.agent.sources.pods.watching import OFTEN, Polling

needs_openssl = pytest.mark.program("openssl")
HASH = "33d556edd3ae8ef21980288cef77ae8b"
FORBIDDEN = (
    "Forbidden (user=system:serviceaccount:gpu-mon:exporter, verb=get, resource=nodes, "
    "subresource(s)=[pods proxy])"
)


def at(server: ApiServer) -> Callable[[], KubeClient]:
    """Connects to a read-only port."""
    return partial(connect_kubelet, server.url, None)


def closed_port() -> str:
    """An address at which nobody listens."""
    server = ApiServer()
    server.start()
    server.stop()
    return server.url


@pytest.fixture
def secure(tmp_path: Path) -> Iterator[ApiServer]:
    certificate, key = make_certificate(tmp_path, "kubelet")
    with ApiServer(certificate=certificate, key=key) as running:
        yield running


@pytest.fixture
def service_account(tmp_path: Path) -> Path:
    """What is mounted into a pod; its authority is the cluster's, not the kubelet's."""
    folder = tmp_path / "serviceaccount"
    folder.mkdir()
    (folder / "token").write_text("first")
    authority, _ = make_certificate(tmp_path, "cluster")
    (folder / "ca.crt").write_bytes(authority.read_bytes())
    return folder


def as_pod(
    server: ApiServer, service_account: Path, ca_file: str = "", *, insecure: bool = False
) -> Callable[[], KubeClient]:
    environ = {"KUBERNETES_SERVICE_HOST": "192.0.2.1", "KUBERNETES_SERVICE_PORT": "443"}
    load = from_service_account(environ, service_account)
    return partial(connect_kubelet, server.url, load, ca_file, insecure=insecure)


def test_its_pods_are_listed_again_and_again(server: ApiServer) -> None:
    server.add_pod(pod_document("a", limits={"nvidia.com/gpu": "1"}))
    with Polling(at(server)) as pods:
        pods.wait_for_names("a")
        pods.wait_for(lambda: pods.source.status().up)
        server.add_pod(pod_document("b"))
        pods.wait_for_names("a", "b")
        server.delete_pod("a")
        pods.wait_for_names("b")
        pods.clock.now_ns += GRACE_NS
        assert len(pods.source.table().pods) == 1
    assert {request.path for request in server.requests("list")} == {"/pods"}
    assert {request.authorization for request in server.requests("list")} == {""}


def test_the_time_of_the_last_list_is_told_not_now(server: ApiServer) -> None:
    with Polling(at(server)) as pods:
        pods.wait_for(lambda: pods.source.status().up)
        server.hold("list")
        asked = len(server.requests("list"))
        server.wait_for_requests("list", asked + 1)
        heard = pods.clock.now_ns
        pods.clock.now_ns += 7
        assert pods.source.status().last_success_unix_ns == heard
        server.release()
        pods.wait_for(lambda: pods.source.status().last_success_unix_ns == heard + 7)


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        (b"", "the list of pods is broken"),
        (b"[]", "the list of pods is broken"),
        (b"{}", "the answer is not a list of pods"),
        (b'{"items":[{"a":', "the list of pods is broken"),
        (b'{"kind":"Status","metadata":7}', "the answer is not a list of pods"),
        (b'{"metadata":{},"items":[' + b"[" * 5000, "the list of pods is broken"),
        (b'{"metadata":{},"items":["' + b"x" * (5 << 20), "the list of pods is broken"),
    ],
)
def test_an_answer_that_is_no_list_of_pods_changes_nothing(
    server: ApiServer, body: bytes, detail: str
) -> None:
    server.add_pod(pod_document("a"))
    with Polling(at(server)) as pods:
        pods.wait_for_names("a")
        server.answer_lists_with(body)
        pods.wait_until_down(detail)
        pods.wait_for_names("a")
        server.answer_lists_with(b'{"kind":"PodList","metadata":{},"items":null}')
        pods.wait_until_up()


@pytest.mark.parametrize(
    ("status", "detail"),
    [
        (401, "the kubelet does not accept the credentials"),
        (403, "give ServiceAccount gpu-mon/exporter a ClusterRole with 'nodes/pods: get'"),
        (403, "'nodes/proxy: get', which also permits commands"),
        (500, "the kubelet answers 500"),
    ],
)
def test_a_refusal_is_told_once_with_what_to_do_and_the_pods_stay(
    server: ApiServer, caplog: pytest.LogCaptureFixture, status: int, detail: str
) -> None:
    server.add_pod(pod_document("a"))
    with Polling(at(server)) as pods:
        pods.wait_for_names("a")
        asked = len(server.requests("list"))
        server.fail("list", status, FORBIDDEN, times=4)
        pods.wait_until_down(detail)
        server.wait_for_requests("list", asked + 4)
        pods.wait_until_up()
        pods.wait_for_names("a")
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


def test_a_list_that_does_not_end_is_given_up(server: ApiServer) -> None:
    server.add_pod(pod_document("a"))
    clock = ManualClock()
    with Polling(at(server), timings=replace(OFTEN, whole_list_s=-1), clock=clock) as pods:
        pods.wait_until_down("not at its end after")


def test_one_that_rests_asks_nothing_until_it_is_wanted(server: ApiServer) -> None:
    server.add_pod(pod_document("a"))
    resting = Polling(at(server))
    resting.source.want(False)
    with resting as pods:
        assert not pods.source.status().up
        assert not server.requests("list")
        pods.source.want(True)
        pods.wait_for(lambda: pods.source.status().up)
        pods.source.want(False)
        assert "a better source is up" in pods.source.status().detail
        pods.wait_for_names("a")
        pods.source.close()
        assert "pods_kubelet" not in {thread.name for thread in threading.enumerate()}


@needs_openssl
def test_a_certificate_of_its_own_is_refused_with_what_to_do(
    secure: ApiServer, service_account: Path
) -> None:
    with Polling(as_pod(secure, service_account)) as pods:
        pods.wait_until_down("--kubelet.ca-file")
        assert "--kubelet.insecure-tls" in pods.source.status().detail
    assert not secure.requests("list")


@needs_openssl
def test_any_certificate_is_taken_if_that_is_asked_for(
    secure: ApiServer, service_account: Path
) -> None:
    secure.require_tokens("first")
    secure.add_pod(pod_document("a"))
    with Polling(as_pod(secure, service_account, insecure=True)) as pods:
        pods.wait_for_names("a")
        (service_account / "token").write_text("second\n")
        secure.require_tokens("second")
        secure.add_pod(pod_document("b"))
        pods.wait_for_names("a", "b")


def test_no_token_goes_over_plain_http(server: ApiServer, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret")
    (tmp_path / "ca.crt").write_text("")
    server.add_pod(pod_document("a"))
    with Polling(as_pod(server, tmp_path)) as pods:
        pods.wait_for_names("a")
    assert {request.authorization for request in server.requests("list")} == {""}


def test_a_proxy_of_the_environment_is_not_asked(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", closed_port())
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    server.add_pod(pod_document("a"))
    with Polling(at(server)) as pods:
        pods.wait_for_names("a")
