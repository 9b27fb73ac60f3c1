"""Finds which samples of a window belong to which process.

Each sample of a driver has the device's busy percentage and one process. The driver returns the
percentages sample by sample. Of each process it returns only an average in whole percents and the
time of its last sample. Together these identify the samples of a process: they end with its last
one and add up to its average.

Which process a sample names is decided in closed firmware and differs by board: ``NamingEvidence``
learns it from the windows. Where every busy sample names somebody, also on an engine that idles in
part of it, the sums of named samples are all that was used. Where some do not, their time has no
owner: work ended before the driver looked, or the driver hides a process.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from types import MappingProxyType
from typing import NamedTuple

from exporter.agent.sources.gpus.kept_rows import KeptRow
from exporter.agent.sources.gpus.samples import BusySample, ProcessRow
from exporter.model import QUANTITIES, Engines, Naming, ProcessActivity

REMEMBERED_NS = 30 * 10**9  # of busy time: older evidence counts for half, then a quarter
LEAST_NS = 200 * 10**6  # less busy time than this is no evidence
FEW = 0.05  # shares below this are noise of rounding


class NamingEvidence:
    """What the windows of one device have shown so far, by engine in the order of QUANTITIES."""

    def __init__(self) -> None:
        count = len(QUANTITIES)
        self._busy_ns, self._unnamed_ns, self._idle_ns = ([0] * count for _ in range(3))
        self.naming = (Naming.UNKNOWN,) * count

    def observe(
        self,
        busy: Engines,
        processes: Iterable[ProcessActivity],
        observed_ns: int,
        *,
        per_sample: bool,
    ) -> None:
        """Takes one window whose rows can all be true."""
        own = tuple(processes)
        for place, busy_ns in enumerate(busy):
            if not busy_ns:
                continue
            parts = [process.busy[place] or 0 for process in own]
            named_ns = sum(parts)
            if place or not per_sample:
                # Averages are cut to whole percents: of each process up to one is missing.
                named_ns += (len(parts) - parts.count(0)) * observed_ns // 100
            unnamed_ns = max(busy_ns - named_ns, 0)
            # A driver may change with its version. Older evidence counts for half, then a quarter.
            if self._busy_ns[place] > REMEMBERED_NS:
                for sums in (self._busy_ns, self._unnamed_ns, self._idle_ns):
                    sums[place] //= 2
            self._busy_ns[place] += busy_ns
            self._unnamed_ns[place] += unnamed_ns
            # A sample that is busy to its end has a name on every board. Only an engine that idles
            # in part of the window shows whether the others have one.
            if unnamed_ns <= busy_ns * FEW:
                self._idle_ns[place] += observed_ns - busy_ns
        self.naming = tuple(map(self._verdict, range(len(QUANTITIES))))

    def _verdict(self, place: int) -> Naming:
        busy_ns = self._busy_ns[place]
        if busy_ns < LEAST_NS:
            return Naming.UNKNOWN
        unnamed = self._unnamed_ns[place] / busy_ns
        if unnamed > 1 - FEW:
            return Naming.NEVER
        if unnamed > FEW:
            return Naming.PARTLY
        return Naming.ALWAYS if self._idle_ns[place] > busy_ns * FEW else Naming.UNKNOWN


MAX_SUMS = 64  # sums of samples that are tried: enough for all samples of a second
SURE = 2  # standard deviations of what is cut from averages: even from 0 to 1 % of each
SAME_US = 1000  # a row and its sample have the same time, up to rounding
ROW_TIME = itemgetter(1)
EVERYWHERE: Mapping[int, int] = MappingProxyType({})
NONE_KEPT: Mapping[int, KeptRow] = MappingProxyType({})


class SampleSpan(NamedTuple):
    """One sample of a device, and the time since the sample before: covered by it, and busy."""

    timestamp_us: int
    percent: float
    covered_ns: int
    busy_ns: int


def sample_spans(
    start_us: int, samples: Sequence[BusySample], longest_us: float
) -> list[SampleSpan]:
    """The time that each sample covers: since the one before it, at most ``longest_us``."""
    spans = []
    longest_ns = int(longest_us * 1000)
    before = start_us
    for timestamp_us, percent in samples:
        gap_us = timestamp_us - before
        covered_ns = gap_us * 1000 if gap_us <= longest_us else longest_ns
        busy_ns = int(covered_ns * percent / 100)
        spans.append(SampleSpan(timestamp_us, percent, covered_ns, busy_ns))
        before = timestamp_us
    return spans


def newest_spans(spans: Sequence[SampleSpan], most_ns: int) -> tuple[Sequence[SampleSpan], int]:
    """The spans, which cover at most so much time, and how many of them cover nothing any more."""
    excess_ns = sum([span.covered_ns for span in spans]) - max(most_ns, 0)
    if excess_ns <= 0:
        return spans, 0
    # The time of the oldest goes: it is from before the window, if anything is.
    cut, emptied = [], 0
    for span in spans:
        gone_ns = min(span.covered_ns, excess_ns)
        excess_ns -= gone_ns
        left_ns = span.covered_ns - gone_ns
        emptied += gone_ns > 0 and not left_ns
        cut.append(span._replace(covered_ns=left_ns, busy_ns=int(left_ns * span.percent / 100)))
    return cut, emptied


def attribute_samples(
    spans: Sequence[SampleSpan],
    rows: Sequence[ProcessRow],
    until_us: Mapping[int, int] = EVERYWHERE,
) -> Mapping[int, int] | None:
    """The busy ns of the samples of each process, by pid; None if rows and samples do not fit.

    A row is the average of all samples, or of those up to ``until_us`` of its process.
    If several answers fit, one is taken: they differ in the owners of about equally busy samples.
    """
    free: dict[int, SampleSpan] = {}
    for span in spans:
        free.setdefault(span.timestamp_us, span)  # a second one of the same time counts for nothing
    if not {row[1] for row in rows} <= free.keys():
        aligned = _aligned(rows, sorted(free))
        return attribute_samples(spans, aligned, until_us) if aligned else None
    # Processes choose in the order of their last sample, because the earliest has the fewest
    # candidates.
    by_pid = {row[0]: 0 for row in rows}
    choosing = [row for row in sorted(rows, key=ROW_TIME) if not _is_of_codec(row)]
    counts = [len(_upto(spans, until_us.get(row[0]))) for row in choosing]
    # The last sample of a process is its own, and all others may be anybody's. But a row's time may
    # be that of a memory sample, which names a process of its own. Then the core's sample of that
    # time may be anybody's too: it is more than all that the row's average holds.
    lasts = {
        row[1]
        for row, count in zip(choosing, counts, strict=True)
        if free[row[1]].percent <= count * (row[2] + 1)
    }
    others = [span for span in spans if span.percent > 0 and span.timestamp_us not in lasts]
    # The driver has cut each average to whole percents. So the sum of a process's percents is
    # between ``count * core`` and that plus ``count``; the middle is the likeliest.
    middles = [count * (row[2] + 0.5) for row, count in zip(choosing, counts, strict=True)]
    for place, row in enumerate(choosing):
        count, left = counts[place], len(choosing) - place
        # What the middles leave or lack may be no more than what was cut: then each sample is one
        # of these processes', and each has its part of the difference.
        apart = sum([span.percent for span in free.values()]) - sum(middles[place:])
        shift = apart / left if apart**2 <= SURE**2 * count**2 * left / 12 else 0.0
        shift = min(max(shift, -count / 2), count / 2)
        taken = _take(row, middles[place] + shift, count / 2 - shift, free, others)
        if taken is None:
            return None
        by_pid[row[0]] = taken
    return by_pid


def _take(
    row: ProcessRow,
    left: float,
    slack: float,
    free: dict[int, SampleSpan],
    others: list[SampleSpan],
) -> int | None:
    """Takes the samples of one process out of ``free`` and ``others``; returns their busy ns.

    None if they do not fit. Their percents add up to ``left``, and to ``slack`` more at most.
    """
    timestamp_us = row[1]
    busy_ns = 0
    last = free.get(timestamp_us)
    if last and 0 < last.percent <= left + slack:
        left -= last.percent
        busy_ns = last.busy_ns
        del free[timestamp_us]
    if left > 0 and others:
        for sample in _adding_up(left, left + slack, others, timestamp_us):
            left -= sample.percent
            busy_ns += sample.busy_ns
            free.pop(sample.timestamp_us, None)
            others.remove(sample)
    # More than one full sample is missing: rows and samples are not of the same window.
    return None if left > 100 + slack else busy_ns


def _is_of_codec(row: ProcessRow) -> bool:
    """Whether a row is that of an encoder or decoder only.

    Each engine's samples name a process of their own, and the row's time is the last of any of
    them. So it is no core sample's, which names another process.
    """
    return row[2] == 0 and (row[4] > 0 or row[5] > 0)


def _upto(spans: Sequence[SampleSpan], until_us: int | None) -> Sequence[SampleSpan]:
    """The samples up to a moment; all without one."""
    return spans if until_us is None else [s for s in spans if s.timestamp_us <= until_us]


def process_activities(
    rows: Iterable[ProcessRow],
    busy: Engines,
    spans: Sequence[SampleSpan],
    attribution: Mapping[int, int] | None,
    until_us: Mapping[int, int] = EVERYWHERE,
) -> tuple[ProcessActivity, ...]:
    """The use of each process in the window. Engines that are not measured stay None.

    Core time is that of the samples that name a process, if they are known, else the row's average.
    ``until_us`` as in ``attribute_samples``.
    """
    has_memory, has_encoder = busy.memory_active is not None, busy.encoder is not None
    has_decoder = busy.decoder is not None
    whole_ns = sum([span.covered_ns for span in spans])
    activities = []
    for pid, _, core, memory, encoder, decoder in rows:
        observed_ns = whole_ns
        if pid in until_us:
            observed_ns = sum([span.covered_ns for span in _upto(spans, until_us[pid])])
        engines = Engines(
            attribution[pid] if attribution else core * observed_ns // 100,
            memory * observed_ns // 100 if has_memory else None,
            encoder * observed_ns // 100 if has_encoder else None,
            decoder * observed_ns // 100 if has_decoder else None,
        )
        activities.append(ProcessActivity(pid, engines))
    return tuple(activities)


def since_they_came(
    processes: tuple[ProcessActivity, ...],
    spans: Sequence[SampleSpan],
    since_us: Mapping[int, int],
    first: Mapping[int, KeptRow] = NONE_KEPT,
) -> tuple[ProcessActivity, ...]:
    """The processes, without what a new one cannot have used.

    ``since_us`` is when a process was not there yet, in the ring's clock. ``first`` is the first
    row of a process: what it says beyond the busy time since then, each later one has too.
    """
    if not since_us:
        return processes
    found = []
    for process in processes:
        core_ns, begin_us = process.busy.core or 0, since_us.get(process.pid)
        most_ns = core_ns
        if begin_us is not None:
            most_ns = _busy_ns(spans, begin_us)
            if process.pid in first:
                row, until_us, _ = first[process.pid]
                upto = _upto(spans, until_us)
                said_ns = row[2] * sum([span.covered_ns for span in upto]) // 100
                most_ns = min(most_ns, core_ns - max(said_ns - _busy_ns(upto, begin_us), 0))
            most_ns = max(most_ns, 0)
        # What the row says beyond the busy time since then was used by others, who have ended. It
        # is nobody's. What it says of other engines is of the same mixture, and is cut as much.
        if core_ns > most_ns:
            parts = [None if ns is None else ns * most_ns // core_ns for ns in process.busy]
            found.append(ProcessActivity(process.pid, Engines(*parts)))
        else:
            found.append(process)
    return tuple(found)


def _busy_ns(spans: Sequence[SampleSpan], after_us: int) -> int:
    return sum([span.busy_ns for span in spans if span.timestamp_us > after_us])


def _aligned(rows: Sequence[ProcessRow], times: Sequence[int]) -> list[ProcessRow] | None:
    """The rows with the exact times of their last samples; None if one has no sample."""
    aligned = []
    for pid, timestamp_us, core, memory, encoder, decoder in sorted(rows, key=ROW_TIME):
        place = bisect_left(times, timestamp_us - SAME_US)
        if place == len(times) or times[place] > timestamp_us + SAME_US:
            return None
        aligned.append((pid, times[place], core, memory, encoder, decoder))
    return aligned


def _adding_up(
    wanted: float, most: float, samples: Sequence[SampleSpan], before_us: int
) -> tuple[SampleSpan, ...]:
    """Earlier samples whose percents add up nearest to ``wanted``, and at most to ``most``."""
    fitting = [s for s in samples if s.timestamp_us < before_us and s.percent <= most]
    if not fitting:
        return ()
    sums: dict[float, tuple[SampleSpan, ...]] = {0.0: ()}
    # All sums would be too many. The largest are kept: with busy samples first, those are nearest.
    for sample in sorted(fitting, key=lambda span: span.percent, reverse=True):
        for before, chosen in sorted(sums.items(), reverse=True)[:MAX_SUMS]:
            total = before + sample.percent
            if total <= most:
                sums.setdefault(total, (*chosen, sample))
    return sums[min(sums, key=lambda total: abs(total - wanted))]
