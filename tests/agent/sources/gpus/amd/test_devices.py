"""What is found on a node, and how it is named and numbered."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyfakefs.fake_filesystem import FakeFilesystem
from pyfakefs.helpers import reset_ids, set_uid

from exporter.agent.sources.gpus.amd.amddevice import AmdDevice
from exporter.agent.sources.gpus.amd.amddiscovery import BoardNames, discover
from exporter.model import DeviceState, Reading, Unmeasured
from tests.agent.simulation.clock import ManualClock
from tests.agent.sources.gpus.amd.node import Node
from tests.agent.sources.gpus.amd.trees import (
    GIB,
    MI210,
    MI300A,
    MI300X,
    NOT_OF_A_RADEON,
    RADEON,
    Board,
    Kind,
    Tree,
    put,
    remove,
)
from tests.agent.sources.gpus.known import known


@pytest.mark.parametrize(
    ("kind", "model"),
    [
        (MI210, "AMD INSTINCT MI210"),
        (MI300X, "AMD Instinct MI300X OAM"),
        (RADEON, "AMD 0x73bf"),
    ],
)
def test_a_board_is_one_device(node: Node, kind: Kind, model: str) -> None:
    board = node.tree.add(kind)

    [reading] = node.read().devices

    device = reading.device
    assert (device.uuid, device.vendor, device.model) == (board.uuid, "amd", model)
    assert (device.pci_bus_id, device.memory_bytes) == (board.pci, kind.vram)
    assert (device.parent_uuid, device.profile, device.core_share) == ("", "", 1)


def test_the_partitions_of_a_board_are_devices_with_a_parent(node: Node) -> None:
    board = node.tree.add(MI300X, parts=8, memory="NPS4")

    parent, *parts = (reading.device for reading in node.read().devices)

    assert (parent.uuid, parent.sharing) == (board.uuid, "partitioned")
    assert [part.uuid for part in parts] == [f"{board.uuid}-{n}" for n in range(8)]
    assert {(p.parent_uuid, p.profile, p.core_share, p.memory_bytes) for p in parts} == {
        (board.uuid, "cpx_nps4", 1 / 8, 24 * GIB)
    }


def test_a_partition_has_the_name_of_the_device_with_kfds_render_node(node: Node) -> None:
    """amd.com's plugin hands it out by that name, which does not name the board."""
    node.tree.add(MI300X, parts=2)
    node.tree.add(MI300X, parts=2)
    (node.tree.sysfs / "devices/platform/amdgpu_xcp_31/drm/renderD190").mkdir(parents=True)

    devices = [reading.device for reading in node.read().devices]

    assert [(d.uuid[-6:], d.sysfs_name, d.minor) for d in devices] == [
        ("abc000", "", 128),
        ("c000-0", "", 128),
        ("c000-1", "amdgpu_xcp_30", 129),
        ("abc001", "", 136),
        ("c001-0", "", 136),
        ("c001-1", "amdgpu_xcp_37", 137),
    ]


