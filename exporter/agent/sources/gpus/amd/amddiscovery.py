"""Lists the AMD boards of the node, and their partitions."""

import logging
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from itertools import chain, count
from pathlib import Path
from typing import NamedTuple

from exporter.agent.sources import door
from exporter.agent.sources.door import Refused, UnreadError
from exporter.agent.sources.gpus.amd.kfd import KFD, KfdNode, read_topology
from exporter.agent.sources.gpus.drm.drmdiscovery import (
    FIRST_RENDER,
    PCI_ADDRESS,
    is_apu,
    minors_in,
)
from exporter.agent.sources.gpus.sysfs import (
    NotedReads,
    RefusedError,
    label,
)
from exporter.model import FIRST_INDEX, MODULE, PARTITIONED, Device

logger = logging.getLogger(__name__)

VENDOR = "amd"
VENDOR_ID = 0x1002
MAX_BOARDS = 64
UNDIVIDED = {"", "spx"}
APUS = {  # by gfx_target_version; that of an MI300A is an MI300X's
    *(90002, 90012, 100103, 100303, 100305, 100306),
    *(110003, 110500, 110501, 110502, 110503),
}
TWO_DIES = {"0x7408", "0x740c"}  # MI250X, MI250: each die is a board, and the first has the power
_CARD = re.compile(r"card\d{1,4}", re.ASCII)
_UNIQUE = re.compile(r"[0-9a-f]{1,16}", re.ASCII)
_MODE = re.compile(r"[a-z]{2,4}\d?", re.ASCII)
_XCP = re.compile(r"amdgpu_xcp[_.]\d{1,5}", re.ASCII)  # as the driver or the kernel numbers it


class KfdDevice(NamedTuple):
    """A board or one partition of it, with KFD's node; None if KFD has none.

    ``partition``: the place of its figures in ``gpu_metrics``. ``refused``: KFD may have a node
    that may not be read. ``folder``: its own device in sysfs, if that is known.
    """

    device: Device
    node: KfdNode | None
    partition: int = 0
    refused: bool = False
    folder: Path | None = None


class FoundBoard(NamedTuple):
    """A board. ``folder``: its PCI device in sysfs. ``parts``: its partitions, if it has any.

    ``minors``: the minor numbers of its device files. ``shares_host``: its memory is its host's, so
    that GTT is a part of it.
    """

    folder: Path
    whole: KfdDevice
    minors: frozenset[int]
    parts: tuple[KfdDevice, ...] = ()
    shares_host: bool = False

    @property
    def nodes(self) -> tuple[KfdNode | None, ...]:
        """KFD's nodes of the board and its partitions."""
        return (self.whole.node, *(part.node for part in self.parts))


class BoardList(NamedTuple):
    """All boards in the order of PCI addresses. ``trouble``: what may not be read, and what to do.

    ``unsure``: folders of boards whose driver did not return all of their properties. ``unclear``:
    some of KFD's nodes may not be read or make no sense, so that a board may have more than it
    seems.
    """

    boards: tuple[FoundBoard, ...]
    trouble: str = ""
    unsure: frozenset[Path] = frozenset()
    unclear: bool = False


class BoardNames:
    """The UUIDs and numbers of boards, which stay the same while the exporter runs.

    Boards that are gone keep theirs, because they may come back. A new board in the place of one
    that is gone takes over its number. Boards with one UUID are identified by PCI address, also
    when only one of them is left.
    """

    def __init__(self) -> None:
        self._seats: dict[str, tuple[int, str]] = {}  # number and PCI address, by UUID
        self._doubled: set[str] = set()

    def assign(self, unique: Mapping[str, str]) -> Mapping[str, tuple[str, int]]:
        """UUID and number of each board, all by PCI address; new ones by their place, if free.

        ``unique``: the number that each has of its maker, "" for none.
        """
        # As ROCm's tools write it. Boards without a unique number have a place alone.
        uuids = {pci: f"GPU-{own}" if own else _by_place(pci) for pci, own in unique.items()}
        # Boards that report one number are known by their place, also when only one of them is
        # left: it must not continue the accounts of the other.
        for uuid, count_of in Counter(uuids.values()).items():
            if count_of > 1 and uuid not in self._doubled:
                self._doubled.add(uuid)
                logger.warning("several boards are %s: they are known by their PCI address", uuid)
        uuids = {p: _by_place(p) if uuid in self._doubled else uuid for p, uuid in uuids.items()}
        here = set(uuids.values())
        places = enumerate(uuids.items(), FIRST_INDEX[VENDOR])
        return {pci: (uuid, self._number(uuid, pci, place, here)) for place, (pci, uuid) in places}

    def _number(self, uuid: str, pci: str, place: int, here: set[str]) -> int:
        before = [u for u, (_, seat) in self._seats.items() if seat == pci and u not in here]
        if uuid in self._seats:
            number = self._seats[uuid][0]
        elif before:
            number = self._seats.pop(before[0])[0]
        else:
            taken = {number for number, _ in self._seats.values()}
            wanted = chain((place,), count(FIRST_INDEX[VENDOR]))
            number = next(number for number in wanted if number not in taken)
        self._seats[uuid] = number, pci
        return number


