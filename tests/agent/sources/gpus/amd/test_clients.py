"""Radeon boards, whose processes are told by fdinfo: a Mesa client, a ROCm client, and both."""

from pathlib import Path

import pytest
from pyfakefs.fake_filesystem import FakeFilesystem
from pyfakefs.helpers import reset_ids, set_uid

from exporter.agent.sources.gpus.drm.holders import MAX_OF_ONE
from exporter.model import DeviceReading, Engines, ProcessMemory, Unmeasured, Window
from tests.agent.sources.gpus.amd.node import Node
from tests.agent.sources.gpus.amd.trees import (
    GIB,
    MI50,
    MI210,
    MI300X,
    NOT_OF_A_RADEON,
    RADEON,
    RDNA_3,
    Board,
    Kind,
)
from tests.agent.sources.gpus.known import known

MS = 1_000_000
SECOND = 1_000_000_000
MESA, ROCM, CHILD = 42, 7, 43
COMPUTE, NOBODY = frozenset({"compute"}), frozenset[str]()


@pytest.fixture
def board(node: Node) -> Board:
    """A Radeon."""
    return node.tree.add(RADEON)


def rocm(node: Node, board: Board, vram: int = GIB) -> None:
    """A process of ROCm: KFD has it, and its DRM client tells of no engine."""
    node.tree.run(ROCM)
    node.tree.use(ROCM, board.gpu_ids[0], vram=vram)
    node.client(ROCM, board, number=9, vram=vram)


def core(window: Window) -> dict[int, int | None]:
    return {process.pid: process.busy.core for process in window.processes}


def held(reading: DeviceReading) -> dict[int, ProcessMemory]:
    return {process.pid: process for process in known(reading.memory).processes or ()}


def test_a_client_of_mesa_has_what_its_engines_did(node: Node, board: Board) -> None:
    node.client(MESA, board, vram=GIB)
    node.read()
    board.set(gpu_busy_percent=40)
    node.client(MESA, board, vram=GIB, gfx=300 * MS, compute=50 * MS, dec=20 * MS, dma=5 * MS)

    reading = node.device(board.uuid)

    window = known(reading.window)
    assert window.busy.core == 400 * MS  # as gpu_busy_percent says
    assert [p.busy for p in window.processes] == [
        Engines(core=350 * MS, encoder=0, decoder=20 * MS)
    ]
    assert (window.busy.encoder, window.busy.decoder) == (0, 20 * MS)
    assert window.counted["copy"] == {MESA: 5 * MS}
    assert (window.methods.busy, window.methods.shares) == ("rates", "fdinfo")
    assert held(reading) == {MESA: ProcessMemory(MESA, GIB, NOBODY)}
    assert reading.unmeasured == NOT_OF_A_RADEON


def test_decoding_that_the_kernel_counts_as_encoding_makes_no_decoder_that_is_idle(
    node: Node,
) -> None:
    """From RDNA 3 on, VCN has one queue for both (``vcn_v4_0.c``: AMDGPU_RING_TYPE_VCN_ENC)."""
    board = node.tree.add(RDNA_3)
    node.client(MESA, board, enc=5 * MS)
    node.read()
    node.client(MESA, board, enc=25 * MS)

    reading = node.device(board.uuid)

    assert (known(reading.window).busy.encoder, known(reading.window).busy.decoder) == (
        20 * MS,
        None,
    )
    assert reading.unmeasured == {**NOT_OF_A_RADEON, "decoder": Unmeasured.NOT_SUPPORTED}


def test_the_device_is_never_less_busy_than_its_clients(node: Node, board: Board) -> None:
    """The percentage is of a moment, the counters are of all the time."""
    node.client(MESA, board)
    node.read()
    board.set(gpu_busy_percent=3)
    node.client(MESA, board, gfx=600 * MS)

    window = node.window(board.uuid)

    assert (window.busy.core, core(window)) == (600 * MS, {MESA: 600 * MS})


def test_beside_rocm_a_client_of_mesa_keeps_its_own_time_and_no_more(
    node: Node, board: Board
) -> None:
    rocm(node, board)
    node.client(MESA, board, vram=2 * GIB)
    node.read()
    board.set(gpu_busy_percent=80)
    node.client(MESA, board, vram=2 * GIB, gfx=100 * MS)

    reading = node.device(board.uuid)

    assert known(reading.window).per_sample  # so that nothing is scaled up to what ROCm did
    assert (known(reading.window).busy.core, core(known(reading.window))) == (
        800 * MS,
        {MESA: 100 * MS},
    )
    assert {pid: p.kinds for pid, p in held(reading).items()} == {ROCM: COMPUTE, MESA: NOBODY}


def test_rocm_is_known_where_kfd_does_not_let_its_nodes_be_read(node: Node, board: Board) -> None:
    """As in a pod whose device cgroup has no /dev/dri/renderD*: the names of its processes stay."""
    rocm(node, board)
    node.client(MESA, board)
    node.tree.hide(board)
    node.read()
    node.client(MESA, board, gfx=10 * MS)

    reading = node.device(board.uuid)

    assert core(known(reading.window)) == {MESA: 10 * MS}
    assert held(reading)[ROCM] == ProcessMemory(ROCM, GIB, COMPUTE)
    assert "copy" not in known(reading.window).counted  # ROCm's is not known
    assert "core" not in reading.unmeasured


