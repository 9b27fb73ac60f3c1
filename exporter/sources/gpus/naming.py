"""Which samples of a window name which process.

A driver's sample says how busy the device was and names one process. Asked for a window it tells
the first sample by sample, but of the second only an average for each process, in whole percents,
and the time of the last sample that names it. Put together they tell the samples apart: those of
a process end with its last one and add up to its average.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import NamedTuple

from exporter.model import Engines, ProcessActivity
from exporter.sources.gpus.samples import BusySample, ProcessRow

FULL_PERCENT = 99  # above it the device was busy to the sample's end: rounding hides no pause
MOST_SUMS = 64  # of samples, that are looked at: enough for all of a second's
SAME_US = 1000  # a row's time and its sample's are of the same clock, rounded alike or nearly so
ROW_TIME, PERCENT = itemgetter(1), itemgetter(1)  # of a row, of a stretch

Stretch = tuple[int, float, int, int]
"""One sample of a device and the time that it speaks for: µs and percent, ns covered, ns busy."""

Named = tuple[int, int]
"""The samples that name one process: ns of their busy time, and of the idle time within them."""


class Naming(NamedTuple):
    """What the samples say, by the process that they name.

    ``unclaimed_ns`` is the busy time of samples that name nobody and in which the device paused:
    somebody's turn ended there, before the driver looked whose it was.
    """

    by_pid: Mapping[int, Named]
    unclaimed_ns: int


def stretches(start_us: int, samples: Sequence[BusySample], longest_us: float) -> list[Stretch]:
    """What each sample speaks for: the time since the one before it, but not more than one may."""
    parts = []
    longest_ns = int(longest_us * 1000)
    before = start_us
    for timestamp_us, percent in samples:
        gap_us = timestamp_us - before
        covered_ns = gap_us * 1000 if gap_us <= longest_us else longest_ns
        parts.append((timestamp_us, percent, covered_ns, int(covered_ns * percent / 100)))
        before = timestamp_us
    return parts


def tell_apart(stretches: Sequence[Stretch], rows: Sequence[ProcessRow]) -> Naming | None:
    """The samples that name each process; None where rows and samples do not fit together.

    Of several answers that fit, one is taken: they differ in which of two samples, about equally
    busy, is whose. A process that was named last long ago has the fewest to choose from and
    chooses first.
    """
    lasts = {row[1] for row in rows}
    free: dict[int, Stretch] = {}
    others = []
    for stretch in stretches:
        free.setdefault(stretch[0], stretch)  # a second one of the same time speaks for none
        if stretch[1] > 0 and stretch[0] not in lasts:
            others.append(stretch)
    if not lasts <= free.keys():
        aligned = _aligned(rows, sorted(free))
        return tell_apart(stretches, aligned) if aligned else None
    slack = len(stretches) / 2
    by_pid: dict[int, Named] = {}
    for pid, timestamp_us, core, _, _, _ in sorted(rows, key=ROW_TIME):
        left = len(stretches) * (core + 0.5)  # cut to whole percents: this is the middle
        busy_ns = covered_ns = 0
        last = free.get(timestamp_us)
        if last and 0 < last[1] <= left + slack:
            _, percent, covered_ns, busy_ns = last
            left -= percent
            del free[timestamp_us]
        if left > 0 and others:
            for sample in _adding_up(left, left + slack, others, timestamp_us):
                time, percent, own_covered_ns, own_busy_ns = sample
                left -= percent
                busy_ns += own_busy_ns
                covered_ns += own_covered_ns
                free.pop(time, None)
                others.remove(sample)
        if left > 100 + slack:
            return None
        by_pid[pid] = busy_ns, covered_ns - busy_ns
    unclaimed = [stretch[3] for stretch in free.values() if 0 < stretch[1] <= FULL_PERCENT]
    return Naming(by_pid, sum(unclaimed))


def activities(
    rows: Iterable[ProcessRow], busy: Engines, observed_ns: int, naming: Naming | None
) -> tuple[ProcessActivity, ...]:
    """Each row's share of the window; an engine that the device does not measure stays unknown.

    Core time is that of the samples that name a process, where these could be told apart.
    """
    named = naming.by_pid if naming else None
    has_memory, has_encoder = busy.memory_active is not None, busy.encoder is not None
    has_decoder = busy.decoder is not None
    activities = []
    for pid, _, core, memory, encoder, decoder in rows:
        busy_ns, spare_ns = named[pid] if named else (core * observed_ns // 100, 0)
        engines = Engines(
            busy_ns,
            memory * observed_ns // 100 if has_memory else None,
            encoder * observed_ns // 100 if has_encoder else None,
            decoder * observed_ns // 100 if has_decoder else None,
        )
        activities.append(ProcessActivity(pid, engines, spare_ns))
    return tuple(activities)


def _aligned(rows: Sequence[ProcessRow], times: Sequence[int]) -> list[ProcessRow] | None:
    """The rows with the very times of the samples that they end with; None: one has none."""
    aligned = []
    for pid, timestamp_us, core, memory, encoder, decoder in sorted(rows, key=ROW_TIME):
        place = bisect_left(times, timestamp_us - SAME_US)
        if place == len(times) or times[place] > timestamp_us + SAME_US:
            return None
        aligned.append((pid, times[place], core, memory, encoder, decoder))
    return aligned


def _adding_up(
    wanted: float, most: float, samples: Sequence[Stretch], before_us: int
) -> tuple[Stretch, ...]:
    """Samples of before whose percents together come nearest to a number, and not above another."""
    fitting = [s for s in samples if s[0] < before_us and s[1] <= most]
    if not fitting:
        return ()
    sums: dict[float, tuple[Stretch, ...]] = {0.0: ()}
    for sample in sorted(fitting, key=PERCENT, reverse=True):
        for before, chosen in sorted(sums.items(), reverse=True)[:MOST_SUMS]:
            total = before + sample[1]
            if total <= most:
                sums.setdefault(total, (*chosen, sample))
    return sums[min(sums, key=lambda total: abs(total - wanted))]
