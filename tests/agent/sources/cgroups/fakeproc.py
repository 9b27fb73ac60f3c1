"""A /proc in a plain directory: stat, cgroup and status files of processes that do not exist."""

import shutil
from pathlib import Path

PF_EXITING = 0x4


class FakeProc:
    """Processes made of files. Nothing tells of their end, as with the node's mounted /proc."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(parents=True, exist_ok=True)

    def put(
        self,
        pid: int,
        *paths: str,
        start: int = 1000,
        state: str = "S",
        flags: int = 0x400000,
        command: str = "python",
        uid: int | None = None,
    ) -> None:
        """Add or replace a process; ``paths`` are of its cgroups, the last of them of v2."""
        numbered = enumerate(paths)
        lines = [
            f"0::{path}" if number == len(paths) - 1 else f"{9 - number}:c{number}:{path}"
            for number, path in numbered
        ]
        self.put_text(pid, "".join(f"{line}\n" for line in lines))
        stat = f"{pid} ({command}) {state} 1 1 1 0 -1 {flags} " + "0 " * 12 + f"{start} 0 0\n"
        (self.root / str(pid) / "stat").write_text(stat)
        if uid is not None:
            status = f"Name:\t{command}\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n"
            (self.root / str(pid) / "status").write_text(status)

    def put_text(self, pid: int, text: str) -> None:
        """Write a process's cgroup file only."""
        directory = self.root / str(pid)
        directory.mkdir(exist_ok=True)
        (directory / "cgroup").write_text(text)

    def put_self(self, target: str, status: str = "", pid_namespace: str = "") -> None:
        """The entries of this process itself."""
        directory = self.root / target
        (directory / "ns").mkdir(parents=True, exist_ok=True)
        (self.root / "self").symlink_to(target)
        (directory / "status").write_text(status)
        if pid_namespace:
            (directory / "ns" / "pid").symlink_to(pid_namespace)

    def remove(self, pid: int) -> None:
        """End a process."""
        shutil.rmtree(self.root / str(pid))