def present(sysfs: Path) -> bool:
    """Whether one of AMD's kernel drivers is loaded."""
    # Asked each cycle, also on nodes without: pathlib takes ten times as long.
    folders = (f"{sysfs}/module/amdgpu", f"{sysfs}/{KFD}")
    return not all(map(door.is_gone, folders))


def addresses(sysfs: Path) -> frozenset[str]:
    """PCI addresses of the boards that ``discover`` finds; none without permission.

    Raises:
        UnreadError: that is not known now.

    """
    try:
        return frozenset(_boards(sysfs / "class/drm"))
    except RefusedError:
        return frozenset()


def discover(sysfs: Path, names: BoardNames, procfs: Path = Path("/proc")) -> BoardList:
    """Lists DRM's cards, which are boards, with KFD's nodes on them.

    Raises:
        RefusedError: the folders may not be read.
        UnreadError: they could not be read now.

    """
    topology = read_topology(sysfs)
    folders = dict(sorted(_boards(sysfs / "class/drm").items())[:MAX_BOARDS])
    reads = {pci: NotedReads() for pci in folders}
    named = names.assign({p: _unique_number(each, reads[p]) for p, each in folders.items()})
    own = _partitions(sysfs) if any(len(topology.of(pci)) > 1 for pci in folders) else {}
    boards: list[FoundBoard] = []
    for pci, folder in folders.items():
        nodes = topology.of(pci)
        board = _board(folder, pci, named[pci], nodes, own, procfs, reads[pci])
        boards.append(_checked(board, reads[pci]) if topology.refused else board)
    trouble = ""
    if topology.refused:
        trouble = (
            f"{topology.refused} of KFD's nodes may not be read: their processes are not known; "
            "let the device cgroup of the exporter have /dev/kfd and /dev/dri/renderD*"
        )
    if topology.unclear:
        trouble = trouble or f"{topology.unclear} of KFD's nodes make no sense; see the kernel log"
    unsure = frozenset(folder for pci, folder in folders.items() if reads[pci].unread)
    return BoardList(tuple(boards), trouble, unsure, bool(topology.refused or topology.unclear))


def _unique_number(folder: Path, reads: NotedReads) -> str:
    """The number that a board has of its maker; "" if it has none, or not now."""
    own = reads.parsed(f"{folder}/unique_id", _unique_of) or ""
    return own if own.strip("0") else ""


def _unique_of(content: bytes) -> str:
    unique = content.decode("ascii").strip().lower()
    if not _UNIQUE.fullmatch(unique):
        raise ValueError(unique)
    return unique


def _boards(drm: Path) -> Mapping[str, Path]:
    """Folders of boards with the amdgpu driver, by PCI address.

    A partition is a card of its own, but a platform device without a vendor.
    """
    found: dict[str, Path] = {}
    reads = NotedReads()
    cards = [name for name in reads.names(str(drm)) if _CARD.fullmatch(name)]
    if any(isinstance(each, Refused) for each in reads.unread.values()):
        raise RefusedError(str(drm))
    for name in cards:
        folder = drm / name / "device"
        if reads.hexadecimal(f"{folder}/vendor") != VENDOR_ID:
            continue
        place = folder.resolve()  # a card's number may be another board's later, its place not
        if PCI_ADDRESS.fullmatch(address := place.name.lower()):
            found.setdefault(address, place)
    # One that is missing here would be another source's, or have gone.
    if reads.unread:
        raise UnreadError(reads.said)
    return found


def _partitions(sysfs: Path) -> Mapping[int, Path]:
    """The devices of partitions that are not their board's first, by their render node's number.

    The driver makes them once, as many as there can be, and uses some: the number in their name
    says nothing of the board.
    """
    above, reads = sysfs / "devices/platform", NotedReads()
    folders = [above / name for name in reads.names(str(above)) if _XCP.fullmatch(name)]
    found = {
        minor: folder
        for folder in folders
        for minor in minors_in(folder / "drm", reads)
        if minor >= FIRST_RENDER
    }
    reads.require()
    return found


