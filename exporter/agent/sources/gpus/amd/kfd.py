"""Reads KFD's files: its nodes, and its processes on each GPU.

A node is a board or a partition of one, as compute queues can use it. The number of a partition is
in bits 31:28 of ``location_id``. A process has files for every GPU, also for those that it never
used (``/sys/class/kfd/kfd/proc/<pid>``); pids are the host's, in whatever namespace they are read.
Sources: ``kfd_topology.c`` and ``kfd_process.c`` in ``drivers/gpu/drm/amd/amdkfd``.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from exporter.agent.sources.gpus.sysfs import (
    RefusedError,
    as_count,
    names_in,
    number,
    read_count,
    read_text,
)

KFD = "class/kfd/kfd"
LOCAL_HEAPS = {1, 2}  # HSA_MEM_HEAP_TYPE_FB_PUBLIC, _FB_PRIVATE: the device's own memory


class KfdNode(NamedTuple):
    """A board, or a partition of one. ``cus``: its compute units, 0 if not reported.

    ``render``: the minor number of its own render node.
    """

    gpu_id: int
    pci_bus_id: str
    partition: int
    cus: int
    memory_bytes: int | None
    gfx: int  # gfx_target_version: 90402 is gfx942
    render: int | None = None


class Topology(NamedTuple):
    """All nodes with a GPU. ``refused``: the number of nodes that may not be read."""

    nodes: tuple[KfdNode, ...]
    refused: int

    def of(self, pci_bus_id: str) -> list[KfdNode]:
        return [node for node in self.nodes if node.pci_bus_id == pci_bus_id]


def read_topology(sysfs: Path) -> Topology:
    """Every node; one that cannot be parsed is left out."""
    folder = sysfs / KFD / "topology/nodes"
    nodes, refused = [], 0
    for name in names_in(folder):
        try:
            node = _node(folder / name)
        except RefusedError:
            refused += 1
        else:
            nodes += [node] if node else []
    return Topology(tuple(nodes), refused)


def generation(sysfs: Path) -> int | None:
    """A number that is another one after each change of the nodes, as when a board is divided."""
    return number(sysfs / KFD / "topology/generation_id")


def _node(folder: Path) -> KfdNode | None:
    gpu_id = read_count(folder / "gpu_id")
    if not gpu_id:  # 0: a node of CPUs
        return None
    properties = read_properties(folder / "properties")
    location = properties.get("location_id")
    if location is None:
        return None
    # The other heaps (system memory, GDS, LDS, scratch) are not device memory.
    banks = folder / "mem_banks"
    heaps = [read_properties(banks / name / "properties") for name in names_in(banks)]
    own = [heap for heap in heaps if heap.get("heap_type") in LOCAL_HEAPS]
    simds, per_cu = properties.get("simd_count", 0), properties.get("simd_per_cu", 0)
    return KfdNode(
        gpu_id=gpu_id,
        pci_bus_id=pci_bus_id(properties.get("domain", 0), location),
        partition=location >> 28 & 0xF,
        cus=simds // per_cu if per_cu else 0,
        memory_bytes=sum(heap.get("size_in_bytes", 0) for heap in own) or None,
        gfx=properties.get("gfx_target_version", 0),
        render=properties.get("drm_render_minor"),
    )


def read_properties(path: Path) -> Mapping[str, int]:
    """The lines of a name and a number; other lines are left out.

    Raises:
        RefusedError: it may not be read.

    """
    pairs = (line.split() for line in (read_text(path) or "").splitlines())
    numbers = {pair[0]: as_count(pair[1]) for pair in pairs if len(pair) == 2}  # noqa: PLR2004 - a pair
    return {name: number for name, number in numbers.items() if number is not None}


def pci_bus_id(domain: int, location: int) -> str:
    """The PCI address as in sysfs, from KFD's bus, device and function in one number."""
    bus, device, function = location >> 8 & 0xFF, location >> 3 & 0x1F, location & 7
    return f"{domain:04x}:{bus:02x}:{device:02x}.{function}"


# Newer kernels let a process have several contexts: pid:<pid>-id:<n>, and folders context_<n>.
_PROCESS = re.compile(r"(?:pid:)?(\d{1,10})(?:-id:\w{1,20})?", re.ASCII)
_CONTEXT = re.compile(r"context_\w{1,20}", re.ASCII)
MAX_PROCESSES = 4096


def processes_of(sysfs: Path) -> dict[int, list[Path]]:
    """The folders of each process by pid, one for each of its contexts.

    Raises:
        RefusedError: they may not be listed.

    """
    above, found = sysfs / KFD / "proc", dict[int, list[Path]]()
    for name in names_in(above)[:MAX_PROCESSES]:
        match = _PROCESS.fullmatch(name)
        if match:
            folder = above / name
            inner = [folder / n for n in names_in(folder) if _CONTEXT.fullmatch(n)]
            found.setdefault(int(match[1]), []).extend([folder, *inner])
    return found


# Of the folders of one process, on one GPU. ``RefusedError``: a file may not be read.


def vram(folders: list[Path], gpu_id: int) -> int | None:
    """Bytes of device memory; None if the process has ended meanwhile."""
    return _sum([read_count(folder / f"vram_{gpu_id}") for folder in folders])


def occupied(folders: list[Path], gpu_id: int) -> int | None:
    """Compute units occupied now; None if it has ended, or the GPU has no such figure."""
    return _sum([read_count(f / f"stats_{gpu_id}" / "cu_occupancy") for f in folders])


def counted(folders: list[Path], gpu_id: int) -> dict[str, int]:
    """Nanoseconds so far of ``copy`` and ``evicted``, including deleted queues."""
    copy_us = _sum([read_count(folder / f"sdma_{gpu_id}") for folder in folders])
    evicted_ms = _sum([read_count(f / f"stats_{gpu_id}" / "evicted_ms") for f in folders])
    found = {
        "copy": copy_us and copy_us * 1000,
        "evicted": evicted_ms and evicted_ms * 1_000_000,
    }
    return {name: value for name, value in found.items() if value is not None}


class CounterSums:
    """The increase of processes' counters. A counter that steps back is held at its highest.

    What a process had counted before the first reading of all is not included.
    """

    def __init__(self) -> None:
        self._highest: dict[int, dict[str, int]] | None = None
        self._risen: dict[str, dict[int, int]] = {}

    def add(self, now: dict[int, dict[str, int]]) -> None:
        before, self._highest = self._highest, {}
        for pid, counts in now.items():
            known = counts if before is None else before.get(pid, {})
            highest = {name: max(count, known.get(name, 0)) for name, count in counts.items()}
            # A counter that is missing now is not new when it comes back: the value from before
            # stays, and only what was added since counts.
            self._highest[pid] = {**known, **highest}
            for name, count in highest.items():
                by_pid = self._risen.setdefault(name, {})
                by_pid[pid] = by_pid.get(pid, 0) + count - known.get(name, 0)

    def take(self) -> dict[str, dict[int, int]]:
        """The increase since the last call, by counter and process."""
        taken, self._risen = self._risen, {name: {} for name in self._risen}
        return {name: {p: n for p, n in by_pid.items() if n} for name, by_pid in taken.items()}


def _sum(numbers: list[int | None]) -> int | None:
    known = [number for number in numbers if number is not None]
    return sum(known) if known else None
