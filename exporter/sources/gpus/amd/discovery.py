"""Which AMD boards the node has, and how each is partitioned."""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from os.path import isdir
from pathlib import Path
from typing import NamedTuple

from exporter.model import FIRST_INDEX, PARTITIONED, Device
from exporter.sources.gpus.amd.files import (
    RefusedError,
    as_count,
    is_refused,
    names_in,
    read_text,
)
from exporter.sources.gpus.amd.kfd import KFD, KfdNode, read_topology
from exporter.sources.gpus.drm.files import label

VENDOR = "amd"
VENDOR_ID = "0x1002"
MOST_BOARDS = 64
UNDIVIDED = {"", "spx"}
WHAT_IT_IS = ("unique_id", "current_compute_partition", "mem_info_vram_total")
_CARD = re.compile(r"card\d{1,4}", re.ASCII)
_NODE = re.compile(r"(?:card|renderD)(\d{1,4})", re.ASCII)
_UNIQUE = re.compile(r"[0-9a-f]{1,16}", re.ASCII)
_MODE = re.compile(r"[a-z]{2,4}\d?", re.ASCII)
_PCI = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", re.ASCII)


class KfdDevice(NamedTuple):
    """A board, or one partition of it, with KFD's node; None where KFD does not know it.

    ``partition`` is the place of its figures in ``gpu_metrics``. ``refused``: KFD may know it, and
    does not let us see.
    """

    device: Device
    node: KfdNode | None
    partition: int = 0
    refused: bool = False


class FoundBoard(NamedTuple):
    """``folder`` is the PCI device's in sysfs. ``parts`` are empty where it is one device.

    ``minors`` are those of its device files.
    """

    folder: Path
    whole: KfdDevice
    parts: tuple[KfdDevice, ...] = ()
    minors: frozenset[int] = frozenset()

    @property
    def nodes(self) -> tuple[KfdNode | None, ...]:
        """What KFD knows of it."""
        return (self.whole.node, *(part.node for part in self.parts))


class BoardList(NamedTuple):
    """All boards, by PCI address, and what of them we may not see.

    ``unsure``: folders of boards whose driver did not tell all of what they are. ``doubled`` are
    UUIDs that several boards have had, so that they go by their places.
    """

    boards: tuple[FoundBoard, ...]
    trouble: str = ""
    unsure: frozenset[Path] = frozenset()
    doubled: frozenset[str] = frozenset()


def present(sysfs: Path) -> bool:
    """Whether one of AMD's kernel drivers is loaded."""
    # Asked each cycle, also on nodes without: pathlib takes ten times as long.
    return any(map(isdir, (f"{sysfs}/module/amdgpu", f"{sysfs}/{KFD}")))


def addresses(sysfs: Path) -> frozenset[str]:
    """PCI addresses of the boards that ``discover`` finds; none where we may not look."""
    try:
        return frozenset(_boards(sysfs / "class/drm"))
    except RefusedError:
        return frozenset()


def discover(sysfs: Path, doubled: frozenset[str] = frozenset()) -> BoardList:
    """Look at DRM's cards, which are boards, and at KFD's nodes on them.

    ``doubled`` are those of the look before: what a board is called does not depend on another.

    Raises:
        RefusedError: we may not look into the folders.

    """
    topology = read_topology(sysfs)
    folders = _boards(sysfs / "class/drm")
    boards = tuple(
        _seen(_board(folders[pci], pci, place, topology.of(pci)), refused=bool(topology.refused))
        for place, pci in enumerate(sorted(folders)[:MOST_BOARDS])
    )
    trouble = ""
    if topology.refused:
        trouble = (
            f"{topology.refused} of KFD's nodes may not be read: their processes are not known; "
            "let the device cgroup of the exporter have /dev/kfd and /dev/dri/renderD*"
        )
    unsure = (b.folder for b in boards if any(is_refused(b.folder / name) for name in WHAT_IT_IS))
    counts = Counter(board.whole.device.uuid for board in boards)
    doubled |= {uuid for uuid, number in counts.items() if number > 1}
    boards = tuple(_placed(b) if b.whole.device.uuid in doubled else b for b in boards)
    return BoardList(boards, trouble, frozenset(unsure), doubled)


def _boards(drm: Path) -> Mapping[str, Path]:
    """Folders of boards with the amdgpu driver, by PCI address.

    A partition is a card of its own, but a platform device without a vendor.
    """
    found: dict[str, Path] = {}
    for name in names_in(drm):
        folder = drm / name / "device"
        if not _CARD.fullmatch(name) or _read(folder / "vendor") != VENDOR_ID:
            continue
        place = folder.resolve()  # a card's number may be another board's later, its place not
        if _PCI.fullmatch(address := place.name.lower()):
            found.setdefault(address, place)
    return found


