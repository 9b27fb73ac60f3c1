"""Snapshot → the text of a page, in the Prometheus text format 0.0.4 and OpenMetrics 1.0.0.

Pure; stands on the metric table. Formatted here and not by prometheus_client, whose 8-15 µs a
sample would be most of the exporter's CPU; the tests hold the result against its parsers. Both
formats differ in the name of a counter's family only.
"""

from collections.abc import Collection, Mapping, Sequence
from enum import Enum
from math import isfinite, isnan
from typing import cast

from exporter.families import FAMILIES, LEVELS, Family
from exporter.model import Labelled, Number, Snapshot, Value

_Labels = tuple[tuple[str, ...], tuple[str, ...]]  # names, values
_Rows = Sequence[tuple[str, Mapping[str, Value], Mapping[str, Mapping[str, str]]]]
"""Label text, values, further labels by family."""

_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


class Format(Enum):
    """A text format."""

    TEXT = "text"
    OPENMETRICS = "openmetrics"


class Renderer:
    """Writes pages; keeps the label texts of the last one, because most rows stay.

    Not for several threads at once.
    """

    def __init__(self, families: Sequence[Family] = FAMILIES) -> None:
        self.families = families
        self._heads = {
            form: [head(f.full_name, f.type, f.help, form) for f in families] for form in Format
        }
        self._kept: dict[_Labels, str] = {}

    def render(
        self, snapshot: Snapshot, form: Format, levels: Collection[str] = tuple(LEVELS)
    ) -> bytes:
        """Write the families of these levels in the table's order; one without samples is left out.

        OpenMetrics' closing ``# EOF`` is not written: the caller may have more to add.
        """
        used: dict[_Labels, str] = {}
        rows = {
            level: [
                (self._text(LEVELS[level], row.labels, used), row.values, row.more)
                for row in sorted(snapshot.rows.get(level, ()), key=lambda row: row.labels)
            ]
            for level in levels
        }
        page: list[str] = []
        for family, head in zip(self.families, self._heads[form], strict=True):
            level = rows.get(family.level)
            samples = self._samples(family, level, used) if level else None
            if samples:
                page.append(head)
                page += samples
        self._kept = used
        return "".join(page).encode()

    def _samples(self, family: Family, rows: _Rows, used: dict[_Labels, str]) -> list[str]:
        if not family.labels:
            return _plain(family, rows)
        lines = []
        for text, values, more in rows:
            labelled = cast("Labelled", values.get(family.name, {}))
            further = more.get(family.name, {}) if family.open else {}
            for key, number in labelled.items():
                own = self._text((*family.labels, *further), (*key, *further.values()), used)
                lines.append(_line(family, f"{text},{own}" if text else own, number))
        return lines

    def _text(
        self, names: tuple[str, ...], values: tuple[str, ...], used: dict[_Labels, str]
    ) -> str:
        key = (names, values)
        text = self._kept.get(key)
        if text is None:
            pairs = zip(names, values, strict=True)
            text = ",".join(f'{name}="{escaped(value)}"' for name, value in pairs)
        used[key] = text
        return text


def _plain(family: Family, rows: _Rows) -> list[str]:
    """Write a family without labels of its own: nine in ten samples of a page."""
    name, full_name, divisor = family.name, family.full_name, family.divisor
    lines = []
    for text, values, _ in rows:
        number = cast("Number | None", values.get(name))
        if number is None:
            continue
        written = _number(number, divisor)
        lines.append(f"{full_name}{{{text}}} {written}\n" if text else f"{full_name} {written}\n")
    return lines


def _line(family: Family, text: str, number: Number) -> str:
    return f"{family.full_name}{{{text}}} {_number(number, family.divisor)}\n"


def _number(number: Number, divisor: int) -> str:
    """Write whole numbers exactly, others as the shortest text that reads back as the same."""
    if divisor == 1 and type(number) is int:  # not bool, which would be written as a word
        return str(number)
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
