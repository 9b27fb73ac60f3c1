import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest

from exporter.model import Window
from exporter.sources.gpus.amd.smi import check as checking
from exporter.sources.gpus.amd.smi.check import HUNG_NS, SmiCheck
from exporter.sources.gpus.amd.smi.places import find
from exporter.sources.gpus.amd.smi.source import CheckedSource, SmiSource
from tests.fakeamdsmi.build import describe, library
from tests.gpus.amd.checked import MINUTE, Checked, same, wait_for_hung
from tests.gpus.amd.node import DEMAND, Node
from tests.gpus.amd.trees import (
    GIB,
    MI210,
    MI300X,
    RADEON,
    TICKS,
    V1_3,
    Board,
    put,
    table,
    v1_6,
)

pytestmark = pytest.mark.program("cc")


@pytest.fixture
def checked(node: Node, tmp_path: Path) -> Iterator[Checked]:
    made = Checked(node, tmp_path / "rocm")
    yield made
    made.close()


@pytest.mark.parametrize("major", [24, 25, 26])
def test_what_the_library_says_alike_is_no_mismatch(node: Node, tmp_path: Path, major: int) -> None:
    board = node.tree.add(MI210)
    checked = Checked(node, tmp_path / "rocm", major)
    describe(checked.library, [same(board)])

    assert checked.settle() == dict.fromkeys(
        ("memory_total", "memory_used", "power", "temperature", "core"), 0
    )
    assert checked.status.up
    assert f"version {major}." in checked.status.detail
    checked.close()


@pytest.mark.parametrize(
    ("quantity", "told"),
    [
        ("memory_total", {"total": 32 * GIB}),
        ("memory_used", {"used": 10 * GIB}),
        ("power", {"power": 300}),
        ("temperature", {"junction": 90}),
        ("core", {"activity": 80}),
    ],
)
def test_a_figure_that_differs_is_the_only_one_that_does(
    checked: Checked, quantity: str, told: dict[str, int]
) -> None:
    board, other = checked.node.tree.add(MI210), checked.node.tree.add(MI210)
    describe(checked.library, [same(board, **told), same(other)])

    found = checked.settle()

    assert [name for name, differs in found.items() if differs] == [quantity]
    assert not any(checked.devices[other.uuid].sensors.crosscheck.values())
    assert "GPU 100" in checked.status.detail.partition(checking.DIFFERS)[2]


def energy(board_ticks: int) -> bytes:
    return table(V1_3, {24: ("Q", board_ticks)})


@pytest.mark.parametrize(("factor", "differs"), [(1, 0), (15, 1)])
def test_energy_is_compared_by_its_rise(checked: Checked, factor: int, differs: int) -> None:
    """100 W by sysfs; 15 times that is what one has who takes a tick for a microjoule."""
    board = checked.node.tree.add(MI210)
    found: dict[str, float] = {}
    for second in range(0, 5 * int(MINUTE), 5):
        joules = 100 * second
        board.metrics(energy((5000 + joules) * TICKS))
        describe(checked.library, [same(board, energy=factor * int(joules * 1e6 / 15.3))])
        found = dict(checked.read(5.0))
        assert "energy" not in found or second >= MINUTE

    assert found["energy"] == differs


def test_a_figure_differs_from_the_third_time_in_a_row_and_is_told_once(
    checked: Checked, caplog: pytest.LogCaptureFixture
) -> None:
    board = checked.node.tree.add(MI210)
    describe(checked.library, [same(board, power=300)])
    caplog.set_level(logging.WARNING)

    said = [checked.read(MINUTE)["power"] for _ in range(5)]

    assert said == [0, 0, 1, 1, 1]
    [line] = [r.getMessage() for r in caplog.records if "do not agree" in r.getMessage()]
    assert board.uuid in line
    assert "power 300 W, by sysfs 100 W" in line


