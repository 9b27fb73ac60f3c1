"""Which samples of a window name which process.

A driver's sample says how busy the device was and names one process. Asked for a window it tells
the first sample by sample, but of the second only an average for each process, in whole percents,
and the time of the last sample that names it. Put together they tell the samples apart: those of
a process end with its last one and add up to its average.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple

from exporter.gpus.samples import BusySample, ProcessSample

FULL_PERCENT = 99  # above it the device was busy to the sample's end: rounding hides no pause
MOST_SUMS = 64  # of samples, that are looked at: enough for all of a second's
SAME_US = 1000  # a row's time and its sample's are of the same clock, rounded alike or nearly so
TIME, PERCENT = attrgetter("timestamp_us"), attrgetter("percent")


class Stretch(NamedTuple):
    """One sample of a device and the time that it speaks for."""

    timestamp_us: int
    percent: float
    covered_ns: int
    busy_ns: int


class Named(NamedTuple):
    """The samples that name one process: their busy time, and the idle time within them."""

    busy_ns: int
    spare_ns: int


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
        parts.append(Stretch(timestamp_us, percent, covered_ns, int(covered_ns * percent / 100)))
        before = timestamp_us
    return parts


def tell_apart(stretches: Sequence[Stretch], rows: Iterable[ProcessSample]) -> Naming | None:
    """The samples that name each process; None where rows and samples do not fit together.

    Of several answers that fit, one is taken: they differ in which of two samples, about equally
    busy, is whose. A process that was named last long ago has the fewest to choose from and
    chooses first.
    """
    ordered = sorted(rows, key=TIME)
    lasts = [_at(row.timestamp_us, stretches) for row in ordered]
    last_ones = {s for s in lasts if s and s.percent > 0}
    others = [s for s in stretches if s.percent > 0 and s not in last_ones]
    slack = len(stretches) / 2
    by_pid: dict[int, Named] = {}
    for row, last in zip(ordered, lasts, strict=True):
        left = len(stretches) * (row.core + 0.5)  # cut to whole percents: this is the middle
        if last is None:
            return None
        busy_ns = covered_ns = 0
        if last in last_ones and last.percent <= left + slack:
            left -= last.percent
            busy_ns, covered_ns = last.busy_ns, last.covered_ns
            last_ones.remove(last)
        if left > 0 and others:
            before, most = row.timestamp_us, left + slack
            fitting = [s for s in others if s.percent <= most and s.timestamp_us < before]
            for sample in _adding_up(left, most, fitting) if fitting else ():
                left -= sample.percent
                busy_ns += sample.busy_ns
                covered_ns += sample.covered_ns
                others.remove(sample)
        if left > 100 + slack:
            return None
        by_pid[row.pid] = Named(busy_ns, covered_ns - busy_ns)
    unclaimed = [s.busy_ns for s in (*last_ones, *others) if s.percent <= FULL_PERCENT]
    return Naming(by_pid, sum(unclaimed))


def _at(timestamp_us: int, stretches: Sequence[Stretch]) -> Stretch | None:
    place = bisect_left(stretches, timestamp_us - SAME_US, key=TIME)
    if place == len(stretches) or stretches[place].timestamp_us > timestamp_us + SAME_US:
        return None
    return stretches[place]


def _adding_up(wanted: float, most: float, samples: Sequence[Stretch]) -> tuple[Stretch, ...]:
    """The samples whose percents together come nearest to some number, and not above another."""
    sums: dict[float, tuple[Stretch, ...]] = {0.0: ()}
    for sample in sorted(samples, key=PERCENT, reverse=True):
        for before, chosen in sorted(sums.items(), reverse=True)[:MOST_SUMS]:
            total = before + sample.percent
            if total <= most:
                sums.setdefault(total, (*chosen, sample))
    return sums[min(sums, key=lambda total: abs(total - wanted))]
