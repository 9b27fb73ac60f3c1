"""What KFD tells of each process on a GPU: ``/sys/class/kfd/kfd/proc/<pid>``.

The pids are the host's, whatever namespace reads them. A process has files for every GPU, also for
those it never used. Source: ``drivers/gpu/drm/amd/amdkfd/kfd_process.c``.
"""

import re
from pathlib import Path
from typing import NamedTuple

from exporter.gpus.amd.files import names_in, read_count
from exporter.gpus.amd.topology import KFD

# Newer kernels let a process have several contexts: pid:<pid>-id:<n>, and folders context_<n>.
_PROCESS = re.compile(r"(?:pid:)?(\d{1,10})(?:-id:\w{1,20})?", re.ASCII)
_CONTEXT = re.compile(r"context_\w{1,20}", re.ASCII)
MOST_PROCESSES = 4096


class KfdProcess(NamedTuple):
    """One process on one GPU, its contexts together. What is not told is None.

    ``cus``: compute units with its waves in flight at this instant.
    """

    pid: int
    vram_bytes: int | None
    cus: int | None


class KfdProcesses:
    """The processes of the node, one GPU at a time."""

    def __init__(self, sysfs: Path) -> None:
        self._folder = sysfs / KFD / "proc"

    def folders(self) -> dict[int, list[Path]]:
        """Where each process's files are.

        Raises:
            RefusedError: we may not look.

        """
        found: dict[int, list[Path]] = {}
        for name in names_in(self._folder)[:MOST_PROCESSES]:
            match = _PROCESS.fullmatch(name)
            if match:
                folder = self._folder / name
                inner = [folder / n for n in names_in(folder) if _CONTEXT.fullmatch(n)]
                found.setdefault(int(match[1]), []).extend([folder, *inner])
        return found

    def vram(self, folders: list[Path], gpu_id: int) -> int | None:
        """Bytes of device memory; None where the process has ended meanwhile.

        Raises:
            RefusedError: we may not read it.

        """
        return _sum([read_count(folder / f"vram_{gpu_id}") for folder in folders])

    def occupied(self, folders: list[Path], gpu_id: int) -> int | None:
        """Compute units occupied now; None where the process has ended, or the GPU cannot tell.

        Raises:
            RefusedError: we may not read it.

        """
        return _sum([read_count(f / f"stats_{gpu_id}" / "cu_occupancy") for f in folders])

    def counted(self, folders: list[Path], gpu_id: int) -> dict[str, int]:
        """Nanoseconds so far by the names of ``COUNTED``; deleted queues are in them.

        Raises:
            RefusedError: we may not read it.

        """
        copy_us = _sum([read_count(folder / f"sdma_{gpu_id}") for folder in folders])
        evicted_ms = _sum([read_count(f / f"stats_{gpu_id}" / "evicted_ms") for f in folders])
        found = {
            "copy": copy_us and copy_us * 1000,
            "evicted": evicted_ms and evicted_ms * 1_000_000,
        }
        return {name: value for name, value in found.items() if value is not None}


class Counting:
    """What processes' counters have risen by. A counter that goes back is held at its highest.

    What a process had counted before it was first read is not ours, unless it began since.
    """

    def __init__(self) -> None:
        self._highest: dict[int, dict[str, int]] | None = None
        self._risen: dict[str, dict[int, int]] = {}

    def add(self, now: dict[int, dict[str, int]]) -> None:
        """Take a reading of all processes."""
        before, self._highest = self._highest, {}
        for pid, counts in now.items():
            known = counts if before is None else before.get(pid, {})
            highest = {name: max(count, known.get(name, 0)) for name, count in counts.items()}
            self._highest[pid] = {**known, **highest}  # one that is not told now is not new later
            for name, count in highest.items():
                by_pid = self._risen.setdefault(name, {})
                by_pid[pid] = by_pid.get(pid, 0) + count - known.get(name, 0)

    def take(self) -> dict[str, dict[int, int]]:
        """What has risen since it was last taken, of each counter that there is."""
        taken, self._risen = self._risen, {name: {} for name in self._risen}
        return {name: {p: n for p, n in by_pid.items() if n} for name, by_pid in taken.items()}


def pids_of(sysfs: Path) -> frozenset[int]:
    """All processes of KFD.

    Raises:
        RefusedError: we may not look.

    """
    return frozenset(KfdProcesses(sysfs).folders())


def _sum(numbers: list[int | None]) -> int | None:
    told = [number for number in numbers if number is not None]
    return sum(told) if told else None
