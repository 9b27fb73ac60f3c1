"""One read of a ring is cut into windows of about a second, and its sums stay as they are."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from exporter.agent.sources.gpus.cuts import CutWindow, activities_of, energies_of, parts_of
from exporter.agent.sources.gpus.energy import EnergyUse
from exporter.agent.sources.gpus.sample_attribution import SampleSpan, sample_spans
from exporter.agent.sources.gpus.window import WindowCursor
from exporter.model import Engines, ProcessActivity, ProcessSample, Sample, Window

SECOND = 1_000_000
EPOCH = 1_700_000_000 * SECOND
LONGEST_READ_S = 7


@dataclass
class Device:
    """A device whose samples name one of some processes each; implements ``Clock`` too."""

    seed: int
    period: int
    depth: int
    mono_us: int = 5000 * SECOND
    ring: list[tuple[int, int, int]] = field(default_factory=list)  # when, percent, who
    asked: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = Random(self.seed)  # noqa: S311 - nothing is secret
        self.pids = range(1, self.random.randint(1, 4) + 1)
        self.pass_time(self.depth * self.period)

    def pass_time(self, us: int) -> None:
        """Let time pass, and the driver sample."""
        first, self.mono_us = self.mono_us // self.period + 1, self.mono_us + us
        for number in range(first, self.mono_us // self.period + 1):
            busy = self.random.choice((0, 0, 100, 100, self.random.randint(1, 99)))
            who = self.random.choice(self.pids)
            self.ring.append((number * self.period + EPOCH, busy, who))
        self.ring = self.ring[-self.depth :]

    def time_ns(self) -> int:
        return (self.mono_us + EPOCH) * 1000

    def monotonic_ns(self) -> int:
        return self.mono_us * 1000

    def busy_samples(self, engine: str, newer_than_us: int) -> Sequence[Sample] | None:
        if engine not in {"core", "memory_active"}:
            return None
        return [Sample(at, percent) for at, percent, _ in self.ring if at > newer_than_us]

    def utilization(self, engine: str) -> float | None:
        return float(self.ring[-1][1]) if engine == "core" else None

    def process_samples(self, newer_than_us: int) -> Sequence[ProcessSample]:
        new = [sample for sample in self.ring if sample[0] > newer_than_us]
        sums: Counter[int] = Counter()
        last = {pid: at for at, percent, pid in new if percent}
        for _, percent, pid in new:
            sums[pid] += percent
        return [
            ProcessSample(pid, at, sums[pid] // len(new), sums[pid] // len(new), 0, 0)
            for pid, at in last.items()
        ]


def read(device: Device, waits_s: Sequence[float]) -> list[Window]:
    """The windows of reads after so many seconds each."""
    cursor = WindowCursor(device, device)
    assert cursor.next() == ()
    windows: list[Window] = []
    for wait_s in waits_s:
        device.pass_time(round(wait_s * SECOND))
        windows += cursor.next()
    return windows


def by_process(windows: Sequence[Window]) -> Counter[int]:
    used: Counter[int] = Counter()
    for window in windows:
        used.update({pid: busy.core or 0 for pid, busy in window.processes})
    return used


periods = st.sampled_from([100_000, 166_667, 200_000, 500_000])


@settings(max_examples=settings().max_examples * 2)
@given(
    seed=st.integers(0, 2**32),
    period=periods,
    waits_s=st.lists(st.floats(1, LONGEST_READ_S), min_size=2, max_size=8),
)
def test_seldom_reads_find_what_a_read_in_each_second_finds(
    seed: int, period: int, waits_s: list[float]
) -> None:
    waits_s = [round(wait_s) for wait_s in waits_s]
    depth = 3 * LONGEST_READ_S * SECOND // period
    seldom = read(Device(seed, period, depth), waits_s)
    often = read(Device(seed, period, depth), [1] * round(sum(waits_s)))
    assert seldom[-1].end_unix_ns == often[-1].end_unix_ns
    assert sum(w.observed_ns for w in seldom) == sum(w.observed_ns for w in often)
    core = [sum(w.busy.core or 0 for w in each) for each in (seldom, often)]
    assert abs(core[0] - core[1]) <= period * 1000
    memory = [sum(w.busy.memory_active or 0 for w in each) for each in (seldom, often)]
    assert abs(memory[0] - memory[1]) <= period * 1000
    # The driver cuts the averages of a read to whole percents, and a sample is one process's.
    off_ns = by_process(seldom)
    off_ns.subtract(by_process(often))
    assert all(abs(ns) <= len(seldom) * (period * 1000 + 10**7) for ns in off_ns.values())


@settings(max_examples=settings().max_examples * 2)
@given(
    seed=st.integers(0, 2**32),
    period=periods,
    waits_s=st.lists(st.floats(0.1, 9), min_size=1, max_size=12),
)
def test_windows_are_contiguous_and_each_is_about_a_second(
    seed: int, period: int, waits_s: list[float]
) -> None:
    device = Device(seed, period, 20 * SECOND // period)
    begun_us = device.mono_us
    windows = read(device, waits_s)
    assert all(a.end_unix_ns == b.start_unix_ns for a, b in pairwise(windows))
    assert sum(w.observed_ns for w in windows) <= (device.mono_us - begun_us) * 1000
    for window in windows:
        assert window.length_ns <= 1_500_000_000 + 2 * period * 1000
        assert window.unobserved_ns >= 0
        assert 0 <= (window.busy.core or 0) <= window.observed_ns
        assert sum(own.busy.core or 0 for own in window.processes) <= (window.busy.core or 0)


@dataclass
class Encoding(Device):
    """A device whose encoder a hidden process keeps busy from one time to another."""

    busy_us: tuple[int, int] = (0, 0)

    def busy_samples(self, engine: str, newer_than_us: int) -> Sequence[Sample] | None:
        if engine not in {"encoder", "decoder"}:
            return super().busy_samples(engine, newer_than_us)
        self.asked.append(engine)
        begin_us, end_us = (us + EPOCH for us in self.busy_us)
        return [
            Sample(at, 100 if engine == "encoder" and begin_us < at <= end_us else 0)
            for at, *_ in self.ring
            if at > newer_than_us
        ]


def test_an_idle_encoder_is_asked_each_second_time_and_misses_nothing() -> None:
    device = Encoding(1, 200_000, 71)
    cursor = WindowCursor(device, device)
    cursor.next()
    busy_ns, reads = [], []
    for second in range(1, 62):
        device.pass_time(SECOND)
        if second == 22:
            device.busy_us = device.mono_us, device.mono_us + 2 * SECOND
        if cursor.is_due(5 * 10**9):
            device.asked.clear()
            busy_ns.append(sum(window.busy.encoder or 0 for window in cursor.next()))
            reads.append(device.asked.count("encoder"))
    assert sum(busy_ns) == 2 * 10**9
    assert sum(reads[3:]) <= len(reads[3:]) // 2 + 2


def _spans(percents: Sequence[float]) -> list[SampleSpan]:
    samples = [(200_000 * (n + 1), percent) for n, percent in enumerate(percents)]
    return sample_spans(0, samples, SECOND)


def _parts(percents: Sequence[float]) -> list[CutWindow]:
    return [
        part._replace(busy=Engines(sum(ns for *_, ns in part.spans), None, 0, None))
        for part in parts_of(_spans(percents), 0)
    ]


def test_a_process_has_nothing_after_its_last_sample() -> None:
    parts = _parts([100] * 5 + [50] * 5 + [100] * 5)
    done = ProcessActivity(7, Engines(600_000_000, None, 0, None))
    on = ProcessActivity(8, Engines(1_900_000_000, None, 0, None))
    first, second, third = activities_of(parts, [done, on], {7: 800_000, 8: 3_000_000}, {})
    assert [own.pid for own in first] == [7, 8]
    assert dict(first)[7].core == 600_000_000
    assert dict(first)[8].core == 400_000_000
    assert [(own.pid, own.busy.core) for own in second] == [(8, 500_000_000)]
    assert [(own.pid, own.busy.core) for own in third] == [(8, 1_000_000_000)]


def test_a_process_has_nothing_from_before_it_came() -> None:
    parts = _parts([100] * 15)
    new = ProcessActivity(7, Engines(900_000_000, None, 0, None))
    first, second, third = activities_of(parts, [new], {7: 3_000_000}, {7: 2_000_000})
    assert (first, second) == ((), ())
    assert [(own.pid, own.busy.core) for own in third] == [(7, 900_000_000)]


def test_two_that_take_turns_have_their_part_of_each_second() -> None:
    parts = _parts([100] * 15)
    both = [ProcessActivity(pid, Engines(1_500_000_000, None, 0, None)) for pid in (7, 8)]
    for own in activities_of(parts, both, {7: 2_800_000, 8: 3_000_000}, {}):
        assert all(0.35e9 < (each.busy.core or 0) < 0.65e9 for each in own)


def test_idling_takes_its_energy_by_time_and_work_by_core_time() -> None:
    parts = _parts([100] * 5 + [0] * 5 + [50] * 5)
    idle_first = energies_of(parts, EnergyUse(1_300, 300, 100))
    assert [each.used_uj for each in idle_first] == [100 + 100 + 600, 100, 100 + 300]
    assert [each.idle_uj for each in idle_first] == [100, 100, 100]
    assert [each.late_uj for each in idle_first] == [100, 0, 0]
