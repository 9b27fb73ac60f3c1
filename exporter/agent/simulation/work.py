"""When something lives and when it is busy, as pure functions of time.

All times are nanoseconds since the scenario's start. Whatever looks random is drawn from a key
and a running number, so that any moment can be asked for, in any order, without a history.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from exporter.agent.simulation.identity import mix

FOREVER = 1 << 62
HALF_WORD = 1 << 32


@dataclass(frozen=True, slots=True)
class Curve:
    """A value over time: points joined by straight lines, flat before and after them.

    With ``repeat_ns`` it starts over after that time.
    """

    points: tuple[tuple[int, float], ...]
    repeat_ns: int | None = None

    def at(self, ns: int) -> float:
        """The value at a time."""
        points = self.points
        if len(points) == 1:
            return points[0][1]
        if self.repeat_ns:
            ns %= self.repeat_ns
        if ns <= points[0][0]:
            return points[0][1]
        for (left, low), (right, high) in pairwise(points):
            if ns < right:
                return low + (high - low) * (ns - left) / (right - left)
        return points[-1][1]

    @property
    def highest(self) -> float:
        """The highest value that it takes."""
        return max(value for _, value in self.points)


class Occurrence(NamedTuple):
    """One life of something that may come again; ``end_ns`` is exclusive."""

    number: int
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class Lifetime:
    """When something lives: once, or again ``every_ns`` for a length drawn between two bounds."""

    start_ns: int = 0
    shortest_ns: int = FOREVER
    longest_ns: int = FOREVER
    every_ns: int | None = None

    def occurrences(self, key: int, begin_ns: int, end_ns: int) -> Iterator[Occurrence]:
        """The occurrences that live at some time in [begin, end), in the order of their start."""
        for number in self._numbers(begin_ns, end_ns):
            start = self.start_ns + number * (self.every_ns or 0)
            end = min(start + self._length(key, number), FOREVER)
            if start < end_ns and end > begin_ns:
                yield Occurrence(number, start, end)

    def _numbers(self, begin_ns: int, end_ns: int) -> range:
        if self.every_ns is None:
            return range(1)
        # One that began earlier may live still, if it drew the longest life.
        first = (begin_ns - self.start_ns - self.longest_ns) // self.every_ns
        last = (end_ns - 1 - self.start_ns) // self.every_ns
        return range(max(first, 0), last + 1)

    def _length(self, key: int, number: int) -> int:
        choice = self.longest_ns - self.shortest_ns
        return self.shortest_ns + (mix(key, number) % (choice + 1) if choice else 0)


@dataclass(frozen=True, slots=True)
class Work:
    """A process's demand for the GPU: busy for ``duty`` of each period.

    ``phase_ns`` says how far into its period the process starts; None draws it. ``jitter`` (0-1)
    lets length and place of each burst vary, the mean duty staying about the same.
    """

    duty: Curve
    period_ns: int
    phase_ns: int | None = None
    jitter: float = 0.0

    def bursts(
        self, key: int, life: tuple[int, int], begin_ns: int, end_ns: int
    ) -> Iterator[tuple[int, int]]:
        """Busy intervals of a life (start, end) inside [begin, end), in order and apart."""
        start, end = life
        begin, stop = max(start, begin_ns), min(end, end_ns)
        period = self.period_ns
        phase = mix(key) % period if self.phase_ns is None else self.phase_ns
        origin = start - phase
        left = right = begin
        # By number, not from the last one on: any range can be asked for, and is the same each
        # time.
        for cycle in range((begin - origin) // period, (stop - 1 - origin) // period + 1):
            at = origin + cycle * period
            offset, length = self._burst(key, cycle, at - start)
            if at + offset > right:
                if left < right:
                    yield left, right
                left = max(at + offset, begin)
            right = min(at + offset + length, stop)
        if left < right:
            yield left, right

    def _burst(self, key: int, cycle: int, age_ns: int) -> tuple[int, int]:
        """Offset in the period and length of one burst."""
        duty = self.duty.at(max(age_ns, 0))
        if not self.jitter:
            return 0, int(duty * self.period_ns)
        size, place = divmod(mix(key, cycle), HALF_WORD)
        duty = min(duty * (1 + self.jitter * (2 * size / HALF_WORD - 1)), 1.0)
        length = int(duty * self.period_ns)
        return int((self.period_ns - length) * self.jitter * place / HALF_WORD), length