def _checked(board: FoundBoard, reads: NotedReads) -> FoundBoard:
    """The board, without partitions if it is not complete: some of KFD's nodes are refused.

    The share of each visible partition is then unknown. It is complete if its partitions together
    have all of its VRAM.
    """
    whole, vram = board.whole, reads.number(f"{board.folder}/mem_info_vram_total")
    of_parts = sum(part.device.memory_bytes or 0 for part in board.parts)
    # KFD and the driver need not agree on the size to the byte: nine tenths are taken for all.
    if board.parts:
        is_complete = bool(vram) and of_parts * 10 >= (vram or 0) * 9
    else:
        is_complete = whole.node is not None and _mode(board.folder, reads) in UNDIVIDED
    if is_complete:
        return board
    is_parted = board.parts or _mode(board.folder, reads) not in UNDIVIDED
    device = replace(whole.device, sharing=PARTITIONED if is_parted else "")
    return board._replace(whole=KfdDevice(device, None, refused=True), parts=())


def _board(
    folder: Path,
    pci: str,
    named: tuple[str, int],
    nodes: list[KfdNode],
    partitions: Mapping[int, Path],
    procfs: Path,
    reads: NotedReads,
) -> FoundBoard:
    (uuid, index), parted = named, len(nodes) > 1
    minors = minors_in(folder / "drm", reads)
    memory_bytes, shares_host = _memory(folder, nodes, procfs, reads)
    kind = reads.text(f"{folder}/device")
    device = Device(
        uuid=uuid,
        index=index,
        vendor=VENDOR,
        # Only some boards have a name in their firmware.
        model=label(reads.text(f"{folder}/product_name") or f"AMD {kind}".strip()),
        minor=min((minor for minor in minors if minor >= FIRST_RENDER), default=None),
        pci_bus_id=pci,
        sharing=PARTITIONED if parted else MODULE if kind.lower() in TWO_DIES else "",
        # Only AMD's own packages have a version.
        driver_version=label(reads.text(f"{folder}/driver/module/version")),
        memory_bytes=memory_bytes,
    )
    if not parted:
        whole = KfdDevice(device, nodes[0] if nodes else None)
        return FoundBoard(folder, whole, minors, shares_host=shares_host)
    # The modes as device plugins name them (cpx_nps4): a pod asks for a partition by that.
    modes = _mode(folder, reads), _mode(folder, reads, "memory")
    profile = "_".join(filter(_MODE.fullmatch, modes))
    units = sum(node.cus for node in nodes)
    own = dict.fromkeys(minors, folder) | dict(partitions)
    parts: list[KfdDevice] = []
    for node in sorted(nodes, key=lambda node: node.partition):
        at = own.get(node.render or 0)
        part = replace(
            device,
            uuid=f"{uuid}-{node.partition}",
            parent_uuid=uuid,
            profile=profile,
            sharing="",
            minor=node.render,
            memory_bytes=node.memory_bytes,
            core_share=node.cus / units if units else 1 / len(nodes),
            gpu_instance=node.partition,
            sysfs_name=at.name if at and _XCP.fullmatch(at.name) else "",
        )
        parts.append(KfdDevice(part, node, node.partition, folder=at))
    return FoundBoard(folder, KfdDevice(device, None), minors, tuple(parts))


def _memory(
    folder: Path, nodes: list[KfdNode], procfs: Path, reads: NotedReads
) -> tuple[int | None, bool]:
    """The bytes of a board's memory, and whether it is its host's.

    An APU has some of that as "VRAM" and what it wants as GTT. Of an MI300A amdgpu calls nothing
    VRAM: there KFD's bank is the memory, and no board has 0.
    """
    vram, gtt = (reads.number(f"{folder}/mem_info_{name}_total") for name in ("vram", "gtt"))
    bank = sum(node.memory_bytes or 0 for node in nodes)
    # From Linux 6.10 on KFD allocates from GTT where that is the larger one, and says so.
    in_gtt = vram is not None and bank * 10 > vram * 11
    shares_host = in_gtt or is_apu(folder, reads) or any(node.gfx in APUS for node in nodes)
    if not vram:
        return bank or None, shares_host
    if not shares_host:
        return vram, False
    # What it may have of its host's memory may be more than there is.
    return vram + min(gtt or 0, reads.host_memory(procfs) or gtt or 0), True


def _by_place(pci: str) -> str:
    return f"AMD-{pci}"


def _mode(folder: Path, reads: NotedReads, of: str = "compute") -> str:
    return reads.text(f"{folder}/current_{of}_partition").lower()
