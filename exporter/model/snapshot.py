"""The result of a cycle: immutable rows, one for each set of labels."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from types import MappingProxyType
from typing import Any, NamedTuple, Self

from exporter.model.devices import ProcessMemory, SourceStatus
from exporter.model.processes import ProcessInfo
from exporter.model.usage import Owner, SharedWindow

STALE_CYCLES = 3
LEAST_STALE_NS = 10_000_000_000

Number = int | float
Labelled = Mapping[tuple[str, ...], Number]  # values of the family's own labels → number
Value = Number | Labelled


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


class Table(NamedTuple):
    """The rows of a level, family by family, which is how a page is written.

    ``columns`` and ``more`` hold, by the family's name, the value of each row, in the order of
    ``labels``; None where it has none.
    """

    labels: Sequence[tuple[str, ...]] = ()
    columns: Mapping[str, Sequence[Value | None]] = MappingProxyType({})
    more: Mapping[str, Sequence[Mapping[str, str] | None]] = MappingProxyType({})

    @classmethod
    def of(cls, rows: Iterable[Row]) -> Self:
        """The same rows."""
        rows = tuple(rows)
        columns, more = ([row.values for row in rows], [row.more for row in rows])
        return cls([row.labels for row in rows], _columns(columns), _columns(more))

    def rows(self) -> tuple[Row, ...]:
        """The same rows."""
        many = zip(self.labels, self._each(self.columns), self._each(self.more), strict=True)
        return tuple([Row(*one) for one in many])

    def joined(self, other: "Table") -> "Table":
        """The table with the rows of another one after its own."""
        if not other.labels:
            return self
        labels, sizes = [*self.labels, *other.labels], (len(self.labels), len(other.labels))
        columns = _joined(self.columns, other.columns, *sizes)
        return Table(labels, columns, _joined(self.more, other.more, *sizes))

    def _each(self, columns: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
        """The values of each row."""
        found: list[dict[str, Any]] = [{} for _ in self.labels]
        for name, column in columns.items():
            for has, value in zip(found, column, strict=True):
                if value is not None:
                    has[name] = value
        return found


def _columns(each: Sequence[Mapping[str, Any]]) -> dict[str, Sequence[Any]]:
    names = tuple(each[0]) if each else ()
    if all(tuple(has) == names for has in each):  # as nearly always
        return dict(zip(names, zip(*[has.values() for has in each], strict=True), strict=True))
    names = tuple(dict.fromkeys(chain.from_iterable(each)))
    return {name: [has.get(name) for has in each] for name in names}


def _joined(
    ours: Mapping[str, Sequence[Any]],
    theirs: Mapping[str, Sequence[Any]],
    our_size: int,
    their_size: int,
) -> dict[str, Sequence[Any]]:
    none, none_of_theirs = [None] * our_size, [None] * their_size
    return {
        name: [*ours.get(name, none), *theirs.get(name, none_of_theirs)]
        for name in {**ours, **theirs}
    }


class Tenants(NamedTuple):
    """The processes of a device in one cycle, from which ``exporter.rows.processes`` builds rows.

    ``listed`` hold a context now; None where the driver does not list them. ``windows`` are the
    newest ones, oldest first.
    """

    device_uuid: str
    listed: tuple[ProcessMemory, ...] | None = None
    windows: tuple[SharedWindow, ...] = ()


@dataclass(frozen=True, slots=True)
class Process:
    """A process on a device. ``kinds`` as in ``ProcessMemory``, None where it is not listed.

    The ratios are its part of its owner's, averaged over ``--collection.window`` or the newest 60
    windows of the device, whichever is less; None where they are unknown.
    """

    pid: int
    device_uuid: str
    owner: Owner
    kinds: frozenset[str] | None = None
    memory_bytes: int | None = None
    core: float | None = None
    memory_active: float | None = None
    encoder: float | None = None
    decoder: float | None = None
    name: str = ""
    start_unix_ns: int | None = None


class HistoryPoint(NamedTuple):
    """The core and memory of all series at one time, packed by ``exporter.rows.history``."""

    cores: bytes
    held: bytes


@dataclass(frozen=True, slots=True)
class History:
    """The last hour, a point each ``step_ns``, the newest last and taken at ``end_unix_ns``.

    ``series``: the place in each point by a row's labels, of devices (2 of them), groups (4) and
    containers (5). ``ended``: those that are not there any more, with the number of their last
    point. ``number`` counts the points taken and missed.
    """

    end_unix_ns: int = 0
    end_mono_ns: int = 0
    step_ns: int = 10_000_000_000
    series: Mapping[tuple[str, ...], int] = field(default_factory=dict)
    points: tuple[HistoryPoint, ...] = ()
    ended: Mapping[tuple[str, ...], tuple[int, int]] = field(default_factory=dict)
    number: int = 0


class HeldCondition(NamedTuple):
    """The condition of an alert rule that holds, for what, and since when.

    Clients that may see ``namespace`` may see it: None stands for all clients, "" for those only
    who may see all of the node.
    """

    rule: str
    subject: str
    namespace: str | None
    since_mono_ns: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that readers are served until the next Snapshot. ``rows`` are keyed by level.

    Rows may be built when somebody asks for them, and show the state at ``mono_ns`` all the same.
    That takes a moment, so do not do it in an event loop.

    ``sources`` hold in words, for people, what the exporter's own rows hold in numbers.
    ``dropped``: how many series of a family, by its full name, are left out because there are more
    than ``most_series`` (0: there is no limit). ``interval_ns`` is the time to the next Snapshot.
    ``started_unix_ns``: when the collector began, with every counter at 0; 0 if it is not known.
    ``tenants``, ``owners`` (by pid) and ``processes`` (by pid) are the input of readers that show
    processes: no metric has a process in its labels. ``held`` are the conditions of alert rules, as
    of the newest point of ``history``.
    """

    version: int = 0
    unix_ns: int = 0
    mono_ns: int = 0
    simulated: bool = False
    rows: Mapping[str, tuple[Row, ...]] = field(default_factory=dict)
    sources: tuple[SourceStatus, ...] = ()
    dropped: Mapping[str, int] = field(default_factory=dict)
    most_series: int = 0
    tenants: tuple[Tenants, ...] = ()
    owners: Mapping[int, Owner] = field(default_factory=dict)
    processes: Mapping[int, ProcessInfo] = field(default_factory=dict)
    history: History = field(default_factory=History)
    held: tuple[HeldCondition, ...] = ()
    interval_ns: int = 1_000_000_000
    started_unix_ns: int = 0

    @property
    def stale_after_ns(self) -> int:
        """The age from which nothing that was measured is served any more."""
        return max(STALE_CYCLES * self.interval_ns, LEAST_STALE_NS)
