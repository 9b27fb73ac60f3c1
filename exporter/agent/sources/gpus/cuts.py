"""Cuts one read of a ring into windows of about a second, by the samples' own times. Pure.

A ring is read as seldom as its depth allows, because a driver's calls are costly. What is idle,
borrowed or waiting is compared window by window, so that their length must not depend on that.

The driver returns one row of each process for all that was read: its average and the time of its
last sample. The core time of a process is spread over the windows up to that sample, in proportion
to what the device was busy there for nobody else yet. The sums of the read stay as they are.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from exporter.agent.sources.gpus.energy import EnergyUse
from exporter.agent.sources.gpus.sample_attribution import SampleSpan
from exporter.model import Engines, ProcessActivity, Window

WINDOW_US = 1_000_000
NOTHING = Engines(0, 0, 0, 0)
Columns = dict[int, list[int]]  # of each process, by part


class CutWindow(NamedTuple):
    """One window of a read: its spans, where it ends in the ring's clock, and its busy time."""

    spans: Sequence[SampleSpan]
    begin_us: int
    end_us: int
    busy: Engines = NOTHING

    @property
    def length_ns(self) -> int:
        return (self.end_us - self.begin_us) * 1000

    @property
    def observed_ns(self) -> int:
        return sum([span.covered_ns for span in self.spans])


def parts_of(spans: Sequence[SampleSpan], begin_us: int) -> list[CutWindow]:
    """The spans in windows of about a second, at least one span in each."""
    length_us = spans[-1].timestamp_us - begin_us
    step_us = length_us / max(round(length_us / WINDOW_US), 1)
    parts: list[CutWindow] = []
    first, start_us, before_us = 0, begin_us, begin_us
    for number, span in enumerate(spans):
        goal_us = begin_us + step_us * (round((start_us - begin_us) / step_us) + 1)
        # A span belongs where the most of its time is.
        if number > first and before_us + span.timestamp_us > 2 * goal_us:
            parts.append(CutWindow(spans[first:number], start_us, before_us))
            first, start_us = number, before_us
        before_us = span.timestamp_us
    parts.append(CutWindow(spans[first:], start_us, spans[-1].timestamp_us))
    return parts


def split(total: int, weights: Sequence[int]) -> list[int]:
    """The total in whole parts by weight, which add up to it; all in the last without weights."""
    sum_of_weights = sum(weights)
    if not sum_of_weights:
        return [*[0] * (len(weights) - 1), total]
    # Each part ends where the sum of the weights so far ends, rounded. Parts rounded one by
    # one would not add up.
    parts, upto, begin = [], 0, 0
    for weight in weights:
        upto += weight
        end = total * upto // sum_of_weights
        parts.append(end - begin)
        begin = end
    return parts


def activities_of(
    parts: Sequence[CutWindow],
    of_read: Sequence[ProcessActivity],
    last_us: Mapping[int, int],
    since_us: Mapping[int, int],
) -> list[tuple[ProcessActivity, ...]]:
    """What each process did in each part.

    ``last_us`` is the time of its last sample, ``since_us`` when a new one was not there yet.
    """
    if len(parts) == 1:
        return [tuple(of_read)]
    cores = _cores(parts, of_read, last_us, since_us)
    found: list[list[ProcessActivity]] = [[] for _ in parts]
    for pid, (core, *others) in of_read:
        columns = [[None] * len(parts) if core is None else cores[pid]]
        for engine, amount in enumerate(others, 1):
            if amount is None:
                columns.append([None] * len(parts))
                continue
            # A process reads memory while it computes; the video engines go by themselves.
            weights = cores[pid] if engine == 1 and core else [p.busy[engine] or 0 for p in parts]
            columns.append(split(amount, weights))
        for place, engines in enumerate(zip(*columns, strict=True)):
            if any(engines) or (place == len(parts) - 1 and not any((core, *others))):
                found[place].append(ProcessActivity(pid, Engines(*engines)))
    return [tuple(each) for each in found]


