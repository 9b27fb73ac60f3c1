"""Readers for documents that are not trusted: a value of the wrong type counts as missing. Pure."""

import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any

from exporter.answers.reading.queryapi import MAX_NUMBER
from exporter.shown.printable import clean

Json = Mapping[str, Any]

MAX_ITEMS = 100_000
_NOTHING: Json = {}


def number(of: Json, name: str) -> float | None:
    """A number that a node can have; None for anything else."""
    value = of.get(name)
    # To Python true is the int 1.
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    # A whole number of JSON may have more digits than a float has room for.
    try:
        real = float(value)
    except OverflowError:
        return None
    return real if abs(real) <= MAX_NUMBER else None  # none is NaN


def text(of: Json, name: str) -> str:
    """A clean text; "" for anything else."""
    value = of.get(name)
    return clean(value) if isinstance(value, str) else ""


def flag(of: Json, name: str) -> bool:
    """Whether the value is true."""
    return of.get(name) is True


def inner(of: Json, name: str) -> Json:
    """An object; empty for anything else."""
    value = of.get(name)
    return value if isinstance(value, Mapping) else _NOTHING


def items(of: Json, name: str) -> Iterator[Json]:
    """The objects of a list; nothing for anything else."""
    value = of.get(name)
    for item in value[:MAX_ITEMS] if isinstance(value, list) else ():
        if isinstance(item, Mapping):
            yield item


def width(value: str) -> int:
    """The number of terminal cells that a clean text takes."""
    if value.isascii():
        return len(value)
    return sum(2 if unicodedata.east_asian_width(c) in {"W", "F"} else 1 for c in value)


def fitted(value: str, cells: int, *, middle: bool = False) -> str:
    """The text in exactly so many cells: cut with an ellipsis, or padded with blanks.

    ``middle`` cuts it there: its end remains visible.
    """
    if width(value) > cells:
        tail = (cells - 1) // 3 if middle else 0
        last = _start(value[::-1], tail)[::-1]
        value = f"{_start(value, cells - 1 - tail)}…{last}" if cells > 0 else ""
    return value + " " * (cells - width(value))


def _start(value: str, cells: int) -> str:
    """As much of the text's start as fits."""
    kept = 0
    for at, character in enumerate(value):
        kept += width(character)
        if kept > cells:
            return value[:at]
    return value
