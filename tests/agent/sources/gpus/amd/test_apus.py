"""Boards whose memory is their host's: what is in GTT counts, and a total of 0 is none."""

from pathlib import Path

import pytest

from exporter.model import DeviceMemory, ProcessMemory
from tests.agent.sources.gpus.amd.node import Node
from tests.agent.sources.gpus.amd.trees import (
    GIB,
    MI210,
    MI300A,
    RENOIR,
    STRIX_HALO,
    Board,
    Kind,
    Tree,
)
from tests.agent.sources.gpus.known import known

MIB = 1 << 20
VULKAN, ROCM = 42, 7
COMPUTE, NOBODY = frozenset({"compute"}), frozenset[str]()


def memory(node: Node, board: Board) -> DeviceMemory:
    return known(node.device(board.uuid).memory)


def work(node: Node, board: Board) -> None:
    """A client of Vulkan with 24 GiB, and a process of ROCm with 14, both in GTT."""
    node.tree.run(ROCM)
    node.tree.use(ROCM, board.gpu_ids[0], vram=14 * GIB)
    node.client(ROCM, board, number=2, vram=MIB, gtt=14 * GIB)
    node.client(VULKAN, board, vram=5 * MIB, gtt=24 * GIB)
    board.set(mem_info_vram_used=300 * MIB, mem_info_gtt_used=39 * GIB)


@pytest.mark.parametrize("kind", [STRIX_HALO, RENOIR])
def test_on_an_apu_what_is_in_gtt_counts(node: Node, kind: Kind) -> None:
    board = node.tree.add(kind)
    work(node, board)
    node.read()

    held = memory(node, board)

    assert (held.total_bytes, held.used_bytes) == (96 * GIB + 512 * MIB, 39 * GIB + 300 * MIB)
    assert set(known(held.processes)) == {
        ProcessMemory(ROCM, 14 * GIB + MIB, COMPUTE),
        ProcessMemory(VULKAN, 24 * GIB + 5 * MIB, NOBODY),
    }
    assert node.device(board.uuid).device.memory_bytes == held.total_bytes


@pytest.mark.parametrize("sign", ["the voltage of its north bridge", "KFD's target", "KFD's bank"])
def test_an_apu_is_known_by_any_of_its_signs(node: Node, sign: str) -> None:
    """``in1_label`` is shown of APUs only (amdgpu_pm.c). KFD may not be there, or be older."""
    of_kfd = {"KFD's target": (90012, GIB // 2), "KFD's bank": (130000, 96 * GIB)}
    gfx, bank = of_kfd.get(sign, (130000, GIB // 2))
    hwmon = ("vddgfx", "vddnb") if sign.startswith("the voltage") else ("vddgfx",)
    kind = Kind("", "0x1", gfx, 40, GIB // 2, gtt=96 * GIB, bank=bank, hwmon=hwmon)
    board = node.tree.add(kind)

    assert node.device(board.uuid).device.memory_bytes == 96 * GIB + 512 * MIB


def test_an_apu_whose_gtt_in_use_is_not_reported_uses_what_its_processes_hold(node: Node) -> None:
    board = node.tree.add(STRIX_HALO)
    work(node, board)
    (Path(board.folder) / "mem_info_gtt_used").unlink()
    node.read()

    assert memory(node, board).used_bytes == 38 * GIB + 6 * MIB


def test_a_card_with_memory_of_its_own_has_no_other(node: Node) -> None:
    board = node.tree.add(MI210)
    work(node, board)
    board.set(mem_info_vram_used=15 * GIB)
    node.read()

    held = memory(node, board)

    assert (held.total_bytes, held.used_bytes) == (64 * GIB, 15 * GIB)
    assert {p.pid: p.used_bytes for p in known(held.processes)} == {
        ROCM: 14 * GIB,
        VULKAN: 5 * MIB,
    }


def test_a_board_of_which_0_is_in_use_has_in_use_what_its_processes_hold(node: Node) -> None:
    board = node.tree.add(MI210)
    work(node, board)
    board.set(mem_info_vram_used=0)
    node.read()

    assert memory(node, board).used_bytes == 14 * GIB + 5 * MIB


@pytest.mark.parametrize(
    ("gtt", "used"),
    [
        ({}, 60 * GIB),  # what its processes hold
        ({"mem_info_gtt_used": 61 * GIB}, 61 * GIB),
    ],
)
def test_of_an_mi300a_the_memory_is_kfds_bank(node: Node, gtt: dict[str, int], used: int) -> None:
    board = node.tree.add(MI300A)
    node.tree.run(ROCM)
    node.tree.use(ROCM, board.gpu_ids[0], vram=60 * GIB)
    board.set(**gtt)

    held = memory(node, board)

    assert (held.total_bytes, held.used_bytes) == (128 * GIB, used)
    assert node.device(board.uuid).device.memory_bytes == 128 * GIB


def test_the_partitions_of_an_mi300a_have_their_banks(node: Node) -> None:
    board = node.tree.add(MI300A, parts=3)

    whole, *parts = [reading.device.memory_bytes for reading in node.read().devices]

    assert whole == 128 * GIB // 3 * 3
    assert parts == [128 * GIB // 3] * 3
    assert isinstance(node.tree, Tree)
    assert board.kind is MI300A


def test_a_total_of_0_that_nothing_else_says_is_not_known(node: Node) -> None:
    board = node.tree.add(MI300A)
    node.tree.hide(board)

    reading = node.device(board.uuid)

    assert reading.device.memory_bytes is None
    assert known(reading.memory).total_bytes is None
