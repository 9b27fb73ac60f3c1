"""The wheel, built as a release does and installed from a package index: ``make image-test``.

The index is a folder that is served over HTTP, as PEP 503 has it. What the wheel needs comes from
PyPI by the lock, with hashes.
"""

import os
import re
import subprocess
import sys
import tarfile
import threading
import venv
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from exporter import __version__
from tests.e2e.programs import Exporter

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
NAME = f"mgpu-exporter=={__version__}"

pytestmark = [pytest.mark.image, pytest.mark.timeout(900)]


class Quiet(SimpleHTTPRequestHandler):
    """Serves a folder and logs nothing."""

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class Installed(Exporter):
    """The exporter of another environment, started by its own command."""

    program = ""

    def command(self, *arguments: str) -> list[str]:
        """The command line, with that environment's program."""
        return [self.program, *arguments]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An index with the wheel and the source archive, as ``make wheel`` builds them."""
    subprocess.run(["make", "--silent", "wheel"], cwd=ROOT, check=True)
    folder = tmp_path_factory.mktemp("index")
    project = folder / "simple" / "mgpu-exporter"
    project.mkdir(parents=True)
    for file in (ROOT / "dist" / "python").glob("mgpu_exporter-*"):
        (project / file.name).write_bytes(file.read_bytes())
    handler = partial(Quiet, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/simple"
        server.shutdown()


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with all that the lock says the wheel needs, and nothing else."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=True)
    needs = folder / "requirements.txt"
    lock = ("--locked", "--no-dev", "--all-extras", "--no-emit-project", "--quiet")
    export = [str(BIN / "uv"), "export", *lock, f"--output-file={needs}"]
    subprocess.run(export, cwd=ROOT, check=True, capture_output=True)
    _pip(folder, "install", "--quiet", "--require-hashes", "-r", str(needs))
    return folder


def _pip(environment: Path, *arguments: str) -> str:
    """What pip prints; of the machine's own settings it keeps those of the network only."""
    own = {k: v for k, v in os.environ.items() if k != "PIP_FIND_LINKS"}
    command = [str(environment / "bin" / "python"), "-m", "pip", *arguments]
    return subprocess.run(command, env=own, check=True, text=True, stdout=subprocess.PIPE).stdout


@pytest.mark.parametrize("time", ["once", "and again"])
def test_the_wheel_is_installed_from_an_index_and_serves(
    index: str, environment: Path, time: str
) -> None:
    _pip(environment, "install", "--quiet", "--no-deps", f"--index-url={index}", NAME)
    assert "No broken requirements" in _pip(environment, "check")
    Installed.program = str(environment / "bin" / "mgpu-exporter")
    said = subprocess.run(
        [Installed.program, "--version"], check=True, capture_output=True, text=True
    )
    assert said.stdout.strip() == f"mgpu-exporter {__version__}", time
    with Installed("--simulate=single") as exporter:
        page = exporter.ready().scrape()
        runbook = exporter.get("/runbooks/reset")
    assert page.value("mgpu_exporter_build_info", version=__version__) == 1
    assert runbook[0] == 200
    assert "Before a reset" in runbook[1]
    _pip(environment, "uninstall", "--quiet", "--yes", "mgpu-exporter")
    assert not Path(Installed.program).exists()


def test_its_description_links_to_no_file_of_the_repository(index: str) -> None:
    assert index
    (wheel,) = (ROOT / "dist" / "python").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        said = archive.read(f"mgpu_exporter-{__version__}.dist-info/METADATA").decode()
    links = re.findall(r"\]\(([^)]+)\)|(?:src|srcset)=\"([^\"]+)", said.partition("\n\n")[2])
    assert links
    assert [link for link in map("".join, links) if not link.startswith("https://")] == []


def test_the_source_archive_has_what_the_wheel_is_made_of_and_no_more(index: str) -> None:
    assert index
    (source,) = (ROOT / "dist" / "python").glob("*.tar.gz")
    with tarfile.open(source) as archive:
        names = {tuple(name.split("/")[1:]) for name in archive.getnames()}
    own = {"pyproject.toml", "PKG-INFO", "LICENSE", "CHANGELOG.md", ".gitignore"}
    assert {name[0] for name in names} == {"exporter", "docs", *own}
    assert {name[1] for name in names if name[0] == "docs"} == {"runbooks"}


def test_the_index_has_what_a_release_publishes() -> None:
    names = {path.name for path in (ROOT / "dist" / "python").glob("mgpu_exporter-*")}
    assert names == {
        f"mgpu_exporter-{__version__}{end}" for end in ("-py3-none-any.whl", ".tar.gz")
    }