def test_a_client_that_a_child_of_rocms_inherited_is_still_rocms(node: Node, board: Board) -> None:
    rocm(node, board)
    node.tree.hide(board)
    node.machine.process(CHILD, start=2000)
    node.client(CHILD, board, number=9, vram=GIB)

    reading = node.device(board.uuid)

    assert held(reading)[ROCM].kinds == COMPUTE


def test_the_processes_of_partitions_are_not_looked_into(node: Node) -> None:
    board = node.tree.add(MI300X, parts=8)
    node.client(MESA, board, gfx=1)
    node.read()
    node.client(MESA, board, gfx=SECOND)

    readings = node.read().devices

    assert [p for r in readings if r.window for p in r.window.processes] == []
    assert {r.unmeasured["decoder"] for r in readings} <= {
        Unmeasured.NOT_SUPPORTED,
        Unmeasured.PARTITIONED,
    }


@pytest.fixture
def gfx9(node: Node) -> Board:
    """A board with ``cu_occupancy``, busy at 93 %, which a client of Vulkan and one of VAAPI use.

    It was read once, before a second in which they work.
    """
    board = node.tree.add(MI50)
    board.set(mem_info_vram_used=21 * GIB)
    node.client(MESA, board, vram=20 * GIB)
    node.client(CHILD, board, number=2)
    node.read()
    board.set(gpu_busy_percent=93)
    return board


def vulkan(node: Node, board: Board, ms: int) -> None:
    node.client(MESA, board, vram=20 * GIB, compute=ms * MS)


def test_beside_cu_occupancy_clients_have_what_their_engines_did(node: Node, gfx9: Board) -> None:
    vulkan(node, gfx9, 920)
    node.client(CHILD, gfx9, number=2, dec=40 * MS, dma=5 * MS)

    reading = node.device(gfx9.uuid)

    window = known(reading.window)
    assert (window.busy.core, core(window)) == (930 * MS, {MESA: 920 * MS, CHILD: 0})
    assert (window.busy.decoder, window.counted["copy"]) == (40 * MS, {CHILD: 5 * MS})
    assert window.per_sample  # the rest is not theirs
    assert held(reading)[MESA] == ProcessMemory(MESA, 20 * GIB, NOBODY)
    assert known(reading.memory).used_bytes == 21 * GIB
    assert not reading.unmeasured.keys() & {"core", "memory", "encoder", "decoder"}


@pytest.mark.parametrize(
    ("of_vulkan", "occupied", "expected"),
    [
        (430, 60, {MESA: 430 * MS, ROCM: 500 * MS}),  # all that is left
        (430, 3, {MESA: 430 * MS, ROCM: 200 * MS}),  # at most four times what it occupied
        (0, 60, {ROCM: SECOND}),  # an average of the second, which is scaled to the board's
        (950, 60, {MESA: 950 * MS, ROCM: 0}),
    ],
)
def test_beside_clients_a_process_of_kfds_has_what_they_leave(
    node: Node, gfx9: Board, of_vulkan: int, occupied: int, expected: dict[int, int]
) -> None:
    rocm(node, gfx9)
    node.tree.use(ROCM, gfx9.gpu_ids[0], cus=occupied)
    node.read(after=6)
    vulkan(node, gfx9, of_vulkan)

    reading = node.device(gfx9.uuid)

    window = known(reading.window)
    assert {p: c for p, c in core(window).items() if c or p == ROCM} == expected
    assert (window.methods.shares, window.busy.core) == ("cu_occupancy", max(930, of_vulkan) * MS)
    assert held(reading)[ROCM] == ProcessMemory(ROCM, GIB, COMPUTE)


def test_where_kfd_denies_its_processes_those_of_vulkan_are_still_known(fs: FakeFilesystem) -> None:
    """The board's core cannot be divided then: what ROCm did is not known."""
    fs.is_case_sensitive = True
    node = Node(Path("/host/sys"))
    node.tree.load()
    board = node.tree.add(MI50)
    rocm(node, board)
    node.client(MESA, board)
    node.read()
    (node.tree.kfd / f"proc/{ROCM}/stats_{board.gpu_ids[0]}/cu_occupancy").chmod(0o200)
    vulkan(node, board, 430)
    set_uid(65532)

    reading = node.device(board.uuid)

    reset_ids()
    node.source.close()
    assert reading.unmeasured["core"] is Unmeasured.NO_PERMISSION
    assert known(reading.window).methods.shares == "fdinfo"


def test_a_process_with_both_queues_is_counted_once(node: Node, gfx9: Board) -> None:
    node.tree.run(MESA)
    node.tree.use(MESA, gfx9.gpu_ids[0], vram=18 * GIB, cus=60)
    node.read(after=6)
    vulkan(node, gfx9, 430)

    reading = node.device(gfx9.uuid)

    assert core(known(reading.window)) == {MESA: 930 * MS}
    assert held(reading)[MESA] == ProcessMemory(MESA, 20 * GIB, COMPUTE)


