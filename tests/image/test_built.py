"""The image, built for real and run as strictly as a pod can be: ``make image-test``.

The base is a stand-in of the same name (``tools.image.standin``): these tests may run where
there is no registry. So the base's own Python is not what is tested here.
"""

import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from exporter import __version__
from exporter.cli import _COMMANDS
from tests.e2e.programs import Exporter
from tests.image.container import Container
from tools.image.build import NAME, STORE, build, export, layers
from tools.image.store import Store

OURS = "opt/mgpu-exporter/"
MAX_LAYER_BYTES = 40_000_000
USE = "mgpu_container_core_seconds_total"
LATE = "kubernetes.config, kubernetes.client, grpc, textual, rich, bcrypt, pynvml, aiohttp, psutil"

pytestmark = [
    pytest.mark.image,
    pytest.mark.root,
    pytest.mark.program("buildah", "debootstrap", "runc"),
    pytest.mark.timeout(1200),
]


@pytest.fixture(scope="module")
def store() -> Store:
    store = Store(STORE)
    build(store, stand_in=True)
    return store


@pytest.fixture(scope="module")
def container(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Container]:
    with Container(store, NAME, tmp_path_factory.mktemp("bundles")) as container:
        yield container


@pytest.fixture(scope="module")
def layer(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tarfile.TarFile]:
    """The layer on top of the base."""
    archive = tmp_path_factory.mktemp("archive") / "image.tar"
    export(store, archive)
    own = layers(archive)[-1]
    with tarfile.open(archive) as tar:
        assert own.size < MAX_LAYER_BYTES, "it is pulled by every node"
        blob = tar.extractfile(own)
        assert blob
        with tarfile.open(fileobj=blob) as layer:
            yield layer


def python(container: Container, code: str) -> str:
    """What the image's Python prints."""
    done = container.run("-c", code, entry=("python",))
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_it_serves_a_simulated_node_and_ends_when_told(container: Container) -> None:
    class Contained(Exporter):
        def command(self, *arguments: str) -> list[str]:
            return container.command(arguments)

    exporter = Contained("--simulate=demo")
    try:
        exporter.ready()
        page = exporter.when(lambda page: len(page.all(USE)) > 10, "use by container")
    finally:
        ended = exporter.stop()

    assert page.value("mgpu_exporter_simulated") == 1
    assert page.value("mgpu_exporter_build_info", version=__version__) == 1
    assert ended == 0


def test_it_is_nobody_without_a_right_on_a_root_that_cannot_be_written(
    container: Container,
) -> None:
    said = python(container, "import pathlib; print(pathlib.Path('/proc/self/status').read_text())")
    status = {name: rest.split() for name, _, rest in (s.partition(":") for s in said.splitlines())}
    write = "import os\ntry: os.mkdir('/tmp/x')\nexcept OSError as error: print(error.strerror)"

    assert status["Uid"] == status["Gid"] == ["61045"] * 4
    assert {int(status[name][0], 16) for name in status if name.startswith("Cap")} == {0}
    assert status["NoNewPrivs"] == ["1"]
    assert python(container, write) == "Read-only file system\n"


def test_the_help_and_the_version_are_told(container: Container) -> None:
    assert container.run("--version").stdout == f"mgpu-exporter {__version__}\n"
    assert "--simulate" in container.run("--help").stdout


def test_the_commands_that_people_run_beside_it_run_there(container: Container) -> None:
    """With kubectl exec, say. None of them needs a folder to write to."""
    commands = {"record": ["--output=-", "--duration=2s"], "top": ["--once"], "check": []}
    done = {
        name: container.run(name, "--simulate=demo", *arguments)
        for name, arguments in commands.items()
        if name in _COMMANDS
    }

    assert {name: one.stderr for name, one in done.items() if "Traceback" in one.stderr} == {}
    assert {name: one.stdout for name, one in done.items() if not one.stdout} == {}
    assert {name: one.returncode for name, one in done.items() if one.returncode > 1} == {}


def test_what_is_imported_late_is_in_it(container: Container) -> None:
    assert python(container, f"import {LATE}; print('all')") == "all\n"


def test_no_shell_can_be_started_in_these_tests(container: Container) -> None:
    assert container.run("-c", "true", entry=("/bin/sh",)).returncode != 0


def test_the_labels_say_what_it_is_and_of_which_version(container: Container) -> None:
    labels = container.config["Labels"]

    assert labels["org.opencontainers.image.version"] == __version__
    assert labels["org.opencontainers.image.licenses"] == "Apache-2.0"
    assert len(labels["org.opencontainers.image.revision"]) in {0, 40}


def test_on_top_of_the_base_there_is_the_virtual_environment_only(layer: tarfile.TarFile) -> None:
    names = [member.name for member in layer if not member.isdir()]

    assert [name for name in names if not name.startswith(OURS)] == []
    assert [name for name in names if Path(name).name in {"pip", "uv", "hatchling"}] == []


def test_every_module_is_compiled(layer: tarfile.TarFile) -> None:
    names = {Path(member.name) for member in layer if member.isfile()}
    sources = {name for name in names if name.suffix == ".py" and "exporter" in name.parts}

    assert len(sources) > 100
    assert {
        name.parent / "__pycache__" / f"{name.stem}.cpython-313.pyc" for name in sources
    } <= names
