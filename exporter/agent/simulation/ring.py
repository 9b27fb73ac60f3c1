"""The driver's ring of utilisation samples of one device.

Per device the driver keeps the last 72 samples, of 1/6 s on most boards. Each holds, for each
engine, how busy it was and one process id only (open-gpu-kernel-modules, ctrl2080perf.h and
ctrl2080gpumon.h, since 525.53). Per-process utilisation is an average over those, in whole percent.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from exporter.agent.simulation import identity
from exporter.agent.simulation.description import SAMPLE_PERIOD_NS, SampleRule
from exporter.agent.simulation.population import (
    Population,
    ProcessLife,
    Segment,
    cut,
    running,
    segments,
)
from exporter.model import QUANTITIES, ProcessSample

DEPTH = 72
SECOND_US = 1_000_000
NOBODY = 0xFFFFFFFF
CORE = QUANTITIES.index("core")


class RingSample(NamedTuple):
    """One sample: by engine, in the order of QUANTITIES, its busy ns and the process it names."""

    end_us: int
    length_us: int
    busy_ns: tuple[int, ...]
    pids: tuple[int, ...]

    def hundredths(self, engine: int) -> int:
        """Busy share in hundredths of a percent, the driver's own unit."""
        return min(self.busy_ns[engine] * 10 // self.length_us, 10_000)


class Ring:
    """One device's samples. Times are microseconds since the scenario's start.

    Samples are cached only to save work: each is a pure function of its number.
    """

    def __init__(
        self,
        population: Population,
        device: int,
        key: int,
        rule: SampleRule,
        period_ns: int = SAMPLE_PERIOD_NS,
    ) -> None:
        self._population = population
        self._device = device
        self._key = key
        self._rule = rule
        self._period_ns = period_ns
        self._first_us = key % (period_ns // 1000)  # devices do not sample in step
        self._kept: dict[int, RingSample] = {}

    def samples(self, now_us: int, newer_than_us: int) -> list[RingSample]:
        """Samples in the ring at a moment that ended after another, oldest first."""
        newest = self._ended_by(now_us)
        first = max(newest - DEPTH + 1, self._ended_by(newer_than_us) + 1)
        missing = [n for n in range(first, newest + 1) if n not in self._kept]
        if missing:
            # Nobody can ask for what the ring does not hold any more.
            self._kept = {n: s for n, s in self._kept.items() if newest - DEPTH < n <= newest}
            self._kept.update(self._taken(missing[0], missing[-1]))
        return [self._kept[n] for n in range(first, newest + 1)]

    def rows(self, now_us: int, newer_than_us: int) -> list[ProcessSample]:
        """One row for each process that a sample names; the average counts all samples."""
        samples = self.samples(now_us, newer_than_us)
        sums: dict[int, list[int]] = {}
        seen_us: dict[int, int] = {}
        for sample in samples:
            for engine, pid in enumerate(sample.pids):
                if pid != NOBODY:
                    sums.setdefault(pid, [0] * len(QUANTITIES))[engine] += sample.hundredths(engine)
                    seen_us[pid] = sample.end_us
        return [
            ProcessSample(pid, seen_us[pid], *(each // len(samples) // 100 for each in total))
            for pid, total in sums.items()
        ]

    def busy_ratio(self, now_us: int, span_us: int) -> float:
        """How busy the device was over the newest samples of so long a time: one at least."""
        samples = max(round(span_us * 1000 / self._period_ns), 1)
        newest = self.samples(now_us, self._end_us(self._ended_by(now_us) - samples))
        return sum(s.busy_ns[CORE] for s in newest) / sum(s.length_us * 1000 for s in newest)

    def _ended_by(self, us: int) -> int:
        """Number of the newest sample that had ended by a time; those before the start are idle."""
        # The inverse of ``_end_us``, which rounds down: each nanosecond of this microsecond counts.
        return (1000 * (us - self._first_us + 1) - 1) // self._period_ns

    def _end_us(self, number: int) -> int:
        return self._first_us + number * self._period_ns // 1000

    def _taken(self, first: int, last: int) -> dict[int, RingSample]:
        """Computes the samples from first to last from the processes' bursts."""
        ends_us = [self._end_us(number) for number in range(first - 1, last + 1)]
        bursts = self._population.bursts(self._device, ends_us[0] * 1000, ends_us[-1] * 1000)
        inside: list[list[Segment]] = [[] for _ in ends_us[1:]]
        place = 0
        for segment in cut(segments(bursts), (us * 1000 for us in ends_us)):
            while segment.start_ns >= ends_us[place + 1] * 1000:
                place += 1
            inside[place].append(segment)
        return {
            first + place: self._sample(first + place, before, end, parts)
            for place, (before, end, parts) in enumerate(
                zip(ends_us, ends_us[1:], inside, strict=False)
            )
        }

    def _sample(self, number: int, start_us: int, end_us: int, parts: list[Segment]) -> RingSample:
        spent: dict[ProcessLife, int] = {}
        for segment in parts:
            for life, ns in segment.parts():
                spent[life] = spent.get(life, 0) + ns
        # Each engine's ring names a process of its own, as a driver's does: who encodes need not be
        # who computes.
        on_engine = [_weighted(spent, engine) for engine in QUANTITIES]
        is_busy_at_end = bool(parts) and parts[-1].end_ns == end_us * 1000
        return RingSample(
            end_us,
            end_us - start_us,
            tuple(sum(shares.values()) for shares in on_engine),
            tuple(
                self._named(number, shares, parts, is_busy_at_end=is_busy_at_end)
                for shares in on_engine
            ),
        )

    def _named(
        self,
        number: int,
        shares: Mapping[ProcessLife, int],
        parts: Sequence[Segment],
        *,
        is_busy_at_end: bool,
    ) -> int:
        """The one process that the sample is credited to."""
        if not shares:
            return NOBODY
        # By the number of the sample: it names the same process each time it is read.
        chance = identity.mix(self._key, number)
        if self._rule is SampleRule.END:
            at_end = running(parts[-1]) if is_busy_at_end else None
            return at_end.pid if at_end in shares and at_end else NOBODY
        if self._rule is SampleRule.LAST:
            users = (_users(segment, shares) for segment in reversed(parts))
            return running(next(filter(None, users))).pid
        if self._rule is SampleRule.LONGEST:
            most = max(shares.values())
            # Equal parts differ by the few nanoseconds that cannot be divided.
            tied = [life.pid for life, ns in shares.items() if ns >= most - len(shares)]
            return tied[chance % len(tied)]
        left = chance % sum(shares.values())
        for life, ns in shares.items():
            left -= ns
            if left < 0:
                return life.pid
        # The parts add up to the sum, so that one of them was met above.
        return NOBODY


def _users(segment: Segment, shares: Mapping[ProcessLife, int]) -> Segment | None:
    """The segment with those processes only that use the engine; None without any."""
    lives = tuple(life for life in segment.lives if life in shares)
    return segment._replace(lives=lives) if lives else None


def _weighted(spent: Mapping[ProcessLife, int], engine: str) -> dict[ProcessLife, int]:
    """Busy ns of one engine, by process; processes that do not use it are left out."""
    if engine == "core":
        return dict(spent)
    shares = {life: int(ns * life.resident.ratio(engine)) for life, ns in spent.items()}
    return {life: ns for life, ns in shares.items() if ns}
