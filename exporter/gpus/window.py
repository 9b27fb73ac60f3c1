"""Contiguous windows out of a driver's ring of utilisation samples.

A driver keeps the last seconds as a ring of samples and answers "what is newer than T?", per
device and per process. Read with the cursor kept here, the answers become windows that follow one
another without gap or overlap, so that busy time can be summed. Stands on nothing but a reader of
one device; NVML and the simulated node are such readers.
"""

from collections import deque
from collections.abc import Sequence
from functools import cache
from operator import itemgetter

from exporter.gpus.energy import EnergySource, Metered
from exporter.gpus.naming import Stretch, activities, stretches, tell_apart
from exporter.gpus.samples import FUTURE_US, BusySample, ProcessRow, SampleReader, credible, sift
from exporter.model import Engines, Methods, Window

REREADS = 3  # how often the rows are read again because a sample arrived meanwhile
LONGEST_SAMPLE = 1.5  # a gap longer than this many periods holds samples that nobody saw
FIRST_PERIOD_US = 166_667  # until the ring has told its own: 1/6 s on the GPUs seen so far
GAPS = 9  # so many of the newest gaps between samples tell the period
DRIFT_US = 100_000  # the ring's clock may gain so much on the monotonic one in one window
DARK_PERIODS = 12  # without a sample for so long, an idle driver has stopped sampling
RING_US = 10_000_000  # what a ring holds at least, where its samples cannot be seen
STEP_US = 1_000_000  # the wall clock moved by this much against the monotonic one: it was set
PERCENT = itemgetter(1)  # of a sample
COVERED_NS, BUSY_NS = itemgetter(2), itemgetter(3)  # of a stretch
STEP_WAIT_US = 5_000_000  # so long the ring may take to follow

Samples = Sequence[BusySample] | None
Rows = Sequence[ProcessRow] | None