def test_a_figure_that_agrees_again_is_no_mismatch_at_once(checked: Checked) -> None:
    board = checked.node.tree.add(MI210)
    describe(checked.library, [same(board, power=300)])
    assert checked.settle()["power"] == 1

    describe(checked.library, [same(board)])

    assert checked.read(MINUTE)["power"] == 0


def test_a_load_that_goes_up_and_down_is_within_what_sysfs_has_seen(checked: Checked) -> None:
    board = checked.node.tree.add(MI210)
    describe(checked.library, [same(board, power=200)])
    for watts in (100, 300) * 40:
        board.hwmon(power1_average=watts * 1_000_000)
        found = checked.read(6.0)

    assert found["power"] == 0


def test_what_either_does_not_tell_is_absent(checked: Checked) -> None:
    board = checked.node.tree.add(MI210)
    (board.folder / "hwmon/hwmon4/power1_average").unlink()
    describe(checked.library, [same(board, used=None, activity=None, edge=None)])

    assert set(checked.settle()) == {"memory_total", "temperature"}


def test_it_is_asked_once_a_minute(checked: Checked) -> None:
    board = checked.node.tree.add(MI210)
    describe(checked.library, [same(board, power=300)])
    checked.read()
    first = checked.status

    describe(checked.library, [])
    for _ in range(int(MINUTE) - 1):
        checked.read()
        assert checked.status == first
    checked.read()

    assert checked.status != first


def test_no_figure_or_counter_is_the_librarys(checked: Checked) -> None:
    board = checked.node.tree.add(MI210)
    board.metrics(energy(TICKS))
    describe(checked.library, [same(board, power=300, used=9 * GIB, energy=10**12)])
    used: list[Window] = []
    for second in range(5, 4 * int(MINUTE), 5):
        board.metrics(energy((1 + 100 * second) * TICKS))
        checked.read(5.0)
        window = checked.devices[board.uuid].window
        used += [window] if window else []

    reading = checked.devices[board.uuid]
    assert reading.sensors.power_watts == 100
    assert reading.memory is not None
    assert reading.memory.used_bytes == 0
    assert sum(w.energy_uj or 0 for w in used[1:]) == 500_000_000 * (len(used) - 1)


