"""What the rows are made from: the ledger at the end of one cycle, and the cycle's facts.

The owners of devices, as seen at the end of one cycle: column by column, one row for each.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from operator import and_
from typing import Generic, TypeVar, overload

from exporter.ledger.accounts import Account, Totals
from exporter.ledger.ledger import Ledger
from exporter.model import ContainerKey, GroupKey, MemoryHeld, Number, Unmeasured
from exporter.rows.book_view import RATIOS, BookView, Columns, CycleFacts, names
from exporter.rows.limits import Limits

K = TypeVar("K", ContainerKey, GroupKey)
T = TypeVar("T")
U = TypeVar("U")

_UNTOLD: frozenset[str] = frozenset()


class Owners(Generic[K]):
    """Each owner of a kind on each device; of what there is one for each, there is a column.

    ``live``: it was there in this cycle; else only its counters are shown. ``pending``: its use may
    stand under its pod. ``withheld``: why nothing is told of it; None if something is: ``told`` is
    what is known of it, ``unshared`` what is not, and why. ``averaged`` is what has an average.
    ``then``: what its account said when the time began that averages are over. ``shown``: whether
    its gauges are.
    """

    def __init__(self, books: Iterable[BookView], kind: type[K]) -> None:
        self.seen: list[BookView] = []
        self.keys: list[K] = []
        self.accounts: list[Account] = []
        self.live: list[bool] = []
        self.pending: list[bool] = []
        self.withheld: list[Unmeasured | None] = []
        self.unshared: list[Mapping[str, Unmeasured]] = []
        self.told: list[frozenset[str]] = []
        self.averaged: list[frozenset[str]] = []
        self.then: list[Totals] = []
        for seen in books:
            mine = [one for one in seen.book.owners.items() if isinstance(one[0], kind)]
            if mine:
                keys, accounts = zip(*mine, strict=True)
                self._take(seen, keys, accounts)
        self.shown = where([why is None for why in self.withheld], self.live, other=False)
        self.uuids = [seen.uuid for seen in self.seen]
        self.held: list[MemoryHeld | None] = [account.held for account in self.accounts]

    def _take(self, seen: BookView, keys: Sequence[K], accounts: Sequence[Account]) -> None:
        live, pending = list(map(seen.live, accounts)), list(map(seen.pending, keys))
        self.seen += [seen] * len(keys)
        self.keys += keys
        self.accounts += accounts
        self.live += live
        self.pending += pending
        if seen.hidden or not any(pending):
            self.withheld += [seen.hidden] * len(keys)
        else:
            waits = map(and_, live, pending)
            self.withheld += [Unmeasured.CONTAINER_PENDING if one else None for one in waits]
        self.unshared += map(seen.unshared_of, keys)
        told = list(map(seen.told_of, keys))
        self.told += told
        is_met = [key not in seen.newcomers for key in keys]
        self.averaged += where(is_met, told, other=_UNTOLD)
        self.then += map(seen.then_of, keys, accounts)

    def labels(self) -> list[tuple[str, ...]]:
        """The labels of their rows."""
        return list(map(_labels, self.keys, self.seen))

    def memory_bytes(self) -> list[int | None]:
        """What they hold now; None: it is not known."""
        return list(map(used_bytes, self.held))

    def of_shown(self, values: Sequence[T | None]) -> Sequence[T | None]:
        """Those of the owners whose gauges are shown."""
        return where(self.shown, values)

    def used(self) -> Columns:
        """What is known of their accounts, and the averages of it over the stated window."""
        counted = where([why is None for why in self.withheld], self.told, other=_UNTOLD)
        averaged = where(self.shown, self.averaged, other=_UNTOLD)
        columns: Columns = {}
        for quantity, name in names(_UNTOLD.union(*set(counted)))[0]:
            columns[name] = of_told(quantity, counted, self.totals[quantity])
        for quantity, name in names(_UNTOLD.union(*set(averaged)))[1]:
            columns[name] = of_told(quantity, averaged, self.averages[quantity])
        return columns

    @cached_property
    def totals(self) -> Mapping[str, Sequence[int]]:
        """What their accounts say, by quantity."""
        return by_quantity([account.totals for account in self.accounts])

    @cached_property
    def averages(self) -> Mapping[str, Sequence[float | None]]:
        """Over the stated window, by quantity, known or not; None: without any window."""
        then, observed_ns = by_quantity(self.then), [seen.observed_ns for seen in self.seen]
        return {
            quantity: _averages(self.totals[quantity], then[quantity], observed_ns)
            for quantity in RATIOS
            if then
        }

    def cores(self) -> Sequence[float | None]:
        """The averages of their core time; None: it is not known, or without any window."""
        return of_told("core", self.averaged, self.averages["core"]) if self.keys else ()


def _labels(key: tuple[str, ...], seen: BookView) -> tuple[str, ...]:
    return (*key, seen.index, seen.uuid)


def _averages(
    ends: Sequence[int], starts: Sequence[int], observed_ns: Sequence[int]
) -> list[float | None]:
    if ends == starts and all(observed_ns):  # as of engines that nobody uses
        return [0.0] * len(ends)
    return list(map(_average, ends, starts, observed_ns))


def _average(end: int, start: int, observed_ns: int) -> float | None:
    return (end - start) / observed_ns if observed_ns else None


def by_quantity(totals: Sequence[Totals]) -> dict[str, tuple[int, ...]]:
    """The totals of some accounts by quantity."""
    return dict(zip(Totals._fields, zip(*totals, strict=True), strict=bool(totals)))


def of_told(
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


class View:
    """The ledger as seen at the end of one cycle, once settled. ``books`` are by device UUID."""

    def __init__(self, ledger: Ledger, facts: CycleFacts) -> None:
        self.ledger = ledger
        self.facts = facts
        self.books = {u: BookView(book, ledger, facts) for u, book in ledger.books.items()}

    @cached_property
    def limits(self) -> Limits:
        """The allotments summed up."""
        return Limits(self.facts.allotted, self.ledger.books)

    @cached_property
    def containers(self) -> Owners[ContainerKey]:
        """Each container on each device."""
        return Owners(self.books.values(), ContainerKey)

    @cached_property
    def groups(self) -> Owners[GroupKey]:
        """Each group on each device."""
        return Owners(self.books.values(), GroupKey)

    def live(self, account: Account) -> bool:
        """Whether the owner was there in this cycle, on whichever device."""
        return account.is_live(self.facts.now.mono_ns)
