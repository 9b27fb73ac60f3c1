"""Contiguous windows out of a driver's ring of utilisation samples.

A driver keeps the last seconds as a ring of samples and answers "what is newer than T?", per
device and per process. Read with the cursor kept here, the answers become windows that follow one
another without gap or overlap, so that busy time can be summed. Stands on nothing but a reader of
one device; NVML and the simulated node are such readers. Ring semantics: NVML's
``nvmlDeviceGetSamples`` and ``nvmlDeviceGetProcessUtilization``.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from statistics import median
from typing import NamedTuple, Protocol

from exporter.model import QUANTITIES, Engines, ProcessActivity, Window

REREADS = 3  # how often the rows are read again because a sample arrived meanwhile
LONGEST_SAMPLE = 1.5  # a gap longer than this many periods holds samples that nobody saw
FIRST_PERIOD_US = 166_667  # until the ring has told its own: 1/6 s on the GPUs seen so far
DARK_PERIODS = 12  # without a sample for so long, an idle driver has stopped sampling
RING_US = 10_000_000  # what a ring holds at least, where its samples cannot be seen
NO_PID = frozenset({0, 0xFFFFFFFF})
FUTURE_US = 5_000_000  # a timestamp further ahead than this is garbage
OTHER_CLOCK_US = 3_600_000_000  # so far from the epoch's time, samples count from elsewhere (boot)


class Sample(NamedTuple):
    """How busy one engine of a device was during one sample, in percent."""

    timestamp_us: int
    percent: float


class ProcessSample(NamedTuple):
    """One process's average over the samples asked for, in integer percent per engine."""

    pid: int
    timestamp_us: int
    core: int
    memory_active: int
    encoder: int
    decoder: int


class SampleReader(Protocol):
    """The driver calls for one device."""

    def busy_samples(self, engine: str, newer_than_us: int) -> Sequence[Sample] | None:
        """Samples of the whole device, oldest first; None: this device keeps none."""
        ...

    def utilization(self, engine: str) -> float | None:
        """Percent of the newest sample only; None: this device does not tell."""
        ...

    def process_samples(self, newer_than_us: int) -> Sequence[ProcessSample] | None:
        """Rows of processes active since then; None: this device does not tell."""
        ...


