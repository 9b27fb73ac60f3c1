"""How processes that want a GPU at the same time share it.

The driver gives each a slice of about 2 ms in turn. Over anything longer each has an equal part,
which is computed here without going through the slices; only "who ran at this instant" looks at
the turn.
"""

from bisect import insort
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from exporter.scenario.identity import mix
from exporter.scenario.population import Burst, Life

SLICE_NS = 2_000_000


class Segment(NamedTuple):
    """A time in which the same processes shared the device; never empty of either."""

    start_ns: int
    end_ns: int
    lives: tuple[Life, ...]  # by pid

    def parts(self) -> Iterator[tuple[Life, int]]:
        """Each process's part in ns; the parts add up to the length exactly."""
        part, rest = divmod(self.end_ns - self.start_ns, len(self.lives))
        for place, life in enumerate(self.lives):
            yield life, part + (place < rest)


def segments(bursts: Iterable[Burst]) -> Iterator[Segment]:
    """The bursts of one device as segments, in order of time."""
    lives: dict[int, Life] = {}
    edges: list[tuple[int, bool, int]] = []
    for start, end, life in bursts:
        lives[life.pid] = life
        edges.append((start, True, life.pid))
        edges.append((end, False, life.pid))
    edges.sort()  # at the same instant ends come before starts
    active: list[int] = []
    since = 0
    for at, starts, pid in edges:
        if active and at > since:
            yield Segment(since, at, tuple(lives[p] for p in active))
        since = at
        if starts:
            insort(active, pid)
        else:
            active.remove(pid)


def cut(parts: Iterable[Segment], bounds: Iterable[int]) -> Iterator[Segment]:
    """The same segments, cut where a bound lies inside one. Bounds rise."""
    ahead = iter(bounds)
    bound = next(ahead, None)
    for start, end, lives in parts:
        left = start
        while bound is not None and bound < end:
            if bound > left:
                yield Segment(left, bound, lives)
                left = bound
            bound = next(ahead, None)
        yield Segment(left, end, lives)


def busy_ns(bursts: Iterable[Burst]) -> int:
    """How long at least one process had the device."""
    busy = reached = 0
    for start, end, _ in sorted(bursts, key=lambda burst: burst.start_ns):
        busy += max(end - max(start, reached), 0)
        reached = max(reached, end)
    return busy


def running(segment: Segment) -> Life:
    """Whose turn it is at the end of a segment.

    Drawn for each slice: slices of exactly equal length would beat against the samples.
    """
    turn = (segment.end_ns - 1) // SLICE_NS
    return segment.lives[mix(turn) % len(segment.lives)]
