"""How names, labels and numbers are written."""

from collections.abc import Iterable
from enum import Enum

from exporter.model import Number

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
