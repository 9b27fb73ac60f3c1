"""The book of one device: its accounts, and what is known of it."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from copy import copy

from exporter.ledger.accounts import NOTHING, Account, Moment, Totals, added, allot
from exporter.ledger.averages import OwnerKey, Past, Since, newest, normalization, since
from exporter.ledger.condition import Condition
from exporter.model import (
    ContainerKey,
    Device,
    DeviceReading,
    DeviceState,
    DeviceUsage,
    GroupKey,
    IdleCredit,
    MemoryHeld,
    Owner,
    Unattributed,
    Unexplained,
)

NOBODY: frozenset[Owner] = frozenset()
NO_MEMORY = MemoryHeld(0, 0)


class Book(Condition):
    """The accounts of one device: the device itself, its owners, and what has no owner.

    A window is entered once, for its owner. ``closed`` holds, by the namespace of containers and
    by the kind of groups, what the closed accounts used: ``sums`` adds the open ones.
    """

    def __init__(self, device: Device, now: Moment) -> None:
        super().__init__(device, now)
        self.whole = Account.opened(now)
        self.unattributed: Mapping[Unattributed, Account] = {}
        self.owners: dict[OwnerKey, Account] = {}
        self.closed: Mapping[type[OwnerKey], Mapping[str, Totals]]
        self.closed = {ContainerKey: {}, GroupKey: {}}
        self.idle_energy_uj = 0
        self.unobserved_ns = 0
        self.credit: Mapping[Owner, IdleCredit] = {}
        self.unexplained: Mapping[Unexplained, int] = dict.fromkeys(Unexplained, 0)
        self.pasts: tuple[Past, ...] = ()
        self.held: Mapping[Owner, MemoryHeld] | None = None
        self.held_in_window: Mapping[Owner, MemoryHeld] | None = None  # at the newest window
        self._has_newcomers = False  # owners that are not yet told what they hold
        self._used: set[Owner] = set()  # whose part of any window was entered, and still stands
        self._residents: Collection[Owner] | None = None  # as the accounts have it, if all do

    def meet(self, reading: DeviceReading, now: Moment) -> None:
        """Note the device's state in this cycle; where it raises, see ``Condition``."""
        super().meet(reading, now)
        if self.state is DeviceState.UP and self.unlisted and self.held is not None:
            self.held = None  # long not told: who holds what is not known any more
            self._tell_held()

    def account(self, key: OwnerKey, now: Moment) -> Account:
        """The owner's account on this device, opened if new."""
        found = self.owners.get(key)
        if found is None:
            found = self.owners[key] = Account.opened(now)
            self._has_newcomers, self._residents = True, None
            if isinstance(key, GroupKey):
                self.take_in(GroupKey, key.kind)
        return found

    def record(self, usage: DeviceUsage, now: Moment) -> Sequence[ContainerKey]:
        """Enter one window; gives the containers that none was entered for before."""
        shares, owners = usage.shares, self.owners
        before: dict[OwnerKey | None, Account] = {None: self.whole}
        self.whole = self.whole.entered(usage.total, now)
        for owner, spent in shares.items():
            if isinstance(owner, Unattributed):
                nobody = self.unattributed.get(owner) or Account.opened(now)
                self.unattributed = {**self.unattributed, owner: nobody.entered(spent, now)}
                continue
            account = before[owner] = owners.get(owner) or self.account(owner, now)
            if self.held is None:  # without a process list, activity is the only sign of life
                account = account.seen(now.mono_ns)
            owners[owner] = account.entered(spent, now)
        self.idle_energy_uj += usage.idle_energy_uj or 0
        self.unobserved_ns += usage.unobserved_ns
        self.credit = usage.credit
        self.held_in_window = self.held
        self.measure(usage, now)
        self._count(usage.counted, now)
        if any(usage.unexplained.values()):
            self.unexplained = _with(self.unexplained, usage.unexplained)
        self.pasts = (*self.pasts, _past(usage, now, before))
        return () if self._used.issuperset(shares) else self._first_used(shares)

    def _first_used(self, shares: Iterable[Owner]) -> list[ContainerKey]:
        first = [o for o in shares if o not in self._used and isinstance(o, ContainerKey)]
        for key in first:
            self.take_in(ContainerKey, key.namespace)
        self._used.update(shares)
        return first

    def take_in(self, of: type[OwnerKey], *names: str) -> None:
        """Have accounts of these namespaces of containers, or kinds of groups, from now on."""
        closed = self.closed[of]
        if not closed.keys() >= set(names):
            self.closed = {**self.closed, of: {**dict.fromkeys(names, NOTHING), **closed}}

    def _count(self, counted: Mapping[str, Mapping[Owner, int]], now: Moment) -> None:
        for quantity, parts in counted.items():
            for owner, amount in parts.items():
                self.whole = self.whole.counting(quantity, amount, now)
                if isinstance(owner, Unattributed):
                    nobody = self.unattributed.get(owner) or Account.opened(now)
                    counted_now = nobody.counting(quantity, amount, now)
                    self.unattributed = {**self.unattributed, owner: counted_now}
                    continue
                self.owners[owner] = self.account(owner, now).counting(quantity, amount, now)
                if isinstance(owner, ContainerKey):
                    self.take_in(ContainerKey, owner.namespace)

    def hold(self, held: Mapping[Owner, MemoryHeld], now: Moment) -> None:
        """Set who holds memory now; who holds none any more holds 0."""
        if held is self.held and not self._has_newcomers:
            return
        for key in held:
            if not isinstance(key, Unattributed):
                self.account(key, now)
        self.held, self._has_newcomers = held, False
        self._tell_held()

    def allot(
        self,
        cores: Mapping[OwnerKey, Sequence[float]],
        since_mono_ns: int,
        now: Moment,
        is_cut: Callable[[OwnerKey], bool],
    ) -> None:
        """Set what its containers are allotted from the given moment on.

        ``is_cut``: whose earnings are cut with others' though they are allotted the same.
        """
        for key in cores:
            account = self.account(key, now)
            if account.held is None and self.held is not None:
                self.owners[key] = account.holding(self.held.get(key, NO_MEMORY))
        allot(self.owners, cores, since_mono_ns, now, is_cut)

    def _tell_held(self) -> None:
        for key, account in self.owners.items():
            held = None if self.held is None else self.held.get(key, NO_MEMORY)
            if held != account.held:
                self.owners[key] = account.holding(held)

    def settle(self, before_mono_ns: int, averaged_from_ns: int) -> None:
        """End the cycle after the given one; forget the windows that no average needs any more.

        Who holds memory is there; on a device long unreadable, nobody is known to.
        """
        residents = (self.held or ()) if self.blind is None else ()
        if residents is not self._residents:
            self._residents = residents
            for key, account in self.owners.items():
                resident = key in residents
                if resident != account.resident:
                    self.owners[key] = account.residing(before_mono_ns, resident=resident)
        self.pasts = newest(self.pasts, averaged_from_ns)
        if self.doubts:
            self.doubts = self.doubts.lately(averaged_from_ns)

    def close(self, gone: Collection[OwnerKey]) -> None:
        """Close these accounts; what they used stays with their namespaces and kinds."""
        for key in gone:
            account, closed = self.owners.pop(key), self.closed[type(key)]
            if key[0] in closed:
                left = added(closed[key[0]], account.totals)
                self.closed = {**self.closed, type(key): {**closed, key[0]: left}}
        if gone:
            self._used.difference_update(gone)
            self.pasts = tuple(past.without(gone) for past in self.pasts)
            self._has_newcomers = True  # one who still holds memory is opened anew

    def sums(self, of: type[OwnerKey]) -> dict[str, Totals]:
        """What all containers of each namespace used, or all groups of each kind."""
        used = {name: [left] for name, left in self.closed[of].items()}
        for key, account in self.owners.items():
            if isinstance(key, of) and key[0] in used:
                used[key[0]].append(account.totals)
        return {name: added(*many) for name, many in used.items()}

    def since(self, mono_ns: int) -> Since:
        """What was observed since the given moment, and what the accounts said then."""
        return since(self.pasts, mono_ns)

    @property
    def newcomers(self) -> frozenset[Owner]:
        """Owners that hold memory now and were not there yet in the newest window."""
        if not self.held or self.held is self.held_in_window:
            return NOBODY
        used = self.pasts[-1].accounts if self.pasts else {}
        return frozenset(self.held.keys() - (self.held_in_window or {}).keys() - used.keys())

    @property
    def normalization(self) -> float | None:
        """Core time given to processes against what the driver credits them with, lately."""
        return normalization(self.pasts)

    def frozen(self) -> "Book":
        """A copy for readers of rows, which no later cycle changes."""
        frozen = copy(self)
        frozen.owners = self.owners.copy()  # all else that changes in place is not for rows
        return frozen


def _with(
    before: Mapping[Unexplained, int], more: Mapping[Unexplained, int]
) -> Mapping[Unexplained, int]:
    return {reason: core_ns + more.get(reason, 0) for reason, core_ns in before.items()}


def _past(usage: DeviceUsage, now: Moment, accounts: Mapping[OwnerKey | None, Account]) -> Past:
    nobody = usage.shares.get(Unattributed.NO_PID)
    given_ns = (usage.total.busy.core or 0) - ((nobody.busy.core or 0) if nobody else 0)
    return Past(now.mono_ns, usage.observed_ns, given_ns, usage.named_core_ns, accounts)
