"""No device is observed for longer than the monotonic clock went on, whatever its ring holds."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from exporter.agent.sources.gpus.window import WindowCursor
from exporter.model import Sample, Window
from tests.agent.sources.gpus.cursor import merged

SECOND = 1_000_000
EPOCH = 1_700_000_000 * SECOND
STARTED = 5000 * SECOND


@dataclass
class Device:
    """A device that samples ``rate`` times a second into a full ring; implements ``Clock`` too.

    An answer has at most ``room`` samples, the oldest or the newest ones. ``stamps_us`` is the
    ring's clock and ``wall_us`` the wall clock, ahead of the monotonic one.
    """

    rate: int
    depth: int
    room: int
    keeps_oldest: bool = True
    stamps_us: int = EPOCH
    wall_us: int = EPOCH
    mono_us: int = STARTED
    ring: list[Sample] = field(default_factory=list)
    busy_us: float = 0.0  # of the samples since the start

    def __post_init__(self) -> None:
        period = SECOND // self.rate
        last = self.mono_us // period
        self.ring = [self._sample(n) for n in range(last - self.depth + 1, last + 1)]

    def _sample(self, number: int) -> Sample:
        return Sample(number * (SECOND // self.rate) + self.stamps_us, number * 37 % 101)

    def pass_time(self, us: int) -> None:
        """Let time pass, and the driver sample."""
        period = SECOND // self.rate
        first, self.mono_us = self.mono_us // period + 1, self.mono_us + us
        new = [self._sample(n) for n in range(first, self.mono_us // period + 1)]
        self.busy_us += sum(sample.percent for sample in new) * period / 100
        self.ring = [*self.ring, *new][-self.depth :]

    def time_ns(self) -> int:
        return (self.mono_us + self.wall_us) * 1000

    def monotonic_ns(self) -> int:
        return self.mono_us * 1000

    def busy_samples(self, engine: str, newer_than_us: int) -> Sequence[Sample] | None:
        if engine != "core":
            return None
        newer = [s for s in self.ring if s.timestamp_us > newer_than_us]
        return sorted(newer[: self.room] if self.keeps_oldest else newer[-self.room :])

    def utilization(self, engine: str) -> float | None:
        return self.ring[-1].percent if engine == "core" else None

    def process_samples(self, newer_than_us: int) -> None:
        """It names nobody."""


Step = tuple[float, int, int]  # seconds since the last read, steps of the wall and ring clock


def windows_of(device: Device, steps: Sequence[Step]) -> list[Window]:
    """The windows of these reads. Fails as soon as more was observed than time passed."""
    cursor = WindowCursor(device, device)
    cursor.next()
    begun_ns, observed_ns, windows = device.monotonic_ns(), 0, []
    for wait_s, wall_s, stamps_s in steps:
        device.pass_time(round(wait_s * SECOND))
        device.wall_us += wall_s * SECOND
        device.stamps_us += stamps_s * SECOND
        if window := merged(cursor.next()):
            windows.append(window)
            observed_ns += window.observed_ns
            assert observed_ns <= device.monotonic_ns() - begun_ns
    return windows


clock_steps = st.one_of(st.just(0), st.just(0), st.integers(-30, 30))


@given(
    rate=st.integers(1, 100),
    depth=st.integers(10, 5000),
    room=st.integers(1, 6000),
    keeps_oldest=st.booleans(),
    steps=st.lists(st.tuples(st.floats(0.1, 20), clock_steps, clock_steps), max_size=40),
)
def test_a_device_is_never_observed_for_longer_than_time_passed(
    rate: int, depth: int, room: int, *, keeps_oldest: bool, steps: list[Step]
) -> None:
    windows_of(Device(rate, depth, room, keeps_oldest), steps)


@given(
    rate=st.integers(1, 100),
    depth=st.integers(10, 5000),
    waits=st.lists(st.floats(0.1, 20), min_size=2, max_size=40),
)
def test_a_ring_that_is_deep_enough_loses_nothing(
    rate: int, depth: int, waits: list[float]
) -> None:
    device = Device(rate, depth, room=depth)
    waits = [min(wait, depth / rate / 2) for wait in waits]
    windows = windows_of(device, [(wait, 0, 0) for wait in waits])
    observed_us = sum(window.observed_ns for window in windows) / 1000
    busy_us = sum(window.busy.core or 0 for window in windows) / 1000
    period = SECOND / rate
    passed_us = device.mono_us - STARTED
    assert passed_us - 2 * period - 1000 <= observed_us
    assert device.busy_us - 2 * period - 1000 <= busy_us <= device.busy_us + period


def test_samples_whose_time_is_dropped_are_counted() -> None:
    device = Device(rate=60, depth=720, room=256)
    windows = windows_of(device, [(1, 0, 0)] * 30)
    assert sum(window.excess_samples for window in windows) > 0
    device = Device(rate=60, depth=720, room=720)
    assert {w.excess_samples for w in windows_of(device, [(1, 0, 0)] * 30)} == {0}
