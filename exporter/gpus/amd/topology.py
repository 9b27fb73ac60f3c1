"""KFD's nodes: the parts of the node's boards that compute queues can be put on.

A board that is not partitioned is one node. Source: ``drivers/gpu/drm/amd/amdkfd/kfd_topology.c``;
the number of a partition is in bits 31:28 of ``location_id``.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from exporter.gpus.amd.files import RefusedError, as_count, names_in, read_count, read_text

KFD = "class/kfd/kfd"
LOCAL_HEAPS = {1, 2}  # HSA_MEM_HEAP_TYPE_FB_PUBLIC, _FB_PRIVATE: the device's own memory


class KfdNode(NamedTuple):
    """A board, or a partition of one. ``cus``: its compute units, 0 if not told."""

    gpu_id: int
    pci_bus_id: str
    partition: int
    cus: int
    memory_bytes: int | None
    gfx: int  # gfx_target_version: 90402 is gfx942


class Topology(NamedTuple):
    """All nodes with a GPU. ``refused`` counts those that we may not read."""

    nodes: tuple[KfdNode, ...]
    refused: int

    def of(self, pci_bus_id: str) -> list[KfdNode]:
        """Those of one board."""
        return [node for node in self.nodes if node.pci_bus_id == pci_bus_id]


def read_topology(sysfs: Path) -> Topology:
    """Read every node; one that cannot be understood is left out."""
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


def _node(folder: Path) -> KfdNode | None:
    gpu_id = read_count(folder / "gpu_id")
    if not gpu_id:  # 0: a node of CPUs
        return None
    properties = read_properties(folder / "properties")
    location = properties.get("location_id")
    if location is None:
        return None
    simds, per_cu = properties.get("simd_count", 0), properties.get("simd_per_cu", 0)
    return KfdNode(
        gpu_id=gpu_id,
        pci_bus_id=pci_bus_id(properties.get("domain", 0), location),
        partition=location >> 28 & 0xF,
        cus=simds // per_cu if per_cu else 0,
        memory_bytes=_memory(folder / "mem_banks"),
        gfx=properties.get("gfx_target_version", 0),
    )


def read_properties(path: Path) -> Mapping[str, int]:
    """Lines of a name and a number; other lines are left out.

    Raises:
        RefusedError: we may not read it.

    """
    pairs = (line.split() for line in (read_text(path) or "").splitlines())
    numbers = {pair[0]: as_count(pair[1]) for pair in pairs if len(pair) == 2}  # noqa: PLR2004 - a pair
    return {name: number for name, number in numbers.items() if number is not None}


def pci_bus_id(domain: int, location: int) -> str:
    """The address as sysfs writes it, of KFD's bus, device and function in one number."""
    bus, device, function = location >> 8 & 0xFF, location >> 3 & 0x1F, location & 7
    return f"{domain:04x}:{bus:02x}:{device:02x}.{function}"


def _memory(banks: Path) -> int | None:
    found = [read_properties(banks / name / "properties") for name in names_in(banks)]
    sizes = [b.get("size_in_bytes", 0) for b in found if b.get("heap_type") in LOCAL_HEAPS]
    return sum(sizes) or None
