"""Composed sysfs trees of AMD nodes. They were not recorded on hardware.

Put together from the kernel's sources and documentation: amdgpu_pm.c (hwmon, ``gpu_busy_percent``,
``gpu_metrics``), amdgpu_device.c (``unique_id``, ``mem_info_*``), amdgpu_gfx.c (partitions),
kfd_topology.c and kfd_process.c. What a board has and has not is what those drivers give its kind.
"""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from exporter.model import Unmeasured

GIB = 1 << 30
TICKS = 1 << 16  # of the energy counter, in a joule
_NONE = {"H": 0xFFFF, "I": 0xFFFFFFFF, "Q": 0xFFFFFFFFFFFFFFFF}
V1_3 = (120, 1, 3)  # MI200, and Radeon
V1_4 = (288, 1, 4)  # MI300 with the first firmwares
V1_6 = (1664, 1, 6)  # MI300 since Linux 6.14
PERCENT = 10  # AMDGPU_METRICS_UNIT_PERCENT
TYPES = "BbHhIiQq"  # by the number of a type, from AMDGPU_METRICS_TYPE_U8 on


@dataclass(frozen=True)
class Kind:
    """What boards of one kind have. ``cus``: of all compute dies together.

    ``vram`` is what amdgpu says of it, ``bank`` what KFD says, if that differs; ``gtt`` is what it
    may have of its host's memory.
    """

    model: str
    device: str
    gfx: int
    cus: int
    vram: int
    occupancy: bool = True
    ras: bool = True
    table: tuple[int, int, int] | None = None
    partitionable: bool = False
    unique: bool = True
    edge: bool = True
    gtt: int = 64 * GIB
    bank: int | None = None
    hwmon: tuple[str, ...] = ()


