"""The owners of devices, as seen at the end of one cycle: column by column, one row for each."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Generic, NamedTuple, TypeVar, overload

from exporter.ledger.accounts import Account, Totals
from exporter.ledger.book_view import RATIOS, BookView, names
from exporter.ledger.kept import Columns, Kept
from exporter.model import ContainerKey, GroupKey, MemoryHeld, Number, Unmeasured

K = TypeVar("K", ContainerKey, GroupKey)
T = TypeVar("T")
U = TypeVar("U")

_UNTOLD: frozenset[str] = frozenset()
_UNUSED = 0.0  # the same object each time: it need not be written again


class _Owner(NamedTuple, Generic[K]):
    seen: BookView
    key: K
    account: Account
    live: bool
    pending: bool
    withheld: Unmeasured | None
    told: frozenset[str]
    then: Totals


class Owners(Generic[K]):
    """Each owner of a kind on each device; of what there is one for each, there is a column.

    ``live``: it was there in this cycle; else only its counters are shown. ``pending``: its use may
    stand under its pod. ``withheld``: why nothing is told of it; None if something is, and ``told``
    is what is known of it. ``then``: what its account said when the time began that averages are
    over. ``shown``: whether its gauges are.
    """

    def __init__(self, books: Iterable[BookView], kind: type[K], kept: Kept) -> None:
        self.kept = kept
        rows = list(_owners(books, kind))
        columns: Any = zip(*rows, strict=True) if rows else [()] * len(_Owner._fields)
        self.seen: Sequence[BookView]
        self.keys: Sequence[K]
        self.accounts: Sequence[Account]
        self.live: Sequence[bool]
        self.pending: Sequence[bool]
        self.withheld: Sequence[Unmeasured | None]
        self.told: Sequence[frozenset[str]]
        self.then: Sequence[Totals]
        self.seen, self.keys, self.accounts, self.live, self.pending, *columns = columns
        self.withheld, self.told, self.then = columns
        self.shown = where([why is None for why in self.withheld], self.live, other=False)
        self.uuids = [seen.uuid for seen in self.seen]
        self.held: list[MemoryHeld | None] = [account.held for account in self.accounts]

    def memory_bytes(self) -> list[int | None]:
        """What they hold now; None: it is not known."""
        return self.kept.column("held", used_bytes, self.held)

    def of_shown(self, values: Sequence[T | None]) -> Sequence[T | None]:
        """Those of the owners whose gauges are shown."""
        return where(self.shown, values)

    def used(self) -> Columns:
        """What is known of their accounts, and the averages of it over the stated window."""
        counted = where([why is None for why in self.withheld], self.told, other=_UNTOLD)
        averaged = where(self.shown, counted, other=_UNTOLD)
        columns: Columns = {}
        for quantity, name in names(_UNTOLD.union(*set(counted)))[0]:
            columns[name] = _told(quantity, counted, self.totals[quantity])
        for quantity, name in names(_UNTOLD.union(*set(averaged)))[1]:
            columns[name] = _told(quantity, averaged, self.averages[quantity])
        return columns

    @cached_property
    def totals(self) -> Mapping[str, Sequence[int]]:
        """What their accounts say, by quantity."""
        return _by_quantity([account.totals for account in self.accounts])

    @cached_property
    def averages(self) -> Mapping[str, Sequence[float | None]]:
        """Over the stated window, by quantity, known or not; None: without any window."""
        then, observed_ns = _by_quantity(self.then), [seen.observed_ns for seen in self.seen]
        return {
            quantity: list(map(_average, self.totals[quantity], then[quantity], observed_ns))
            for quantity in RATIOS
            if then
        }

    def cores(self) -> Sequence[float | None]:
        """The averages of their core time; None: it is not known, or without any window."""
        return _told("core", self.told, self.averages["core"]) if self.keys else ()


def _owners(books: Iterable[BookView], kind: type[K]) -> Iterator[_Owner[K]]:
    for seen in books:
        for key, account in seen.book.owners.items():
            if isinstance(key, kind):
                live, pending = seen.live(account), seen.pending(key)
                waits = Unmeasured.CONTAINER_PENDING if live and pending else None
                yield _Owner(
                    *(seen, key, account, live, pending, seen.hidden or waits),
                    *(seen.told_of(key), seen.then_of(key, account)),
                )


def _average(end: int, start: int, observed_ns: int) -> float | None:
    if end == start and observed_ns:
        return _UNUSED
    return (end - start) / observed_ns if observed_ns else None


def _by_quantity(totals: Sequence[Totals]) -> dict[str, tuple[int, ...]]:
    """The totals of some accounts by quantity."""
    return dict(zip(Totals._fields, zip(*totals, strict=True), strict=bool(totals)))


def _told(
    quantity: str, told: Sequence[frozenset[str]], values: Sequence[Number | None]
) -> Sequence[Number | None]:
    """The values of those of whom this quantity is told."""
    if all(quantity in one for one in set(told)):
        return values
    return where([quantity in one for one in told], values)


def used_bytes(held: MemoryHeld | None) -> int | None:
    """The memory that is held; None: it is not known."""
    return held.used_bytes if held else None


def of_limit(used: float | None, limit: float | None) -> float | None:
    """Use against a limit, where both are known."""
    return used / limit if limit and used is not None else None


@overload
def where(there: Sequence[bool], values: Sequence[T]) -> Sequence[T | None]: ...
@overload
def where(there: Sequence[bool], values: Sequence[T], *, other: U) -> Sequence[T | U]: ...
def where(
    there: Sequence[bool], values: Sequence[T], *, other: U | None = None
) -> Sequence[T | U | None]:
    """The values where they are there; the other one elsewhere."""
    if all(there):
        return values
    return [value if is_there else other for value, is_there in zip(values, there, strict=True)]
