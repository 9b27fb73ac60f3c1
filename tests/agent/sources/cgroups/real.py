"""Real cgroups with real sleeping processes, for tests that run as root.

with real_cgroups("v1") as cgroups:
    pid = cgroups.spawn(container_path("systemd", uid, container_id))
    cgroups.move(pid, "user.slice")
    cgroups.end(pid)

Everything lives below one uniquely named cgroup, so that tests can run side by side; ``root`` is
laid out like the root of a hierarchy. All processes end and all directories go on leaving.
"""

import contextlib
import os
import signal
import subprocess
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

_MOUNTS = Path("/proc/self/mounts")
_LAST_PID = Path("/proc/sys/kernel/ns_last_pid")
_V1_CONTROLLERS = ("pids", "memory", "cpuset", "name=systemd")


def mounted(version: str) -> Path | None:
    """Where a hierarchy of cgroup "v1" or "v2" is mounted, None if it is not."""
    found: dict[str, Path] = {}
    for line in _MOUNTS.read_text().splitlines():
        _, where, kind, options, *_ = line.split()
        if kind == "cgroup2":
            found.setdefault("v2", Path(where))
        elif kind == "cgroup":
            found.update(dict.fromkeys(set(options.split(",")) & set(_V1_CONTROLLERS), Path(where)))
    if version == "v2":
        return found.get("v2")
    return next((found[name] for name in _V1_CONTROLLERS if name in found), None)


class RealCgroups:
    """A private subtree of a real hierarchy. Paths are relative to its ``root``."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    def make(self, path: str) -> Path:
        """Make a cgroup and those above it."""
        directory = self.root / path
        directory.mkdir(parents=True, exist_ok=True)
        return directory

    def spawn(self, path: str, command: Sequence[str] = ("sleep", "infinity")) -> int:
        """Start a process and put it into a cgroup, made if it is not there. Its pid."""
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
        self._processes[process.pid] = process
        self.move(process.pid, path)
        return process.pid

    def spawn_as(self, pid: int, path: str, attempts: int = 50) -> bool:
        """Start a process under a pid that is free now. False if others were quicker each time."""
        for _ in range(attempts):
            _LAST_PID.write_text(str(pid - 1))
            got = self.spawn(path)
            if got == pid:
                return True
            self.end(got)
        return False

    def move(self, pid: int, path: str) -> None:
        """Put a process into another cgroup."""
        (self.make(path) / "cgroup.procs").write_text(str(pid))

    def end(self, pid: int) -> None:
        """Kill a process and reap it: nothing of it is left on return."""
        self._processes[pid].kill()
        self.reap(pid)

    def leave_zombie(self, pid: int) -> None:
        """Kill a process without reaping it: it is a zombie on return."""
        os.kill(pid, signal.SIGKILL)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)

    def reap(self, pid: int) -> None:
        """Wait for a process that was killed or ends by itself."""
        self._processes.pop(pid).wait()

    def remove(self, path: str) -> None:
        """Remove a cgroup and those below; they must hold no process."""
        for directory, _, _ in os.walk(self.root / path, topdown=False):
            os.rmdir(directory)  # noqa: PTH106 - a string

    def clear(self) -> None:
        """End all processes and remove all cgroups."""
        for pid in list(self._processes):
            self.end(pid)
        self.remove("")


@contextlib.contextmanager
def real_cgroups(version: str, prefix: str = "mgpu-test-") -> Iterator[RealCgroups]:
    """A private subtree of the mounted hierarchy of cgroup "v1" or "v2"; skips where none is."""
    mount = mounted(version)
    if mount is None:
        pytest.skip(f"no cgroup {version} hierarchy is mounted")
    root = mount / f"{prefix}{uuid.uuid4().hex}"
    root.mkdir()
    cgroups = RealCgroups(root)
    try:
        yield cgroups
    finally:
        cgroups.clear()