def test_boards_with_one_unique_id_go_by_their_places_for_good_and_it_is_said_once(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = node.tree.add(MI210), node.tree.add(MI300X, parts=2)
    put(second.folder / "unique_id", first.unique)
    uuids = [f"AMD-{second.pci}", f"AMD-{second.pci}-0", f"AMD-{second.pci}-1"]

    found = [reading.device for reading in node.read().devices]
    node.read(after=31)
    remove(first.folder)
    node.read(after=31)

    assert [device.uuid for device in found] == [f"AMD-{first.pci}", *uuids]
    assert [device.parent_uuid for device in found] == ["", "", uuids[0], uuids[0]]
    assert [r.device.uuid for r in node.read().devices if r.state is DeviceState.UP] == uuids
    assert caplog.text.count("several boards are") == 1


def test_without_a_driver_the_source_is_down_and_takes_it_up_when_it_is_loaded(
    node: Node,
) -> None:
    remove(node.tree.sysfs / "module")
    remove(node.tree.sysfs / "class")
    assert not node.read().status.up

    node.tree.load()
    node.tree.add(MI210)

    reading = node.read()
    assert reading.status.up
    assert len(reading.devices) == 1


def states(reading: Reading) -> dict[str, tuple[int, str]]:
    """The number and state of each device."""
    return {r.device.uuid: (r.device.index, str(r.state)) for r in reading.devices}


def test_a_board_that_is_removed_is_lost_and_the_others_go_on_under_their_numbers(
    node: Node,
) -> None:
    gone, stays = node.tree.add(MI210), node.tree.add(MI210)
    node.read()
    remove(gone.folder)

    for after in (1, 6, 60):
        assert states(node.read(after)) == {
            gone.uuid: (100, "gpu_lost"),
            stays.uuid: (101, "up"),
        }


def test_a_board_that_comes_back_is_what_it_was(node: Node) -> None:
    away = node.tree.add(MI210)
    node.tree.add(MI210)
    before = states(node.read())
    elsewhere = away.folder.parent / "elsewhere"
    away.folder.rename(elsewhere)
    node.read(after=60)

    elsewhere.rename(away.folder)

    assert states(node.read(after=60)) == before


def test_a_board_that_is_added_takes_no_ones_number(node: Node) -> None:
    first = node.tree.add(MI210)
    away = first.folder.parent / "away"
    last = node.tree.add(MI210)
    first.folder.rename(away)
    assert states(node.read()) == {last.uuid: (100, "up")}

    away.rename(first.folder)  # its place on the bus is before the other's

    assert states(node.read(after=60)) == {last.uuid: (100, "up"), first.uuid: (101, "up")}


def test_a_board_that_is_put_where_one_was_takes_its_number(node: Node) -> None:
    taken_out, stays = node.tree.add(MI210), node.tree.add(MI210)
    node.read()
    put(taken_out.folder / "unique_id", "00000000000d1ce5")
    put(node.tree.kfd / "topology/generation_id", 7)

    assert states(node.read(after=60)) == {
        "GPU-00000000000d1ce5": (100, "up"),
        stays.uuid: (101, "up"),
    }


def test_a_board_is_no_other_one_while_kfd_counts_no_change(node: Node) -> None:
    """A number that was read wrong is often another board's, whose files are there."""
    board, near = node.tree.add(MI210), node.tree.add(MI210)
    before = states(node.read())
    nodes = node.tree.kfd / "topology/nodes"
    (own,) = [
        each for each in nodes.iterdir() if (each / "gpu_id").read_text() == f"{board.gpu_ids[0]}\n"
    ]
    put(own / "gpu_id", near.gpu_ids[0])
    put(board.folder / "unique_id", "00000000000d1ce5")

    for _ in range(3):
        reading = node.read(after=60)
        assert states(reading) == before
        assert "KFD counts no change" in reading.status.detail
    assert states(node.read(after=60)).keys() == {"GPU-00000000000d1ce5", near.uuid}


def test_a_card_that_is_another_board_now_is_not_read_for_the_one_before(node: Node) -> None:
    gone = node.tree.add(MI210)
    generation = node.tree.kfd / "topology/generation_id"
    before = generation.read_text()
    node.read()
    card = node.tree.sysfs / "class/drm/card1/device"
    other = node.tree.add(MI210)
    generation.write_text(before)  # so that the boards are not looked for at once
    remove(gone.folder)
    card.unlink()
    card.symlink_to(other.folder)

    assert states(node.read()) == {gone.uuid: (100, "gpu_lost")}
    assert states(node.read(after=60)) == {
        gone.uuid: (100, "gpu_lost"),
        other.uuid: (101, "up"),
    }


def test_a_board_that_kfd_does_not_know_has_all_but_what_kfd_tells(node: Node) -> None:
    board = node.tree.add(RADEON)
    node.tree.hide(board)
    board.set(mem_info_vram_used=GIB, gpu_busy_percent=25)
    node.read()

    reading = node.device(board.uuid)

    assert (known(reading.memory).used_bytes, known(reading.memory).processes) == (GIB, ())
    assert reading.unmeasured == NOT_OF_A_RADEON
    assert known(reading.window).busy.core == 250_000_000


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("gpu_id", "one"),
        ("gpu_id", "9" * 400),
        ("properties", "location_id\nsimd_count -4\n\x00\xff"),
        ("properties", ""),
    ],
)
def test_a_node_of_kfd_that_cannot_be_understood_costs_only_itself(
    node: Node, name: str, content: str
) -> None:
    broken, fine = node.tree.add(MI210), node.tree.add(MI210)
    put(node.tree.kfd / "topology/nodes/1" / name, content)

    node.read()
    found = {r.device.uuid: r for r in node.read().devices}

    assert found[broken.uuid].state is DeviceState.UP
    shares = {uuid: known(reading.window).methods.shares for uuid, reading in found.items()}
    assert shares == {broken.uuid: "fdinfo", fine.uuid: "cu_occupancy"}


