"""All rows of a Snapshot by level, built lazily: most Snapshots have no reader.

When an owner ends, its gauges end at once, and its counters stay for a while. On a device that
could not be read for some cycles, only the reason is shown.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TypeVar, overload

from exporter.ledger.ledger import Ledger
from exporter.model import Row, Table
from exporter.rows.device_rows import device_rows
from exporter.rows.device_view import CycleFacts
from exporter.rows.owner_rows import container_rows, group_rows
from exporter.rows.pod_rows import group_kind_rows, namespace_rows, pod_rows
from exporter.rows.view import View

Make = Callable[[], Table | Iterable[Row]]
T = TypeVar("T")


class LazyRows(Mapping[str, tuple[Row, ...]]):
    """Rows by level, each built on first access. Thread-safe.

    What they are built from must not change any more; it is released once all levels are built. Two
    threads that ask at the same moment may both build a level, and get the same rows. The writer of
    a page asks for ``table``, so that no row is built.
    """

    __slots__ = ("_levels", "_made", "_makers", "_rows")

    def __init__(self, makers: Mapping[str, Make]) -> None:
        self._levels = tuple(makers)
        self._makers = dict(makers)
        self._made: dict[str, Table | tuple[Row, ...]] = {}
        self._rows: dict[str, tuple[Row, ...]] = {}  # of tables

    def __getitem__(self, level: str) -> tuple[Row, ...]:
        """The rows of a level.

        Raises:
            KeyError: there is no such level.

        """
        made = self._made_of(level)
        if not isinstance(made, Table):
            return made
        rows = self._rows.get(level)
        return self._rows.setdefault(level, made.rows()) if rows is None else rows

    def table(self, level: str) -> Table:
        """The rows of a level as a table.

        Raises:
            KeyError: there is no such level.

        """
        made = self._made_of(level)
        return made if isinstance(made, Table) else Table.of(made)

    def _made_of(self, level: str) -> Table | tuple[Row, ...]:
        make = self._makers.get(level)
        if make is None:
            return self._made[level]
        rows = make()
        made = self._made.setdefault(level, rows if isinstance(rows, Table) else tuple(rows))
        self._makers.pop(level, None)
        return made

    @overload
    def get(self, level: str, default: None = None, /) -> tuple[Row, ...] | None: ...
    @overload
    def get(self, level: str, default: tuple[Row, ...] | T, /) -> tuple[Row, ...] | T: ...
    def get(
        self, level: str, default: tuple[Row, ...] | T | None = None, /
    ) -> tuple[Row, ...] | T | None:
        """As of any mapping; a KeyError raised while a level is built is passed on."""
        return self[level] if level in self._levels else default

    def __contains__(self, level: object) -> bool:
        """Whether there is such a level; builds nothing."""
        return level in self._levels

    def __iter__(self) -> Iterator[str]:
        """The levels."""
        return iter(self._levels)

    def __len__(self) -> int:
        """How many levels there are."""
        return len(self._levels)


def table_of(rows: Mapping[str, tuple[Row, ...]], level: str) -> Table:
    """The rows of a level as a table; an empty one if there is no such level."""
    if isinstance(rows, LazyRows) and level in rows:
        return rows.table(level)
    return Table.of(rows.get(level, ()))


def lazy_rows(
    ledger: Ledger,
    facts: CycleFacts,
    makers: Mapping[str, Callable[[View], Table | Iterable[Row]]],
) -> LazyRows:
    """Rows by level, all built from one View of a ledger that does not change any more."""
    late = _LazyView(ledger, facts)
    return LazyRows({level: partial(late.rows, make) for level, make in makers.items()})


class _LazyView:
    """A View that is built on first use."""

    __slots__ = ("_facts", "_ledger", "_view")

    def __init__(self, ledger: Ledger, facts: CycleFacts) -> None:
        self._ledger, self._facts = ledger, facts
        self._view: View | None = None

    def rows(self, make: Callable[[View], Table | Iterable[Row]]) -> Table | Iterable[Row]:
        if self._view is None:
            self._view = View(self._ledger, self._facts)
        return make(self._view)


MOST_OF_DEVICE = 128  # series of one family: labels of devices are closed lists
MOST_REASONS = 16  # series of one owner's ``unmeasured``
_MAKERS: Mapping[str, Callable[[View], Table | Iterable[Row]]] = {
    "device": device_rows,
    "container": container_rows,
    "pod": pod_rows,
    "namespace": namespace_rows,
    "group": group_rows,
    "group_kind": group_kind_rows,
}


def rows_of(ledger: Ledger, facts: CycleFacts) -> LazyRows:
    """All rows but the exporter's own, by level; later cycles do not change them."""
    return lazy_rows(ledger.frozen(), facts, _MAKERS)


def at_most(ledger: Ledger, facts: CycleFacts) -> int:
    """An upper bound of the series that any family has in ``rows_of``; mostly far too high."""
    owners, sums = len(ledger.unplaced), [0, 0]
    for device_ledger in ledger.devices.values():
        owners += len(device_ledger.owners)
        sums = [
            so_far + len(of) for so_far, of in zip(sums, device_ledger.closed.values(), strict=True)
        ]
    return max(
        MOST_OF_DEVICE * len(ledger.devices),
        MOST_REASONS * owners + len(facts.allocated),
        len(ledger.pods),
        len(ledger.namespaces) + max(sums),
    )