MI210 = Kind("AMD INSTINCT MI210", "0x740f", 90010, 104, 64 * GIB, table=V1_3)
MI250 = replace(MI210, model="AMD INSTINCT MI250", device="0x740c")  # one of its two dies
MI50 = Kind("AMD Instinct MI50", "0x66a1", 90006, 60, 32 * GIB, table=V1_3)  # gfx906
MI100 = Kind("AMD Instinct MI100", "0x738c", 90008, 120, 32 * GIB, table=V1_3)
MI300X = Kind(
    *("AMD Instinct MI300X OAM", "0x74a1", 90402, 304, 192 * GIB),
    table=V1_6,
    partitionable=True,
    edge=False,
)
RADEON = Kind(
    *("", "0x73bf", 100300, 80, 16 * GIB),
    occupancy=False,
    ras=False,
    table=V1_3,
    unique=False,
)
STRIX_HALO = replace(  # an APU: KFD allocates from GTT, which is the larger one (Linux 6.10)
    *(RADEON,),
    device="0x1586",
    gfx=110501,
    cus=40,
    vram=GIB // 2,
    gtt=96 * GIB,
    bank=96 * GIB,
    table=None,
    hwmon=("vddgfx", "vddnb"),
)
RENOIR = replace(STRIX_HALO, device="0x1636", gfx=90012, cus=8, occupancy=True, bank=GIB // 2)
MI300A = replace(  # an APU of one memory, of which amdgpu calls none its own
    MI300X, model="AMD Instinct MI300A", device="0x74a0", cus=228, vram=0, gtt=0, bank=128 * GIB
)
RDNA_3 = replace(RADEON, device="0x744c", gfx=110000, cus=96, vram=24 * GIB)


NOT_OF_A_RADEON = dict.fromkeys(
    ("memory_active", "throttle", "ecc_errors", "pcie"), Unmeasured.NOT_SUPPORTED
)
"""What no file of a Radeon has."""


def table(version: tuple[int, int, int], fields: Mapping[int, tuple[str, int]]) -> bytes:
    """A ``gpu_metrics`` table: all bits set, but for the header and fields by their offset."""
    size = version[0]
    content = bytearray(b"\xff" * size)
    struct.pack_into("<HBB", content, 0, *version)
    for offset, (kind, value) in fields.items():
        struct.pack_into(f"<{kind}", content, offset, value)
    return bytes(content)


def v1_6(
    energy_ticks: int | None = None,
    busy: Sequence[Sequence[int]] = (),
    cycles: int | None = None,
    ppt: int | None = None,
) -> bytes:
    """A table of an MI300: ``busy`` in percent, of each compute die of each partition."""
    fields: dict[int, tuple[str, int]] = {}
    if energy_ticks is not None:
        fields[16] = ("Q", energy_ticks)
    if cycles is not None:
        fields[32] = ("I", cycles)
    if ppt is not None:
        fields[40] = ("I", ppt)
    for partition, dies in enumerate(busy):
        for die, percent in enumerate(dies):
            fields[312 + 168 * partition + 4 * die] = ("I", percent)
    return table(V1_6, fields)


def attribute(number: int, kind: str, values: Sequence[int], unit: int = 0) -> bytes:
    """A field of a table of attributes, as ``DECLARE_SMU_METRICS_CLASS`` packs it (smu_cmn.h)."""
    encoding = unit << 24 | TYPES.index(kind) << 20 | number << 10 | len(values)
    every = [_NONE.get(kind, -1) if value < 0 else value for value in values]
    return struct.pack(f"<Q{len(every)}{kind}", encoding, *every)


def attributes(version: tuple[int, int], *fields: bytes) -> bytes:
    """A table that says itself what it has: a header, a count, then the fields."""
    body = b"".join(fields)
    return struct.pack("<HBBi", 8 + len(body), *version, len(fields)) + body


def v1_9(
    energy_ticks: int = -1, busy: Sequence[int] = (), cycles: int = -1, ppt: int = -1, gfx: int = -1
) -> bytes:
    """A table of an MI300 since ROCm 7.2: ``busy`` in percent, of each compute die of the board.

    The fields around them are some of those of SMU_13_0_6_METRICS_FIELDS, in its order.
    """
    none = (-1,)
    return attributes(
        (1, 9),
        attribute(0, "H", (52,), unit=2),
        attribute(4, "H", (gfx,), PERCENT),
        attribute(5, "H", none, PERCENT),
        attribute(6, "Q", none, unit=8),
        attribute(7, "Q", (energy_ticks,)),
        attribute(9, "I", (cycles,)),
        attribute(10, "I", none),
        attribute(11, "I", (ppt,)),
        attribute(29, "Q", none * 8, unit=9),
        attribute(33, "H", (2100,) * 8, unit=1),
        attribute(40, "I", (*busy, *none * (8 - len(busy))), PERCENT),
        attribute(41, "H", none * 40, PERCENT),
        attribute(43, "Q", none * 8, PERCENT),
    )


def put(path: Path, content: str | int | bytes) -> None:
    """Write a file in one step, so that no reader sees a part of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.new")
    fresh.write_bytes(content if isinstance(content, bytes) else f"{content}\n".encode())
    fresh.rename(path)


class Board:
    """One board in the tree, with KFD's numbers of its partitions (one, if it has none)."""

    def __init__(self, tree: "Tree", kind: Kind, number: int, parts: int) -> None:
        self.kind = kind
        self.pci = f"0000:{0xC1 + number:02x}:00.0"
        self.folder = tree.sysfs / "devices/pci0000:00" / self.pci
        self.gpu_ids = [1000 * (number + 1) + part for part in range(parts)]
        self.minor = 128 + 8 * number
        self.render = f"renderD{self.minor}"
        self.unique = f"{0xABC000 + number:016x}"
        self.uuid = f"GPU-{self.unique}" if kind.unique else f"AMD-{self.pci}"

    def set(self, **files: int) -> None:
        """Rewrite numbers by the files' names."""
        for name, value in files.items():
            put(self.folder / name, value)

    def hwmon(self, **files: int | str) -> None:
        for name, value in files.items():
            put(self.folder / "hwmon/hwmon4" / name, value)

    def may_sleep(self, status: str = "active", delay_ms: int = 5000) -> None:
        """Let the kernel suspend it when it was idle for so long: 5 s, as amdgpu does."""
        put(self.folder / "power/control", "auto")
        put(self.folder / "power/autosuspend_delay_ms", delay_ms)
        put(self.folder / "power/runtime_status", status)

    def metrics(self, content: bytes) -> None:
        put(self.folder / "gpu_metrics", content)


class Tree:
    """A node's ``/sys``, as far as AMD's drivers fill it."""

    def __init__(self, sysfs: Path) -> None:
        self.sysfs = sysfs
        self.boards: list[Board] = []
        self.kfd = sysfs / "class/kfd/kfd"
        self.generation = 1

    def load(self) -> None:
        """Load the drivers: a node of CPUs is there before any GPU."""
        (self.sysfs / "module/amdgpu").mkdir(parents=True)
        (self.kfd / "proc").mkdir(parents=True)
        put(self.kfd / "topology/nodes/0/gpu_id", 0)
        put(self.kfd / "topology/nodes/0/properties", "cpu_cores_count 64\nsimd_count 0")

    def add(self, kind: Kind, parts: int = 1, memory: str = "NPS1") -> Board:
        """Add a board, in as many partitions."""
        board = Board(self, kind, len(self.boards), parts)
        self.boards.append(board)
        self._card(board)
        if kind.partitionable:
            put(board.folder / "current_compute_partition", "CPX" if parts > 1 else "SPX")
            put(board.folder / "current_memory_partition", memory)
        for part, gpu_id in enumerate(board.gpu_ids):
            self.node(board, part, gpu_id)
        return board

    def hide(self, board: Board) -> None:
        """Let KFD not know it, as without ROCm's kernel options."""
        for node in sorted((self.kfd / "topology/nodes").iterdir()):
            if int((node / "gpu_id").read_text()) in board.gpu_ids:
                put(node / "gpu_id", 0)

    def run(self, pid: int, name: str = "") -> None:
        """Begin a process on KFD: it has files for every GPU."""
        for board in self.boards:
            for gpu_id in board.gpu_ids:
                self.use(pid, gpu_id, vram=0, cus=0, name=name)

    def use(
        self, pid: int, gpu_id: int, vram: int | None = None, cus: int | None = None, name: str = ""
    ) -> None:
        """Let a process hold memory and occupy compute units."""
        folder = self.kfd / "proc" / (name or str(pid))
        [board] = [board for board in self.boards if gpu_id in board.gpu_ids]
        if vram is not None:
            put(folder / f"vram_{gpu_id}", vram)
        if cus is not None and board.kind.occupancy:
            put(folder / f"stats_{gpu_id}" / "cu_occupancy", cus)

    def count(self, pid: int, gpu_id: int, sdma_us: int, evicted_ms: int = 0) -> None:
        """Let a process's counters stand at these."""
        folder = self.kfd / "proc" / str(pid)
        put(folder / f"sdma_{gpu_id}", sdma_us)
        put(folder / f"stats_{gpu_id}" / "evicted_ms", evicted_ms)

    def end(self, pid: int) -> None:
        remove(self.kfd / "proc" / str(pid))

    def _card(self, board: Board) -> None:
        folder, kind = board.folder, board.kind
        number = 2 * len(self.boards) - 1  # card0 is often the host's own display
        put(folder / "vendor", "0x1002")
        put(folder / "device", kind.device)
        for node in (f"card{number}", board.render):
            (folder / "drm" / node).mkdir(parents=True)
        if kind.unique:
            put(folder / "unique_id", board.unique)
            put(folder / "product_name", kind.model)
        board.set(mem_info_vram_total=kind.vram, mem_info_vram_used=0, gpu_busy_percent=0)
        board.set(mem_info_gtt_total=kind.gtt, mem_info_gtt_used=0)
        for channel, label in enumerate(kind.hwmon):
            board.hwmon(**{f"in{channel}_label": label})
        board.set(mem_busy_percent=0)
        board.hwmon(name="amdgpu", power1_average=100_000_000, power1_cap=300_000_000)
        if kind.edge:
            board.hwmon(temp1_label="edge", temp1_input=41_000)
        board.hwmon(temp2_label="junction", temp2_input=52_000)
        board.hwmon(temp3_label="mem", temp3_input=47_000)
        board.hwmon(freq1_label="sclk", freq1_input=800_000_000)
        board.hwmon(freq2_label="mclk", freq2_input=1_600_000_000)
        if kind.ras:
            put(folder / "ras/umc_err_count", "ue: 0\nce: 0")
        card = self.sysfs / f"class/drm/card{number}"
        card.mkdir(parents=True)
        (card / "device").symlink_to(folder)

    def divide(self, board: Board, parts: int) -> None:
        """Divide a board anew while the driver runs: KFD's numbers of its parts are new, too."""
        nodes = self.kfd / "topology/nodes"
        for folder in sorted(nodes.iterdir()):
            if int((folder / "gpu_id").read_text()) in board.gpu_ids:
                remove(folder)
        put(board.folder / "current_compute_partition", "CPX" if parts > 1 else "SPX")
        board.gpu_ids = [board.gpu_ids[-1] + 1000 + part for part in range(parts)]
        for part, gpu_id in enumerate(board.gpu_ids):
            self.node(board, part, gpu_id)

    def node(self, board: Board, part: int, gpu_id: int) -> None:
        """Let KFD know a board, or one partition of it."""
        kind, parts = board.kind, len(board.gpu_ids)
        nodes = self.kfd / "topology/nodes"
        folder = nodes / str(len(list(nodes.iterdir())))
        self.generation += 1
        put(self.kfd / "topology/generation_id", self.generation)
        location = int(board.pci[5:7], 16) << 8 | (part << 28 if parts > 1 else 0)
        put(folder / "gpu_id", gpu_id)
        put(
            folder / "properties",
            f"simd_count {4 * kind.cus // parts}\nsimd_per_cu 4\nvendor_id 4098\n"
            f"location_id {location}\ndomain 0\ngfx_target_version {kind.gfx}\n"
            f"drm_render_minor {board.minor + part}\nunique_id {int(board.unique, 16)}",
        )
        if part:
            own = self.partition(board, part) / f"drm/renderD{board.minor + part}"
            own.mkdir(parents=True, exist_ok=True)
        put(
            folder / "mem_banks/0/properties",
            f"heap_type 1\nsize_in_bytes {(kind.bank or kind.vram) // parts}\nflags 0",
        )

    def partition(self, board: Board, part: int) -> Path:
        """The folder of its own device, which is the board's for the first (``amdgpu_xcp_drv.c``).

        Boards take the next ones that there are: a number says nothing of the board.
        """
        number = 29 + 7 * self.boards.index(board) + part
        own = self.sysfs / f"devices/platform/amdgpu_xcp_{number}"
        return own if part else board.folder


def remove(folder: Path) -> None:
    """Remove a folder at once, as the kernel does."""
    away = folder.with_name(f".{folder.name}.gone")
    folder.rename(away)
    for path in sorted(away.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    away.rmdir()
