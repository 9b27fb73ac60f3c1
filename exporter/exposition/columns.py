"""The rows of a level and the lines of a family, kept for as long as they say the same."""

from collections.abc import Mapping, Sequence
from itertools import repeat
from operator import is_
from typing import Any, NamedTuple

from exporter.exposition.numbers import Numbers
from exporter.exposition.text import labelled
from exporter.families import Family
from exporter.model import Number, Table, Value

_Own = tuple[str, ...]
_Further = Mapping[str, str]
_NONE: _Further = {}


class Rows(NamedTuple):
    """The rows of a level: the texts of their labels in the page's order, and what they say.

    ``texts`` are the same object for as long as the rows have the same labels. ``order``: at which
    place of ``columns`` and ``more``, which are a table's, each row stands.
    """

    texts: Sequence[str]
    order: Sequence[int]
    columns: Mapping[str, Sequence[Value | None]]
    more: Mapping[str, Sequence[_Further | None]]


class Level:
    """Orders the rows of a level. ``names`` are those of its labels."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._labels: Sequence[tuple[str, ...]] = []
        self._order: list[int] = []
        self._texts: list[str] = []

    def ordered(self, table: Table) -> Rows:
        """By their labels."""
        if table.labels != self._labels:
            self._arrange(table.labels)
        return Rows(self._texts, self._order, table.columns, table.more)

    def _arrange(self, labels: Sequence[tuple[str, ...]]) -> None:
        before = (self._labels[place] for place in self._order)
        known = dict(zip(before, self._texts, strict=True))
        order = sorted(range(len(labels)), key=labels.__getitem__)
        ordered = (labels[place] for place in order)
        texts = [known.get(one) or labelled(self._names, one) for one in ordered]
        self._labels, self._order, self._texts = labels, order, texts


class Column:
    """The samples of a family. ``samples``: how many it had last."""

    __slots__ = (
        *("_family", "_found", "_full_name", "_further", "_is_open", "_lines", "_name", "_numbers"),
        *("_own", "_rows", "_texts", "level", "samples"),
    )

    def __init__(self, family: Family) -> None:
        self.level = family.level
        self.samples = 0
        self._family = family
        self._name, self._full_name = family.name, family.full_name
        self._is_open = family.open
        self._rows: Sequence[str] = ()
        self._found: Sequence[Any] = ()
        self._own: Sequence[tuple[_Own, ...]] = ()
        self._further: Sequence[_Further | None] = ()
        self._texts: Sequence[str] = ()
        self._numbers: Sequence[str] = ()
        self._lines = b""

    def lines(self, rows: Rows, numbers: Numbers) -> bytes:
        """Write a line for each sample; nine in ten are of families without labels of their own."""
        found: Sequence[Any] | None = rows.columns.get(self._name)
        if found is None:
            if not self._found:  # a third of the table's families, on most nodes
                return b""
            found = ()
        further = rows.more.get(self._name, ()) if self._is_open else ()
        same_rows = rows.texts is self._rows and further == self._further
        if same_rows and (found is self._found or _is_same(found, self._found)):
            return self._lines
        before = self._texts, self._numbers
        self._found, self._further = found, further
        self._rows = self._numbers = ()  # what fails on the way is not kept
        values = self._arrange(rows, same_rows=same_rows)
        self.samples = len(values)
        self._numbers = numbers.written(values, self._family.divisor)
        if (self._texts, self._numbers) != before:
            self._lines = _lines(self._full_name, self._texts, self._numbers)
        self._rows = rows.texts
        return self._lines

    def _arrange(self, rows: Rows, *, same_rows: bool) -> list[Number]:
        """Take up the texts of the samples' labels; the numbers that belong to them, in order."""
        if not self._found:
            self._texts = self._own = ()
            return []
        found = list(map(self._found.__getitem__, rows.order))
        if not self._family.labels:
            self._texts = rows.texts
            if None in found:
                there = [place for place, value in enumerate(found) if value is not None]
                self._texts, found = [rows.texts[i] for i in there], [found[i] for i in there]
            return found
        own = [tuple(one) if one else () for one in found]
        if not same_rows or own != self._own:
            self._own, names, further = own, self._family.labels, self._further
            beyond = [further[place] or _NONE for place in rows.order] if further else repeat(_NONE)
            self._texts = [
                labelled((*names, *more), (*one, *more.values()), text)
                for text, labels, more in zip(rows.texts, own, beyond, strict=False)
                for one in labels
            ]
        return [number for one in found if one for number in one.values()]


def _is_same(found: Sequence[Any], before: Sequence[Any]) -> bool:
    """Whether all are the same objects: numbers that are equal may be written differently."""
    return len(found) == len(before) and all(map(is_, found, before))


def _lines(name: str, texts: Sequence[str], numbers: Sequence[str]) -> bytes:
    """A line for each, put together without a string for any."""
    if not texts:
        return b""
    parts = [f"\n{name}"] * (3 * len(texts))
    parts[0] = name
    parts[1::3], parts[2::3] = texts, numbers
    parts.append("\n")
    return "".join(parts).encode()