class WindowCursor:
    """Turns one device's sample ring into windows. Not thread-safe: one device, one caller."""

    def __init__(self, reader: SampleReader) -> None:
        self._reader = reader
        self._end_us: int | None = None
        self._anchored = False  # whether a sample has shown which clock the ring counts in
        self._period_us: float = FIRST_PERIOD_US
        self._offset_us = 0

    def next(self, now_unix_us: int) -> Window | None:
        """The window since the last call, or None while the driver has nothing newer."""
        start = self._end_us
        now = now_unix_us + self._offset_us
        if start is None or start > now + FUTURE_US:  # the first time, or the clock was set back
            self._begin(now_unix_us)
            return None
        if not self._anchored and self._anchor(now_unix_us):
            return None
        samples, rows = self._read_together(start)
        samples = [s for s in samples or () if start < s.timestamp_us <= now + FUTURE_US]
        if samples:
            self._learn_period(samples)
            longest_us = self._period_us * LONGEST_SAMPLE
        else:
            samples = self._stand_in(start, now)
            if not samples:
                return None
            rows = self._reader.process_samples(start)
            longest_us = RING_US
        end = samples[-1].timestamp_us
        observed_ns, core_ns = self._covered(start, samples, longest_us)
        window = self._window(start, end, observed_ns, core_ns, rows or ())
        self._end_us = end
        return window

    def _begin(self, now_unix_us: int) -> None:
        """Set the cursor to the newest sample; what came before us is not ours to count."""
        if not self._anchor(now_unix_us):
            self._end_us = now_unix_us

    def _anchor(self, now_unix_us: int) -> bool:
        """Take the ring's newest sample as the present; False while the ring is empty."""
        samples = self._reader.busy_samples("core", 0)
        if not samples:
            return False
        self._learn_period(samples)
        self._end_us = samples[-1].timestamp_us
        self._anchored = True
        ahead = self._end_us - now_unix_us
        self._offset_us = ahead if abs(ahead) > OTHER_CLOCK_US else 0
        return True

    def _read_together(
        self, start: int
    ) -> tuple[Sequence[Sample] | None, Sequence[ProcessSample] | None]:
        """Device samples and process rows of the same window: read again if a sample arrived."""
        samples = self._reader.busy_samples("core", start)
        rows: Sequence[ProcessSample] | None = ()
        for _ in range(REREADS if samples else 0):
            rows = self._reader.process_samples(start)
            before, samples = samples, self._reader.busy_samples("core", start)
            if not samples or not before or samples[-1] == before[-1]:
                break
        return samples, rows

    def _stand_in(self, start: int, now: int) -> list[Sample]:
        """Where the device keeps no samples, or has stopped taking them: the newest rate.

        An idle driver may stop sampling (gpu-metrics-agent#37); idle is an answer, not blindness.
        """
        if now - start < DARK_PERIODS * self._period_us:
            return []
        percent = self._reader.utilization("core")
        return [] if percent is None else [Sample(now, percent)]

    def _window(
        self, start: int, end: int, observed_ns: int, core_ns: int, rows: Sequence[ProcessSample]
    ) -> Window:
        others = {e: self._busy(e, start, end, observed_ns) for e in QUANTITIES if e != "core"}
        busy = Engines(core=core_ns, **others)
        kept, rejected = sift(rows, start, end + FUTURE_US)
        return Window(
            start_unix_ns=start * 1000,
            end_unix_ns=end * 1000,
            observed_ns=observed_ns,
            unobserved_ns=(end - start) * 1000 - observed_ns,
            busy=busy,
            processes=tuple(_activity(row, busy, observed_ns) for row in kept),
            rejected=rejected,
        )

    @staticmethod
    def _covered(start: int, samples: Sequence[Sample], longest_us: float) -> tuple[int, int]:
        """Observed and busy ns: a sample speaks for the time since the one before it, not more."""
        observed = busy = 0
        before = start
        for sample in samples:
            covered_ns = int(min(sample.timestamp_us - before, longest_us) * 1000)
            observed += covered_ns
            busy += int(covered_ns * min(max(sample.percent, 0.0), 100.0) / 100)
            before = sample.timestamp_us
        return observed, busy

    def _busy(self, engine: str, start: int, end: int, observed_ns: int) -> int | None:
        samples = self._reader.busy_samples(engine, start)
        inside = [s.percent for s in samples or () if start < s.timestamp_us <= end]
        percent = sum(inside) / len(inside) if inside else self._reader.utilization(engine)
        if percent is None:
            return None
        return int(observed_ns * min(max(percent, 0.0), 100.0) / 100)

    def _learn_period(self, samples: Sequence[Sample]) -> None:
        gaps = [b.timestamp_us - a.timestamp_us for a, b in pairwise(samples)]
        if len(gaps) >= 3:  # noqa: PLR2004 - fewer say too little
            self._period_us = max(1, median(gaps))


def sift(
    rows: Iterable[ProcessSample], start_us: int, latest_us: int
) -> tuple[list[ProcessSample], Mapping[str, int]]:
    """Keep the newest row of each pid; count the rows that cannot be true, by reason.

    Uninitialised rows have been seen in the wild: percentages far over 100, pids that are not on
    the device, timestamps older than asked for (nvtop#110); pid 4294967295 is the driver's "none".
    """
    kept: dict[int, ProcessSample] = {}
    rejected: dict[str, int] = {}
    for row in rows:
        reason = _implausible(row, start_us, latest_us)
        if reason:
            rejected[reason] = rejected.get(reason, 0) + 1
        elif row.pid not in kept or kept[row.pid].timestamp_us < row.timestamp_us:
            kept[row.pid] = row
    return list(kept.values()), rejected


def _implausible(row: ProcessSample, start_us: int, latest_us: int) -> str:
    if row.pid in NO_PID:
        return "pid"
    if max(row[2:]) > 100:  # noqa: PLR2004 - percent
        return "percentage"
    if not start_us < row.timestamp_us <= latest_us:
        return "timestamp"
    return ""


def _activity(row: ProcessSample, busy: Engines, observed_ns: int) -> ProcessActivity:
    """A row's share of the window; an engine that the device does not measure stays unknown."""
    return ProcessActivity(
        row.pid,
        Engines(
            core=row.core * observed_ns // 100,
            memory_active=_known(busy.memory_active, row.memory_active, observed_ns),
            encoder=_known(busy.encoder, row.encoder, observed_ns),
            decoder=_known(busy.decoder, row.decoder, observed_ns),
        ),
    )


def _known(device_busy: int | None, percent: int, observed_ns: int) -> int | None:
    return None if device_busy is None else percent * observed_ns // 100
