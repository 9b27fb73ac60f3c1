"""A board without an energy counter integrates its power, and says so."""

import pytest

from tests.fakenvml.scenario import Fault, Gpu, Work, energy_joules
from tests.gpus.nvml.node import START, Node, calls

POWER = "nvmlDeviceGetPowerUsage"


@pytest.fixture
def old(node: Node) -> Node:
    """One GPU that has no energy counter, busy in spells of seconds."""
    node.scenario.gpus = [Gpu(0, energy=False)]
    node.scenario.works = [Work(gpu=0, pid=101, start=START - 60, period=9.7, duty=0.5)]
    return node


def test_power_is_integrated_over_the_windows(old: Node) -> None:
    old.start()
    old.read()
    windows = [old.device("GPU-0", after=1).window for _ in range(60)]
    assert all(windows)
    used = sum(w.energy_uj or 0 for w in windows if w) / 1e6
    assert used == pytest.approx(energy_joules(old.scenario, 0, START, old.now), rel=0.05)
    assert {w.methods.energy for w in windows if w} == {"power"}
    assert "energy" not in old.device("GPU-0", after=1).unmeasured


def test_board_with_a_counter_says_so_and_is_not_asked_for_power(old: Node) -> None:
    old.change_gpu(0, energy=True)
    old.start()
    first = calls(old.read(), POWER)
    reading = old.read(after=1)
    assert reading.devices[0].window
    assert reading.devices[0].window.methods.energy == "counter"
    assert calls(reading, POWER) == first  # the sensors' own


def test_board_that_tells_neither_has_no_energy(old: Node) -> None:
    old.fail(Fault("error", POWER, code=3))
    old.start()
    old.read()
    reading = old.device("GPU-0", after=1)
    assert reading.window
    assert reading.window.energy_uj is None
    assert reading.window.methods.energy == "none"
    assert reading.unmeasured["energy"] == "not_supported"


def test_power_that_fails_once_is_in_the_next_window(old: Node) -> None:
    old.scenario.works = []
    old.start()
    old.read()
    old.read(after=1)
    old.fail(Fault("error", POWER, code=999))
    failed = old.device("GPU-0", after=1).window
    old.fail()
    after = old.device("GPU-0", after=1).window
    assert failed
    assert after
    assert failed.energy_uj is None
    assert after.energy_uj == pytest.approx(2 * 70e6)
    assert after.late_energy_uj == pytest.approx(70e6, rel=0.1)  # and not the next one's to pay