def _read(path: Path) -> str:
    try:
        return read_text(path) or ""
    except RefusedError:
        return ""


def _seen(board: FoundBoard, *, refused: bool) -> FoundBoard:
    """The board, where some of KFD's nodes are refused: one that is not seen whole is not parted.

    Nobody knows then what of it the parts are that are seen; together they have all its memory.
    """
    if not refused:
        return board
    whole, total = board.whole, board.whole.device.memory_bytes
    of_parts = sum(part.device.memory_bytes or 0 for part in board.parts)
    if board.parts:
        is_whole = total is not None and of_parts * 10 >= total * 9
    else:
        is_whole = whole.node is not None and _compute_mode(board.folder) in UNDIVIDED
    if is_whole:
        return board
    is_parted = board.parts or _compute_mode(board.folder) not in UNDIVIDED
    device = replace(whole.device, sharing=PARTITIONED if is_parted else "")
    return FoundBoard(
        board.folder, KfdDevice(device, None, refused=True), minors=_minors(board.folder)
    )


def _board(folder: Path, pci: str, place: int, nodes: list[KfdNode]) -> FoundBoard:
    parted = len(nodes) > 1
    device = Device(
        uuid=_uuid(folder, pci),
        index=FIRST_INDEX[VENDOR] + place,
        vendor=VENDOR,
        model=_model(folder),
        minor=_minor(folder),
        pci_bus_id=pci,
        sharing=PARTITIONED if parted else "",
        # Only AMD's own packages have a version.
        driver_version=label(_read(folder / "driver/module/version")),
        memory_bytes=as_count(_read(folder / "mem_info_vram_total")),
    )
    if not parted:
        whole = KfdDevice(device, nodes[0] if nodes else None)
        return FoundBoard(folder, whole, minors=_minors(folder))
    units = sum(node.cus for node in nodes)
    profile = _profile(folder)
    ordered = sorted(nodes, key=lambda node: node.partition)
    parts = (
        _part(device, node, profile, node.cus / units if units else 1 / len(nodes))
        for node in ordered
    )
    return FoundBoard(folder, KfdDevice(device, None), tuple(parts))


def _part(board: Device, node: KfdNode, profile: str, share: float) -> KfdDevice:
    device = replace(
        board,
        uuid=f"{board.uuid}-{node.partition}",
        parent_uuid=board.uuid,
        profile=profile,
        sharing="",
        minor=None,
        memory_bytes=node.memory_bytes,
        core_share=share,
        gpu_instance=node.partition,
    )
    return KfdDevice(device, node, node.partition)


def _uuid(folder: Path, pci: str) -> str:
    """As ROCm's tools write it; consumer boards without a number of their own go by their place."""
    unique = _read(folder / "unique_id").lower()
    return f"GPU-{unique}" if _UNIQUE.fullmatch(unique) and int(unique, 16) else _by_place(pci)


def _by_place(pci: str) -> str:
    return f"AMD-{pci}"


def _placed(board: FoundBoard) -> FoundBoard:
    """The board by its place, because its own number is another one's too."""
    uuid = _by_place(board.whole.device.pci_bus_id)
    device = replace(board.whole.device, uuid=uuid)
    parts = (
        part._replace(
            device=replace(part.device, uuid=f"{uuid}-{part.partition}", parent_uuid=uuid)
        )
        for part in board.parts
    )
    return board._replace(whole=board.whole._replace(device=device), parts=tuple(parts))


def _profile(folder: Path) -> str:
    """The modes as device plugins name them: cpx_nps4."""
    modes = _compute_mode(folder), _read(folder / "current_memory_partition").lower()
    return "_".join(filter(_MODE.fullmatch, modes))


def _compute_mode(folder: Path) -> str:
    return _read(folder / "current_compute_partition").lower()


def _model(folder: Path) -> str:
    """The board's name as its firmware has it, else the PCI device's number."""
    return label(_read(folder / "product_name") or f"AMD {_read(folder / 'device')}".strip())


def _minors(folder: Path) -> frozenset[int]:
    found = map(_NODE.fullmatch, names_in(folder / "drm"))
    return frozenset(int(match[1]) for match in found if match)


def _minor(folder: Path) -> int | None:
    nodes = [n for n in names_in(folder / "drm") if n.startswith("renderD")]
    return int(nodes[0][7:]) if nodes and nodes[0][7:].isdecimal() else None
