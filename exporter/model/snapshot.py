"""What is published after each cycle: immutable rows, one per set of labels."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from exporter.model.devices import SourceStatus

Number = int | float
Labelled = Mapping[tuple[str, ...], Number]  # values of the family's own labels → number
Value = Number | Labelled


@dataclass(frozen=True, slots=True)
class Row:
    """The metrics of one device, container, pod, namespace, group, or of the exporter itself.

    ``labels`` are the values of the level's labels, in the order of ``families.LEVELS``.
    ``values`` holds, by the family's name within its level, what is known; what is not known is
    absent. A family with labels of its own maps their values to numbers. Numbers are in the
    integer units of the ledger (ns, µJ); ``families.Family.divisor`` leads to the base unit.
    ``more`` holds, by family, labels beyond the table's, name → value: those of an ``open`` one.
    """

    labels: tuple[str, ...]
    values: Mapping[str, Value]
    more: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that a reader is served until the next one. ``rows`` are keyed by level.

    ``sources`` say in words, for people, what the exporter's own rows say in numbers. ``dropped``:
    how many series of a family, by its full name, are left out because there are more than
    ``most_series`` (0: there is no limit).
    """

    version: int = 0
    unix_ns: int = 0
    mono_ns: int = 0
    simulated: bool = False
    rows: Mapping[str, tuple[Row, ...]] = field(default_factory=dict)
    sources: tuple[SourceStatus, ...] = ()
    dropped: Mapping[str, int] = field(default_factory=dict)
    most_series: int = 0