def test_no_library_in_the_usual_places_is_no_source(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.tree.add(MI210)
    monkeypatch.setattr(checking, "find", lambda: None)
    check = SmiCheck(None, node.clock, 30.0)
    source = CheckedSource(node.source, check, node.tree.sysfs)

    [device] = source.read().devices

    assert (check.status.up, check.status.absent) == (False, True)
    assert device.sensors.crosscheck == {}
    check.close()


def test_it_is_looked_for_where_rocm_and_distributions_put_it(tmp_path: Path) -> None:
    assert find([tmp_path]) is None
    debian = tmp_path / "usr/lib/x86_64-linux-gnu"
    for name in ("libamd_smi.so.9", "libamd_smi.so.26", "libamd_smi.so.26.2.70200"):
        put(debian / name, "")
    assert find([tmp_path]) == debian / "libamd_smi.so.26.2.70200"
    put(tmp_path / "opt/rocm-6.3.0/lib/libamd_smi.so", "")
    put(tmp_path / "opt/rocm-10.0.2/lib/libamd_smi.so", "")
    put(tmp_path / "opt/rocm-10.0.2/lib/libamd_smi.so.26", "")
    assert find([tmp_path]) == tmp_path / "opt/rocm-10.0.2/lib/libamd_smi.so"


@pytest.mark.parametrize("content", [None, b"", b"#!/bin/sh\nexit 1\n", b"\x7fELF" + bytes(200)])
def test_a_file_that_is_no_library_is_a_source_that_is_down(
    node: Node, tmp_path: Path, content: bytes | None
) -> None:
    node.tree.add(MI210)
    path = tmp_path / "libamd_smi.so"
    if content is not None:
        path.write_bytes(content)
    checked = Checked(node, tmp_path, path=path)

    assert checked.settle() == {}
    assert (checked.status.up, checked.status.absent) == (False, False)
    assert str(path) in checked.status.detail
    checked.close()


def test_another_library_is_a_source_that_is_down(node: Node, tmp_path: Path) -> None:
    node.tree.add(MI210)
    checked = Checked(node, tmp_path, path=Path("libm.so.6"))

    checked.read()

    assert "is no libamd_smi.so, or too old" in checked.status.detail
    checked.close()


@pytest.mark.parametrize(("major", "named"), [(23, True), (27, True), (27, False)])
def test_an_unknown_version_is_not_initialised(
    node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, major: int, *, named: bool
) -> None:
    """Down if it was named; if it was only found, it is as if it were not there."""
    board = node.tree.add(MI210)
    checked = Checked(node, tmp_path, major)
    describe(checked.library, [same(board, power=300)])
    if not named:
        monkeypatch.setattr(checking, "find", lambda: checked.library)
        checked.check = SmiCheck(None, node.clock, 30.0)
        checked.source = CheckedSource(node.source, checked.check, node.tree.sysfs)

    assert checked.settle() == {}
    status = checked.check.status
    assert (status.up, status.absent) == (False, not named)
    assert f"version {major}." in status.detail
    assert not checked.initialised()
    checked.close()


def test_a_driver_that_refuses_is_a_source_that_is_down(checked: Checked) -> None:
    board = checked.node.tree.add(MI210)
    describe(checked.library, ["error function=amdsmi_init code=34", same(board)])

    assert checked.settle() == {}
    assert "amdsmi_init answers 34 (DRIVER_NOT_LOADED)" in checked.status.detail

    describe(checked.library, [same(board)])
    assert checked.settle()["power"] == 0
    assert checked.status.up


def test_a_call_that_is_refused_costs_its_quantity_only(checked: Checked) -> None:
    board = checked.node.tree.add(MI210)
    describe(checked.library, [same(board), "error function=amdsmi_get_power_info code=10"])

    found = checked.settle()

    assert "power" not in found
    assert found["temperature"] == 0


def test_a_library_that_tells_nothing_is_down(checked: Checked) -> None:
    checked.node.tree.add(MI210)
    describe(checked.library, ["processor bdf=0000:c1:00.0"])
    checked.read()
    assert "it tells of no GPU" in checked.status.detail

    describe(checked.library, [])
    checked.read(MINUTE)
    assert "it lists none" in checked.status.detail


@pytest.mark.parametrize("function", ["amdsmi_init", "amdsmi_get_power_info"])
def test_a_call_that_hangs_costs_no_cycle(node: Node, tmp_path: Path, function: str) -> None:
    board = node.tree.add(MI210)
    path = library(tmp_path / "rocm")
    describe(path, [same(board), f"hang function={function}"])
    check = SmiCheck(path, node.clock)
    source = CheckedSource(node.source, check, node.tree.sysfs)
    source.follow(DEMAND)

    for _ in range(int(HUNG_NS / 1e9) + 1):
        node.clock.move(1.0)
        [device] = source.read().devices
        assert device.sensors.power_watts == 100
    state = SmiSource(check)
    assert not state.read().status.up
    assert "has not come back for" in state.read().status.detail

    describe(path, [same(board)])
    wait_for_hung(check)
    [device] = source.read().devices
    assert state.read().status.up
    assert device.sensors.crosscheck["power"] == 0
    source.close()


def test_a_library_that_has_never_answered_was_asked_and_not_left_out(checked: Checked) -> None:
    board = checked.node.tree.add(MI210)
    describe(checked.library, [same(board), "hang function=amdsmi_init"])
    checked.check._wait_s = 0.0
    said = []
    for _ in range(4):
        checked.read()
        said.append((checked.status.absent, checked.status.up, checked.status.detail))

    assert said[1:] == [
        (False, False, f"asked {seconds} s ago, no answer yet") for seconds in (1, 2, 3)
    ]
    describe(checked.library, [same(board)])
    wait_for_hung(checked.check)
    checked.read()
    assert checked.status.up


def test_a_library_that_takes_its_time_once_leaves_what_it_said(checked: Checked) -> None:
    board = checked.node.tree.add(MI210)
    describe(checked.library, [same(board)])
    checked.read()
    first = checked.status
    describe(checked.library, [same(board), "hang function=amdsmi_get_power_info"])
    checked.check._wait_s = 0.0

    checked.read(MINUTE)
    checked.read(HUNG_NS / 1e9 - 1)

    assert checked.status == first
    describe(checked.library, [])


def test_a_hung_library_takes_back_what_it_said(checked: Checked) -> None:
    board = checked.node.tree.add(MI210)
    describe(checked.library, [same(board, power=300)])
    assert checked.settle()["power"] == 1

    describe(checked.library, [same(board), "hang function=amdsmi_get_energy_count"])
    checked.check._wait_s = 0.0
    checked.read(MINUTE)
    found = checked.read(HUNG_NS / 1e9)

    assert found == {}
    describe(checked.library, [])


def test_a_gpu_that_is_no_board_is_named_and_left_out(checked: Checked) -> None:
    board = checked.node.tree.add(MI210)
    stranger = "processor bdf=0000:99:00.0 power=999"
    describe(checked.library, [stranger, same(board, socket=1), "processor bdf=0:0:0.0 cpu=1"])

    assert checked.settle()["power"] == 0
    assert "no board of this node: 0000:99:00.0" in checked.status.detail

    describe(checked.library, [stranger])
    assert checked.read(MINUTE) == {}
    assert not checked.status.up


@pytest.mark.parametrize("by_function", [True, False])
def test_of_a_partitioned_board_the_first_partition_speaks_for_the_board(
    checked: Checked, *, by_function: bool
) -> None:
    """One socket, some of its processors, in any order. The memory of parts is not compared."""
    board = checked.node.tree.add(MI300X, parts=8)
    board.metrics(v1_6(energy_ticks=TICKS, busy=[[50]] * 8))
    base = board.pci[:-1]
    parts = [
        f"processor bdf={base}{part if by_function else 0} partition={part} junction=52 "
        f"total={board.kind.vram} used={part << 30} power={999 if part else 100}"
        for part in (3, 0, 5)
    ]
    describe(checked.library, parts)

    assert checked.settle() == {"power": 0, "temperature": 0}
    assert checking.DIFFERS not in checked.status.detail
    assert "no board" not in checked.status.detail
    assert len(checked.devices) == 9
    of_parts = [d for d in checked.devices.values() if d.device.parent_uuid]
    assert all(part.sensors.crosscheck == {} for part in of_parts)


def test_a_board_that_sleeps_is_not_woken(checked: Checked) -> None:
    board = checked.node.tree.add(RADEON)
    put(board.folder / "power/runtime_status", "suspended")
    describe(checked.library, [same(board)])
    assert checked.settle() == {}
    assert checked.status.absent
    assert not checked.initialised()

    checked.follow(wake=True)
    checked.settle()
    assert checked.initialised()


def test_released_or_shown_to_nobody_it_holds_no_device_file(checked: Checked) -> None:
    board = checked.node.tree.add(MI210)
    describe(checked.library, [same(board)])
    checked.read()
    assert checked.initialised()

    checked.source.release(released=True)
    checked.read()
    assert not checked.initialised()
    checked.read()
    assert checked.status.absent

    checked.source.release(released=False)
    checked.read()
    assert checked.initialised()

    checked.follow(disabled=frozenset({"crosscheck"}))
    checked.read()
    assert not checked.initialised()


def test_a_board_that_comes_is_looked_for_at_once(checked: Checked) -> None:
    """The library looks for boards when it is initialised, and never again."""
    board = checked.node.tree.add(MI210)
    describe(checked.library, [same(board)])
    checked.read()
    other = checked.node.tree.add(MI210)
    describe(checked.library, [same(board), same(other)])

    for _ in range(33):
        checked.read()

    assert checked.devices[other.uuid].sensors.crosscheck["power"] == 0


@contextmanager
def hanging(checked: Checked, board: Board) -> Iterator[None]:
    """A file of a board hangs, and costs a cycle no time."""
    pipe = board.folder / "gpu_busy_percent"
    pipe.unlink()
    os.mkfifo(pipe)
    checked.follow(deadline_s=0.2)
    yield
    checked.follow()
    pipe.write_text("0\n")  # which lets the read come back
    board.set(gpu_busy_percent=0)


def test_a_board_that_hangs_for_a_moment_brings_no_ask_forward(checked: Checked) -> None:
    hangs, fine = checked.node.tree.add(MI210), checked.node.tree.add(MI210)
    describe(checked.library, [same(hangs), same(fine, power=300)])
    checked.read()
    first = checked.status
    describe(checked.library, [])

    for second in range(1, int(MINUTE)):
        with hanging(checked, hangs) if second % 9 == 0 else nullcontext():
            checked.read()
        assert checked.devices[fine.uuid].sensors.crosscheck["power"] == 0
        assert checked.initialised()
        assert checked.status == first

    checked.read()
    assert checked.status != first


def test_of_a_board_that_hangs_nothing_is_compared_and_of_the_others_all_is(
    checked: Checked,
) -> None:
    hangs, fine = checked.node.tree.add(MI210), checked.node.tree.add(MI210)
    describe(checked.library, [same(hangs, power=300), same(fine)])
    checked.read(MINUTE)

    with hanging(checked, hangs):
        checked.read(MINUTE)

    assert checked.status.up
    assert "no board of this node" not in checked.status.detail
    told = {uuid: reading.sensors.crosscheck for uuid, reading in checked.devices.items()}
    assert told[hangs.uuid] == {}
    assert told[fine.uuid]["power"] == 0


def test_while_no_board_is_read_the_library_is_kept_and_not_asked(checked: Checked) -> None:
    board = checked.node.tree.add(MI210)
    describe(checked.library, [same(board)])
    checked.read()
    first = checked.status
    describe(checked.library, [])

    with hanging(checked, board):
        checked.read(MINUTE)

    assert checked.status == first
    assert checked.initialised()


def test_a_board_that_goes_and_comes_brings_no_ask_forward(checked: Checked) -> None:
    comes, stays = checked.node.tree.add(MI210), checked.node.tree.add(MI210)
    describe(checked.library, [same(comes), same(stays, power=300)])
    checked.read()
    away = comes.folder.with_name("away")

    for _ in range(4):
        comes.folder.rename(away)
        checked.read()
        assert str(checked.devices[comes.uuid].state) == "gpu_lost"
        away.rename(comes.folder)
        checked.read(6)
        checked.read(6)
        assert str(checked.devices[comes.uuid].state) == "up"

    assert checked.devices[stays.uuid].sensors.crosscheck["power"] == 0


def test_a_board_that_sysfs_has_no_name_for_has_the_librarys(checked: Checked) -> None:
    board, named = checked.node.tree.add(RADEON), checked.node.tree.add(MI210)
    lines = [same(each, name='"Radeon RX 7900 XTX"') for each in (board, named)]
    describe(checked.library, lines)
    checked.settle()
    models = {uuid: d.device.model for uuid, d in checked.devices.items()}
    assert models == {board.uuid: "Radeon RX 7900 XTX", named.uuid: MI210.model}

    describe(checked.library, [])
    checked.read(MINUTE)
    assert checked.devices[board.uuid].device.model == "Radeon RX 7900 XTX"
