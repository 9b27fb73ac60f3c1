"""Snapshots for tests of what is served."""

from exporter.metrics.families import FAMILIES, LEVELS
from exporter.model import Number, Row, Snapshot, Value


def row_of(level: str, *labels: str, **values: Value) -> dict[str, tuple[Row, ...]]:
    """One level with one row."""
    return {level: (Row(labels, values),)}


def with_every_family(number: Number = 1) -> Snapshot:
    """A snapshot in which every family of the table has one sample."""
    rows = {}
    for level, names in LEVELS.items():
        values: dict[str, Value] = {
            family.name: {family.labels: number} if family.labels else number
            for family in FAMILIES
            if family.level == level
        }
        rows[level] = (Row(names, values),)
    return Snapshot(version=1, rows=rows)
