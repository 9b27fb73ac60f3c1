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

from exporter.model import Engines, Methods, Window
from exporter.sources.gpus.energy import EnergySource, Metered
from exporter.sources.gpus.naming import Stretch, activities, stretches, tell_apart
from exporter.sources.gpus.ring_clock import Look, RingClock
from exporter.sources.gpus.samples import (
    FUTURE_US,
    BusySample,
    ProcessRow,
    SampleReader,
    credible,
    sift,
    stamps_of,
)

REREADS = 3  # how often the rows are read again because a sample arrived meanwhile
LONGEST_SAMPLE = 1.5  # a gap longer than this many periods holds samples that nobody saw
FIRST_PERIOD_US = 166_667  # until the ring has told its own: 1/6 s on the GPUs seen so far
GAPS = 9  # so many of the newest gaps between samples tell the period
DRIFT_US = 100_000  # the ring's clock may gain so much on the monotonic one in one window
DARK_PERIODS = 12  # without a sample for so long, an idle driver has stopped sampling
RING_US = 10_000_000  # what a ring holds at least, where its samples cannot be seen
STAMP, PERCENT = itemgetter(0), itemgetter(1)  # of a sample
COVERED_NS, BUSY_NS = itemgetter(2), itemgetter(3)  # of a stretch

Samples = Sequence[BusySample] | None
Rows = Sequence[ProcessRow] | None


