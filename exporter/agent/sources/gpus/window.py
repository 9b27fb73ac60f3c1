"""Cuts a driver's ring of utilisation samples into contiguous windows.

A driver keeps the samples of the last seconds in a ring and returns those newer than a given time,
for the device and for each process. ``WindowCursor`` keeps that time, so that the windows follow
one another without gap or overlap and busy time can be summed. It needs only a ``SampleReader`` of
one device; NVML and the simulated node have one.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from functools import cache
from operator import itemgetter

from exporter.agent.sources.gpus.cuts import CutWindow, activities_of, energies_of, parts_of
from exporter.agent.sources.gpus.energy import EnergySource, EnergyUse
from exporter.agent.sources.gpus.kept_rows import KeptRows
from exporter.agent.sources.gpus.sample_attribution import (
    NamingEvidence,
    SampleSpan,
    attribute_samples,
    newest_spans,
    process_activities,
    sample_spans,
    since_they_came,
)
from exporter.agent.sources.gpus.samples import (
    FUTURE_US,
    BusySample,
    ProcessRow,
    RingChange,
    RingClock,
    SampleReader,
    newest_rows,
    plausible_samples,
    stamps_of,
)
from exporter.model import (
    QUANTITIES,
    Clock,
    Engines,
    Methods,
    ProcessActivity,
    RawSamples,
    Sampling,
    Window,
)

REREADS = 3  # reads of the rows at most, if samples arrive meanwhile
LONGEST_SAMPLE = 1.5  # a gap longer than this many periods holds samples that were missed
FIRST_PERIOD_US = 166_667  # until the ring's own is known: the shortest that NVIDIA documents
LONGEST_PERIOD_US = 1_000_000  # likewise the longest, "depending on the product"
NEW_PERIOD = 0.05  # a period is another one if it differs by more than this share
MOST_RATES = 64  # between two reads: one a second
GAPS = 9  # the period is the median of so many newest gaps between samples
DRIFT_US = 100_000  # the ring's clock may gain so much on the monotonic one in one window
DARK_PERIODS = 12  # without a sample for so long, an idle driver has stopped sampling
RING_US = 10_000_000  # what a ring holds at least, where its samples cannot be seen
PARTS_OF_RING = 3  # a read is due after this part of what the ring holds, so that one may be late
HALF_A_CYCLE_US = 500_000  # cycles come at whole seconds, or nearly so
RELEARN_US, RELEARN_MOST_US = 30_000_000, 3_600_000_000
STAMP, PERCENT = itemgetter(0), itemgetter(1)  # of a sample
CODECS = ("encoder", "decoder")
LATEST = 0.75  # of what a ring holds: the oldest sample that is read of an idle encoder
NONE = EnergyUse()

Samples = Sequence[BusySample] | None
Rows = Sequence[ProcessRow] | None


class WindowCursor:
    """Cuts one device's sample ring into windows. Not thread-safe: one device, one caller.

    The energy of a window comes from ``energy``, which is read last. Each window begins where the
    one before it ended, whatever happens to any clock: window times are those of the ring until
    the ring's clock is found to have changed, and go on from there. They never run ahead of the
    monotonic clock: a ring that says more than can have happened since the first read, as one that
    is read twice or that began before it, is cut to that from its newest sample back.
    """

    def __init__(
        self, reader: SampleReader, clock: Clock, energy: EnergySource | None = None
    ) -> None:
        self._reader = reader
        self._now = clock
        self._energy = energy
        self._clock = RingClock()
        self._end_us: int | None = None  # of the last window, in the windows' own time
        self._cursor_us = 0  # the same moment in the ring's clock
        self._ahead_us = 0  # the windows' own time, ahead of the monotonic clock, at most
        self._excess = 0  # samples whose time was dropped, of no window yet
        self._period_us: float = FIRST_PERIOD_US
        self._known_period_us: int | None = None  # as shown: steady while the ring wanders
        self._gaps: deque[int] = deque(maxlen=GAPS)
        self._answered: tuple[Sequence[BusySample], Rows] = (), ()
        self._naming = NamingEvidence()
        self._read_us: int | None = None  # when samples were read last; None: read at once
        self._longest_us = 0.0  # between two reads; 0: the ring's depth is not known
        self._is_asked_seldom = self._is_between = False
        self._rates: dict[str, deque[float]] = {}  # since the last read, of engines without a ring
        self._idle_since_us: dict[str, int] = {}  # encoder or decoder: when its ring was read
        self._learn_at_us, self._learn_in_us = 0, RELEARN_US
        self.rows_read_us = 0  # when rows were read last, in µs of the monotonic clock
        self._looked_us = 0  # the newest stamp that ``look`` has seen
        self._kept = KeptRows()
        # When a process was not there yet, in µs of the monotonic clock (``Presence``).
        self.absent_until_us: Mapping[int, int] = {}

    def is_due(self, every_ns: int) -> bool:
        """Whether to read now, if a read each ``every_ns`` is enough.

        A ring is read in each cycle while its depth or its clock is not known, or if the core has
        only a rate: that is of one moment.
        """
        mono_us = self._mono_us
        self._is_asked_seldom = self._is_between = True
        self._clock.observe_wall(self._now.time_ns() // 1000 - mono_us)
        if self._read_us is None or self._clock.is_uncertain:
            return True
        every_us = min(every_ns / 1000, self._longest_us)
        return mono_us - self._read_us >= every_us - HALF_A_CYCLE_US

    def note_rates(self) -> None:
        """Notes the rates of engines without a ring: each is of one moment, and costs little."""
        for engine, noted in self._rates.items():
            percent = self._reader.utilization(engine)
            if percent is not None:
                noted.append(min(max(percent, 0.0), 100.0))

    def look(self) -> frozenset[int]:
        """The processes that have worked since the last read or look. Their rows are kept."""
        start, now_us = self._cursor_us, self._mono_us + self._clock.ahead_us
        rows, _ = newest_rows(self._reader.process_samples(start) or (), start, now_us + FUTURE_US)
        since = max(start, self._looked_us)
        self._looked_us = max([row[1] for row in rows], default=since)
        # The clock is that of the newest sample at some read, which was up to a period old.
        until_us = max(now_us + round(self._period_us / 2), self._looked_us)
        self._kept.keep(start, rows, until_us, self._absent_us())
        self.rows_read_us = self._mono_us
        return frozenset([row[0] for row in rows if row[1] > since])

    def _absent_us(self) -> Mapping[int, int]:
        """When each process was not there yet, in the ring's clock."""
        return {pid: us + self._clock.ahead_us for pid, us in self.absent_until_us.items()}

    def next(self) -> tuple[Window, ...]:
        """The windows since the last call, oldest first; none while the driver has nothing newer.

        Only samples can be cut: without them it is one window, however long ago the last call was.
        """
        unix_us, mono_us = self._now.time_ns() // 1000, self._mono_us
        self._clock.observe_wall(unix_us - mono_us)
        if self._end_us is None:
            self._begin(unix_us, mono_us)
            return ()
        self._read_us, self.rows_read_us = None, mono_us
        # Before the cut, which nothing may follow that can fail: its windows would be lost.
        self._learn_depth(mono_us)
        windows = self._measured(mono_us) or self._without_stamps(mono_us)
        if windows and (windows[-1].methods.busy == "samples" or not windows[-1].busy.core):
            self._read_us = mono_us  # all that there was; else the next cycle may have more
        self._is_between = False
        return windows

    @property
    def raw(self) -> RawSamples:
        """What the driver answered at the last call."""
        samples, rows = self._answered
        return RawSamples(tuple(samples), tuple(rows or ()))

    @property
    def _mono_us(self) -> int:
        """The monotonic clock now."""
        return self._now.monotonic_ns() // 1000

    def _begin(self, unix_us: int, mono_us: int) -> None:
        """Sets the cursor to the newest sample: what is older is not counted."""
        samples = self._reader.busy_samples("core", 0)
        if samples:
            (oldest_us, _), *newer = samples
            self._learn_period(oldest_us, newer)
        self._end_us = self._cursor_us = _newest(samples) if samples else unix_us
        self._ahead_us = self._end_us - self._mono_us
        self._clock.set(self._cursor_us, mono_us)

    def _measured(self, mono_us: int) -> tuple[Window, ...]:
        """The window up to the newest stamp, or of an idle device without samples; else None."""
        start = self._cursor_us
        latest = mono_us + self._clock.ahead_us + FUTURE_US
        ring, samples, rows, memory = self._read_together(start, latest)
        if ring is None:
            return self._measured_by_rows(mono_us)
        # A stamp that does not fit says that the ring's clock has changed. Nothing is cut by it,
        # until the ring as a whole has shown by how much.
        if not samples or not self._clock.confirm(_newest(samples), mono_us, self._period_us):
            return ()
        # After a step ahead a row is of samples in both clocks: nobody would have the time of those
        # from before it, though somebody worked.
        if self._clock.is_uncertain and any(row[1] > latest for row in rows or ()):
            return ()
        self._learn_period(start, samples)
        longest_us = self._period_us if self._known_period_us else LONGEST_PERIOD_US
        spans = sample_spans(start, samples, longest_us * LONGEST_SAMPLE)
        return self._window(spans, rows, mono_us, memory)

    def _measured_by_rows(self, mono_us: int) -> tuple[Window, ...]:
        """The window of a device without samples, by the newest rate and the rows' stamps."""
        percent = self._rate()
        if percent is None:
            return ()
        rows = self._reader.process_samples(self._cursor_us)
        stamps = stamps_of(rows or ())
        now = mono_us + self._clock.ahead_us
        newest = max((s for s in stamps if self._cursor_us < s <= now + FUTURE_US), default=None)
        if newest is not None:
            if not self._clock.confirm(newest, mono_us, self._period_us):
                return ()
        elif rows is not None and (percent or stamps or self._clock.is_uncertain):
            return ()  # busy without a row since: the rows may be in another clock
        return self._by_rate(percent, rows, mono_us)

    def _without_stamps(self, mono_us: int) -> tuple[Window, ...]:
        """The window if no stamp is as expected: the ring is silent, or in another clock.

        An idle driver may stop sampling (gpu-metrics-agent#37): the device is then idle, not
        unobserved.
        """
        now = mono_us + self._clock.ahead_us
        keeps_samples, stamps = self._all_stamps()
        change = self._clock.compare(stamps, self._cursor_us, now + FUTURE_US)
        if self._clock.is_uncertain:
            return self._while_uncertain(change, mono_us)
        # A ring is silent for a moment before each new sample. Only after some periods without any
        # has an idle driver stopped sampling.
        is_early = now - self._cursor_us < DARK_PERIODS * self._period_us
        if is_early if keeps_samples else change.is_first:
            return ()
        rows = self._reader.process_samples(self._cursor_us)
        return self._by_rate(self._rate(), rows, mono_us)

    def _while_uncertain(self, change: RingChange, mono_us: int) -> tuple[Window, ...]:
        """The window while the ring's clock is uncertain, or the first one after it was found."""
        if change.newest_us is not None:
            return self._set_clock(change.newest_us, mono_us, all_new=change.was_empty)
        if change.is_first:
            return ()
        if not change.has_new:
            percent = self._rate()
            if percent == 0:
                return self._by_rate(percent, (), mono_us)
            self._clock.add_silence(mono_us + self._clock.ahead_us - self._cursor_us)
        return self._unobserved(mono_us)

    def _all_stamps(self) -> tuple[bool, frozenset[int]]:
        """Whether the device keeps samples, and all stamps of its ring, or else of its rows."""
        samples = self._reader.busy_samples("core", 0)
        if samples:
            return True, frozenset(map(STAMP, samples))
        if self._rate() is None:  # its core is not measured: rows would be of no use
            return samples is not None, frozenset()
        return samples is not None, stamps_of(self._reader.process_samples(0) or ())

    def _set_clock(self, newest_us: int, mono_us: int, *, all_new: bool) -> tuple[Window, ...]:
        """Sets the ring's clock by its newest stamp; the window since the last one.

        That window is unobserved unless all of the ring is new: otherwise its samples cannot be
        distinguished from older ones.
        """
        elapsed = max(mono_us + self._clock.ahead_us - self._cursor_us, 0)
        self._clock.set(newest_us, mono_us)
        self._looked_us = 0
        self._idle_since_us.clear()
        self._cursor_us = newest_us - elapsed
        return self._measured(mono_us) if all_new else self._unobserved(mono_us)

    def _unobserved(self, mono_us: int) -> tuple[Window, ...]:
        """An unobserved window until now."""
        now = mono_us + self._clock.ahead_us
        if now <= self._cursor_us:
            return ()
        return self._window([SampleSpan(now, 0.0, 0, 0)], (), mono_us)

    def _rate(self) -> float | None:
        """The newest rate in percent, in bounds."""
        percent = self._reader.utilization("core")
        return None if percent is None else min(max(percent, 0.0), 100.0)

    def _by_rate(self, percent: float | None, rows: Rows, mono_us: int) -> tuple[Window, ...]:
        """A window until now by the newest rate, if the device has no samples."""
        now = mono_us + self._clock.ahead_us
        if percent is None or now <= self._cursor_us:
            return ()
        spans = sample_spans(self._cursor_us, [(now, percent)], RING_US)
        return self._window(spans, rows, mono_us, method="rates")

    def _read_together(
        self, start: int, latest: int
    ) -> tuple[Samples, Sequence[BusySample], Rows, Samples]:
        """The ring, its plausible samples, the rows of the same window, and memory's samples.

        A driver samples all engines at once: if memory's newest stamp is the core's, no sample
        arrived while the rows were read (OGKM ctrl2080perf.h, perfmon samples). Otherwise they are
        read again.
        """
        ring = self._reader.busy_samples("core", start)
        samples = plausible_samples(ring or (), start, latest)
        rows: Rows = ()
        memory: Samples = None
        for _ in range(REREADS if samples else 0):
            rows = self._reader.process_samples(start)
            memory = self._reader.busy_samples("memory_active", start)
            if memory and ring and _newest(memory) == _newest(ring):
                break
            ring_before, ring = ring, self._reader.busy_samples("core", start)
            if ring == ring_before:
                break
            before, samples = samples, plausible_samples(ring or (), start, latest)
            if not samples or samples[-1] == before[-1]:
                break
        self._answered = ring or (), rows
        return ring, samples, rows, memory

    def _window(
        self,
        spans: Sequence[SampleSpan],
        rows: Rows,
        mono_us: int,
        memory: Samples = None,
        *,
        method: str = "samples",
    ) -> tuple[Window, ...]:
        """The windows of these spans; the next one begins where they end.

        If no time has passed for them, the next ones have what is not of a process.
        """
        begin, end = self._end_us or 0, spans[-1].timestamp_us
        # The monotonic clock is read again: samples of a call that hung are from after it was made.
        length_us = min(end - self._cursor_us, self._mono_us + self._ahead_us - begin)
        spans, excess = newest_spans(spans, length_us * 1000)
        self._excess += excess
        windows: tuple[Window, ...] = ()
        if length_us > 0:
            windows = self._cut(spans, length_us, rows, memory, method=method)
            self._end_us, self._excess = begin + length_us, 0
        self._cursor_us = end
        # A call that hung returns samples from long after it was made.
        self._clock.ahead_us = min(end - mono_us, self._clock.ahead_us + DRIFT_US)
        return windows

    def _cut(
        self,
        spans: Sequence[SampleSpan],
        length_us: int,
        rows: Rows,
        memory: Samples,
        *,
        method: str,
    ) -> tuple[Window, ...]:
        """The windows of these spans, with what each engine and process did in each."""
        start, end = self._cursor_us, spans[-1].timestamp_us
        observed_ns = sum([span.covered_ns for span in spans])
        valid, rejected = newest_rows(rows or (), start, end + FUTURE_US)
        # Who worked when is not known where rows are rejected; and where time was dropped, and some
        # has no samples, it is not known which. Such a read is one window.
        begin = end - length_us
        has_gap = begin > start and observed_ns < length_us * 1000
        is_one = method != "samples" or rejected or has_gap
        # A process that the driver has forgotten since then has the newest row that it had.
        forgotten = self._kept.forgotten(start, {row[0] for row in valid}) if not is_one else ()
        until_us = {kept.row[0]: kept.until_us for kept in forgotten}
        valid = [*valid, *[kept.row for kept in forgotten]]
        timed = [span for span in spans if span.timestamp_us > begin]
        parts = [CutWindow(spans, begin, end)] if is_one else parts_of(timed, begin)
        parts = self._with_busy(parts, memory, valid)
        busy = Engines(*map(_sum, zip(*[part.busy for part in parts], strict=True)))
        has_samples = method == "samples" and rows is not None and observed_ns
        attribution = attribute_samples(spans, valid, until_us) if has_samples else None
        energy = self._energy.take(busy.core if observed_ns else None) if self._energy else NONE
        # The driver names a process by its place in a table, and adds to a new one what its
        # predecessor at that place has used (``presence``). A process has nothing from before it
        # came.
        first = self._kept.first(start)
        ended_us = {pid: kept.absent_us for pid, kept in first.items() if kept.absent_us}
        since_us = {pid: us for pid, us in {**ended_us, **self._absent_us()}.items() if us > start}
        named = process_activities(valid, busy, spans, attribution, until_us)
        processes = since_they_came(named, spans, since_us, first)
        # A row with what others used, or without the last of its process, is no evidence of how the
        # driver names processes.
        is_evidence = not rejected and not forgotten and processes == named
        if rows is not None and observed_ns and is_evidence:
            self._naming.observe(busy, processes, observed_ns, per_sample=attribution is not None)
        last_us = {row[0]: row[1] for row in valid}
        made = activities_of(parts, processes, last_us, since_us), energies_of(parts, energy)
        by = "none" if rows is None else "process_utilization"
        methods = _methods(method, by, self._energy.method if self._energy else "none")
        sampling = Sampling(
            self._known_period_us if method == "samples" else None,
            () if rows is None else self._naming.naming,
        )
        is_exact = attribution is not None
        windows = [
            each._replace(methods=methods, per_sample=is_exact, sampling=sampling)
            for each in self._windows_of(parts, *made)
        ]
        # What is counted of the read as a whole is the newest window's, so that it counts once.
        windows[-1] = windows[-1]._replace(rejected=rejected, excess_samples=self._excess)
        return tuple(windows)

    def _windows_of(
        self,
        parts: Sequence[CutWindow],
        activities: Sequence[tuple[ProcessActivity, ...]],
        energies: Sequence[EnergyUse],
    ) -> list[Window]:
        """The parts as windows, one after the other from the end of the last window on."""
        windows, start_ns = [], (self._end_us or 0) * 1000
        for part, processes, energy in zip(parts, activities, energies, strict=True):
            window = Window(
                start_unix_ns=start_ns,
                end_unix_ns=start_ns + part.length_ns,
                observed_ns=part.observed_ns,
                unobserved_ns=part.length_ns - part.observed_ns,
                busy=part.busy,
                processes=processes,
                energy_uj=energy.used_uj,
                idle_energy_uj=energy.idle_uj,
                late_energy_uj=energy.late_uj,
            )
            windows.append(window)
            start_ns = window.end_unix_ns
        return windows

    def _with_busy(
        self, parts: Sequence[CutWindow], memory: Samples, rows: Sequence[ProcessRow]
    ) -> list[CutWindow]:
        """The parts with the busy time of the core and of the other engines in each."""
        codes = any(row[4] or row[5] for row in rows)
        found = {"memory_active": self._busy("memory_active", parts, memory)}
        for engine in CODECS:
            found[engine] = self._codec(engine, parts, is_named=codes)
        measured = []
        for place, part in enumerate(parts):
            core_ns = sum([span.busy_ns for span in part.spans])
            others = [busy_ns[place] for busy_ns in found.values()]
            measured.append(part._replace(busy=Engines(core_ns, *others)))
        return measured

    def _codec(
        self, engine: str, parts: Sequence[CutWindow], *, is_named: bool
    ) -> list[int | None]:
        """The busy time of an encoder or decoder in each part.

        Its ring is read each second time only while it idles, no process is named on it, and
        nobody looks. What a hidden process did there meanwhile is entered when it is found.
        """
        begin_us, end_us = parts[0].begin_us, parts[-1].end_us
        if engine in self._rates:
            return self._busy(engine, parts, None)
        idle_since_us = self._idle_since_us.get(engine)
        depth_us = self._longest_us * PARTS_OF_RING
        was_read = idle_since_us == self._cursor_us
        may_wait = self._is_between and 2 * (end_us - begin_us) <= LATEST * depth_us
        if was_read and may_wait and not is_named:
            return [0] * len(parts)
        samples = None
        if idle_since_us is not None:
            samples = self._reader.busy_samples(engine, min(idle_since_us, self._cursor_us))
        busy = self._busy(engine, parts, samples)
        is_idle = not any(busy) and None not in busy and not is_named
        self._idle_since_us.pop(engine, None)
        if samples:
            earlier = plausible_samples(samples, idle_since_us or 0, self._cursor_us)
            late_ns = int(sum(map(PERCENT, earlier)) * self._period_us * 10)
            is_idle = is_idle and not late_ns
            for place, part in enumerate(parts):  # no engine is busy for longer than its time
                own_ns = busy[place] or 0
                busy[place] = min(own_ns + late_ns, part.observed_ns)
                late_ns -= (busy[place] or 0) - own_ns
        if is_idle:
            self._idle_since_us[engine] = end_us
        return busy

    def _busy(self, engine: str, parts: Sequence[CutWindow], ring: Samples) -> list[int | None]:
        """The busy time of an engine in each part; None: it is not measured."""
        start, end = self._cursor_us, parts[-1].end_us
        if ring is None:
            ring = self._reader.busy_samples(engine, start)
        samples = plausible_samples(ring or (), start, end)
        if not samples:
            percent = self._reader.utilization(engine)
            if percent is None:
                return [None] * len(parts)
            rates = self._rates.get(engine, deque[float]())
            rates.append(min(max(percent, 0.0), 100.0))
            percent = sum(rates) / len(rates)
            rates.clear()
            return [int(part.observed_ns * percent / 100) for part in parts]
        busy: list[int | None] = []
        for part in parts:
            # A ring that keeps less than the core's has no sample of the oldest windows.
            own = [s for s in samples if part.begin_us < s[0] <= part.end_us] or samples
            busy.append(int(part.observed_ns * (sum(map(PERCENT, own)) / len(own)) / 100))
        return busy

    def _learn_depth(self, mono_us: int) -> None:
        """Learns how long all rings keep their samples, now and then: one may fill only later."""
        # This reads all rings as a whole, which is the dearest call of all. So it is done ever more
        # seldom, once a driver has shown what it keeps.
        if not self._is_asked_seldom or mono_us < self._learn_at_us:
            return
        depths: list[float] = []
        rates: dict[str, deque[float]] = {}
        for engine in QUANTITIES:
            samples = self._reader.busy_samples(engine, 0)
            if samples:
                (first_us, _), (last_us, _) = samples[0], samples[-1]
                # After a step of its clock the stamps say more than the ring holds.
                depths.append(min(last_us - first_us, (len(samples) - 1) * self._period_us))
            elif self._reader.utilization(engine) is None:
                continue
            elif engine == "core":
                depths.append(0)
            else:
                rates[engine] = self._rates.get(engine) or deque(maxlen=MOST_RATES)
        self._longest_us, self._rates = min(depths, default=0) / PARTS_OF_RING, rates
        if self._learn_at_us:
            self._learn_in_us = min(4 * self._learn_in_us, RELEARN_MOST_US)
        self._learn_at_us = mono_us + self._learn_in_us

    def _learn_period(self, start: int, samples: Sequence[BusySample]) -> None:
        """Sets the period to the median of the newest gaps."""
        before = start
        for timestamp_us, _ in samples:
            self._gaps.append(timestamp_us - before)
            before = timestamp_us
        count = len(self._gaps)
        if count >= 3:  # noqa: PLR2004 - fewer say too little
            gaps = sorted(self._gaps)  # statistics.median takes as long as all the rest
            self._period_us = max((gaps[(count - 1) // 2] + gaps[count // 2]) / 2, 1)
            known = self._known_period_us
            if known is None or abs(self._period_us - known) > known * NEW_PERIOD:
                self._known_period_us = round(self._period_us)


def _sum(parts: Sequence[int | None]) -> int | None:
    return None if parts[0] is None else sum(filter(None, parts))


_methods = cache(Methods)  # a handful of values; one is needed in each cycle


def _newest(samples: Sequence[BusySample]) -> int:
    timestamp_us, _ = samples[-1]
    return timestamp_us
