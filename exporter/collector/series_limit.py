"""Limits the number of series of a family. Pure, but for ``DroppedSeries``, which counts and logs.

Where there are too many, each namespace has an equal part of the room, and what one does not need
is the others'. Groups share it by kind. Within a part, series that were shown before stay, so that
none comes and goes. The accounts behind those left out go on.
"""

import logging
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TypeVar, cast

from exporter.metrics.families import FAMILIES, LEVELS, OWN_LEVEL, PREFIX
from exporter.model import Labelled, Row

logger = logging.getLogger(__name__)

MAX_NAMED = 5  # families in one log line

Rows = Mapping[str, tuple[Row, ...]]
K = TypeVar("K", tuple[str, ...], "_Series")  # the labels of a row, or of a series
_Series = tuple[tuple[str, ...], tuple[str, ...]]  # labels of the row, and of the family

_LABELLED = {
    level: tuple(f.name for f in FAMILIES if f.level == level and f.labels) for level in LEVELS
}


@dataclass(frozen=True, slots=True)
class LimitedRows:
    """Rows within the limit, and how many series of each family (by full name) were dropped."""

    rows: Rows
    dropped: Mapping[str, int] = field(default_factory=dict)


def limit_series(rows: Rows, before: Rows, most: int, highest: int | None = None) -> LimitedRows:
    """The rows with at most ``most`` rows of a level, and series of a family with own labels.

    ``before`` are the rows that were taken the last time. The exporter's own are all taken.
    ``highest`` is an upper bound of any family's series. If it is within the limit, the rows are
    not read, because they may not have been built yet.
    """
    if highest is not None and highest <= most:
        return LimitedRows(rows)
    dropped: Counter[str] = Counter()
    taken: dict[str, tuple[Row, ...]] = {}
    for level, all_of_level in rows.items():
        if level == OWN_LEVEL:
            taken[level] = all_of_level
            continue
        kept, left = _rows(all_of_level, before.get(level, ()), most)
        for row in left:
            dropped.update({f"{PREFIX}_{level}_{n}": _series_of(row, n) for n in row.values})
        for name in _LABELLED[level]:
            if sum(len(cast("Labelled", row.values.get(name, ()))) for row in kept) > most:
                kept, dropped_series = _series(kept, before.get(level, ()), name, most)
                dropped[f"{PREFIX}_{level}_{name}"] += dropped_series
        taken[level] = tuple(kept)
    return LimitedRows(taken, dropped)


def _series_of(row: Row, name: str) -> int:
    value = row.values.get(name)
    if value is None:
        return 0
    return len(value) if isinstance(value, Mapping) else 1


def _rows(
    rows: Sequence[Row], before: Iterable[Row], most: int
) -> tuple[Sequence[Row], Sequence[Row]]:
    """The rows that are taken, and those that are left."""
    if len(rows) <= most:
        return rows, ()
    shown = {row.labels for row in before}
    taken = _fairly([(row.labels[0], row.labels) for row in rows], shown, most)
    return [r for r in rows if r.labels in taken], [r for r in rows if r.labels not in taken]


def _series(
    rows: Sequence[Row], before: Iterable[Row], name: str, most: int
) -> tuple[list[Row], int]:
    """The rows with only so many series of one family, and how many were dropped."""
    series = [(each[0][0], each) for each in _series_in(rows, name)]
    taken = _fairly(series, set(_series_in(before, name)), most)
    return [_cut(row, name, taken) for row in rows], len(series) - len(taken)


def _fairly(series: Iterable[tuple[str, K]], shown: Collection[K], most: int) -> set[K]:
    """So many of these series, by namespace, in turn one of each.

    Of a namespace, those that were shown come first, then the first by labels.
    """
    turns: Counter[str] = Counter()
    ordered: list[tuple[int, K]] = []
    for namespace, own in sorted(series, key=lambda each: (each[1] not in shown, each[1])):
        ordered.append((turns[namespace], own))
        turns[namespace] += 1
    return {own for _, own in sorted(ordered, key=itemgetter(0))[:most]}


def _series_in(rows: Iterable[Row], name: str) -> Iterable[_Series]:
    for row in rows:
        for own in cast("Labelled", row.values.get(name, {})):
            yield row.labels, own


def _cut(row: Row, name: str, taken: set[_Series]) -> Row:
    labelled = cast("Labelled", row.values.get(name, {}))
    left = {own: number for own, number in labelled.items() if (row.labels, own) in taken}
    return row if len(left) == len(labelled) else row._replace(values={**row.values, name: left})


class DroppedSeries:
    """The series dropped since the start, by family. Logs each such family once."""

    def __init__(self) -> None:
        self.total: Counter[str] = Counter()
        self._said: set[str] = set()

    def count(self, dropped: Mapping[str, int], most: int) -> None:
        """Adds those of one cycle."""
        if not (dropped or self._said):  # as nearly always
            return
        self.total.update(dropped)
        news = dropped.keys() - self._said
        self._said = set(dropped)
        if news:
            logger.warning(
                "%d series are left out: more than %d of %s; raise "
                "--metrics.max-series-per-family if they are wanted",
                *(sum(dropped[name] for name in news), most, ", ".join(sorted(news)[:MAX_NAMED])),
            )
