"""Builds the stand-in for ``libamd_smi.so`` with the system's C compiler, and describes it."""

import fcntl
import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).parent
CACHE = HERE / ".build"
NAME = "libamd_smi.so"
COMPILER = ("cc", "-std=gnu11", "-O2", "-g", "-fPIC", "-shared", "-fvisibility=hidden")
WARNINGS = ("-Wall", "-Wextra", "-Werror")


def library(folder: Path, major: int = 26) -> Path:
    """A copy in this folder of the library of a version, built unless an equal one is there.

    A copy, because what it answers stands beside it, and a library is loaded once for each file.
    """
    digest = hashlib.sha256(repr(major).encode())
    for path in sorted([*HERE.glob("*.c"), *HERE.glob("*.h"), Path(__file__)]):
        digest.update(path.read_bytes())
    built = CACHE / f"{digest.hexdigest()[:16]}.so"
    CACHE.mkdir(exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not built.exists():
            _build(built, major)
    folder.mkdir(parents=True, exist_ok=True)
    return Path(shutil.copy(built, folder / NAME))


def describe(path: Path, lines: Sequence[str]) -> None:
    """Let the library answer so from its next call on."""
    fresh = path.with_name(f".{path.name}.new")
    fresh.write_text("".join(f"{line}\n" for line in lines))
    fresh.rename(path.with_name(f"{path.name}.txt"))


def _build(built: Path, major: int) -> None:
    with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
        made = Path(scratch) / NAME
        command = [*COMPILER, *WARNINGS, f"-DMAJOR={major}", f"-Wl,-soname,{NAME}"]
        subprocess.run([*command, *map(str, HERE.glob("*.c")), "-o", str(made)], check=True)
        made.rename(built)
