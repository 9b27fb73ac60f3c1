"""The last minutes of devices, containers and groups, for people to look back on.

Bounded: a point each five seconds, ten minutes of them, so many series. A history is never changed:
a point more makes another one.
"""

from array import array
from collections.abc import Mapping, Sequence
from struct import Struct

from exporter.ledger.accounts import Moment
from exporter.model import History, Row, Value

POINTS = 120
MOST_SERIES = 4096  # 4 MB
_PAIR = Struct("=ff")
POINT_BYTES = _PAIR.size
_UNKNOWN = float("nan")
_NUMBERS = (int, float)  # made once: a union would be made anew for each value
CORE = {
    "device": "utilization_ratio",
    "container": "core_utilization_ratio",
    "group": "core_utilization_ratio",
}
MEMORY = "memory_used_bytes"


def extended(before: History, rows: Mapping[str, Sequence[Row]], now: Moment) -> History:
    """The history with the present, if a point is due; each is what the gauges said then."""
    if not before.end_unix_ns:
        return _with_point(before, b"", rows, now.unix_ns, now.mono_ns)
    steps = (now.mono_ns - before.end_mono_ns) // before.step_ns
    if steps < 1:
        return before
    gap = _PAIR.pack(_UNKNOWN, _UNKNOWN) * min(steps - 1, POINTS)
    end_mono_ns = before.end_mono_ns + steps * before.step_ns
    return _with_point(before, gap, rows, now.unix_ns, end_mono_ns)


def _with_point(
    before: History,
    gap: bytes,
    rows: Mapping[str, Sequence[Row]],
    end_unix_ns: int,
    end_mono_ns: int,
) -> History:
    series: dict[tuple[str, ...], bytes] = {}
    for level, core in CORE.items():
        for row in rows.get(level, ())[: MOST_SERIES - len(series)]:
            past, values = before.series.get(row.labels, b""), row.values
            if gap and past:
                past += gap
            point = _PAIR.pack(_number(values.get(core)), _number(values.get(MEMORY)))
            series[row.labels] = (past + point)[-POINTS * POINT_BYTES :]
    return History(end_unix_ns, end_mono_ns, before.step_ns, series)


def points(packed: bytes) -> tuple[list[float | None], list[float | None]]:
    """Core ratios and memory in bytes of a series, oldest first; None where it was not known."""
    flat = [None if value != value else value for value in array("f", packed)]  # noqa: PLR0124 - NaN
    return flat[::2], flat[1::2]


def _number(value: Value | None) -> float:
    return value if isinstance(value, _NUMBERS) else _UNKNOWN
