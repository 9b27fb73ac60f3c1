"""The rows of a level and the lines of a family, kept for as long as they say the same."""

from collections.abc import Mapping, Sequence
from operator import is_
from typing import Any, NamedTuple

from exporter.exposition.numbers import Numbers
from exporter.exposition.text import labelled
from exporter.families import Family
from exporter.model import Labelled, Number, Row, Value

_Own = tuple[str, ...]
_NONE: Mapping[str, str] = {}


class Rows(NamedTuple):
    """The rows of a level in the page's order: the texts of their labels, and what they say.

    ``texts`` are the same object for as long as the rows have the same labels.
    """

    texts: Sequence[str]
    values: Sequence[Mapping[str, Value]]
    more: Sequence[Mapping[str, Mapping[str, str]]]


class Level:
    """Orders the rows of a level. ``names`` are those of its labels."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._labels: list[tuple[str, ...]] = []
        self._order: list[int] = []
        self._texts: list[str] = []

    def ordered(self, rows: Sequence[Row]) -> Rows:
        """By their labels."""
        labels = [row.labels for row in rows]
        if labels != self._labels:
            self._arrange(labels)
        ordered = [rows[place] for place in self._order]
        return Rows(self._texts, [row.values for row in ordered], [row.more for row in ordered])

    def _arrange(self, labels: list[tuple[str, ...]]) -> None:
        before = (self._labels[place] for place in self._order)
        known = dict(zip(before, self._texts, strict=True))
        self._order = sorted(range(len(labels)), key=labels.__getitem__)
        ordered = (labels[place] for place in self._order)
        self._texts = [known.get(one) or labelled(self._names, one) for one in ordered]
        self._labels = labels


class Column:
    """The samples of a family. ``samples``: how many it had last."""

    def __init__(self, family: Family) -> None:
        self.level = family.level
        self.samples = 0
        self._family = family
        self._full_name = family.full_name
        self._rows: Sequence[str] = ()
        self._found: Sequence[Any] = ()
        self._own: Sequence[tuple[_Own, ...]] = ()
        self._further: Sequence[Mapping[str, str]] = ()
        self._texts: Sequence[str] = ()
        self._lines = b""

    def lines(self, rows: Rows, numbers: Numbers) -> bytes:
        """Write a line for each sample; nine in ten are of families without labels of their own."""
        family, name = self._family, self._family.name
        found: Sequence[Any] = [values.get(name) for values in rows.values]
        further = [more.get(name, _NONE) for more in rows.more] if family.open else ()
        same_rows = rows.texts is self._rows and further == self._further
        if same_rows and all(map(is_, found, self._found)):
            return self._lines
        self._rows, self._found, self._further = rows.texts, found, further
        values: Sequence[Number] = found
        if family.labels:
            values = self._label(found, same_rows=same_rows)
        elif None in found:
            there = [place for place, value in enumerate(found) if value is not None]
            self._texts, values = [rows.texts[i] for i in there], [found[i] for i in there]
        else:
            self._texts = rows.texts
        self.samples = len(values)
        self._lines = _lines(self._full_name, self._texts, numbers.written(values, family.divisor))
        return self._lines

    def _label(self, found: Sequence[Labelled | None], *, same_rows: bool) -> list[Number]:
        """Take up the texts of the family's own labels; the numbers that belong to them."""
        own = [tuple(one) if one else () for one in found]
        if not same_rows or own != self._own:
            self._own, names = own, self._family.labels
            further = self._further or [_NONE] * len(own)
            self._texts = [
                labelled((*names, *more), (*one, *more.values()), text)
                for text, labels, more in zip(self._rows, own, further, strict=True)
                for one in labels
            ]
        return [number for one in found if one for number in one.values()]


def _lines(name: str, texts: Sequence[str], numbers: Sequence[str]) -> bytes:
    """A line for each, put together without a string for any."""
    if not texts:
        return b""
    parts = [f"\n{name}"] * (3 * len(texts))
    parts[0] = name
    parts[1::3], parts[2::3] = texts, numbers
    parts.append("\n")
    return "".join(parts).encode()
