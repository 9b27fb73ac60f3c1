"""The facts as rows by level, with the names of the metric table, for tests that compare many."""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from exporter.metrics.families import FAMILIES, LEVELS, OWN_LEVEL, Family
from exporter.metrics.levelfacts import labelled, labels_of
from exporter.model import DeviceFacts, ExporterFacts, Facts, Holding, Number, Snapshot

CORE_SHARE = "core_share"  # of parts of a GPU, for documents; no family has this name

Labelled = Mapping[tuple[str, ...], Number]  # values of the family's own labels → number
Value = Number | Labelled

_FAMILIES = {level: [f for f in FAMILIES if f.level == level] for level in LEVELS}


class Row(NamedTuple):
    """The metrics of one device, container, pod, namespace, group, or of the exporter itself.

    ``labels`` are the values of the level's labels, in the order of ``families.LEVELS``. ``values``
    holds what is known, by the family's name within its level; what is not known is absent. A
    family with labels of its own maps their values to numbers. Numbers are in the integer units of
    the ledger (ns, µJ); dividing by ``families.Family.divisor`` gives the base unit. ``more``
    holds, by family, labels beyond the table's, name → value: those of an ``open`` one.
    """

    labels: tuple[str, ...]
    values: Mapping[str, Value]
    more: Mapping[str, Mapping[str, str]] = MappingProxyType({})


class FactRows(Mapping[str, tuple[Row, ...]]):
    """Rows by level, built when they are asked for."""

    def __init__(self, measured: Callable[[], Facts], exporter: ExporterFacts | None) -> None:
        self._measured, self._exporter = measured, exporter
        self._made: dict[str, tuple[Row, ...]] = {}

    def __getitem__(self, level: str) -> tuple[Row, ...]:
        """The rows of a level.

        Raises:
            KeyError: there is no such level.

        """
        if level not in self._made:
            self._made[level] = self._build(level)
        return self._made[level]

    def _build(self, level: str) -> tuple[Row, ...]:
        if level == OWN_LEVEL:
            return (row_of(level, self._exporter),) if self._exporter else ()
        return tuple(row_of(level, fact) for _, fact in labelled(self._measured(), level))

    def __iter__(self) -> Iterator[str]:
        """The levels."""
        return iter(LEVELS)

    def __len__(self) -> int:
        """How many levels there are."""
        return len(LEVELS)


def rows_of(snapshot: Snapshot) -> FactRows:
    """The rows of a Snapshot."""
    return FactRows(snapshot.measured, snapshot.exporter)


def row_of(level: str, fact: object) -> Row:
    """A fact as a row."""
    values: dict[str, Value] = {}
    more: dict[str, Mapping[str, str]] = {}
    for family in _FAMILIES[level]:
        _add(values, family, fact)
        further = family.further(fact) if family.further is not None else {}
        if further:
            more[family.name] = further
    if isinstance(fact, DeviceFacts) and fact.device.parent_uuid:
        values[CORE_SHARE] = fact.device.core_share
    return Row(labels_of(level, fact), values, more)


def _add(values: dict[str, Value], family: Family, fact: object) -> None:
    samples = family.samples(fact)
    if family.labels:
        is_there = isinstance(fact, Holding) and not fact.ended
        if samples or (is_there and family.name == "unmeasured"):
            values[family.name] = dict(samples)
    elif samples:
        values[family.name] = samples[0][1]
