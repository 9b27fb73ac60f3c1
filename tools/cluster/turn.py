"""One run at a time, in one folder; nothing of a run is left, however it ended.

A process of its own does the cleaning, which a run that is killed does not take with it; it holds
the lock until it is done. Where that was killed too, the next run cleans first.
"""

import fcntl
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from tools.cluster.sandbox import remove_cgroups

FOLDER = Path("/var/tmp/mgpu-cluster")  # noqa: S108 - held by the lock, made anew, links not followed
_LOCK = Path("/run/mgpu-cluster.lock")
_PATIENCE_S = 30


@contextmanager
def turn() -> Iterator[Path]:
    """Wait until no other run is there; an empty folder for this one."""
    with _LOCK.open("w") as lock:
        _wait(lock)
        clean()
        FOLDER.mkdir()
        FOLDER.chmod(0o755)  # a container's user reads in it
        with _cleaned(lock):
            yield FOLDER


def clean() -> None:
    """Remove what a run leaves: cgroups, with whoever is in them, and its folder."""
    remove_cgroups()
    deadline = time.monotonic() + _PATIENCE_S
    while FOLDER.exists() and time.monotonic() < deadline:
        shutil.rmtree(FOLDER, ignore_errors=True)  # one that dies may still write
    if FOLDER.exists():
        sys.exit(f"cluster: cannot remove {FOLDER}; see who uses it, and remove it")


def _wait(lock: IO[str]) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print(f"cluster: another run holds {_LOCK}; waiting for its end ...", flush=True)
        fcntl.flock(lock, fcntl.LOCK_EX)


@contextmanager
def _cleaned(lock: IO[str]) -> Iterator[None]:
    """Clean in the end; the cleaner learns of it by the end of its input."""
    inlet, ours = os.pipe()
    cleaner = subprocess.Popen(
        [sys.executable, "-m", "tools.cluster.turn"],
        cwd=Path(__file__).parents[2],
        stdin=inlet,
        pass_fds=[lock.fileno()],
        start_new_session=True,  # signals to all processes of the run are not for it
    )
    os.close(inlet)
    try:
        yield
    finally:
        os.close(ours)
        cleaner.wait()


if __name__ == "__main__":
    sys.stdin.buffer.read()
    clean()
