"""The cursor when clocks are set, count from elsewhere, or tick slowly: no time is lost."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import pytest

from exporter.model import ProcessSample, Sample, Window
from tests.gpus.cursor import Cursor

SECOND = 1_000_000
PERIOD = 166_667
EPOCH = 1_700_000_000 * SECOND
HOUR = 3600 * SECOND
PID = 7


@dataclass
class Driver:
    """A device that is half busy, with one process; it samples while ``sampling``.

    ``clock_us`` is the ring's clock against the monotonic one; the wall clock is the test's.
    """

    clock_us: int = EPOCH
    period: int = PERIOD
    sampling: bool = True
    mono: int = 1000 * SECOND
    ring: list[Sample] = field(default_factory=list)
    rate: float = 50.0
    keeps_samples: bool = True

    def pass_time(self, us: int) -> None:
        """Let time pass, and the driver sample."""
        first = self.mono // self.period + 1
        self.mono += us
        if self.sampling:
            ends = (n * self.period for n in range(first, self.mono // self.period + 1))
            self.ring = [*self.ring, *(Sample(e + self.clock_us, 50) for e in ends)][-72:]

    def busy_samples(self, engine: str, newer_than_us: int) -> Sequence[Sample] | None:
        """The ring, sorted as the driver's answer is."""
        if engine != "core" or not self.keeps_samples:
            return None
        return sorted(s for s in self.ring if s.timestamp_us > newer_than_us)

    def utilization(self, engine: str) -> float | None:
        """The rate of the moment."""
        return self.rate if engine == "core" else None

    def process_samples(self, newer_than_us: int) -> Sequence[ProcessSample] | None:
        """The process, if a sample is newer."""
        newer = [s.timestamp_us for s in self.ring if s.timestamp_us > newer_than_us]
        return [ProcessSample(PID, max(newer), 50, 0, 0, 0)] if newer else []


class Watched:
    """A cursor read once a second, and the sums of its windows in seconds."""

    def __init__(self, driver: Driver, wall_us: int = EPOCH) -> None:
        self.driver, self.wall_us = driver, wall_us
        self.cursor = Cursor(driver)
        self.windows: list[Window] = []

    def watch(self, seconds: int) -> None:
        """Read once a second."""
        for _ in range(seconds):
            self.driver.pass_time(SECOND)
            window = self.cursor.next(self.driver.mono + self.wall_us, self.driver.mono)
            if window:
                self.windows.append(window)

    @property
    def core(self) -> float:
        """Busy time of the device."""
        return sum(w.busy.core or 0 for w in self.windows) / 1e9

    @property
    def named(self) -> float:
        """Busy time that the driver credits its process with."""
        return sum(p.busy.core or 0 for w in self.windows for p in w.processes) / 1e9

    @property
    def unobserved(self) -> float:
        """Time that is said not to have been seen."""
        return sum(w.unobserved_ns for w in self.windows) / 1e9

    @property
    def length(self) -> float:
        """Time that is accounted for."""
        return sum(w.observed_ns + w.unobserved_ns for w in self.windows) / 1e9


@pytest.mark.parametrize("step", [-2 * HOUR, -600 * SECOND, 600 * SECOND, 2 * HOUR])
def test_a_clock_that_is_set_costs_some_cycles_that_are_said_to_be_unobserved(step: int) -> None:
    driver = Driver()
    watched = Watched(driver)
    watched.watch(30)
    driver.clock_us += step
    watched.wall_us += step

    watched.watch(60)

    assert watched.length == pytest.approx(89, abs=0.4)
    # Set back, the ring holds samples of the future for as long as it is deep, and the driver's
    # rows are about those too: nothing is believed until they are gone.
    assert watched.unobserved == pytest.approx(12 if step < 0 else 2, abs=1.2)
    assert watched.named == pytest.approx(watched.core, rel=0.01)
    assert watched.core == pytest.approx((89 - watched.unobserved) / 2, rel=0.01)
    assert all(a.end_unix_ns == b.start_unix_ns for a, b in pairwise(watched.windows))


@pytest.mark.parametrize("drift", [-0.01, 0.01])
def test_a_ring_whose_clock_runs_faster_or_slower_than_ours_is_followed(drift: float) -> None:
    driver = Driver()
    watched = Watched(driver)
    for _ in range(900):
        watched.watch(1)
        driver.clock_us += int(drift * SECOND)

    assert len(watched.windows) == 899
    assert watched.unobserved == 0
    assert watched.length == pytest.approx(899 * min(1 + drift, 1), abs=0.4)


@pytest.mark.parametrize("step", [-2 * HOUR, -5 * SECOND, 5 * SECOND, 2 * HOUR])
def test_a_ring_that_counts_from_boot_does_not_care_for_the_wall_clock(step: int) -> None:
    driver = Driver(clock_us=0)
    watched = Watched(driver)
    watched.watch(30)
    watched.wall_us += step

    watched.watch(60)

    assert watched.length == pytest.approx(89, abs=0.4)
    assert watched.unobserved == 0
    assert watched.core == pytest.approx(44.5, abs=0.3)


def test_a_clock_set_while_the_driver_does_not_sample_is_no_matter_afterwards() -> None:
    driver = Driver(clock_us=0)
    watched = Watched(driver)
    watched.watch(10)
    driver.sampling, driver.rate = False, 0.0
    watched.watch(20)
    watched.wall_us += HOUR
    watched.watch(20)
    driver.sampling = True

    watched.watch(30)

    assert watched.core == pytest.approx((9 + 30) / 2, abs=0.7)


def test_a_device_that_samples_once_a_second_is_wholly_observed() -> None:
    driver = Driver(period=SECOND)
    watched = Watched(driver)

    watched.watch(120)

    assert watched.unobserved <= 3
    assert watched.core == pytest.approx(59, abs=2)


@pytest.mark.parametrize("clock", [EPOCH, 0])
def test_no_time_is_lost_when_a_ring_that_was_empty_fills(clock: int) -> None:
    driver = Driver(clock_us=clock, sampling=False, rate=0.0)
    watched = Watched(driver)
    watched.watch(30)
    driver.sampling = True

    watched.watch(30)

    assert watched.length == pytest.approx(59, abs=0.4)
    assert watched.unobserved <= 2  # the newest rate is asked for after two seconds of darkness
    assert watched.core == pytest.approx(15, abs=0.4)


@pytest.mark.parametrize("blank", [0xFFFFFFFF, 2_147_483_632.0, 101.0, -(2.0**31), float("nan")])
def test_a_blank_value_is_no_busy_time(blank: float) -> None:
    driver = Driver()
    watched = Watched(driver)
    watched.watch(10)
    driver.pass_time(SECOND)
    driver.ring[-1] = driver.ring[-1]._replace(percent=blank)

    watched.watch(10)

    assert watched.core + watched.unobserved / 2 == pytest.approx(10, abs=0.3)