def test_where_no_client_is_visible_cu_occupancy_goes_on_alone(
    nested: Node, caplog: pytest.LogCaptureFixture
) -> None:
    """A container with device files alone sees KFD's processes: that is no trouble."""
    board = nested.tree.add(MI210)
    nested.tree.run(ROCM)
    nested.tree.use(ROCM, board.gpu_ids[0], vram=GIB, cus=104)
    nested.read()
    board.set(gpu_busy_percent=50)

    reading, status = nested.device(board.uuid), nested.read().status

    assert core(known(reading.window)) == {ROCM: SECOND}
    assert held(reading) == {ROCM: ProcessMemory(ROCM, GIB, COMPUTE)}
    assert reading.unmeasured["decoder"] is Unmeasured.NO_HOSTPID
    assert "core" not in reading.unmeasured
    assert (status.detail, caplog.text) == ("", "")


def test_where_clients_cannot_be_seen_the_device_is_told_and_no_part_of_it(
    nested: Node,
) -> None:
    board = nested.tree.add(RADEON)
    rocm(nested, board)
    nested.read()
    board.set(gpu_busy_percent=50)
    nested.client(ROCM, board, gfx=10 * MS)

    reading, status = nested.device(board.uuid), nested.read().status

    assert (known(reading.window).busy, known(reading.window).processes) == (
        Engines(core=SECOND // 2, memory_active=0),
        (),
    )
    assert {q: reading.unmeasured[q] for q in ("core", "encoder", "decoder")} == dict.fromkeys(
        ("core", "encoder", "decoder"), Unmeasured.NO_HOSTPID
    )
    assert held(reading) == {ROCM: ProcessMemory(ROCM, GIB, COMPUTE)}  # KFD tells it
    assert "hostPID" in status.detail


def test_who_has_too_many_clients_is_not_told_and_the_others_are(node: Node, board: Board) -> None:
    for number in range(MAX_OF_ONE + 1):
        node.client(MESA, board, number=number + 1)
    node.client(MESA + 1, board, number=9999)
    node.read()
    node.client(MESA + 1, board, number=9999, gfx=7 * MS)

    reading = node.device(board.uuid)

    assert core(known(reading.window)) == {MESA + 1: 7 * MS}
    assert known(reading.window).unmeasured_pids == {MESA}
    assert "core" not in reading.unmeasured
    assert held(reading)[MESA].used_bytes is None


def test_of_a_long_gap_the_observed_part_is_told(node: Node, board: Board) -> None:
    node.client(MESA, board)
    node.read()
    node.client(MESA, board, gfx=8 * SECOND)

    window = node.window(board.uuid, after=20)

    assert (window.observed_ns, window.unobserved_ns) == (5 * SECOND, 15 * SECOND)
    assert core(window) == {MESA: 2 * SECOND}


@pytest.mark.parametrize("kind", [RDNA_3, MI50])
def test_a_board_without_a_percentage_on_which_rocm_computes_is_not_measured(
    node: Node, kind: Kind
) -> None:
    """As a V710 in a virtual machine: it was 0 % with a job of ROCm's (llama.cpp's PR 16249)."""
    board = node.tree.add(kind)
    (Path(board.folder) / "gpu_busy_percent").unlink()
    rocm(node, board)
    node.client(MESA, board)
    node.read()
    node.client(MESA, board, gfx=7 * MS)

    reading = node.device(board.uuid)

    assert (known(reading.window).busy.core, reading.unmeasured["core"]) == (
        None,
        Unmeasured.NOT_SUPPORTED,
    )
    assert not any(core(known(reading.window)).values())
    assert known(reading.window).busy.encoder == 0


def test_a_board_that_tells_no_percentage_is_as_busy_as_its_clients(
    node: Node, board: Board
) -> None:
    (Path(board.folder) / "gpu_busy_percent").unlink()
    node.client(MESA, board)
    node.read()
    node.client(MESA, board, gfx=7 * MS)

    window = node.window(board.uuid)

    assert (window.busy.core, window.methods.busy) == (7 * MS, "fdinfo")


@pytest.mark.parametrize("sign", ["another figure", "clients", "rocm", "hidden"])
def test_a_percentage_of_100_is_doubted_only_where_nothing_else_speaks_for_it(
    node: Node, nested: Node, sign: str
) -> None:
    """Of a board whose percentage is always 100 (see tests/field)."""
    if sign == "hidden":
        node = nested
    board = node.tree.add(RDNA_3)
    board.set(gpu_busy_percent=100)
    if sign == "rocm":
        rocm(node, board)
    for second in range(30):
        board.set(gpu_busy_percent=99 if second == 3 and sign == "another figure" else 100)
        node.client(MESA, board, gfx=second * (600 if sign == "clients" else 1) * MS)
        window = node.device(board.uuid).window
    assert known(window).busy.core == SECOND
