"""Boards that the kernel may suspend: asleep, and left alone so that they can fall asleep."""

from dataclasses import replace

import pytest

from exporter.model import Unmeasured, Window
from tests.agent.sources.gpus.amd.node import DEMAND, Node
from tests.agent.sources.gpus.amd.trees import GIB, MI210, MI300X, RADEON, TICKS, Kind, v1_6
from tests.agent.sources.gpus.known import known

SECOND = 1_000_000_000
JOULE = 1_000_000
PAUSE = 10  # seconds: twice the delay


def test_a_board_that_sleeps_is_idle_and_is_not_woken(node: Node) -> None:
    board = node.tree.add(RADEON)
    board.set(gpu_busy_percent=70)  # would be read if it were awake
    board.may_sleep("suspended")
    node.read()

    reading = node.device(board.uuid)

    assert known(reading.window).busy.core == 0
    assert reading.sensors.value("power_watts") is None
    assert reading.unmeasured["power"] is reading.unmeasured["clock"] is Unmeasured.ASLEEP


def test_an_idle_board_is_left_alone_long_enough_to_fall_asleep(node: Node) -> None:
    board = node.tree.add(RADEON)
    board.may_sleep()
    node.read()
    board.hwmon(power1_average=40_000_000)

    powers = [node.device(board.uuid).sensors.value("power_watts") for _ in range(20)]

    assert powers == [100] * 9 + [40] * 11  # not asked for before twice the delay


def test_clients_that_work_on_a_board_that_was_left_alone_are_seen_at_once(node: Node) -> None:
    board = node.tree.add(RADEON)
    board.may_sleep()
    node.client(42, board)
    node.read()
    node.read()
    node.client(42, board, gfx=SECOND // 4)
    board.set(gpu_busy_percent=30)

    first, second = node.window(board.uuid), node.window(board.uuid)

    assert (first.busy.core, first.busy.memory_active) == (SECOND // 4, None)
    assert second.busy.core == SECOND * 3 // 10


def test_a_process_of_kfds_lets_no_board_fall_asleep(node: Node) -> None:
    board = node.tree.add(MI210)
    board.may_sleep()
    node.tree.run(7)
    node.tree.use(7, board.gpu_ids[0], vram=GIB)

    node.read()

    assert all(node.device(board.uuid).window for _ in range(5))


def test_what_a_board_used_asleep_is_nobodys_when_it_wakes(node: Node) -> None:
    board = node.tree.add(MI300X)
    board.may_sleep()
    board.metrics(v1_6(1000 * TICKS))
    node.read()
    board.may_sleep("suspended")
    asleep = [node.window(board.uuid, after=60).energy_uj for _ in range(5)]
    board.may_sleep()
    board.set(gpu_busy_percent=100)
    board.metrics(v1_6(1700 * TICKS))

    awake = node.window(board.uuid)

    assert asleep == [None] * 5
    assert (awake.energy_uj, awake.idle_energy_uj) == (700 * JOULE, 700 * JOULE)


def test_a_board_may_be_kept_awake_if_that_is_wanted(node: Node) -> None:
    board = node.tree.add(RADEON)
    board.may_sleep("suspended")
    node.source.follow(replace(DEMAND, wake=True))

    assert node.device(board.uuid).sensors.value("power_watts") == 100


def windows(node: Node, uuid: str, cycles: int) -> list[Window]:
    """What a device told in so many cycles of a second."""
    told = [node.device(uuid).window for _ in range(cycles)]
    return [window for window in told if window is not None]


def busy_ns(told: list[Window]) -> int:
    return sum(window.busy.core or 0 for window in told)


def test_a_board_whose_clients_cannot_be_seen_is_not_idle_in_a_pause(nested: Node) -> None:
    board = nested.tree.add(RADEON)
    board.may_sleep()
    nested.read()
    nested.read()
    board.set(gpu_busy_percent=100)

    told = windows(nested, board.uuid, 2 * PAUSE)

    assert busy_ns(told) == sum(window.observed_ns for window in told)
    assert sum(window.unobserved_ns for window in told) == (PAUSE - 5) * SECOND


def test_a_partition_is_not_idle_in_a_pause_in_which_it_is_not_asked(node: Node) -> None:
    board = node.tree.add(MI300X, parts=2)
    board.may_sleep()
    board.metrics(v1_6(0, [[0], [0]]))
    node.read()
    node.read()
    board.metrics(v1_6(0, [[0], [100]]))

    told = windows(node, f"{board.uuid}-1", 2 * PAUSE)

    assert busy_ns(told) == sum(window.observed_ns for window in told) // 2  # half of the board


@pytest.mark.parametrize("engine", ["enc", "dma"])
def test_a_board_whose_core_alone_is_idle_is_not_left_alone(node: Node, engine: str) -> None:
    board = node.tree.add(RADEON)
    board.may_sleep()
    node.client(42, board)
    node.read()
    node.read()
    board.set(mem_busy_percent=40)
    told: list[int | None] = []
    for second in range(1, PAUSE + 1):
        node.client(42, board, **{engine: second * SECOND // 2})
        told.append(node.window(board.uuid).busy.memory_active)

    assert told == [None, *[SECOND * 4 // 10] * (PAUSE - 1)]


@pytest.mark.parametrize(("kind", "parts"), [(MI210, 1), (MI300X, 2)])
@pytest.mark.parametrize("delay_ms", [5000, 60_000])
def test_a_board_that_is_idle_before_a_pause_and_after_it_was_so_throughout(
    node: Node, kind: Kind, parts: int, delay_ms: int
) -> None:
    """As one with a display, that is left alone for ever and never falls asleep."""
    board = node.tree.add(kind, parts=parts)
    board.may_sleep(delay_ms=delay_ms)
    board.metrics(v1_6(0, [[0]] * parts))
    node.read()
    uuids = [board.uuid, *(f"{board.uuid}-{part}" for part in range(parts) if parts > 1)]

    for uuid in uuids:
        told = windows(node, uuid, 60)

        assert busy_ns(told) == 0
        assert [w.unobserved_ns for w in told] == [0] * len(told)
        assert len(told) < PAUSE  # it was left alone


def test_of_a_pause_that_ends_in_work_the_last_seconds_are_told(node: Node) -> None:
    board = node.tree.add(MI210)
    board.may_sleep()
    node.read()
    node.read(PAUSE)
    board.set(gpu_busy_percent=50)

    node.read()
    window = node.window(board.uuid, PAUSE)

    assert (window.observed_ns, window.unobserved_ns) == (5 * SECOND, (PAUSE + 1 - 5) * SECOND)
    assert window.busy.core == 5 * SECOND // 2


def test_a_board_that_falls_asleep_in_a_pause_was_idle_until_then(node: Node) -> None:
    board = node.tree.add(MI210)
    board.may_sleep()
    node.read()
    for _ in range(PAUSE - 2):
        node.read()
    board.may_sleep("suspended")

    window = node.window(board.uuid)

    assert (window.observed_ns, window.unobserved_ns) == ((PAUSE - 1) * SECOND, 0)


def test_a_partition_whose_activity_is_not_told_stays_so_in_a_pause(node: Node) -> None:
    board = node.tree.add(MI300X, parts=2)
    board.may_sleep()
    board.metrics(v1_6(0))
    node.read()

    reasons = [node.device(f"{board.uuid}-1").unmeasured["core"] for _ in range(PAUSE)]

    assert set(reasons) == {Unmeasured.PARTITIONED}
