"""Reads in the default rhythm, whatever happens to clocks, cycles and rings: the books hold."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from exporter.agent.sources.gpus.window import WindowCursor
from exporter.model import Window
from tests.agent.sources.gpus import test_window_steps as steps
from tests.agent.sources.gpus.test_window_steps import METHODS, SECOND, SOON_S, STAMPS

EVERY_NS = 5 * 10**9
SETTLED_S = 5
LONGEST_RING_S = 30  # a device without samples, and with rows of the last minute, is not known
PIDS = (7, 8)
Turn = tuple[float, int, int | None]  # seconds of a cycle, a step of the clock in it, who works


@dataclass
class Device(steps.Device):
    """A device whose processes take turns; implements ``Clock`` too."""

    by_pid: Counter[int] = field(default_factory=Counter)  # µs

    def pass_time(self, us: int) -> None:
        super().pass_time(us)
        if self.working_pid is not None:
            self.by_pid[self.working_pid] += us

    def time_ns(self) -> int:
        return (self.mono + self.wall_us) * 1000

    def monotonic_ns(self) -> int:
        return self.mono * 1000


@dataclass
class Read:
    """What one read brought, and the time that it stands for: seconds of the monotonic clock."""

    begin_us: int
    end_us: int
    windows: tuple[Window, ...]

    @property
    def observed_ns(self) -> int:
        return sum(window.observed_ns for window in self.windows)

    @property
    def named_ns(self) -> int:
        return sum(by_process(self.windows).values())


def by_process(windows: tuple[Window, ...]) -> Counter[int]:
    used: Counter[int] = Counter()
    for window in windows:
        used.update({pid: busy.core or 0 for pid, busy in window.processes})
    return used


def reads(device: Device, turns: list[Turn]) -> list[Read]:
    """What the cycles of these turns read, each if it is due; the ring has some samples before."""
    device.pass_time(SETTLED_S * SECOND)
    cursor = WindowCursor(device, device)
    cursor.next()
    found: list[Read] = []
    before_us = device.mono
    for wait_s, step_s, pid in turns:
        device.working_pid = pid
        device.pass_time(round(wait_s * SECOND / 2))
        device.wall_us += step_s * SECOND
        device.pass_time(round(wait_s * SECOND / 2))
        if not cursor.is_due(EVERY_NS):
            cursor.note_rates()
            if len(found) % 2:
                cursor.look()
        elif windows := cursor.next():
            found.append(Read(before_us, device.mono, windows))
            before_us = device.mono
    return found


WAITS_S = (1.0, 1.0, 1.0, 1.0, 1.4, 2.0, 3.5, 7.0)
STEPS_S = (-3600, -30, -10, -3, 3, 6, 10, 30, 3600)
RINGS = [
    (period, depth)
    for period in (100_000, steps.PERIOD, 200_000, 500_000)
    for depth in (10, 18, 36, 72, 200)
    if 2 <= depth * period / SECOND <= LONGEST_RING_S
]


def device_of(random: Random, methods: Sequence[str] = METHODS) -> Device:
    period, depth = random.choice(RINGS)
    method, stamps = random.choice(methods), random.choice(STAMPS)
    sleeps = random.random() < 1 / 2
    return Device(method, stamps, sleeps, period=period, depth=depth)


def calm(random: Random, pids: Sequence[int | None]) -> list[Turn]:
    return [(random.choice(WAITS_S), 0, random.choice(pids)) for _ in range(random.randint(15, 40))]


def turns_of(random: Random, pids: Sequence[int | None] = (None, *PIDS)) -> list[Turn]:
    """Cycles with up to three steps of the clock, which are further apart than a ring is deep."""
    found = calm(random, pids)
    for _ in range(random.randint(0, 3)):
        step_s = random.choice(STEPS_S)
        found += [(random.choice(WAITS_S), step_s, random.choice(PIDS)), *[(1.0, 0, 7)] * 30]
        found += calm(random, pids)
    return found


seeds = st.integers(0, 2**32).map(Random)


@settings(max_examples=settings().max_examples * 2)
@given(seeds)
def test_windows_are_contiguous_and_nothing_is_counted_twice(random: Random) -> None:
    device, turns = device_of(random), turns_of(random)
    begun_us = device.mono
    windows = [window for read in reads(device, turns) for window in read.windows]
    assert all(a.end_unix_ns == b.start_unix_ns for a, b in pairwise(windows))
    assert sum(w.length_ns for w in windows) <= (device.mono - begun_us) * 1000
    for window in windows:
        assert 0 <= window.observed_ns <= window.length_ns
        assert 0 <= (window.busy.core or 0) <= window.observed_ns
        if window.methods.busy == "samples":  # a rate is of another moment than the rows
            assert sum(by_process((window,)).values()) <= (window.busy.core or 0)
    if device.method == "samples":
        # The first sample of a driver that had stopped sampling counts for half a period too much.
        woken = sum(b[2] is not None and a[2] is None for a, b in pairwise(turns))
        worked_ns = (device.worked + device.period + woken * device.period // 2) * 1000
        assert sum(w.busy.core or 0 for w in windows) <= worked_ns


@dataclass
class EncodingDevice(Device):
    """A device whose encoder has a rate and no ring, and works in each second second."""

    def utilization(self, engine: str) -> float | None:
        encoder = 80.0 * (self.mono // SECOND % 2)
        return encoder if engine == "encoder" else super().utilization(engine)


def test_an_encoder_without_a_ring_is_asked_each_second_and_the_rest_as_seldom_as_else() -> None:
    device = EncodingDevice("samples", "wall")
    turns: list[Turn] = [(1.0, 0, 7)] * 60

    found = reads(device, turns)

    assert len(found) <= len(reads(Device("samples", "wall"), turns))
    busy_ns = sum(w.busy.encoder or 0 for read in found for w in read.windows)
    assert abs(busy_ns - 0.4 * sum(read.observed_ns for read in found)) < SECOND * 1000


class CallFailedError(Exception):
    """A call of the driver that fails."""


@dataclass
class FailingDevice(Device):
    """A device of whose calls some fail, one in ``every``."""

    every: int = 7
    calls: int = 0

    def _newer(self, newer_than_us: int) -> Iterator[tuple[int, int | None, int]]:
        self.calls += 1
        if not self.calls % self.every:
            raise CallFailedError
        return super()._newer(newer_than_us)


@settings(deadline=None)
@given(seeds)
def test_calls_that_fail_lose_no_window(random: Random) -> None:
    device = FailingDevice("samples", random.choice(STAMPS), every=random.randint(3, 9))
    cursor, windows = WindowCursor(device, device), list[Window]()
    cursor.next()
    for wait_s, _, pid in calm(random, [None, *PIDS]):
        device.working_pid = pid
        device.pass_time(round(wait_s * SECOND))
        with suppress(CallFailedError):
            if cursor.is_due(EVERY_NS):
                windows += cursor.next()
    assert all(a.end_unix_ns == b.start_unix_ns for a, b in pairwise(windows))


@settings(max_examples=settings().max_examples * 2)
@given(seeds)
def test_no_process_gets_more_than_it_used(random: Random) -> None:
    device = device_of(random, ["samples"])
    found = reads(device, turns_of(random))
    used = by_process(tuple(window for read in found for window in read.windows))
    for pid, ns in used.items():
        # The driver cuts the averages of a read to whole percents, and a sample is one process's.
        slack_ns = len(found) * (device.period * 1000 + 10**7)
        assert ns <= device.by_pid[pid] * 1000 + slack_ns


@settings(max_examples=settings().max_examples * 2)
@given(seeds)
def test_what_always_works_never_reads_zero_and_is_soon_observed_again(random: Random) -> None:
    device, turns = device_of(random), turns_of(random, [7])
    turns = [*[(1.0, 0, 7)] * 20, *((wait_s, step_s, 7) for wait_s, step_s, _ in turns)]
    found = reads(device, [*turns, *[(1.0, 0, 7)] * (SOON_S + 30)])
    assert [read for read in found if read.observed_ns and not read.named_ns] == []
    later = [read for read in found if read.begin_us >= device.mono - 30 * SECOND]
    assert later
    assert all(not window.unobserved_ns for read in later for window in read.windows)


@settings(max_examples=settings().max_examples * 2)
@given(seeds)
def test_without_a_step_all_that_the_ring_keeps_is_observed(random: Random) -> None:
    device, turns = device_of(random, ["samples"]), calm(random, [None, *PIDS])
    device.sleeps = False
    latest_s = min(7.0, device.depth * device.period / SECOND / 3)
    begun_us = device.mono + SETTLED_S * SECOND
    found = reads(device, [(min(wait_s, latest_s), 0, pid) for wait_s, _, pid in turns])
    windows = [window for read in found for window in read.windows]
    assert sum(window.unobserved_ns for window in windows) == 0
    observed_us = sum(window.observed_ns for window in windows) / 1000
    assert observed_us >= found[-1].end_us - begun_us - 2 * device.period
