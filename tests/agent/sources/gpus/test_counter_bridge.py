"""A costly counter of energy is read four times a minute; power says what happens in between."""

from collections.abc import Callable, Sequence
from itertools import pairwise

import pytest

from exporter.agent.sources.gpus.board_energy import BoardEnergy
from exporter.agent.sources.gpus.counter_bridge import CounterBridge

SECOND, MS, JOULE = 10**9, 10**6, 10**6
Watts = Callable[[int], float]


class Board:
    """A board whose counter takes some milliseconds, and how it is read each five seconds."""

    def __init__(self, watts: Watts, *, takes_ms: float = 2.7, power: float | None = 1.0) -> None:
        self.watts, self.takes_ns, self.power = watts, int(takes_ms * MS), power
        self.joules, self.second, self.reads = 1000.0, 0, 0
        self.stands_at: float | None = None
        self.bridge, self.energy = CounterBridge(), BoardEnergy(compares=False)
        self.energy_method: list[str] = []

    def window(self, *, power_ns: int = 20_000, every_s: int = 5) -> float | None:
        """The joules of the next window."""
        for _ in range(every_s):
            self.joules += self.watts(self.second)
            self.second += 1
            now_ns = self.second * SECOND
            watts = self.watts(self.second - 1)
            said = None if self.power is None else int(watts * 1000 * self.power)
            if self.bridge.is_costly:
                self.bridge.add_power(said, power_ns, now_ns)
        counter_uj = self.bridge.continued(now_ns)
        if counter_uj is None:
            self.reads += 1
            joules = self.joules if self.stands_at is None else self.stands_at
            counter_uj = self.bridge.read(int(joules * JOULE), self.takes_ns, now_ns)
        used = self.energy.take(counter_uj, lambda: said, now_ns, None).used_uj
        self.energy_method.append(self.energy.method)
        return None if used is None else used / JOULE

    def windows(self, seconds: int) -> Sequence[float]:
        found = [self.window() for _ in range(seconds // 5)]
        assert None not in found
        return [each or 0.0 for each in found]


def steady(_: int) -> float:
    return 300.0


def jobs(second: int) -> float:
    """Seven seconds of work, six of rest."""
    return 650.0 if second % 13 < 7 else 75.0


def begun(board: Board) -> Board:
    """What it takes to know what costs what."""
    for _ in range(5):
        board.window()
    board.reads = 0
    return board


def test_a_costly_counter_is_read_four_times_a_minute() -> None:
    board = begun(Board(steady))
    assert board.windows(60) == pytest.approx([1500.0] * 12)
    assert board.reads == 4


def test_a_cheap_counter_is_read_each_time() -> None:
    board = begun(Board(jobs, takes_ms=0.2))
    before = board.joules
    assert sum(board.windows(60)) == pytest.approx(board.joules - before)
    assert board.reads == 12


def test_where_power_costs_as_much_the_counter_is_read_each_time() -> None:
    board = Board(steady)
    for _ in range(5):
        board.window(power_ns=2 * MS)
    board.reads = 0
    for _ in range(12):
        board.window(power_ns=2 * MS)
    assert board.reads == 12


@pytest.mark.parametrize("power", [0.8, 1.0, 1.25])
@pytest.mark.parametrize("watts", [steady, jobs])
def test_windows_are_right_and_sums_are_the_counters(watts: Watts, power: float) -> None:
    """Power that is a quarter too high or low is scaled by what the counter said of it."""
    board = begun(Board(watts, power=power))
    before = board.joules
    truth: list[float] = []
    found: list[float] = []
    for _ in range(720):
        at = board.joules
        found += board.windows(5)
        truth.append(board.joules - at)
    assert sum(found) == pytest.approx(board.joules - before, rel=1e-3)
    assert found == pytest.approx(truth, rel=0.02)


def test_what_power_said_too_much_is_taken_off_what_comes_next() -> None:
    board = begun(Board(steady))
    board.windows(15)
    before, board.power = board.joules, 1.5  # from now on, as a board that says it badly
    found = board.windows(120)
    assert all(each > 0 for each in found)
    assert sum(found) == pytest.approx(board.joules - before, rel=0.01)


def test_power_that_says_something_else_does_not_continue_a_counter() -> None:
    board = begun(Board(steady, power=3.0))
    assert board.windows(60) == pytest.approx([1500.0] * 12)
    assert board.reads == 12


@pytest.mark.parametrize("power", [None, 0.0])
def test_without_power_the_counter_is_read_each_time(power: float | None) -> None:
    board = begun(Board(steady, power=power))
    assert board.windows(60) == pytest.approx([1500.0] * 12)
    assert board.reads == 12


def test_a_counter_that_stops_is_found_out_and_power_counts() -> None:
    board = begun(Board(steady))
    board.windows(30)
    board.stands_at = board.joules
    found = [board.window() for _ in range(24)]
    assert board.energy_method[-1] == "power"
    assert sum(each or 0 for each in found) == pytest.approx(120 * 300, rel=0.1)
    assert found[-12:] == pytest.approx([1500.0] * 12)


def test_a_counter_that_was_reset_begins_again() -> None:
    board = begun(Board(steady))
    board.windows(30)
    board.joules = 10.0
    found = [board.window() for _ in range(12)]
    assert found.count(None) == 1
    assert [each for each in found if each is not None] == pytest.approx([1500.0] * 11)


def test_a_read_that_fails_costs_only_itself() -> None:
    bridge = CounterBridge()
    told = []
    for second in range(0, 120, 5):
        bridge.add_power(300_000, 20_000, second * SECOND)
        found = bridge.continued(second * SECOND)
        if found is None:
            counter = None if second == 60 else second * 300 * JOULE
            found = bridge.read(counter, 3 * MS, second * SECOND)
        told.append(found)
    known = [each for each in told if each is not None]
    assert len(known) >= len(told) - 1
    assert all(a < b for a, b in pairwise(known))
    assert known[-1] == pytest.approx(115 * 300 * JOULE, rel=0.01)
