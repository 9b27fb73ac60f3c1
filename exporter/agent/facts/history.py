"""The last hour of devices, containers and groups, for people to look back on.

One point each ten seconds. A point is one block of bytes for all series, so that a history shares
all its blocks but the newest with the one before it: nothing is copied, and a history is immutable.
Each series has a place in the blocks, which it keeps for an hour after its end. Places are bounded:
a namespace, or a kind of group, has no more than four times as many as are left, so that others
find some.
"""

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from exporter.agent.facts.devicefacts import device_facts
from exporter.agent.facts.factsview import FactsView, OwnerView
from exporter.agent.ledger import Moment
from exporter.model import KIB, History, HistoryPoint, SeriesKey

POINTS = 360  # an hour
MAX_SERIES = 2048  # of 6 bytes a point: 4.4 MB in all at most
_OF_LEFT = 4
_CORE_UNIT = 10_000  # a core ratio is kept in steps of 0.01 %
_NO_CORE = 0xFFFF
_NO_MEMORY = 0xFFFF_FFFF
MEMORY = 0xFFFF_FFFF

Gauges = tuple[SeriesKey, float | None, float | None]
"""The core ratio and the memory in bytes of a series."""
Known = list[float | None]


def gauges_of(view: FactsView) -> Iterator[Gauges]:
    """The gauges of devices, containers and groups, without all other facts of them."""
    for device in device_facts(view):
        key = SeriesKey(None, device.uuid)
        yield key, device.average.core, device.memory.used_bytes
    owners: Iterable[OwnerView[Any]] = (*view.containers, *view.groups)
    for owner in owners:
        key = SeriesKey(owner.key, owner.device.uuid)
        known = (owner.average.core, owner.memory_bytes) if owner.has_gauges else (None, None)
        yield key, *known


def extended(before: History, present: Callable[[], Iterable[Gauges]], now: Moment) -> History:
    """The history with the current gauges, if a point is due; otherwise they are not asked for."""
    if not before.end_unix_ns:
        return _with_point(before, 1, present(), now.unix_ns, now.mono_ns)
    steps = (now.mono_ns - before.end_mono_ns) // before.step_ns
    if steps < 1:
        return before
    end_mono_ns = before.end_mono_ns + steps * before.step_ns
    return _with_point(before, steps, present(), now.unix_ns, end_mono_ns)


def _with_point(
    before: History,
    steps: int,
    present: Iterable[Gauges],
    end_unix_ns: int,
    end_mono_ns: int,
) -> History:
    taken = before.taken + steps
    listed = list(present)
    series, ended = _places(before, [key for key, _, _ in listed], taken)
    size = 1 + max((*series.values(), *(place for place, _ in ended.values())), default=-1)
    cores, held = array("H", (_NO_CORE,)) * size, array("I", (_NO_MEMORY,)) * size
    for key, core, memory in listed:
        place = series.get(key)
        if place is None:
            continue
        # A value beyond what fits is the largest that is not the sign for "unknown".
        if core is not None:
            cores[place] = min(max(round(core * _CORE_UNIT), 0), _NO_CORE - 1)
        if memory is not None:
            held[place] = min(max(round(memory / KIB), 0), _NO_MEMORY - 1)
    point = HistoryPoint(cores.tobytes(), held.tobytes())
    missed = (HistoryPoint(b"", b""),) * min(steps - 1, POINTS)
    points = (*before.points, *missed, point)[-POINTS:]
    return History(end_unix_ns, end_mono_ns, before.step_ns, series, points, ended, taken)


def _places(
    before: History, keys: Sequence[SeriesKey], taken: int
) -> tuple[Mapping[SeriesKey, int], Mapping[SeriesKey, tuple[int, int]]]:
    """The places of the present series, and those of ended ones with their last point's number."""
    # Most points have the series of the point before.
    if len(keys) == len(before.series) and all(each in before.series for each in keys):
        return before.series, before.ended
    # A place is given to another series once no block has the ended one any more.
    ended = {own: last for own, last in before.ended.items() if taken - last[1] < POINTS}
    ended |= {own: (place, before.taken) for own, place in before.series.items()}
    series: dict[SeriesKey, int] = {}
    fresh = []
    for own in keys:
        if own in ended:
            series[own] = ended.pop(own)[0]
        elif own not in series:
            series[own] = -1  # its place comes below; what is listed first is also shown first
            fresh.append(own)
    occupied = {*series.values(), *(place for place, _ in ended.values())}
    free = (place for place in range(MAX_SERIES) if place not in occupied)
    left = MAX_SERIES - len(occupied - {-1})
    placed = (own for own, place in series.items() if place >= 0)
    held = Counter(_holder(own) for own in (*placed, *ended))
    for own in fresh:
        # At the bound a newcomer has no history, and those that have one keep it.
        holder = _holder(own)
        if left <= 0 or (holder and held[holder] >= _OF_LEFT * left):
            del series[own]
        else:
            series[own] = next(free)
            held[holder] += 1
            left -= 1
    return series, ended


def _holder(key: SeriesKey) -> str:
    """A namespace or a kind of group; "" of devices, which nobody makes."""
    return "" if key.owner is None else key.owner[0]


class Past(Mapping[SeriesKey, Mapping[str, Known]]):
    """The newest points of each present series, oldest first; None where unknown.

    A series is unpacked when it is asked for.
    """

    def __init__(self, history: History, count: int = POINTS) -> None:
        newest = history.points[-count:] if count > 0 else ()
        self._places = history.series
        self._cores = _columns("H", [point.cores for point in newest], _NO_CORE)
        self._held = _columns("I", [point.held for point in newest], _NO_MEMORY)
        self._unpacked: dict[SeriesKey, Mapping[str, Known]] = {}

    def __getitem__(self, key: SeriesKey) -> Mapping[str, Known]:
        """The core ratios and the memory in bytes of a series.

        Raises:
            KeyError: there is no such series now.

        """
        made = self._unpacked.get(key)
        if made is None:
            place = self._places[key]
            cores = [None if v == _NO_CORE else v / _CORE_UNIT for v in self._cores[place]]
            held = [None if v == _NO_MEMORY else float(v * KIB) for v in self._held[place]]
            # A series that began later is shorter. Gaps within it stay.
            both = enumerate(zip(cores, held, strict=True))
            began = next((n for n, at in both if at != (None, None)), 0)
            made = {"core_utilization_ratio": cores[began:], "memory_used_bytes": held[began:]}
            self._unpacked[key] = made
        return made

    def __iter__(self) -> Iterator[SeriesKey]:
        """The present series."""
        return iter(self._places)

    def __len__(self) -> int:
        """How many series there are."""
        return len(self._places)

    def __contains__(self, key: object) -> bool:
        """Whether there is such a series; unpacks nothing."""
        return key in self._places


def _columns(kind: str, blocks: Sequence[bytes], unknown: int) -> list[tuple[int, ...]]:
    """The blocks of all series as one tuple for each place."""
    arrays = [array(kind, block) for block in blocks]
    width = max(map(len, arrays), default=0)
    for each in arrays:
        each.extend((unknown,) * (width - len(each)))
    return list(zip(*arrays, strict=True))
