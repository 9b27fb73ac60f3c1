"""The start time of every counter on a page: OpenMetrics' ``_created``.

A counter begins at 0 when the exporter begins to count it. Prometheus can put that 0 into its
store, so that ``increase()`` misses nothing of what was counted before the first scrape.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from exporter.metrics.families import NS, Family
from exporter.model import Snapshot, Table

SINCE = "observed_since_timestamp_seconds"


class OrderedRows(NamedTuple):
    """The rows of a level in the page's order.

    ``texts`` are those of their labels. ``order``: the place of each row in ``table``.
    """

    texts: Sequence[str]
    order: Sequence[int]
    table: Table


class StartTimes:
    """When each counter on the pages began, as text in Unix seconds. Not thread-safe.

    A series that stood on the page before keeps its start. One that did not is new: it began no
    earlier than that page, and where its row says since when it is observed, then. On the first
    page it began with the collector. A series that left the page is forgotten: if it comes back,
    it begins again.
    """

    def __init__(self) -> None:
        self._known: dict[str, Mapping[str, str]] = {}
        self._before_ns: int | None = None
        self._earliest_ns = 0

    def begin(self, snapshot: Snapshot) -> None:
        """Begin the page of a Snapshot."""
        before = self._before_ns
        self._earliest_ns = snapshot.started_unix_ns if before is None else before
        self._before_ns = snapshot.unix_ns

    def of(self, family: Family, texts: Sequence[str], rows: OrderedRows) -> list[str]:
        """The start of each series of a counter, by the texts of its labels."""
        known = self._known.get(family.full_name, {})
        if len(known) == len(texts) and all(map(known.__contains__, texts)):  # as nearly always
            return [known[text] for text in texts]
        since = {} if family.labels else _since(rows)
        starts = {
            text: known.get(text) or _written(max(self._earliest_ns, since.get(text) or 0))
            for text in texts
        }
        self._known[family.full_name] = starts
        return list(starts.values())


def _since(rows: OrderedRows) -> Mapping[str, int]:
    """Since when the owner of each row is observed, by the texts of its labels."""
    column = rows.table.columns.get(SINCE)
    if column is None:
        return {}
    values = zip(rows.texts, (column[place] for place in rows.order), strict=True)
    return {text: value for text, value in values if isinstance(value, int)}


def _written(unix_ns: int) -> str:
    """Unix seconds with milliseconds, rounded down: Prometheus keeps no more."""
    milliseconds = unix_ns // (NS // 1000)
    return f"{milliseconds // 1000}.{milliseconds % 1000:03}"
