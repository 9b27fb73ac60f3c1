"""The page: family by family, in the table's order.

The rows of a level and the lines of a family, kept for as long as they say the same.

The texts of numbers, kept from page to page: most samples stay, and to write a float is dear.

How names, labels and numbers are written.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import Enum
from itertools import repeat
from operator import attrgetter, is_
from typing import Any, NamedTuple

from exporter.metrics.families import FAMILIES, LEVELS, Family
from exporter.model import Number, Snapshot, Table, Value
from exporter.rows.lazy import table_of

_DIGITS = {10**digits: digits for digits in range(1, 16)}
_TOLD_APART = 1 << 52  # below it, floats are closer to one another than whole numbers are

_NOT_FINITE = {"nan": "NaN", "inf": "+Inf", "-inf": "-Inf"}
_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


class Format(Enum):
    """A text format."""

    TEXT = "text"
    OPENMETRICS = "openmetrics"


def written(number: Number, divisor: int) -> str:
    """Write the quotient as the shortest text that reads back as the same float."""
    digits = _DIGITS.get(divisor)
    if digits and type(number) is int and divisor <= number < _TOLD_APART:
        text = str(number)  # as below, in a third of the time
        return f"{text[:-digits]}.{text[-digits:].rstrip('0') or '0'}"
    text = repr(number / divisor)
    return _NOT_FINITE.get(text, text)


def labelled(names: Iterable[str], values: Iterable[str], before: str = " ") -> str:
    """Labels with their braces and a blank: a name, this and a number make a line.

    ``before`` is such a text, of the labels that stand before these.
    """
    pairs = [f'{n}="{escaped(v)}"' for n, v in zip(names, values, strict=True)]
    if before != " ":
        pairs.insert(0, before[1:-2])
    return f"{{{','.join(pairs)}}} " if pairs else " "


def escaped(value: str) -> str:
    """Escape as both formats ask. Half surrogates (from paths) stay apart and become ASCII."""
    return value.encode(errors="backslashreplace").decode().translate(_ESCAPES)


def head(name: str, kind: str, about: str, form: Format) -> str:
    """Write a family's HELP and TYPE."""
    about = about.translate(_ESCAPES)
    if form is Format.OPENMETRICS and kind == "counter":
        name = name.removesuffix("_total")
    if form is Format.TEXT:  # in this format a quotation mark in HELP stands for itself
        about = about.replace(r"\"", '"')
    return f"# HELP {name} {about}\n# TYPE {name} {kind}\n"


_PAGES = 2  # so many pages' numbers are kept, or fewer


class _Texts(dict[Number, str]):
    """The texts of numbers that are divided alike, written when they are asked for."""

    def __init__(self, divisor: int) -> None:
        self._divisor = divisor

    def __missing__(self, number: Number) -> str:
        text = self[number] = written(number, self._divisor)
        return text


class _Wholes(dict[Number, str]):
    """The texts of integers that stand as they are."""

    def __missing__(self, number: Number) -> str:
        text = self[number] = str(number)
        return text


class Numbers:
    """Writes numbers. Equal ones that are divided alike have one text (-0.0 that of 0.0)."""

    def __init__(self, divisors: Iterable[int]) -> None:
        self._divided = {divisor: _Texts(divisor) for divisor in {1, *divisors}}
        self._wholes = _Wholes()

    def written(self, numbers: Sequence[Number], divisor: int) -> list[str]:
        """Their texts: of integers that are not divided exactly, else those of floats."""
        texts = self._divided[divisor]
        if divisor != 1:
            return list(map(texts.__getitem__, numbers))
        wholes, kinds = self._wholes, set(map(type, numbers))
        if kinds == {int}:  # and no bool
            return list(map(wholes.__getitem__, numbers))
        if int not in kinds:
            return list(map(texts.__getitem__, numbers))
        return [wholes[n] if type(n) is int else texts[n] for n in numbers]

    def forget(self, samples: int) -> None:
        """Let go of all once there are more than some pages of so many samples need."""
        everything = (self._wholes, *self._divided.values())
        if sum(map(len, everything)) > _PAGES * samples:
            for texts in everything:
                texts.clear()


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


_SAMPLES = attrgetter("samples")


class Renderer:
    """Writes pages; keeps what it wrote of labels, numbers and families, because most stay.

    Not for several threads at once.
    """

    def __init__(self, families: Sequence[Family] = FAMILIES) -> None:
        self.families = families
        self._heads = {
            form: [head(f.full_name, f.type, f.help, form).encode() for f in families]
            for form in Format
        }
        self._levels = {level: Level(names) for level, names in LEVELS.items()}
        self._columns = [Column(family) for family in families]
        self._numbers = Numbers(family.divisor for family in families)

    def render(
        self, snapshot: Snapshot, form: Format, levels: Collection[str] = tuple(LEVELS)
    ) -> bytes:
        """Write the families of these levels in the table's order; one without samples is left out.

        OpenMetrics' closing ``# EOF`` is not written: the caller may have more to add.
        """
        rows = {
            level: self._levels[level].ordered(table_of(snapshot.rows, level)) for level in levels
        }
        page: list[bytes] = []
        for column, about in zip(self._columns, self._heads[form], strict=True):
            if column.level in rows:
                lines = column.lines(rows[column.level], self._numbers)
                page += (about, lines) if lines else ()
        self._numbers.forget(sum(map(_SAMPLES, self._columns)))
        return b"".join(page)
