"""Rows as JSON objects: the values of a row by the names of the metric table, in base units."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from math import isfinite
from typing import Any

from exporter.families import FAMILIES, Family
from exporter.model import Labelled, Number, Row

Json = dict[str, Any]

FLAGS = frozenset({"up", "simulated", "placement_mismatch"})  # 0 and 1 mean false and true
ONE = frozenset({"info", "build_info", "config_info", "method_info"})  # one set of labels at most
LISTED = frozenset({"unmeasured", "allocation_info"})  # nothing but labels, of several


class Figures:
    """Turns the rows of each level into objects."""

    def __init__(self, families: Sequence[Family] = FAMILIES) -> None:
        self._levels: dict[str, list[Family]] = {}
        for family in families:
            self._levels.setdefault(family.level, []).append(family)

    def of(self, level: str, row: Row) -> Json:
        """What is known of the row, in the order of the table."""
        made: Json = {}
        for family in self._levels.get(level, ()):
            value = row.values.get(family.name)
            if isinstance(value, Mapping):
                made |= _labelled(family, value)
            elif value is not None:
                made |= _plain(family, value)
        return made


def is_ended(row: Row, beside: Collection[str] = ()) -> bool:
    """Whether the owner has gone, and nothing but its counters is shown for a while.

    ``beside`` are the families that go on with the counters.
    """
    return all(name.endswith("_total") or name in beside for name in row.values)


def _plain(family: Family, value: Number) -> Json:
    number = in_base_units(value, family.divisor)
    if number is None:
        return {}
    return {family.name: bool(number) if family.name in FLAGS else number}


def _labelled(family: Family, value: Labelled) -> Json:
    labels: Iterator[Json] = (dict(zip(family.labels, key, strict=True)) for key in value)
    if family.name in ONE:
        one = _said(next(iter(labels), {}))
        return {family.name: one} if one else {}
    if family.name in LISTED:
        listed = [_said(each) for each in labels]
    else:
        numbers = (in_base_units(number, family.divisor) for number in value.values())
        pairs = zip(labels, numbers, strict=True)
        listed = [{**own, "value": number} for own, number in pairs if number is not None]
    return {family.name: listed} if listed else {}


def _said(labels: Mapping[str, str]) -> Json:
    return {name: value for name, value in labels.items() if value}


def in_base_units(number: Number, divisor: int) -> Number | None:
    """None for what JSON cannot say."""
    if divisor == 1 and isinstance(number, int):
        return number
    real = number / divisor
    return real if isfinite(real) else None
