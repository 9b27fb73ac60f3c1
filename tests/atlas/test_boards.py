"""Real boards, replayed through the exporter by the stand-in for the driver."""

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from exporter.agent.collector import Collector, Sources
from exporter.agent.ledger import Ledger
from exporter.agent.sources.gpus.gpusource import Demand
from exporter.model import (
    QUANTITIES,
    DeviceReading,
    Reading,
    Snapshot,
)
from tests.agent.collector.sources import SetPods, SetProcesses
from tests.agent.simulation.clock import ManualClock
from tests.agent.sources.gpus.nvml.node import Node
from tests.atlas.boards import MIB, START, USUAL_S, Board, boards, device, garbage, scenario
from tests.fakenvml.scenario import Gpu, Process, Scenario, Work
from tests.rows import Row, rows_of

SECOND = 10**9
BOARDS = boards()
CAPTURES = {name: board for name, board in BOARDS.items() if "seconds" in board}
WHOLE = {name: board for name, board in CAPTURES.items() if "instances" not in board}
PARTED = {name: board for name, board in CAPTURES.items() if "instances" in board}
ROWS = {name: board for name, board in BOARDS.items() if "rows" in board and board["period_s"]}


def each(of: Mapping[str, Board]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("board", of.values(), ids=of)


class Driver:
    """The source in its own process, as a source of this one."""

    name = "nvml"

    def __init__(self, node: Node) -> None:
        self._node = node
        self.newest: Reading | None = None

    def read(self) -> Reading:
        """The present reading."""
        self.newest = self._node.read()
        return self.newest

    def release(self, released: bool) -> None:  # noqa: FBT001 - the Protocol's signature
        """Nothing is held."""

    def follow(self, demand: Demand) -> None:
        """Everything is read."""

    def look_soon(self) -> None:
        """Nothing is found."""

    def close(self) -> None:
        """The node is stopped by the test."""


class Replay:
    """A collector over a board that the stand-in plays; no process has a pod."""

    def __init__(self, folder: Path) -> None:
        self.node = Node(folder)
        self.clock = ManualClock()
        self.clock.now_ns = 0
        self.driver = Driver(self.node)
        self.ledger = Ledger(300 * SECOND, 15 * SECOND)
        sources = Sources((self.driver,), SetProcesses(), SetPods(), ())
        self.collector = Collector(sources, self.ledger, self.clock)

    def start(self, played: Scenario) -> None:
        """Load the board, and do the first cycle."""
        self.node.scenario = played
        self.node.start()
        self.collector.cycle()

    def second(self) -> Snapshot:
        """One second later, one cycle."""
        self.node.advance(1)
        self.clock.move(1)
        return self.collector.cycle()

    @property
    def devices(self) -> Mapping[str, DeviceReading]:
        """The devices of the newest reading, by UUID."""
        assert self.driver.newest
        return {reading.device.uuid: reading for reading in self.driver.newest.devices}


@pytest.fixture
def replay(tmp_path: Path) -> Iterator[Replay]:
    replay = Replay(tmp_path)
    yield replay
    replay.node.stop()


def only(snapshot: Snapshot) -> Row:
    [row] = rows_of(snapshot)["device"]
    return row


def test_every_public_recording_is_in_the_atlas() -> None:
    assert (len(CAPTURES), len(PARTED), len(BOARDS)) == (7, 2, 10)
    assert all(board["source"] and board["licence"] for board in BOARDS.values())


@each(WHOLE)
def test_shares_add_up_to_the_device_within_a_point_in_every_window(
    replay: Replay, board: Board
) -> None:
    replay.start(scenario(board))

    for recorded in board["seconds"]:
        replay.second()
        window = replay.devices["GPU-0"].window
        assert window
        for engine in QUANTITIES:
            busy = getattr(window.busy, engine) or 0
            shares = {p.pid: getattr(p.busy, engine) or 0 for p in window.processes}
            assert busy / SECOND == pytest.approx(device(board, engine) / 100, abs=0.011), engine
            if sum(of.get(engine) or 0 for of in recorded.values()):
                assert sum(shares.values()) / SECOND == pytest.approx(busy / SECOND, abs=0.01)
            for pid, of in recorded.items():
                figure = (of.get(engine) or 0) / 100
                allowed = max(0.02, device(board, engine) / 100 / 2 / round(1 / _period(board)))
                assert shares.get(int(pid), 0) / SECOND == pytest.approx(figure, abs=allowed)


def _period(board: Board) -> float:
    return board["period_s"] or USUAL_S


@each(WHOLE)
def test_the_books_balance(replay: Replay, board: Board) -> None:
    replay.start(scenario(board))
    for _ in board["seconds"]:
        snapshot = replay.second()

    values: Mapping[str, Any] = only(snapshot).values
    parts = Counter[str]()
    for (reason,), ns in values["unattributed_core_seconds_total"].items():
        parts[reason] += ns
    assert values["busy_seconds_total"] > 0
    assert sum(parts.values()) == values["busy_seconds_total"]


@each(WHOLE)
def test_windows_are_contiguous_and_all_of_them_is_observed(replay: Replay, board: Board) -> None:
    replay.start(scenario(board))
    windows = []
    for _ in board["seconds"]:
        replay.second()
        windows.append(replay.devices["GPU-0"].window)

    assert all(window and window.unobserved_ns == 0 for window in windows)
    assert all(a and b and a.end_unix_ns == b.start_unix_ns for a, b in pairwise(windows))


@each(PARTED)
def test_boards_in_mig_mode_are_unmeasured_and_not_zero(replay: Replay, board: Board) -> None:
    replay.start(scenario(board))
    for _ in board["seconds"]:
        snapshot = replay.second()

    assert len(replay.devices) == 1 + len(board["instances"])
    for reading in replay.devices.values():
        assert reading.window is None or reading.window.busy.core is None
    for row in rows_of(snapshot)["device"]:
        assert "busy_seconds_total" not in row.values
        assert "utilization_ratio" not in row.values
        unmeasured: Any = row.values["unmeasured"]
        assert "core" in {quantity for quantity, _ in unmeasured}


@each(PARTED)
def test_memory_of_a_gpu_instance_is_not_counted_once_for_each_compute_instance(
    replay: Replay, board: Board
) -> None:
    replay.start(scenario(board))
    snapshot = replay.second()

    listed = Counter[int]()
    for reading in replay.devices.values():
        for process in (reading.memory and reading.memory.processes) or ():
            listed[process.pid] += process.used_bytes or 0
    assert listed == {one["pid"]: one["used_mib"] * MIB for one in board["memory"]}
    used = [row.values.get("memory_used_bytes") for row in rows_of(snapshot)["device"]]
    assert sum(own for own in used if isinstance(own, int)) == sum(listed.values())
    unattributed: Any = [
        row.values.get("unattributed_memory_bytes") for row in rows_of(snapshot)["device"]
    ]
    reasons = Counter[str]()
    for of in unattributed:
        for (reason,), held in (of or {}).items():
            reasons[reason] += held
    assert +reasons == {"exited": sum(listed.values())}


@each(CAPTURES)
def test_memory_of_processes_is_as_recorded_and_unknown_is_not_zero(
    replay: Replay, board: Board
) -> None:
    replay.start(scenario(board))
    replay.second()

    found = {
        process.pid: process.used_bytes
        for reading in replay.devices.values()
        for process in (reading.memory and reading.memory.processes) or ()
    }
    recorded = {one["pid"]: one["used_mib"] for one in board["memory"]}
    assert found == {pid: None if mib is None else mib * MIB for pid, mib in recorded.items()}


def test_a_garbage_reply_costs_only_itself(replay: Replay) -> None:
    played = Scenario(
        gpus=[Gpu(0, rule="last", sample_offset=START)],
        processes=[Process(gpu=0, pid=101, memory=MIB)],
        works=[Work(gpu=0, pid=101, start=START, period=0.1, duty=0.3)],
        now=START,
        loaded=START - 1000,
    )
    played.rows = garbage(BOARDS["nvtop-110-garbage"])
    replay.start(played)

    for _ in range(5):
        replay.second()
        window = replay.devices["GPU-0"].window
        assert window
        assert sum(window.rejected.values()) == 100
        assert {process.pid for process in window.processes} == {101}
        assert sum(p.busy.core or 0 for p in window.processes) == window.busy.core


def test_a_zombies_memory_has_its_reason(replay: Replay) -> None:
    played = Scenario(
        gpus=[Gpu(0, used=3 * MIB, rule="last")],
        processes=[Process(gpu=0, pid=506826, memory=2 * MIB)],
        now=START,
        loaded=START - 1000,
    )
    replay.start(played)
    values: Mapping[str, Any] = only(replay.second()).values

    unattributed = {reason: held for (reason,), held in values["unattributed_memory_bytes"].items()}
    assert sum(unattributed.values()) == 3 * MIB
    assert unattributed["exited"] == 2 * MIB


@each(ROWS)
def test_times_of_rows_are_whole_periods_apart(board: Board) -> None:
    times = sorted({row["at_us"] / 1e6 for row in board["rows"]})

    for before, after in pairwise(times):
        periods = (after - before) / board["period_s"]
        if round(periods) <= 10:  # an error of the period adds up over more
            assert periods == pytest.approx(round(periods), abs=0.15)
