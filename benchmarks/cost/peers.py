"""Gets the programs that are compared with: each of a fixed version, into the bench's cache."""

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.cost.compiled import CACHE

NVITOP = "1.7.2"


class UnavailableError(Exception):
    """A program cannot be had here; the text says why."""


def nvitop_exporter() -> Path:
    """From PyPI, into an environment of its own."""
    folder = CACHE / f"nvitop-exporter-{NVITOP}"
    program = folder / "bin" / "nvitop-exporter"
    if not program.exists():
        _run([sys.executable, "-m", "venv", "--clear", str(folder)])
        _run([str(folder / "bin" / "pip"), "install", "--quiet", f"nvitop-exporter=={NVITOP}"])
    return program


def node_exporter() -> Path:
    """Debian's, as it is installed; else its package, unpacked."""
    package = "prometheus-node-exporter"
    installed = shutil.which(package)
    folder = CACHE / package
    program = Path(installed) if installed else folder / "usr/bin" / package
    if not program.exists():
        folder.mkdir(parents=True, exist_ok=True)
        _run(["apt-get", "download", "-qq", package], folder)
        _run(["dpkg", "-x", next(folder.glob("*.deb")).name, "."], folder)
    return program


def _run(command: Sequence[str], folder: Path | None = None) -> None:
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    except OSError as error:
        raise UnavailableError(f"{command[0]}: {error}") from error
    if done.returncode:
        last = done.stderr.strip().rpartition("\n")[2]
        raise UnavailableError(f"{command[0]} failed: {last[:200]}")
