"""The bench's C programs, built once each, and the folder in which all that it fetches is kept."""

import hashlib
import os
import subprocess
from pathlib import Path

HERE = Path(__file__).parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mgpu-exporter-bench"
COMPILER = ("cc", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread")


def program(name: str) -> str:
    """Path of a program of this folder; it is built unless an equal one is there."""
    source = HERE / f"{name}.c"
    key = hashlib.sha256(source.read_bytes() + repr(COMPILER).encode()).hexdigest()[:12]
    path = CACHE / f"{name}-{key}"
    if not path.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        fresh = path.with_suffix(f".{os.getpid()}")
        subprocess.run([*COMPILER, str(source), "-ldl", "-o", str(fresh)], check=True)
        fresh.rename(path)
    return str(path)
