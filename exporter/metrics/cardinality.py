"""The number of series of each family in a Snapshot, and of values of each label. Pure.

Series of ``--compat`` are not counted: they have the same labels and are not more.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from exporter.metrics.families import LEVELS, Family
from exporter.model import Row, Snapshot

MOST_LABELS = 50  # that are shown; those with the most values come first

SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "/api/v1/cardinality",
    "type": "object",
    "additionalProperties": False,
    "required": ["version", "limit", "series", "dropped", "families", "labels"],
    "properties": {
        "version": {"type": "integer", "minimum": 0, "description": "of the snapshot"},
        "limit": {"type": "integer", "minimum": 0, "description": "series that a family may have"},
        "series": {"type": "integer", "minimum": 0, "description": "of all families"},
        "dropped": {
            "type": "integer",
            "minimum": 0,
            "description": "left out now, of all families",
        },
        "families": {
            "type": "array",
            "description": "families with series, shown or left out; the largest first",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["family", "level", "series", "dropped"],
                "properties": {
                    "family": {"type": "string"},
                    "level": {"enum": list(LEVELS)},
                    "series": {"type": "integer", "minimum": 0},
                    "dropped": {"type": "integer", "minimum": 0},
                },
            },
        },
        "labels": {
            "type": "array",
            "description": "labels with the most values first",
            "maxItems": MOST_LABELS,
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["label", "values"],
                "properties": {
                    "label": {"type": "string"},
                    "values": {"type": "integer", "minimum": 1},
                },
            },
        },
    },
}


def cardinality(snapshot: Snapshot, families: Sequence[Family]) -> dict[str, Any]:
    """The document of ``/api/v1/cardinality`` for these families; ``SCHEMA`` describes it."""
    values: dict[str, set[str]] = {}
    counted: list[dict[str, Any]] = []
    for family in families:
        series = _count(family, snapshot.rows.get(family.level, ()), values)
        dropped = snapshot.dropped.get(family.full_name, 0)
        if series or dropped:
            entry: dict[str, Any] = {"family": family.full_name, "level": family.level}
            counted.append({**entry, "series": series, "dropped": dropped})
    counted.sort(key=lambda entry: (-entry["series"], entry["family"]))
    labels = sorted(values, key=lambda name: (-len(values[name]), name))[:MOST_LABELS]
    return {
        "version": snapshot.version,
        "limit": snapshot.most_series,
        "series": sum(entry["series"] for entry in counted),
        "dropped": sum(entry["dropped"] for entry in counted),
        "families": counted,
        "labels": [{"label": name, "values": len(values[name])} for name in labels],
    }


def _count(family: Family, rows: Iterable[Row], values: dict[str, set[str]]) -> int:
    """The number of series of a family. Adds the values of its labels to ``values``."""
    series = 0
    for row in rows:
        value = row.values.get(family.name)
        if value is None or value == {}:
            continue
        _add(values, LEVELS[family.level], row.labels)
        if not isinstance(value, Mapping):
            series += 1
            continue
        for own in value:
            series += 1
            _add(values, family.labels, own)
        more = row.more.get(family.name, {}) if family.open else {}
        _add(values, tuple(more), tuple(more.values()))
    return series


def _add(values: dict[str, set[str]], names: tuple[str, ...], own: tuple[str, ...]) -> None:
    for name, value in zip(names, own, strict=True):
        values.setdefault(name, set()).add(value)
