"""The wall clock is set, by any amount and in any state: no zero while working, and soon the truth.

The device is of our making. Its process works without a pause, so that each window that was
observed while it worked has to name it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, product

import pytest

from exporter.model import ProcessSample, Sample, Window
from tests.agent.sources.gpus.cursor import Cursor

SECOND = 1_000_000
PERIOD = 166_667
EPOCH = 1_700_000_000 * SECOND
BOOTED = 0  # the wall clock's part of a ring's clock that counts from boot
DEPTH = 72
PID, GONE = 7, 8
SETTLED_S = 40  # before the step
WATCHED_S = 60  # after it, at work
SOON_S = 30

STEPS = (-3600, -30, -10, -3, 6, 10, 30, 3600)
METHODS = ("samples", "rates")
STAMPS = ("wall", "wall, all at once", "boot")
STATES = ("busy", "idle", "silent")


@dataclass
class Device:
    """A device whose process works from some moment on, and whose samples a clock stamps.

    ``stamps``: "wall" stamps a sample when it is taken, so that a step back leaves samples with
    later stamps in the ring; "wall, all at once" stamps the ring when it is read; "boot" counts
    from boot. ``method`` "rates" keeps its samples for itself. ``sleeps``: it takes no samples
    while it is idle. ``rate``: what it tells as its newest rate, whatever its samples say.
    Its ring has ``depth`` samples, ``period`` µs apart.
    """

    method: str
    stamps: str
    sleeps: bool = False
    mono: int = 5000 * SECOND
    wall_us: int = EPOCH
    working_pid: int | None = None
    ring: list[tuple[int, int | None, int]] = field(default_factory=list)  # µs, pid, percent
    last: int = 0
    worked: int = 0
    rate: float | None = None
    period: int = PERIOD
    depth: int = DEPTH

    def pass_time(self, us: int) -> None:
        """Let time pass, and the driver sample."""
        first, self.mono = self.mono // self.period + 1, self.mono + us
        self.last = 0 if self.working_pid is None else 100
        self.worked += us * self.last // 100
        if self.sleeps and self.working_pid is None:
            return
        ahead = self.wall_us if self.stamps == "wall" else 0
        for number in range(first, self.mono // self.period + 1):
            self.ring.append((number * self.period + ahead, self.working_pid, self.last))
        del self.ring[: -self.depth]

    def _newer(self, newer_than_us: int) -> Iterator[tuple[int, int | None, int]]:
        ahead = self.wall_us if self.stamps == "wall, all at once" else 0
        stamped = sorted((at + ahead, pid or 0, percent) for at, pid, percent in self.ring)
        return (sample for sample in stamped if sample[0] > newer_than_us)

    def busy_samples(self, engine: str, newer_than_us: int) -> Sequence[Sample] | None:
        """The ring, as ``nvmlDeviceGetSamples`` gives it."""
        if engine != "core" or self.method == "rates":
            return None
        return [Sample(at, percent) for at, _, percent in self._newer(newer_than_us)]

    def utilization(self, engine: str) -> float | None:
        rate = self.last if self.rate is None else self.rate
        return float(rate) if engine == "core" else None

    def process_samples(self, newer_than_us: int) -> Sequence[ProcessSample]:
        """The averages over all samples since then, as ``nvmlDeviceGetProcessUtilization``."""
        samples = list(self._newer(newer_than_us))
        rows = {}
        for at, pid, _ in samples:
            if pid:
                part = sum(p for _, own, p in samples if own == pid) // len(samples)
                rows[pid] = ProcessSample(pid, at, part, 0, 0, 0)
        return list(rows.values())


@dataclass
class Seen:
    """A window, and from when to when it stands for by the monotonic clock, in microseconds."""

    window: Window
    begin: int
    end: int

    @property
    def named_ns(self) -> int:
        return sum(process.busy.core or 0 for process in self.window.processes)


class Watch:
    """A cursor that is asked once a second."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.cursor = Cursor(device)
        self.windows: list[Seen] = []
        self.asked = device.mono

    def seconds(self, count: int, pid: int | None = None) -> None:
        """Let the process work, or none, for so long."""
        self.device.working_pid = pid
        for _ in range(count):
            self.device.pass_time(SECOND)
            device = self.device
            window = self.cursor.next(device.mono + device.wall_us, device.mono)
            if window:
                self.windows.append(Seen(window, self.asked, device.mono))
                self.asked = device.mono


