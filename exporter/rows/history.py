"""The last ten minutes of devices, containers and groups, for people to look back on.

One point each five seconds, and a bounded number of series. A history is immutable.
"""

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from struct import Struct

from exporter.ledger import Ledger, Moment
from exporter.model import DeviceState, History, Row, Value
from exporter.rows.allocation_rows import unplaced_rows
from exporter.rows.device_view import RATIOS, CycleFacts, DeviceView
from exporter.rows.view import K, Owners, View

POINTS = 120
MOST_SERIES = 4096  # 4 MB
_PAIR = Struct("=ff")
POINT_BYTES = _PAIR.size
UNKNOWN = float("nan")
_NUMBERS = (int, float)  # a union in the call would be built again for each value
CORE = {
    "device": "utilization_ratio",
    "container": "core_utilization_ratio",
    "group": "core_utilization_ratio",
}
MEMORY = "memory_used_bytes"

Gauges = tuple[tuple[str, ...], float, float]
"""The labels of a row, its core ratio and its memory in bytes."""


def gauges_of(rows: Mapping[str, Sequence[Row]]) -> Iterator[Gauges]:
    """The gauges in the rows of devices, containers and groups."""
    for level, core in CORE.items():
        for labels, values, _ in rows.get(level, ()):
            yield labels, _number(values.get(core)), _number(values.get(MEMORY))


def extended(before: History, present: Iterable[Gauges], now: Moment) -> History:
    """The history with the current gauges, if a point is due; otherwise they are not read."""
    if not before.end_unix_ns:
        return _with_point(before, b"", present, now.unix_ns, now.mono_ns)
    steps = (now.mono_ns - before.end_mono_ns) // before.step_ns
    if steps < 1:
        return before
    gap = _PAIR.pack(UNKNOWN, UNKNOWN) * min(steps - 1, POINTS)
    end_mono_ns = before.end_mono_ns + steps * before.step_ns
    return _with_point(before, gap, present, now.unix_ns, end_mono_ns)


def _with_point(
    before: History,
    gap: bytes,
    present: Iterable[Gauges],
    end_unix_ns: int,
    end_mono_ns: int,
) -> History:
    series: dict[tuple[str, ...], bytes] = {}
    for labels, core, memory in islice(present, MOST_SERIES):
        past = before.series.get(labels, b"")
        if gap and past:
            past += gap
        series[labels] = (past + _PAIR.pack(core, memory))[-POINTS * POINT_BYTES :]
    return History(end_unix_ns, end_mono_ns, before.step_ns, series)


def points(packed: bytes) -> tuple[list[float | None], list[float | None]]:
    """Core ratios and memory in bytes of a series, oldest first; None where unknown."""
    flat = [None if value != value else value for value in array("f", packed)]  # noqa: PLR0124 - NaN
    return flat[::2], flat[1::2]


def _number(value: Value | None) -> float:
    return value if isinstance(value, _NUMBERS) else UNKNOWN


def current_gauges(ledger: Ledger, facts: CycleFacts) -> Iterator[Gauges]:
    """The gauges of devices, containers and groups, read from the accounts when iterated over.

    To be read before the next cycle. It costs a fraction of building all rows.
    """
    view = View(ledger, facts)
    for seen in view.devices.values():
        core = None if seen.stale else seen.use().get(RATIOS["core"])
        yield (seen.index, seen.uuid), _number(core), _memory(view, seen)
    yield from _owners(view.containers)
    for row in unplaced_rows(view):
        yield row.labels, UNKNOWN, UNKNOWN
    yield from _owners(view.groups)


def _owners(owners: Owners[K]) -> Iterator[Gauges]:
    cores, held = owners.of_shown(owners.cores()), owners.of_shown(owners.memory_bytes())
    return zip(owners.labels(), map(_number, cores), map(_number, held), strict=True)


def _memory(view: View, seen: DeviceView) -> float:
    reading = view.facts.readings.get(seen.uuid)
    memory = reading.memory if reading and seen.device_ledger.state is DeviceState.UP else None
    return _number(memory.used_bytes if memory else None)