class WindowCursor:
    """Turns one device's sample ring into windows. Not thread-safe: one device, one caller.

    Windows have the energy that ``energy`` tells, asked for when all else of the window is known.
    """

    def __init__(self, reader: SampleReader, energy: EnergySource | None = None) -> None:
        self._reader = reader
        self._energy = energy
        self._end_us: int | None = None  # of the last window, in the ring's clock
        self._ended_mono_us = 0  # when that window was made
        self._ahead_us = 0  # the ring's clock against the monotonic one
        self._anchored = False  # whether a sample has shown the ring's clock
        self._period_us: float = FIRST_PERIOD_US
        self._gaps: deque[int] = deque(maxlen=GAPS)
        self._wall_us: int | None = None  # the wall clock against the monotonic one
        self._step_us = 0  # the wall clock was set by so much, and the ring may follow
        self._step_until_us = 0

    def next(self, unix_us: int, mono_us: int) -> Window | None:
        """The window since the last call, or None while the driver has nothing newer."""
        self._note_step(unix_us - mono_us, mono_us)
        if self._end_us is None:
            self._begin(unix_us, mono_us)
            return None
        start = self._end_us if self._anchored else self._anchor(self._end_us, mono_us)
        latest = mono_us + self._ahead_us + FUTURE_US
        samples, rows, memory = self._read_together(start, latest)
        if samples:
            self._learn_period(start, samples)
            parts = stretches(start, samples, self._period_us * LONGEST_SAMPLE)
            return self._window(start, parts, rows, mono_us, memory)
        if self._step_us and (jump := self._follow_step(mono_us)):
            return jump
        stand_in = self._stand_in(start, mono_us + self._ahead_us)
        if not stand_in:
            return None
        parts, rows = stretches(start, stand_in, RING_US), self._reader.process_samples(start)
        return self._window(start, parts, rows, mono_us, method="rates")

    def _note_step(self, wall_us: int, mono_us: int) -> None:
        before, self._wall_us = self._wall_us, wall_us
        if before is not None and abs(wall_us - before) > STEP_US:
            self._step_us += wall_us - before
            self._step_until_us = mono_us + STEP_WAIT_US
        elif mono_us > self._step_until_us:
            self._step_us = 0

    def _begin(self, unix_us: int, mono_us: int) -> None:
        """Set the cursor to the newest sample; what came before us is not ours to count."""
        samples = self._reader.busy_samples("core", 0)
        self._anchored = bool(samples)
        if samples:
            (oldest_us, _), *newer = samples
            self._learn_period(oldest_us, newer)
        self._move(_newest(samples) if samples else unix_us, mono_us)

    def _anchor(self, end_us: int, mono_us: int) -> int:
        """The ring was empty until now: what it holds is new, whatever clock it counts in."""
        samples = self._reader.busy_samples("core", 0)
        if not samples:
            return end_us
        self._anchored = True
        self._ahead_us = _newest(samples) - mono_us
        return _newest(samples) - (mono_us - self._ended_mono_us)

    def _move(self, end_us: int, mono_us: int) -> None:
        self._end_us, self._ended_mono_us = end_us, mono_us
        self._ahead_us = end_us - mono_us

    def _follow_step(self, mono_us: int) -> Window | None:
        """The clock was set, and the ring's with it: go on from its newest sample.

        What was in the ring until then cannot be told from what came after: it is unobserved.
        """
        now = mono_us + self._ahead_us + self._step_us
        elapsed = mono_us - self._ended_mono_us
        samples = self._reader.busy_samples("core", 0) or ()
        follow = [s for s in samples if abs(s[0] - now) <= elapsed + STEP_US]
        if not follow:
            return None
        self._step_us = 0
        end = _newest(follow)
        self._move(end, mono_us)
        return self._cut(end - elapsed, [(end, 0.0, 0, 0)], ())

    def _read_together(self, start: int, latest: int) -> tuple[Sequence[BusySample], Rows, Samples]:
        """Device samples and process rows of the same window, and what was told of memory last.

        A driver takes one sample of all engines: where memory's newest is the core's, none arrived
        while the rows were read (OGKM ctrl2080perf.h, perfmon samples). Else they are read again.
        """
        told = self._reader.busy_samples("core", start)
        samples = credible(told or (), start, latest)
        rows: Rows = ()
        memory: Samples = None
        for _ in range(REREADS if samples else 0):
            rows = self._reader.process_samples(start)
            memory = self._reader.busy_samples("memory_active", start)
            if memory and told and _newest(memory) == _newest(told):
                break
            told_before, told = told, self._reader.busy_samples("core", start)
            if told == told_before:
                break
            before, samples = samples, credible(told or (), start, latest)
            if not samples or samples[-1] == before[-1]:
                break
        return samples, rows, memory

    def _stand_in(self, start: int, now: int) -> list[BusySample]:
        """Where the device keeps no samples, or has stopped taking them: the newest rate.

        An idle driver may stop sampling (gpu-metrics-agent#37); idle is an answer, not blindness.
        """
        if now - start < DARK_PERIODS * self._period_us:
            return []
        percent = self._reader.utilization("core")
        return [] if percent is None else [(now, min(max(percent, 0.0), 100.0))]

    def _window(
        self,
        start: int,
        parts: Sequence[Stretch],
        rows: Rows,
        mono_us: int,
        memory: Samples = None,
        *,
        method: str = "samples",
    ) -> Window:
        window = self._cut(start, parts, rows, memory, method=method)
        end = parts[-1][0]
        # A driver that hung answers with samples from long after the moment when it was asked.
        ahead = min(end - mono_us, self._ahead_us + DRIFT_US)
        self._end_us, self._ended_mono_us, self._ahead_us = end, end - ahead, ahead
        return window

    def _cut(
        self,
        start: int,
        parts: Sequence[Stretch],
        rows: Rows,
        memory: Samples = None,
        *,
        method: str = "samples",
    ) -> Window:
        end = parts[-1][0]
        observed_ns = sum(map(COVERED_NS, parts))
        busy = Engines(
            sum(map(BUSY_NS, parts)),
            self._busy("memory_active", start, end, observed_ns, memory),
            self._busy("encoder", start, end, observed_ns),
            self._busy("decoder", start, end, observed_ns),
        )
        kept, rejected = sift(rows or (), start, end + FUTURE_US)
        samples_told = method == "samples" and rows is not None and observed_ns
        naming = tell_apart(parts, kept) if samples_told else None
        metered = self._energy.take(busy.core) if self._energy else Metered()
        return Window(
            start_unix_ns=start * 1000,
            end_unix_ns=end * 1000,
            observed_ns=observed_ns,
            unobserved_ns=(end - start) * 1000 - observed_ns,
            busy=busy,
            processes=activities(kept, busy, observed_ns, naming),
            rejected=rejected,
            energy_uj=metered.used_uj,
            idle_energy_uj=metered.idle_uj,
            late_energy_uj=metered.late_uj,
            methods=_methods(
                method,
                "none" if rows is None else "process_utilization",
                self._energy.method if self._energy else "none",
            ),
            told_apart=naming is not None,
            unclaimed_ns=naming.unclaimed_ns if naming else 0,
        )

    def _busy(
        self, engine: str, start: int, end: int, observed_ns: int, told: Samples = None
    ) -> int | None:
        if told is None:
            told = self._reader.busy_samples(engine, start)
        samples = credible(told or (), start, end)
        if samples:
            return int(observed_ns * (sum(map(PERCENT, samples)) / len(samples)) / 100)
        percent = self._reader.utilization(engine)
        return None if percent is None else int(observed_ns * min(max(percent, 0.0), 100.0) / 100)

    def _learn_period(self, start: int, samples: Sequence[BusySample]) -> None:
        """The median of the newest gaps; a device may take one sample a second, one a window."""
        before = start
        for timestamp_us, _ in samples:
            self._gaps.append(timestamp_us - before)
            before = timestamp_us
        count = len(self._gaps)
        if count >= 3:  # noqa: PLR2004 - fewer say too little
            gaps = sorted(self._gaps)  # statistics.median takes as long as all the rest of this
            self._period_us = max((gaps[(count - 1) // 2] + gaps[count // 2]) / 2, 1)


_methods = cache(Methods)  # there are a handful, and one is needed in each cycle


def _newest(samples: Sequence[BusySample]) -> int:
    timestamp_us, _ = samples[-1]
    return timestamp_us