def test_a_released_source_reads_nothing_and_goes_on_when_it_is_taken_up(node: Node) -> None:
    node.tree.add(MI210)
    node.read()

    node.source.release(True)
    reading = node.read()
    node.source.release(False)

    assert not reading.status.up
    assert [str(r.state) for r in reading.devices] == ["released"]
    assert [str(r.state) for r in node.read().devices] == ["up"]


def in_reset(board: Board) -> Callable[[], None]:
    """Let the driver refuse what it refuses while it resets a board; gives the way back."""
    names = ("unique_id", "current_compute_partition", "mem_info_vram_total")
    before = {name: (board.folder / name).read_bytes() for name in names}
    for name in names:
        (board.folder / name).unlink()
        (board.folder / name).mkdir()  # EISDIR: root is refused nothing here

    def end() -> None:
        for name, content in before.items():
            (board.folder / name).rmdir()
            put(board.folder / name, content)

    return end


def test_a_board_that_is_reset_stays_the_board_it_is(node: Node) -> None:
    board = node.tree.add(MI300X, parts=8)
    known = [r.device for r in node.read().devices]

    end = in_reset(board)
    meanwhile = [r.device for r in node.read(after=31).devices]
    end()

    assert meanwhile == known
    assert [r.device for r in node.read(after=31).devices] == known


def test_a_board_that_was_partitioned_while_files_were_refused_is_found_so(node: Node) -> None:
    board = node.tree.add(MI300X)
    node.read()
    end = in_reset(board)
    end()
    node.tree.divide(board, 2)
    in_reset(board)

    assert len(node.read().devices) == 3


@pytest.mark.parametrize(("before", "after"), [(1, 8), (8, 1), (8, 2)])
def test_a_board_that_is_divided_anew_is_read_so_at_once(
    node: Node, before: int, after: int
) -> None:
    """Else the new partitions' processes would be nobody's, and an old one as busy as the board."""
    board = node.tree.add(MI300X, parts=before)
    node.read()
    node.tree.divide(board, after)
    node.tree.run(7)
    node.tree.use(7, board.gpu_ids[-1], vram=GIB)

    devices = node.read().devices

    profile = {r.device.core_share for r in devices if r.device.parent_uuid}
    assert (len(devices), profile) == (after + 1, {1 / after}) if after > 1 else (1, set())
    assert [p.pid for r in devices if r.memory for p in r.memory.processes or ()] == [7]


def test_a_node_that_may_not_be_read_has_processes_that_are_not_known(fs: FakeFilesystem) -> None:
    tree = seen_in_part(fs, parts=1)

    found = discover(tree.sysfs, BoardNames())
    reading = AmdDevice(found.boards[0].whole, ManualClock())

    assert "1 of KFD's nodes may not be read" in found.trouble
    assert reading.unmeasured(None)["core"] is Unmeasured.NO_PERMISSION
    assert reading.unmeasured(None)["memory"] is Unmeasured.NO_PERMISSION
    reset_ids()


@pytest.mark.parametrize("kind", [MI300X, MI300A])
def test_a_partition_that_may_be_seen_does_not_stand_for_the_board(
    fs: FakeFilesystem, kind: Kind
) -> None:
    tree = seen_in_part(fs, parts=6, kind=kind)

    [board] = discover(tree.sysfs, BoardNames()).boards
    reset_ids()

    assert (board.whole.node, board.parts) == (None, ())
    assert board.whole.device.sharing == "partitioned"


def seen_in_part(fs: FakeFilesystem, parts: int, kind: Kind = MI300X) -> Tree:
    """A tree of one board of whose KFD nodes all but one, or the only one, are refused."""
    fs.is_case_sensitive = True
    tree = Tree(Path("/host/sys"))
    tree.load()
    tree.add(kind, parts=parts)
    for number in range(2 if parts > 1 else 1, parts + 1):
        (tree.kfd / f"topology/nodes/{number}/gpu_id").chmod(0o200)
    set_uid(65532)
    return tree
