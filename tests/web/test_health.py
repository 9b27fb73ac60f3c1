import pytest

from exporter.collector import Pulse
from exporter.model import Snapshot
from exporter.web.health import alive, ready
from tests.web.serving import SECOND, FakeClock, FakeCollector


@pytest.mark.parametrize(
    ("interval_s", "still_s", "good"),
    [(1, 0, True), (1, 15, True), (1, 16, False), (60, 600, True), (60, 601, False)],
)
def test_alive_while_the_cycles_clock_moves(
    interval_s: int,
    still_s: int,
    good: bool,  # noqa: FBT001 - a table
) -> None:
    collector = FakeCollector(pulse=Pulse(0, 5, interval_s * SECOND))

    verdict = alive(collector, FakeClock(still_s * SECOND))

    assert verdict.good is good
    assert (f"{still_s} s" in verdict.words) is not good


@pytest.mark.parametrize(("done", "good"), [(0, False), (1, True)])
def test_ready_after_the_first_cycle(done: int, good: bool) -> None:  # noqa: FBT001 - a table
    assert ready(FakeCollector(Snapshot(), Pulse(0, done))).good is good