class WindowCursor:
    """Turns one device's sample ring into windows. Not thread-safe: one device, one caller.

    Windows have the energy that ``energy`` tells, asked for when all else of the window is known.
    Each begins where the one before it ended, whatever happens to any clock: their times are those
    of the ring until its clock is found to be another one, and go on from there.
    """

    def __init__(self, reader: SampleReader, energy: EnergySource | None = None) -> None:
        self._reader = reader
        self._energy = energy
        self._clock = RingClock()
        self._end_us: int | None = None  # of the last window, in the windows' own time
        self._cursor_us = 0  # the same moment in the ring's clock
        self._period_us: float = FIRST_PERIOD_US
        self._gaps: deque[int] = deque(maxlen=GAPS)

    def next(self, unix_us: int, mono_us: int) -> Window | None:
        """The window since the last call, or None while the driver has nothing newer."""
        self._clock.note_wall(unix_us - mono_us)
        if self._end_us is None:
            self._begin(unix_us, mono_us)
            return None
        return self._measured(mono_us) or self._without_stamps(mono_us)

    def _begin(self, unix_us: int, mono_us: int) -> None:
        """Set the cursor to the newest sample; what came before us is not ours to count."""
        samples = self._reader.busy_samples("core", 0)
        if samples:
            (oldest_us, _), *newer = samples
            self._learn_period(oldest_us, newer)
        self._end_us = self._cursor_us = _newest(samples) if samples else unix_us
        self._clock.set(self._cursor_us, mono_us)

    def _measured(self, mono_us: int) -> Window | None:
        """The window up to the newest stamp, or of an idle device without samples; else None."""
        start = self._cursor_us
        latest = mono_us + self._clock.ahead_us + FUTURE_US
        told, samples, rows, memory = self._read_together(start, latest)
        if told is None:
            return self._measured_by_rows(mono_us)
        if not samples or not self._clock.agrees(_newest(samples), mono_us, self._period_us):
            return None
        self._learn_period(start, samples)
        parts = stretches(start, samples, self._period_us * LONGEST_SAMPLE)
        return self._window(parts, rows, mono_us, memory)

    def _measured_by_rows(self, mono_us: int) -> Window | None:
        """The same of a device that keeps no samples: the rows of processes have stamps too."""
        percent = self._rate()
        if percent is None:
            return None
        rows = self._reader.process_samples(self._cursor_us)
        stamps = stamps_of(rows or ())
        now = mono_us + self._clock.ahead_us
        newest = max((s for s in stamps if self._cursor_us < s <= now + FUTURE_US), default=None)
        if newest is not None:
            if not self._clock.agrees(newest, mono_us, self._period_us):
                return None
        elif rows is not None and (percent or stamps or self._clock.in_doubt):
            return None  # it works, and nobody is named: the rows may be in another clock
        return self._by_rate(percent, rows, mono_us)

    def _without_stamps(self, mono_us: int) -> Window | None:
        """The window where no stamp is as expected: the ring is silent, or in another clock.

        An idle driver may stop sampling (gpu-metrics-agent#37); idle is an answer, not blindness.
        """
        now = mono_us + self._clock.ahead_us
        keeps_samples, stamps = self._all_stamps()
        look = self._clock.look(stamps, self._cursor_us, now + FUTURE_US)
        if self._clock.in_doubt:
            return self._in_doubt(look, mono_us)
        is_early = now - self._cursor_us < DARK_PERIODS * self._period_us
        if is_early if keeps_samples else look.is_first:
            return None
        rows = self._reader.process_samples(self._cursor_us)
        return self._by_rate(self._rate(), rows, mono_us)

    def _in_doubt(self, look: Look, mono_us: int) -> Window | None:
        """The window while the ring's clock is not known, or the first after it was found."""
        if look.newest_us is not None:
            return self._set_clock(look.newest_us, mono_us, all_new=look.was_empty)
        if look.is_first:
            return None
        if not look.has_fresh:
            percent = self._rate()
            if percent == 0:
                return self._by_rate(percent, (), mono_us)
            self._clock.wait(mono_us + self._clock.ahead_us - self._cursor_us)
        return self._unobserved(mono_us)

    def _all_stamps(self) -> tuple[bool, frozenset[int]]:
        """Whether the device keeps samples, and all stamps of its ring; else those of its rows."""
        samples = self._reader.busy_samples("core", 0)
        if samples:
            return True, frozenset(map(STAMP, samples))
        if self._rate() is None:  # it tells nothing of its core: rows would be of no use
            return samples is not None, frozenset()
        return samples is not None, stamps_of(self._reader.process_samples(0) or ())

    def _set_clock(self, newest_us: int, mono_us: int, *, all_new: bool) -> Window | None:
        """Go on in the clock in which a new stamp is this.

        What came since the last window cannot be told from what was before it, unless all of the
        ring is new: it is unobserved.
        """
        elapsed = max(mono_us + self._clock.ahead_us - self._cursor_us, 0)
        self._clock.set(newest_us, mono_us)
        self._cursor_us = newest_us - elapsed
        return self._measured(mono_us) if all_new else self._unobserved(mono_us)

    def _unobserved(self, mono_us: int) -> Window | None:
        """A window until now of which nothing is known."""
        now = mono_us + self._clock.ahead_us
        return self._window([(now, 0.0, 0, 0)], (), mono_us) if now > self._cursor_us else None

    def _rate(self) -> float | None:
        """The newest rate in percent, in bounds."""
        percent = self._reader.utilization("core")
        return None if percent is None else min(max(percent, 0.0), 100.0)

    def _by_rate(self, percent: float | None, rows: Rows, mono_us: int) -> Window | None:
        """A window until now by the newest rate: no samples are kept, or taken any more."""
        now = mono_us + self._clock.ahead_us
        if percent is None or now <= self._cursor_us:
            return None
        parts = stretches(self._cursor_us, [(now, percent)], RING_US)
        return self._window(parts, rows, mono_us, method="rates")

    def _read_together(
        self, start: int, latest: int
    ) -> tuple[Samples, Sequence[BusySample], Rows, Samples]:
        """What was told, device samples and rows of the same window, and memory's samples.

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
        return told, samples, rows, memory

    def _window(
        self,
        parts: Sequence[Stretch],
        rows: Rows,
        mono_us: int,
        memory: Samples = None,
        *,
        method: str = "samples",
    ) -> Window:
        """The window of these parts; the next one begins where they end."""
        window = self._cut(parts, rows, memory, method=method)
        end = parts[-1][0]
        self._end_us, self._cursor_us = window.end_unix_ns // 1000, end
        # A driver that hung answers with samples from long after the moment when it was asked.
        self._clock.ahead_us = min(end - mono_us, self._clock.ahead_us + DRIFT_US)
        return window

    def _cut(self, parts: Sequence[Stretch], rows: Rows, memory: Samples, *, method: str) -> Window:
        start, end = self._cursor_us, parts[-1][0]
        start_ns = (self._end_us or 0) * 1000
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
        metered = (
            self._energy.take(busy.core if observed_ns else None) if self._energy else Metered()
        )
        return Window(
            start_unix_ns=start_ns,
            end_unix_ns=start_ns + (end - start) * 1000,
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
            per_sample=naming is not None,
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
