"""The view that rows are built from: the ledger at the end of one cycle, and the cycle's facts."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from operator import and_
from typing import Generic, TypeVar, overload

from exporter.ledger.accounts import Account, Counters
from exporter.ledger.ledger import Ledger
from exporter.model import ContainerKey, GroupKey, MemoryHeld, Number, Unmeasured
from exporter.rows.device_view import RATIOS, Columns, CycleFacts, DeviceView, names
from exporter.rows.limits import Limits

K = TypeVar("K", ContainerKey, GroupKey)
T = TypeVar("T")
U = TypeVar("U")

_NOTHING_KNOWN: frozenset[str] = frozenset()


class Owners(Generic[K]):
    """Each owner of a kind on each device, column by column.

    ``live``: it was there in this cycle; otherwise only its counters are shown. ``pending``: its
    use may be under its pod. ``withheld``: why its series are withheld, None if they are shown.
    ``known`` are its known quantities, ``unattributable`` the others with reasons, ``averaged``
    those with an average. ``then``: its counters when the time of averages began. ``shown``:
    whether its gauges are shown.
    """

    def __init__(self, devices: Iterable[DeviceView], kind: type[K]) -> None:
        self.seen: list[DeviceView] = []
        self.keys: list[K] = []
        self.accounts: list[Account] = []
        self.live: list[bool] = []
        self.pending: list[bool] = []
        self.withheld: list[Unmeasured | None] = []
        self.unattributable: list[Mapping[str, Unmeasured]] = []
        self.known: list[frozenset[str]] = []
        self.averaged: list[frozenset[str]] = []
        self.then: list[Counters] = []
        for seen in devices:
            mine = [one for one in seen.device_ledger.owners.items() if isinstance(one[0], kind)]
            if mine:
                keys, accounts = zip(*mine, strict=True)
                self._take(seen, keys, accounts)
        self.shown = where([why is None for why in self.withheld], self.live, other=False)
        self.uuids = [seen.uuid for seen in self.seen]
        self.held: list[MemoryHeld | None] = [account.held for account in self.accounts]

    def _take(self, seen: DeviceView, keys: Sequence[K], accounts: Sequence[Account]) -> None:
        live, pending = list(map(seen.live, accounts)), list(map(seen.pending, keys))
        self.seen += [seen] * len(keys)
        self.keys += keys
        self.accounts += accounts
        self.live += live
        self.pending += pending
        if seen.withheld or not any(pending):
            self.withheld += [seen.withheld] * len(keys)
        else:
            waits = map(and_, live, pending)
            self.withheld += [Unmeasured.CONTAINER_PENDING if one else None for one in waits]
        self.unattributable += map(seen.unattributable_of, keys)
        known = list(map(seen.known_of, keys))
        self.known += known
        is_met = [key not in seen.newcomers for key in keys]
        self.averaged += where(is_met, known, other=_NOTHING_KNOWN)
        self.then += map(seen.then_of, keys, accounts)

    def labels(self) -> list[tuple[str, ...]]:
        """The labels of their rows."""
        return list(map(_labels, self.keys, self.seen))

    def memory_bytes(self) -> list[int | None]:
        """The memory that they hold now; None: unknown."""
        return list(map(used_bytes, self.held))

    def of_shown(self, values: Sequence[T | None]) -> Sequence[T | None]:
        """The values of the owners whose gauges are shown."""
        return where(self.shown, values)

    def used(self) -> Columns:
        """The known counters, and their averages over the stated window."""
        counted = where([why is None for why in self.withheld], self.known, other=_NOTHING_KNOWN)
        averaged = where(self.shown, self.averaged, other=_NOTHING_KNOWN)
        columns: Columns = {}
        for quantity, name in names(_NOTHING_KNOWN.union(*set(counted)))[0]:
            columns[name] = of_known(quantity, counted, self.counters[quantity])
        for quantity, name in names(_NOTHING_KNOWN.union(*set(averaged)))[1]:
            columns[name] = of_known(quantity, averaged, self.averages[quantity])
        return columns

    @cached_property
    def counters(self) -> Mapping[str, Sequence[int]]:
        """The counters by quantity."""
        return by_quantity([account.counters for account in self.accounts])

    @cached_property
    def averages(self) -> Mapping[str, Sequence[float | None]]:
        """The averages over the stated window, by quantity, known or not; empty without any."""
        then, observed_ns = by_quantity(self.then), [seen.observed_ns for seen in self.seen]
        return {
            quantity: _averages(self.counters[quantity], then[quantity], observed_ns)
            for quantity in RATIOS
            if then
        }

    def cores(self) -> Sequence[float | None]:
        """The averages of their core time; None: unknown, or without any window."""
        return of_known("core", self.averaged, self.averages["core"]) if self.keys else ()


def _labels(key: tuple[str, ...], seen: DeviceView) -> tuple[str, ...]:
    return (*key, seen.index, seen.uuid)


def _averages(
    ends: Sequence[int], starts: Sequence[int], observed_ns: Sequence[int]
) -> list[float | None]:
    if ends == starts and all(observed_ns):  # as of engines that nobody uses
        return [0.0] * len(ends)
    return list(map(_average, ends, starts, observed_ns))


def _average(end: int, start: int, observed_ns: int) -> float | None:
    return (end - start) / observed_ns if observed_ns else None


def by_quantity(counters: Sequence[Counters]) -> dict[str, tuple[int, ...]]:
    """The counters of some accounts, by quantity."""
    return dict(zip(Counters._fields, zip(*counters, strict=True), strict=bool(counters)))


def of_known(
    quantity: str, known: Sequence[frozenset[str]], values: Sequence[Number | None]
) -> Sequence[Number | None]:
    """The values of those owners whose quantity is known."""
    if all(quantity in one for one in set(known)):
        return values
    return where([quantity in one for one in known], values)


def used_bytes(held: MemoryHeld | None) -> int | None:
    """The memory that is held; None: unknown."""
    return held.used_bytes if held else None


def of_limit(used: float | None, limit: float | None) -> float | None:
    """Use over a limit, where both are known."""
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
    """The ledger at the end of one cycle, once settled. ``devices`` are by UUID."""

    def __init__(self, ledger: Ledger, facts: CycleFacts) -> None:
        self.ledger = ledger
        self.facts = facts
        self.devices = {
            u: DeviceView(device_ledger, ledger, facts)
            for u, device_ledger in ledger.devices.items()
        }

    @cached_property
    def limits(self) -> Limits:
        """The allocations summed up."""
        return Limits(self.facts.allocated, self.ledger.devices)

    @cached_property
    def containers(self) -> Owners[ContainerKey]:
        """Each container on each device."""
        return Owners(self.devices.values(), ContainerKey)

    @cached_property
    def groups(self) -> Owners[GroupKey]:
        """Each group on each device."""
        return Owners(self.devices.values(), GroupKey)

    def live(self, account: Account) -> bool:
        """Whether the owner was there in this cycle, on any device."""
        return account.is_live(self.facts.now.mono_ns)
