"""``serve`` with Kubernetes' access control, as a process: started, asked, refused."""

import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.agent.sources.pods.apiserver import ApiServer, write_kubeconfig
from tests.agent.sources.pods.apistate import Account
from tests.e2e.programs import Exporter, Page, eventually

FLAGS = ("--simulate=demo", "--web.kubernetes-access")


@pytest.fixture
def server() -> Iterator[ApiServer]:
    with ApiServer() as running:
        user = {"username": "prometheus"}
        running.add_account("right", Account(user, rights={("get", "/metrics")}))
        yield running


@pytest.fixture
def kubeconfig(server: ApiServer, tmp_path: Path) -> str:
    return str(write_kubeconfig(tmp_path / "config", server.url, token="exporter"))  # noqa: S106


def ask(url: str, token: str) -> tuple[int, str]:
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})  # noqa: S310 - loopback
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310 - loopback
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def left(url: str) -> None:
    """Ask, and be left without an answer."""
    with suppress(OSError):
        ask(url, "new")


@pytest.mark.slow
def test_it_asks_with_its_own_credentials_and_counts(server: ApiServer, kubeconfig: str) -> None:
    with Exporter(*FLAGS, f"--kubeconfig={kubeconfig}") as exporter:
        exporter.ready()
        url = f"{exporter.url}/metrics"
        assert ask(url, "wrong")[0] == 401
        assert ask(url, "right")[0] == 200
        assert ask(f"{exporter.url}/api/v1/snapshot", "right")[0] == 403
        assert exporter.get("/metrics")[0] == 401

        def counted() -> dict[str, float]:
            name = "mgpu_exporter_access_reviews_total"
            samples = Page(ask(url, "right")[1]).all(name, review="token")
            return {labels["outcome"]: value for labels, value in samples}

        wanted = {"allowed": 1.0, "denied": 1.0, "failed": 0.0, "not_asked": 0.0}
        eventually(lambda: counted() == wanted, "the reviews are counted")
        assert {each.authorization for each in server.requests("identify")} == {"Bearer exporter"}
        server.hold("identify")
        asked = len(server.requests("identify"))
        waiting = threading.Thread(target=left, args=(url,))
        waiting.start()
        server.wait_for_requests("identify", asked + 1)
        assert exporter.stop() == 0  # a review that hangs does not hold up the end
        waiting.join()


def run(*flags: str, home: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "exporter", "serve", *FLAGS, *flags],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={"HOME": str(home), "PATH": ""},
    )


def test_without_an_api_server_to_ask_it_does_not_start(tmp_path: Path) -> None:
    done = run("--web.listen-address=127.0.0.1:0", home=tmp_path)
    assert done.returncode == 1
    assert "--web.kubernetes-access needs an API server to ask" in done.stderr
