"""Reads KFD's files: its nodes, and its processes on each GPU.

A node is a board or a partition of one, as compute queues can use it. The number of a partition is
in bits 31:28 of ``location_id``. A process has files for every GPU, also for those that it never
used (``/sys/class/kfd/kfd/proc/<pid>``); pids are the host's, in whatever namespace they are read.
Sources: ``kfd_topology.c`` and ``kfd_process.c`` in ``drivers/gpu/drm/amd/amdkfd``.
"""

import errno
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from exporter.agent.sources import door
from exporter.agent.sources.door import Absent, Cut, Failed, Refused, Reply, Whole
from exporter.agent.sources.gpus.sysfs import (
    NotedReads,
    RefusedError,
    as_count,
    count_in,
    number_of,
)
from exporter.model import Unmeasured

KFD = "class/kfd/kfd"
LONGEST_LIST = 65_536  # KFD has no more processes: a PASID has 16 bits
LONGEST_NUMBER = 56  # bits: more bytes or microseconds than any process has
GPU_ID_BITS = 32
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
    """All nodes with a GPU, and how many more there may be.

    ``refused``: those that may not be read. ``unclear``: those whose files make no sense.
    """

    nodes: tuple[KfdNode, ...]
    refused: int
    unclear: int = 0

    def of(self, pci_bus_id: str) -> list[KfdNode]:
        return [node for node in self.nodes if node.pci_bus_id == pci_bus_id]


def read_topology(sysfs: Path) -> Topology:
    """Every node; one that cannot be parsed is left out."""
    folder = sysfs / KFD / "topology/nodes"
    nodes: list[KfdNode] = []
    refused = unclear = 0
    listing = NotedReads()
    names = listing.names(str(folder))
    if listing.reason is Unmeasured.NO_PERMISSION:
        raise RefusedError(str(folder))
    listing.require()
    for name in names:
        reads = NotedReads()
        node = _node(f"{folder}/{name}", reads)
        found = reads.unread.values()
        if any(isinstance(each, Refused) for each in found):
            refused += 1
        elif Failed(errno.EBADMSG) in found:
            unclear += 1
        else:
            # Without one of its nodes a board would lose its processes, or be another board.
            reads.require()
            nodes += [node] if node else []
    return Topology(tuple(nodes), refused, unclear)


def generation(sysfs: Path) -> Reply[int]:
    """A number that is another one after each change of the nodes, as when a board is divided."""
    return count_in(f"{sysfs / KFD}/topology/generation_id")


def _node(folder: str, reads: NotedReads) -> KfdNode | None:
    gpu_id = reads.parsed(f"{folder}/gpu_id", _gpu_id_of)
    if not gpu_id:  # 0: a node of CPUs
        return None
    properties = reads.parsed(f"{folder}/properties", _properties_of_gpu)
    if properties is None:
        return None
    location = properties["location_id"]
    # The other heaps (system memory, GDS, LDS, scratch) are not device memory.
    banks = (f"{folder}/mem_banks/{name}" for name in reads.names(f"{folder}/mem_banks"))
    heaps = [reads.parsed(f"{bank}/properties", _properties_of) or {} for bank in banks]
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


def _gpu_id_of(content: bytes) -> int:
    number = number_of(content)
    if not 0 <= number < 1 << GPU_ID_BITS:
        raise ValueError(number)
    return number


def _properties_of_gpu(content: bytes) -> Mapping[str, int]:
    """The properties of a node with a GPU, which all have a place.

    Raises:
        KeyError: it has none, so that these are not all of its properties.

    """
    properties = _properties_of(content)
    return {"location_id": properties["location_id"], **properties}


def _properties_of(content: bytes) -> Mapping[str, int]:
    """The lines of a name and a number; other lines are left out."""
    pairs = (line.split() for line in content.decode("ascii", "replace").splitlines())
    numbers = {pair[0]: as_count(pair[1]) for pair in pairs if len(pair) == 2}  # noqa: PLR2004 - a pair
    return {name: number for name, number in numbers.items() if number is not None}


def pci_bus_id(domain: int, location: int) -> str:
    """The PCI address as in sysfs, from KFD's bus, device and function in one number."""
    bus, device, function = location >> 8 & 0xFF, location >> 3 & 0x1F, location & 7
    return f"{domain:04x}:{bus:02x}:{device:02x}.{function}"


_PID = re.compile(r"(?:pid:)?(\d{1,10})(?:-id:\w{1,20})?", re.ASCII)


def processes_of(sysfs: Path) -> frozenset[int]:
    """The pids of KFD's processes, for a reader of nothing else of them; none if not to be had."""
    match door.names(sysfs / KFD / "proc", LONGEST_LIST):
        case Whole(names) | Cut(names):
            return frozenset(int(match[1]) for match in map(_PID.fullmatch, names) if match)
        case Absent() | Refused() | Failed():
            return frozenset()


# Of the folders of one process, on one GPU. ``Absent``: it has ended, or there is no such figure.


def vram(folders: Sequence[str], gpu_id: int) -> Reply[int]:
    """Bytes of device memory."""
    return _sum([f"{folder}/vram_{gpu_id}" for folder in folders])


def occupied(folders: Sequence[str], gpu_id: int) -> Reply[int]:
    """Compute units occupied now."""
    return _sum([f"{folder}/stats_{gpu_id}/cu_occupancy" for folder in folders])


def copied_us(folders: Sequence[str], gpu_id: int) -> Reply[int]:
    """Microseconds of copies so far, including deleted queues."""
    return _sum([f"{folder}/sdma_{gpu_id}" for folder in folders])


def evicted_ms(folders: Sequence[str], gpu_id: int) -> Reply[int]:
    """Milliseconds so far in which its queues were evicted."""
    return _sum([f"{folder}/stats_{gpu_id}/evicted_ms" for folder in folders])


def _sum(paths: Sequence[str]) -> Reply[int]:
    """The sum of the numbers that are there. A part of a sum is no sum: one that fails is all."""
    found: list[int] = []
    for path in paths:
        reply = count_in(path)
        match reply:
            case Whole(number):
                found.append(number)
            case Absent():  # this context has ended
                pass
            case Refused() | Failed():
                return reply
            case Cut():
                return Failed(errno.EBADMSG)
    if sum(found) >> LONGEST_NUMBER:
        return Failed(errno.EBADMSG)
    return Whole(sum(found)) if found else Absent()