def stepped(device: Device, step_s: int, state: str, before: int = PID) -> tuple[Watch, int]:
    """Watch a device whose clock is set in this state; and when its process works after that.

    ``before`` is the process that works before the step.
    """
    watch = Watch(device)
    watch.seconds(SETTLED_S, before if state == "busy" else None)
    if state != "busy":  # the ring remembers work, and a silent one keeps it
        watch.seconds(5, before)
        watch.seconds(30)
    device.wall_us += step_s * SECOND
    if state == "busy":
        begin = device.mono
    else:
        watch.seconds(25)
        begin = device.mono
    watch.seconds(WATCHED_S, PID)
    return watch, begin


def seconds_until_true(watch: Watch, begin: int) -> float:
    """From the beginning of the work to the window since which all has been named."""
    true_since = begin
    for seen in watch.windows:
        if seen.end > begin and (seen.window.unobserved_ns or not seen.named_ns):
            true_since = seen.end
    return (true_since - begin) / SECOND


def zeros(watch: Watch, begin: int) -> list[Seen]:
    """The windows that were observed, all of them in the time of the work, and name nobody."""
    return [
        seen
        for seen in watch.windows
        if seen.begin >= begin and seen.window.observed_ns and not seen.named_ns
    ]


@pytest.mark.parametrize("stamps", STAMPS)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("state", STATES)
def test_no_step_of_the_clock_makes_a_process_at_work_read_zero(
    state: str, method: str, stamps: str
) -> None:
    for step, before in product(STEPS, (PID, GONE)):
        device = Device(method, stamps, sleeps=state == "silent")
        watch, begin = stepped(device, step, state, before)

        assert zeros(watch, begin) == [], (step, before)
        assert seconds_until_true(watch, begin) <= SOON_S, (step, before)
        check_books(watch)


@pytest.mark.parametrize("stamps", STAMPS)
@pytest.mark.parametrize("method", METHODS)
def test_samples_from_before_a_step_do_not_hide_it(method: str, stamps: str) -> None:
    for step in STEPS:
        device = Device(method, stamps)
        watch = Watch(device)
        watch.seconds(SETTLED_S, PID)
        device.pass_time(700_000)  # the driver takes samples in the old clock until the step
        device.wall_us += step * SECOND
        begin = device.mono
        watch.seconds(WATCHED_S, PID)

        assert zeros(watch, begin) == [], step
        assert seconds_until_true(watch, begin) <= SOON_S, step


@pytest.mark.parametrize("step", [6, 10, 30, 3600])
def test_what_worked_before_a_step_ahead_reads_as_unobserved_and_not_as_nobodys(step: int) -> None:
    watch = Watch(Device("samples", "wall"))
    watch.seconds(SETTLED_S, PID)
    watch.device.pass_time(700_000)
    watch.device.wall_us += step * SECOND
    watch.seconds(WATCHED_S, PID)

    assert [each for each in watch.windows if each.window.observed_ns and not each.named_ns] == []


@pytest.mark.parametrize("step", [3, 6, 10])
def test_samples_that_were_counted_are_not_counted_again_once_time_reaches_them(step: int) -> None:
    device = Device("samples", "wall, all at once", sleeps=True)
    watch = Watch(device)
    watch.seconds(SETTLED_S, PID)
    device.wall_us += step * SECOND
    watch.seconds(2)
    device.rate = 1.0  # it tells no idleness
    watch.seconds(WATCHED_S)

    assert sum(seen.named_ns for seen in watch.windows) / 1000 <= device.worked + PERIOD


@pytest.mark.parametrize("drift", [-0.01, 0.01])
def test_a_ring_whose_clock_runs_faster_or_slower_than_ours_is_followed(drift: float) -> None:
    device = Device("samples", "wall")
    watch = Watch(device)
    for _ in range(900):
        watch.seconds(1, PID)
        device.wall_us += int(drift * SECOND)

    windows = [seen.window for seen in watch.windows]
    assert len(windows) == 899
    assert {window.unobserved_ns for window in windows} == {0}
    length_s = sum(window.observed_ns for window in windows) / 1e9
    assert length_s == pytest.approx(899 * min(1 + drift, 1), abs=0.4)


def check_books(watch: Watch) -> None:
    """Windows are contiguous, are as long as the time that went by, and count nothing twice."""
    windows = [seen.window for seen in watch.windows]
    assert all(a.end_unix_ns == b.start_unix_ns for a, b in pairwise(windows))
    length = windows[-1].end_unix_ns - windows[0].start_unix_ns
    went_by = watch.windows[-1].end - watch.windows[0].begin
    assert length / 1000 == pytest.approx(went_by, abs=2 * PERIOD + SECOND)
    booked = sum(seen.window.busy.core or 0 for seen in watch.windows) / 1000
    assert booked <= watch.device.worked + PERIOD
