"""The script of `helm test`, against the real exporter."""

import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chart.rendering import CHART

SCRIPT = CHART / "files" / "answers.py"
USERS = (
    "basic_auth_users: {prometheus: $2y$10$X0h1gDsPszWURQaxFh.zoubFi6DXncSjhoQNJgRrnGs7EsimhC7zG}\n"
)


def serve(*arguments: str) -> tuple[subprocess.Popen[str], str]:
    """An exporter of a simulated node, and the port that it listens on."""
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "exporter",
            "serve",
            "--simulate=demo",
            "--web.listen-address=127.0.0.1:0",
            *arguments,
        ],
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    for line in process.stderr:
        found = re.search(r"127\.0\.0\.1:(\d+)", line)
        if found:
            return process, found[1]
    raise AssertionError("it did not say where it listens")


@pytest.fixture(params=["open", "locked"])
def port(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The port of an exporter, with users and without."""
    (tmp_path / "web.yaml").write_text(USERS)
    more = [f"--web.config.file={tmp_path}/web.yaml"] if request.param == "locked" else []
    process, found = serve(*more)
    with process:
        yield found
        process.terminate()
        process.communicate()


def ask(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True, check=False
    )


def test_an_exporter_that_serves_is_found_to(port: str) -> None:
    done = ask("http", "127.0.0.1", port, "/metrics")
    while "503" in done.stdout:  # its first cycle is not done yet
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