def _cores(
    parts: Sequence[CutWindow],
    of_read: Sequence[ProcessActivity],
    last_us: Mapping[int, int],
    since_us: Mapping[int, int],
) -> Columns:
    """The core time of each process in each part."""
    # Each one's last sample is its own. The rest is spread over what nobody has taken yet, up to
    # that sample. Whoever ended first chooses first: it has the fewest windows.
    free = [part.busy.core or 0 for part in parts]
    samples = {
        span.timestamp_us: (place, span.busy_ns)
        for place, part in enumerate(parts)
        for span in part.spans
    }
    found: Columns = {}
    ordered = sorted(of_read, key=lambda one: last_us[one.pid])
    for pid, (core, *_) in ordered:
        found[pid] = [0] * len(parts)
        place, busy_ns = samples.get(last_us[pid], (0, 0))
        own_ns = min(core or 0, busy_ns, free[place])
        found[pid][place] += own_ns
        free[place] -= own_ns
    there = {
        pid: [p.begin_us < last_us[pid] and p.end_us > since_us.get(pid, 0) for p in parts]
        for pid in found
    }
    left = {pid: (core or 0) - sum(found[pid]) for pid, (core, *_) in ordered}
    for pid, more in (_spread(left, there, free) or _packed(left, there, free)).items():
        found[pid] = [sum(each) for each in zip(found[pid], more, strict=True)]
        missing_ns = left[pid] - sum(more)
        if missing_ns:
            # Averages may say more than the samples. Then nothing says when the process worked, and
            # its time is spread evenly over the time in which it was there.
            came_us = since_us.get(pid, 0)
            weights = [part.observed_ns * (part.end_us > came_us) for part in parts]
            found[pid] = split(sum(found[pid]) + missing_ns, weights)
    return found


def _spread(
    left: Mapping[int, int], there: Mapping[int, Sequence[bool]], free: Sequence[int]
) -> Columns | None:
    """What is left of each process, spread over the parts in which it was there; None: too much."""
    found: Columns = {}
    free = list(free)
    for pid, left_ns in left.items():
        weights = [ns * is_there for ns, is_there in zip(free, there[pid], strict=True)]
        if sum(weights) < left_ns:
            return None
        found[pid] = split(left_ns, weights)
        free = [ns - taken for ns, taken in zip(free, found[pid], strict=True)]
    return found


def _packed(
    left: Mapping[int, int], there: Mapping[int, Sequence[bool]], free: Sequence[int]
) -> Columns:
    """The same, each part filled by those that were there, whoever ended first before others.

    Of processes that come and go in one read, more fits so than if each is spread.
    """
    found: Columns = {pid: [0] * len(free) for pid in left}
    rest = dict(left)
    for place, free_ns in enumerate(free):
        for pid, left_ns in rest.items():
            taken_ns = min(left_ns, free_ns) if there[pid][place] else 0
            found[pid][place] += taken_ns
            rest[pid] -= taken_ns
            free_ns -= taken_ns  # noqa: PLW2901 - what the next one may have
    return found


def energies_of(parts: Sequence[CutWindow | Window], of_read: EnergyUse) -> list[EnergyUse]:
    """The energy of each part: what idling takes by time, what work takes by core time.

    The late part is from before all of them.
    """
    if of_read.used_uj is None or len(parts) == 1:
        return [of_read] * len(parts)
    lengths = [part.length_ns for part in parts]
    observed = [part.observed_ns for part in parts]
    # Of time that nobody watched it is not known what drew how much. It takes its part by length,
    # as if the board had drawn the same throughout.
    own_uj = of_read.used_uj - of_read.late_uj
    unobserved_uj = own_uj * (sum(lengths) - sum(observed)) // max(sum(lengths), 1)
    seen_uj = own_uj - unobserved_uj
    idle_uj = min(of_read.idle_uj or 0, seen_uj)
    cores = [part.busy.core or 0 for part in parts]
    unobserved = split(unobserved_uj, [a - b for a, b in zip(lengths, observed, strict=True)])
    idle = split(idle_uj, observed)
    active = split(seen_uj - idle_uj, cores if any(cores) else observed)
    late = [of_read.late_uj, *[0] * (len(parts) - 1)]
    return [
        EnergyUse(sum(each), None if of_read.idle_uj is None else each[1], each[3])
        for each in zip(unobserved, idle, active, late, strict=True)
    ]
