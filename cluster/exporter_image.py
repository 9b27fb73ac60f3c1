"""The exporter's image, made here: Debian's Python, the locked dependencies, this source."""

import hashlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from cluster.images import archive, layer
from cluster.pins import DEBIAN
from cluster.tools import CACHE, ToolError

EXPORTER = "localhost/mgpu-exporter:test"
_HOME = "opt/mgpu-exporter"
_TOP = Path(__file__).parent.parent
_UV = Path(sys.executable).with_name("uv")


def exporter(folder: Path) -> Path:
    """The image's file. Base and dependencies are kept in the cache."""
    settings = {
        "Env": ["PATH=/usr/bin:/bin", f"PYTHONPATH=/{_HOME}", "PYTHONUNBUFFERED=1"],
        "Entrypoint": ["python3", "-m", "exporter"],
        "User": "65532:65532",
    }
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch) / "exporter"
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(_TOP / "exporter", source, ignore=ignored)
        layers = [
            _base().read_bytes(),
            _dependencies().read_bytes(),
            layer(source, f"{_HOME}/exporter"),
        ]
    return archive(folder / "exporter.tar", EXPORTER, layers, settings)


def provide() -> None:
    """Make what needs the network.

    Raises:
        ToolError: a program failed.

    """
    _base()
    _dependencies()


def _base() -> Path:
    """Debian with Python, as a layer."""
    held = CACHE / f"debian-{DEBIAN}.tar"
    if not held.exists():
        print(f"making {held.name} ...", flush=True)
        with tempfile.TemporaryDirectory() as scratch:
            root = Path(scratch) / "root"
            _do(["debootstrap", "--variant=minbase", "--include=python3", DEBIAN, str(root)])
            for name in ("dev", "proc", "sys", "var/cache", "var/lib/apt"):
                shutil.rmtree(root / name)
                (root / name).mkdir()
            with tarfile.open(held.with_suffix(".new"), "w") as tar:
                tar.add(root, arcname=".")
        held.with_suffix(".new").rename(held)
    return held


def _dependencies() -> Path:
    """What the lock names for running, as a layer."""
    key = hashlib.sha256((_TOP / "uv.lock").read_bytes()).hexdigest()[:16]
    held = CACHE / f"dependencies-{key}.tar"
    if not held.exists():
        print(f"making {held.name} ...", flush=True)
        with tempfile.TemporaryDirectory() as scratch:
            wanted, target = Path(scratch) / "requirements.txt", Path(scratch) / "target"
            export = ["export", "--quiet", "--locked", f"--project={_TOP}"]
            which = ["--no-dev", "--all-extras", "--no-emit-project"]
            _do([str(_UV), *export, *which, "--output-file", str(wanted)])
            install = ["pip", "install", "--quiet", f"--target={target}", "-r", str(wanted)]
            _do([str(_UV), *install, "--python-version=3.13", "--only-binary=:all:"])
            held.with_suffix(".new").write_bytes(layer(target, _HOME))
        held.with_suffix(".new").rename(held)
    return held


def _do(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stderr or done.stdout)[-2000:]
        raise ToolError(f"{command[0]} {command[1]} failed: {said}")
