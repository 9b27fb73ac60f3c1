"""The last minutes of devices, containers and groups, for people to look back on.

Bounded: a point each five seconds, ten minutes of them, so many series. A history is never changed:
a point more makes another one.

The two gauges that the history keeps, read from the accounts: what their rows would say.
"""

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from struct import Struct

from exporter.ledger import Ledger, Moment
from exporter.model import DeviceState, History, Row, Value
from exporter.rows.allocation_rows import loose_rows
from exporter.rows.book_view import RATIOS, BookView, CycleFacts
from exporter.rows.view import K, Owners, View

POINTS = 120
MOST_SERIES = 4096  # 4 MB
_PAIR = Struct("=ff")
POINT_BYTES = _PAIR.size
UNKNOWN = float("nan")
_NUMBERS = (int, float)  # made once: a union would be made anew for each value
CORE = {
    "device": "utilization_ratio",
    "container": "core_utilization_ratio",
    "group": "core_utilization_ratio",
}
MEMORY = "memory_used_bytes"

Gauges = tuple[tuple[str, ...], float, float]
"""The labels of a row, its core ratio and its memory in bytes."""


def gauges_of(rows: Mapping[str, Sequence[Row]]) -> Iterator[Gauges]:
    """What the rows of devices, containers and groups say."""
    for level, core in CORE.items():
        for labels, values, _ in rows.get(level, ()):
            yield labels, _number(values.get(core)), _number(values.get(MEMORY))


def extended(before: History, present: Iterable[Gauges], now: Moment) -> History:
    """The history with the present, if a point is due: only then is it looked at."""
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
    """Core ratios and memory in bytes of a series, oldest first; None where it was not known."""
    flat = [None if value != value else value for value in array("f", packed)]  # noqa: PLR0124 - NaN
    return flat[::2], flat[1::2]


def _number(value: Value | None) -> float:
    return value if isinstance(value, _NUMBERS) else UNKNOWN


def current_gauges(ledger: Ledger, facts: CycleFacts) -> Iterator[Gauges]:
    """Those of devices, containers and groups, looked up while they are iterated over.

    To be read before the next cycle. Whole rows each five seconds would be much of its work.
    """
    view = View(ledger, facts)
    for seen in view.books.values():
        core = None if seen.blind else seen.use().get(RATIOS["core"])
        yield (seen.index, seen.uuid), _number(core), _memory(view, seen)
    yield from _owners(view.containers)
    for row in loose_rows(view):
        yield row.labels, UNKNOWN, UNKNOWN
    yield from _owners(view.groups)


def _owners(owners: Owners[K]) -> Iterator[Gauges]:
    cores, held = owners.of_shown(owners.cores()), owners.of_shown(owners.memory_bytes())
    return zip(owners.labels(), map(_number, cores), map(_number, held), strict=True)


def _memory(view: View, seen: BookView) -> float:
    reading = view.facts.readings.get(seen.uuid)
    memory = reading.memory if reading and seen.book.state is DeviceState.UP else None
    return _number(memory.used_bytes if memory else None)
