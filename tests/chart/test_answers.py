"""The script of `helm test`, against the real exporter."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chart.rendering import CHART
from tests.e2e.programs import Exporter

pytestmark = pytest.mark.slow

SCRIPT = CHART / "files" / "answers.py"
USERS = (
    "basic_auth_users: {prometheus: $2y$10$X0h1gDsPszWURQaxFh.zoubFi6DXncSjhoQNJgRrnGs7EsimhC7zG}\n"
)


@pytest.fixture(params=["open", "locked"])
def port(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The port of an exporter, with users and without."""
    (tmp_path / "web.yaml").write_text(USERS)
    more = [f"--web.config.file={tmp_path}/web.yaml"] if request.param == "locked" else []
    with Exporter("--simulate=single", *more) as exporter:
        yield exporter.ready().url.rpartition(":")[2]


def ask(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True, check=False
    )


def test_an_exporter_that_serves_is_found_to(port: str) -> None:
    done = ask("http", "127.0.0.1", port, "/metrics")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("127.0.0.1: ok (200 ")


def test_an_address_where_nobody_answers_is_named_and_fails() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        done = ask("http", "127.0.0.1", str(bound.getsockname()[1]), "/metrics")
    assert done.returncode == 1
    assert "127.0.0.1: FAILED" in done.stdout


def test_another_program_at_the_port_fails(port: str) -> None:
    done = ask("http", "127.0.0.1", port, "/nothing")
    assert done.returncode == ("401" not in done.stdout)


def test_a_listener_that_wants_certificates_is_only_connected_to(port: str) -> None:
    done = ask("tcp", "127.0.0.1", port, "/metrics")
    assert (done.returncode, done.stdout) == (0, "127.0.0.1: ok (listens)\n")
