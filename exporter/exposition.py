"""Snapshot → the text of a page, in the Prometheus text format 0.0.4 and OpenMetrics 1.0.0.

Pure; stands on the metric table. Formatted here and not by prometheus_client, whose 8-15 µs a
sample would be most of the exporter's CPU; the tests hold the result against its parsers. Both
formats differ in the name of a counter's family only.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import Enum
from math import isfinite, isnan
from operator import is_
from typing import Any, NamedTuple

from exporter.families import FAMILIES, LEVELS, Family
from exporter.model import Labelled, Number, Row, Snapshot, Value

_Key = tuple[str, tuple[str, ...], tuple[str, ...]]
"""What stands before them, names and values of labels."""
_WHOLE = 0  # stands for a divisor, of numbers that are written as they are
_DIGITS = {10**digits: digits for digits in range(1, 16)}
_TOLD_APART = 1 << 52  # below it, floats are closer to one another than whole numbers are

_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


class _Rows(NamedTuple):
    """The rows of a level in the page's order: the texts of their labels, and what they say."""

    texts: Sequence[str]
    values: Sequence[Mapping[str, Value]]
    more: Sequence[Mapping[str, Mapping[str, str]]]


class Format(Enum):
    """A text format."""

    TEXT = "text"
    OPENMETRICS = "openmetrics"


class _Numbers(dict[Number, str]):
    """The texts of a page's numbers. Equal numbers have one text (-0.0 that of 0.0), made once.

    Those of the last page are taken over: most samples stay, and to write a float is dear.
    """

    def __init__(self, divisor: int, before: Mapping[Number, str]) -> None:
        self._divisor = divisor
        self._before = before

    def __missing__(self, number: Number) -> str:
        text = self._before.get(number) or written(number, self._divisor)
        self[number] = text
        return text

    def done(self) -> None:
        """Let go of the last page's."""
        self._before = {}


class _Block(NamedTuple):
    """The lines of a family, and what they were made of."""

    texts: Sequence[str]
    values: Sequence[object]
    lines: bytes


class Renderer:
    """Writes pages; keeps what it wrote of labels, numbers and families, because most stay.

    Not for several threads at once.
    """

    def __init__(self, families: Sequence[Family] = FAMILIES) -> None:
        self.families = families
        self._heads = {
            form: {f.full_name: head(f.full_name, f.type, f.help, form).encode() for f in families}
            for form in Format
        }
        self._kept: dict[_Key, str] = {}
        self._used: dict[_Key, str] = {}
        self._numbers = {divisor: _Numbers(divisor, {}) for divisor in _divisors(families)}
        self._blocks: dict[str, _Block] = {}

    def render(
        self, snapshot: Snapshot, form: Format, levels: Collection[str] = tuple(LEVELS)
    ) -> bytes:
        """Write the families of these levels in the table's order; one without samples is left out.

        OpenMetrics' closing ``# EOF`` is not written: the caller may have more to add.
        """
        self._numbers = {d: _Numbers(d, before) for d, before in self._numbers.items()}
        rows = {level: self._rows(level, snapshot.rows.get(level, ())) for level in levels}
        blocks: dict[str, _Block] = {}
        page: list[bytes] = []
        for family, (name, head) in zip(self.families, self._heads[form].items(), strict=True):
            level = rows.get(family.level)
            if level and level.texts:
                block = blocks[name] = self._block(family, name, level)
                page += (head, block.lines) if block.lines else ()
        self._blocks = blocks
        self._kept, self._used = self._used, {}
        for numbers in self._numbers.values():
            numbers.done()
        return b"".join(page)

    def _rows(self, level: str, rows: Iterable[Row]) -> _Rows:
        names, ordered = LEVELS[level], sorted(rows, key=lambda row: row.labels)
        texts = [self._text("", names, row.labels) for row in ordered]
        return _Rows(texts, [row.values for row in ordered], [row.more for row in ordered])

    def _block(self, family: Family, full_name: str, rows: _Rows) -> _Block:
        """Nine in ten samples are of families without labels of their own."""
        name, texts = family.name, rows.texts
        found: Sequence[Any] = [values.get(name) for values in rows.values]
        before = self._blocks.get(full_name)
        if before and texts == before.texts and all(map(is_, found, before.values)):
            return before
        values = found
        if family.labels:
            texts, values = self._own(family, rows, found)
        elif None in found:
            texts = [text for text, one in zip(texts, found, strict=True) if one is not None]
            values = [one for one in found if one is not None]
        lines = _lines(full_name, texts, self._written(values, family.divisor))
        return _Block(() if family.open else rows.texts, found, lines)

    def _own(
        self, family: Family, rows: _Rows, values: Sequence[Labelled | None]
    ) -> tuple[list[str], list[Number]]:
        """Texts of labels and numbers of a family with labels of its own."""
        names, texts, numbers = family.labels, list[str](), list[Number]()
        for row, labelled in enumerate(values):
            if labelled:
                text = rows.texts[row]
                further = rows.more[row].get(family.name) if family.open else None
                if further:
                    more, others = names + tuple(further), tuple(further.values())
                    texts += [self._text(text, more, own + others) for own in labelled]
                else:
                    texts += [self._text(text, names, own) for own in labelled]
                numbers += labelled.values()
        return texts, numbers

    def _written(self, values: Sequence[Number], divisor: int) -> list[str]:
        numbers = self._numbers[divisor]
        if divisor != 1:
            return [numbers[value] for value in values]
        whole = self._numbers[_WHOLE]
        return [whole[v] if type(v) is int else numbers[v] for v in values]  # not a bool

    def _text(self, before: str, names: tuple[str, ...], values: tuple[str, ...]) -> str:
        """Labels with their braces and a blank, so that a name and a number make a line of them."""
        key = (before, names, values)
        text = self._kept.get(key)
        if text is None:
            pairs = [before[1:-2]] if before.strip() else []
            pairs += (f'{n}="{escaped(v)}"' for n, v in zip(names, values, strict=True))
            text = f"{{{','.join(pairs)}}} " if pairs else " "
        self._used[key] = text
        return text


def _divisors(families: Iterable[Family]) -> set[int]:
    return {_WHOLE, 1, *(family.divisor for family in families)}


def _lines(name: str, texts: Sequence[str], numbers: Sequence[str]) -> bytes:
    """A line for each, put together without a string for any."""
    if not texts:
        return b""
    parts = [f"\n{name}"] * (3 * len(texts))
    parts[0] = name
    parts[1::3], parts[2::3] = texts, numbers
    parts.append("\n")
    return "".join(parts).encode()


def written(number: Number, divisor: int) -> str:
    """Write whole numbers exactly, others as the shortest text that reads back as the same."""
    if divisor == _WHOLE:
        return str(number)
    digits = _DIGITS.get(divisor)
    if digits and type(number) is int and divisor <= number < _TOLD_APART:
        text = str(number)  # as below, in a third of the time
        return f"{text[:-digits]}.{text[-digits:].rstrip('0') or '0'}"
    real = number / divisor
    if isfinite(real):
        return repr(real)
    return "NaN" if isnan(real) else "+Inf" if real > 0 else "-Inf"


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
