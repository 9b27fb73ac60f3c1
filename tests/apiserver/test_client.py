"""Credentials: a ServiceAccount's over TLS, a kubeconfig's, and what goes wrong with them."""

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from exporter.apiserver.client import (
    KubeClient,
    connect,
    from_kubeconfig,
    from_service_account,
    in_cluster,
)
from exporter.apiserver.serveranswers import ApiError, explanation
from tests.agent.sources.pods.apiserver import ApiServer, write_kubeconfig
from tests.agent.sources.pods.authority import expired, make_certificate
from tests.agent.sources.pods.documents import pod_document
from tests.agent.sources.pods.watching import Watching

needs_openssl = pytest.mark.program("openssl")


@pytest.fixture
def secure(tmp_path: Path) -> Iterator[ApiServer]:
    certificate, key = make_certificate(tmp_path, "server")
    with ApiServer(certificate=certificate, key=key) as running:
        yield running


@pytest.fixture
def service_account(tmp_path: Path) -> Path:
    """A directory such as the kubelet mounts into a pod, for the server ``secure``."""
    folder = tmp_path / "serviceaccount"
    folder.mkdir()
    (folder / "token").write_text("first")
    (folder / "ca.crt").write_bytes((tmp_path / "server.crt").read_bytes())
    return folder


def in_pod(server: ApiServer, service_account: Path) -> Callable[[], KubeClient]:
    environ = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(server.port)}
    assert in_cluster(environ, service_account)
    return lambda: connect(from_service_account(environ, service_account))


@needs_openssl
def test_a_token_that_was_rotated_on_disk_is_taken_up(
    secure: ApiServer, service_account: Path
) -> None:
    secure.require_tokens("first")
    with Watching(in_pod(secure, service_account)) as pods:
        pods.wait_until_up()
        assert secure.requests("watch")[0].authorization.lower() == "bearer first"
        token = service_account / "token"
        token.rename(token.with_suffix(".away"))
        secure.drop_connections()
        pods.wait_until_down("token file does not exist")
        token.write_text("second\n")
        secure.require_tokens("second")
        secure.add_pod(pod_document("a"))
        secure.wait_for_watches(1)
        pods.wait_until_up()
        pods.wait_for_names("a")
        pods.source.close()
        assert "pods_api" not in {thread.name for thread in threading.enumerate()}
    assert secure.requests("watch")[-1].authorization.lower() == "bearer second"


@needs_openssl
def test_a_server_that_the_authority_does_not_know_is_refused_until_the_authority_is_right(
    secure: ApiServer, service_account: Path, tmp_path: Path
) -> None:
    right = (service_account / "ca.crt").read_bytes()
    wrong, _ = make_certificate(tmp_path, "stranger")
    (service_account / "ca.crt").write_bytes(wrong.read_bytes())
    with Watching(in_pod(secure, service_account)) as pods:
        pods.wait_until_down("certificate verify failed")
        assert not secure.requests("list")
        (service_account / "ca.crt").write_bytes(right)
        pods.wait_until_up()


@needs_openssl
def test_a_server_whose_certificate_has_expired_is_refused_until_it_and_its_authority_are_renewed(
    secure: ApiServer, service_account: Path, tmp_path: Path
) -> None:
    assert secure.tls is not None
    old = expired(tmp_path, tmp_path / "server.crt", tmp_path / "server.key")
    (service_account / "ca.crt").write_bytes(old.read_bytes())
    secure.tls.load_cert_chain(old, tmp_path / "server.key")
    with Watching(in_pod(secure, service_account)) as pods:
        pods.wait_until_down("certificate has expired")
        assert not secure.requests("list")
        renewed, key = make_certificate(tmp_path, "renewed")
        secure.tls.load_cert_chain(renewed, key)
        (service_account / "ca.crt").write_bytes(renewed.read_bytes())
        pods.wait_until_up()


@needs_openssl
def test_a_certificate_that_changes_while_pods_are_watched_is_said_until_its_authority_is_here(
    secure: ApiServer, service_account: Path, tmp_path: Path
) -> None:
    """What is known of pods stays meanwhile."""
    assert secure.tls is not None
    secure.add_pod(pod_document("a"))
    with Watching(in_pod(secure, service_account)) as pods:
        pods.wait_for_names("a")
        new, key = make_certificate(tmp_path, "rotated")
        secure.tls.load_cert_chain(new, key)
        secure.drop_connections()
        pods.wait_until_down("certificate verify failed")
        secure.add_pod(pod_document("b"))
        assert pods.names() == {"a"}
        (service_account / "ca.crt").write_bytes(new.read_bytes())
        pods.wait_until_up()
        pods.wait_for_names("a", "b")


def test_a_token_of_several_lines_is_refused_by_the_server_and_never_shown(
    server: ApiServer, tmp_path: Path
) -> None:
    server.require_tokens("good")
    token = tmp_path / "token"
    token.write_text("secret\nstory\n")
    path = write_kubeconfig(tmp_path / "config", server.url, token_file=token)
    with pytest.raises(ApiError) as caught:
        connect(from_kubeconfig(str(path))).get("/api/v1/pods", {}, 5)
    assert caught.value.status == 401
    assert "secret" not in str(caught.value)


def test_a_refusal_carries_status_and_message_in_one_bounded_line(
    server: ApiServer, tmp_path: Path
) -> None:
    server.fail("list", 418, "several\nlines " * 1000)
    path = write_kubeconfig(tmp_path / "config", server.url)
    with pytest.raises(ApiError) as caught:
        connect(from_kubeconfig(str(path))).get("/api/v1/pods", {}, 5)
    assert caught.value.status == 418
    assert str(caught.value).startswith("several lines several lines")
    assert len(str(caught.value)) <= 500


def test_an_interrupted_client_gives_no_further_answers(server: ApiServer, tmp_path: Path) -> None:
    client = connect(from_kubeconfig(str(write_kubeconfig(tmp_path / "config", server.url))))
    client.interrupt()
    with pytest.raises(ApiError, match="interrupted"):
        client.get("/api/v1/pods", {}, 5)


def test_a_server_that_is_not_there_is_named_in_plain_words_without_its_password(
    tmp_path: Path,
) -> None:
    path = write_kubeconfig(tmp_path / "config", "http://me:secret@127.0.0.1:1")
    with pytest.raises(ApiError) as caught:
        connect(from_kubeconfig(str(path))).get("/api/v1/pods", {}, 5)

    assert "connecting to http://127.0.0.1:1: Connection refused" in str(caught.value)


@pytest.mark.parametrize(
    ("status", "message", "expected"),
    [
        (None, "refused", "no connection to the API server (refused)"),
        (401, "no", "does not accept the credentials"),
        (403, 'User "system:serviceaccount:a:b" cannot', "give ServiceAccount a/b a ClusterRole"),
        (403, 'User "jane" cannot', "give this user a ClusterRole"),
        (500, "oops", "the API server answers 500 (oops)"),
    ],
)
def test_a_failure_is_explained_with_what_to_do(
    status: int | None, message: str, expected: str
) -> None:
    assert expected in explanation(ApiError(status, message))


def test_the_kubernetes_package_is_not_imported_before_the_first_connection() -> None:
    program = (
        "import sys; "
        "from exporter.agent.sources.pods.podfactory import PodAccess as P, open_pod_source as o; "
        "[o(kind, 'n', P(kubeconfig='x')) for kind in ('auto', 'api', 'kubelet', 'files')]; "
        "sys.exit('kubernetes' in sys.modules or 'urllib3' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
