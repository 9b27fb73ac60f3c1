"""The accounts of one device, and averages: its counters now, less those of its newest windows."""

from collections.abc import Collection, Container, Mapping, Sequence
from copy import copy
from typing import NamedTuple

from exporter.agent.attribution.contention import ACTIVE_NS, WaitedFor, waiting
from exporter.agent.ledger.accounts import (
    NEVER,
    NOTHING,
    REMEMBERED_NS,
    Account,
    Accrual,
    Counters,
    Moment,
    Shares,
    WindowSpan,
    set_allocations,
    sum_counters,
)
from exporter.agent.ledger.device_status import DeviceStatus
from exporter.model import (
    ContainerKey,
    Device,
    DeviceReading,
    DeviceState,
    DeviceUsage,
    GroupKey,
    MemoryHeld,
    Owner,
    Unattributed,
    Unexplained,
)

OwnerKey = ContainerKey | GroupKey


class PastWindow(NamedTuple):
    """One window, and the counters as they were before it.

    ``counters`` are by owner; None is the device itself. ``given_ns`` of the core time went to
    processes, for which the driver reports ``named_ns``. ``owned_ns`` of the observed time can be
    given to owners: all or nothing.
    """

    ended_mono_ns: int
    observed_ns: int
    owned_ns: int
    given_ns: int
    named_ns: int
    counters: Mapping[OwnerKey | None, Counters]

    def without(self, owners: Collection[OwnerKey]) -> "PastWindow":
        """The same window without the counters of some owners, whose accounts are closed."""
        kept = {owner: c for owner, c in self.counters.items() if owner not in owners}
        return self._replace(counters=kept)


Pasts = tuple[PastWindow, ...]  # oldest first


class Since(NamedTuple):
    """The windows observed since some moment."""

    mono_ns: int
    observed_ns: int
    owned_ns: int
    pasts: Pasts

    def before(self, owner: OwnerKey | None, account: Account) -> Counters:
        """The counters at that moment of an owner's account, or of the device's (None)."""
        # Each window has only the counters that it changed. So the oldest one that has this owner
        # shows it as it was at that moment; an account that has not changed since is its own past.
        if account.changed_mono_ns > self.mono_ns:
            for past in self.pasts:
                then = past.counters.get(owner)
                if then is not None:
                    return then
        return account.counters

    @property
    def normalization(self) -> float | None:
        """Core time given to processes over what the driver reports for them; None without any."""
        named_ns = sum([past.named_ns for past in self.pasts])
        return sum([past.given_ns for past in self.pasts]) / named_ns if named_ns else None


def since(pasts: Pasts, mono_ns: int) -> Since:
    """The windows that ended after the given moment, with the counters as they were then."""
    pasts = newest(pasts, mono_ns)
    observed_ns = sum([past.observed_ns for past in pasts])
    return Since(mono_ns, observed_ns, sum([past.owned_ns for past in pasts]), pasts)


def newest(pasts: Pasts, mono_ns: int) -> Pasts:
    """The windows that ended after the given moment."""
    old = 0
    while old < len(pasts) and pasts[old].ended_mono_ns <= mono_ns:
        old += 1
    return pasts[old:] if old else pasts


LATE_NS = 2 * 10**9  # a window that is read ended so long ago at most: a sample, and a slow call
SLOW = 10_000  # the clock of samples may be slower than the monotonic one by a part in so many
NO_OWNERS: frozenset[Owner] = frozenset()
NO_MEMORY = MemoryHeld(0, 0)


class DeviceLedger(DeviceStatus):
    """The accounts of one device: the device itself, its owners, and use without an owner.

    A window is entered once, for its owner. ``closed`` holds the counters of closed accounts, by
    the namespace of containers and by the kind of groups. ``sums`` adds the open ones.
    """

    def __init__(self, device: Device, now: Moment) -> None:
        super().__init__(device, now)
        self.total = Account.opened(now)
        self.unattributed: Mapping[Unattributed, Account] = {}
        self.owners: dict[OwnerKey, Account] = {}
        self.closed: Mapping[type[OwnerKey], Mapping[str, Counters]]
        self.closed = {ContainerKey: {}, GroupKey: {}}
        self.unallocated = self.overcommitted = Accrual(since_mono_ns=now.mono_ns)
        self.waited: Mapping[OwnerKey, Mapping[Owner, int]] = {}  # by who ran, since the start
        self.idle_energy_uj = 0
        self.unobserved_ns = 0
        self.unexplained: Mapping[Unexplained, int] = dict.fromkeys(Unexplained, 0)
        self.pasts: tuple[PastWindow, ...] = ()
        self.span = WindowSpan(now.mono_ns, now.mono_ns)
        self._published_mono_ns = now.mono_ns  # until when its allocated time was shown
        self.recorded_mono_ns: int | None = None  # when a window was entered last
        self._end_unix_ns = 0  # of the newest window, in its own time
        self.held: Mapping[Owner, MemoryHeld] | None = None
        self.held_in_window: Mapping[Owner, MemoryHeld] | None = None  # at the newest window
        self._has_others = False  # accounts were opened or closed since ``held`` was set
        self.is_complete = True  # whether ``held`` has all owners that hold any
        self._used: set[Owner] = set()  # owners with any window in their open accounts

    def observe(self, reading: DeviceReading, now: Moment) -> None:
        """Records the device's state in this cycle; raises as ``DeviceStatus`` does."""
        self._published_mono_ns = self.until_mono_ns(self.observed_mono_ns)
        super().observe(reading, now)
        if self.state is DeviceState.UP and self.unlisted and self.held is not None:
            # The list is too old to say who holds memory now. Unknown is not the last figure.
            self.held = None
            self._apply_memory()

    def account(self, key: OwnerKey, now: Moment) -> Account:
        """The owner's account on this device; it is opened if new."""
        found = self.owners.get(key)
        if found is None:
            found = self.owners[key] = Account.opened(now)
            self._has_others = True
            if isinstance(key, GroupKey):
                self.open_sums(GroupKey, key.kind)
        return found

    def record(
        self,
        usage: DeviceUsage,
        now: Moment,
        compared: Collection[Owner] = NO_OWNERS,
        *,
        is_owned: bool = True,
    ) -> Sequence[ContainerKey]:
        """Enters one window. Returns the containers that had no window before.

        ``compared``: those whose use is held against their allocation, even if it is elsewhere.
        ``is_owned``: whether its processes could be given to owners.
        """
        shares = usage.shares
        self.held_in_window = self.held
        self.measure(usage, now)
        self.span, self._end_unix_ns = self._span_of(usage, now), usage.end_unix_ns
        self.recorded_mono_ns = now.mono_ns
        # Each account that changes is kept as it was before: averages are the counters now, less
        # those of the oldest window that they go back to.
        before: dict[OwnerKey | None, Counters] = {None: self.total.counters}
        self.total = self.total.with_window(usage.total, now)
        for owner, spent in shares.items():
            if isinstance(owner, Unattributed):
                without_owner = self.unattributed.get(owner) or Account.opened(now)
                self.unattributed = {
                    **self.unattributed,
                    owner: without_owner.with_window(spent, now),
                }
                continue
            account = self.owners.get(owner) or self.account(owner, now)
            before[owner] = account.counters
            if not self.lists_holders:
                # Where the driver does not list who holds memory, activity is the only sign of
                # life.
                self.owners[owner] = account.live_at(now.mono_ns)
        self._enter_owners(usage, compared, before, now)
        self.idle_energy_uj += usage.idle_energy_uj or 0
        self.unobserved_ns += usage.unobserved_ns
        self._count(usage.counted, now)
        if any(usage.unexplained.values()):
            more = usage.unexplained
            self.unexplained = {r: ns + more.get(r, 0) for r, ns in self.unexplained.items()}
        # What the driver names of processes is compared with what they were given: the rest that
        # was given to nobody is left out.
        nobodys = usage.shares.get(Unattributed.NO_PID)
        given_ns = (usage.total.busy.core or 0) - ((nobodys.busy.core or 0) if nobodys else 0)
        owned_ns = usage.observed_ns if is_owned else 0
        named_ns = usage.reported_core_ns
        past = PastWindow(now.mono_ns, usage.observed_ns, owned_ns, given_ns, named_ns, before)
        self.pasts = (*self.pasts, past)
        if self._used.issuperset(shares):  # as nearly always
            return ()
        first = [o for o in shares if o not in self._used and isinstance(o, ContainerKey)]
        for key in first:
            self.open_sums(ContainerKey, key.namespace)
        self._used.update(shares)
        return first

    def _count(self, counted: Mapping[str, Mapping[Owner, int]], now: Moment) -> None:
        """Enters what the driver counts of processes beside their busy time."""
        for quantity, parts in counted.items():
            for owner, amount in parts.items():
                self.total = self.total.add_count(quantity, amount, now)
                if isinstance(owner, Unattributed):
                    without_owner = self.unattributed.get(owner) or Account.opened(now)
                    counted_now = without_owner.add_count(quantity, amount, now)
                    self.unattributed = {**self.unattributed, owner: counted_now}
                    continue
                self.owners[owner] = self.account(owner, now).add_count(quantity, amount, now)
                # A process may be evicted before it has any window: its namespace's sum must begin
                # with it.
                if isinstance(owner, ContainerKey):
                    self.open_sums(ContainerKey, owner.namespace)

    def _span_of(self, usage: DeviceUsage, now: Moment) -> WindowSpan:
        """When a window was, by the monotonic clock."""
        # A window says how long it is, and when it ended in its own time. How old its newest sample
        # was when it was read, nobody says. So one that follows another ends its length later, and
        # is not longer because it happened to be read late.
        # The first of all follows the moment in which the device was found.
        length_ns, before_ns = usage.length_ns, self.span.end_mono_ns
        is_first = self.recorded_mono_ns is None
        follows = is_first or usage.end_unix_ns - length_ns == self._end_unix_ns
        end_ns = before_ns + length_ns
        # The clock of samples may be a little slower than the monotonic one. Without this the
        # windows would fall behind it for ever.
        if end_ns < now.mono_ns - LATE_NS:
            end_ns += length_ns // SLOW
        # One that falls behind by more is another clock. It has ended now.
        if not follows or end_ns < now.mono_ns - 2 * LATE_NS:
            return WindowSpan(max(before_ns, now.mono_ns - length_ns), now.mono_ns, follows=False)
        # None has ended later than now. So, after some windows, those that are read at once end
        # when they do.
        return WindowSpan(before_ns, min(end_ns, now.mono_ns))

    def _enter_owners(
        self,
        usage: DeviceUsage,
        compared: Collection[Owner],
        before: dict[OwnerKey | None, Counters],
        now: Moment,
    ) -> None:
        """Enters what owners used, left idle or borrowed, and who waited while who ran.

        Time whose use is not known is none of these.
        """
        shares, owners = usage.shares, self.owners
        used = {owner: spent.busy.core or 0 for owner, spent in shares.items()}
        unknown = usage.unmeasured if usage.unmeasured is not None else owners
        due = self._due(usage, used, compared, unknown)
        waits: WaitedFor = {}
        # Where no owner's part of the core is known, neither is what anybody left idle. What was
        # allocated in this window is passed all the same (``_due``), and comes into no later one.
        if self.divides_core:
            waits = waiting(usage.observed_ns, used, self._active(used, unknown, now))
        else:
            due = {}
        # Each window is set against its own part of the allocation, and never netted with another:
        # an hour of idleness does not pay for an hour of borrowing.
        for owner in dict.fromkeys((*before, *due, *waits)):
            if owner is None:
                continue
            account, over_ns, compared_ns = owners[owner], None, 0
            before.setdefault(owner, account.counters)
            if owner in due:
                over_ns = used.get(owner, 0) - due[owner]
                compared_ns = account.compared_at(self.span)
            waited_ns = sum(waits[owner].values()) if owner in waits else 0
            owners[owner] = account.with_window(
                shares.get(owner), now, over_ns, compared_ns, waited_ns
            )
        if waits:
            waited = dict(self.waited)  # readers have the one before, with its parts
            for owner, by_owner in waits.items():
                so_far = dict(waited.get(owner, {}))
                for other, ns in by_owner.items():
                    so_far[other] = so_far.get(other, 0) + ns
                waited[owner] = so_far
            self.waited = waited

    def _active(
        self, used: Mapping[Owner, int], unknown: Container[Owner], now: Moment
    ) -> list[OwnerKey]:
        """The owners that may have waited in the newest window."""
        # Only an owner that holds a context and ran lately can wait: others have nothing to run.
        # It is left out where its use is not known, or stands under its pod as a whole, because it
        # may then be the one that ran.
        since_ns = now.mono_ns - ACTIVE_NS
        return [
            owner
            for owner, account in self.owners.items()
            if (
                used.get(owner)
                or (
                    account.ran_mono_ns is not None
                    and account.ran_mono_ns >= since_ns
                    and _used_as(owner, used) == owner
                )
            )
            and (account.held is None or account.held.processes)
            and owner not in unknown
        ]

    def _due(
        self,
        usage: DeviceUsage,
        used: Mapping[Owner, int],
        compared: Collection[Owner],
        unknown: Container[Owner],
    ) -> Mapping[OwnerKey, int]:
        """What of the core was allocated in a window to each owner, in ns of its observed time."""
        due: dict[OwnerKey, int] = {}
        is_divided, length_ns = self.divides_core, usage.length_ns or 1
        for owner, account in list(self.owners.items()):
            if account.cores is NEVER and owner not in compared:
                continue  # as most of those that work on a device that they were not allocated
            allocated_ns = account.due_ns(self.span)
            if not allocated_ns and owner not in compared:
                continue
            # What a pod uses in no container in particular is held against the shares of all
            # containers that it may be of: that sum is known, though none of its parts is.
            whose = _used_as(owner, used)
            is_known = is_divided and owner not in unknown and whose not in unknown
            if is_known:
                # Use is known of the observed time only, so the share is taken of that, too.
                due[whose] = due.get(whose, 0) + allocated_ns * usage.observed_ns // length_ns
            # This window is over for the allocation, whether or not it could be compared. Only an
            # account that it was compared with has that set by ``with_window``.
            if whose != owner or not is_known:
                self.owners[owner] = account._replace(compared_ns=account.compared_at(self.span))
        return due

    def until_mono_ns(self, now_mono_ns: int) -> int:
        """Until when allocated time is shown: as far as it is known what of it was used."""
        # What was used and what was left idle is known until the end of the newest window, which
        # may be some seconds past. Allocated time up to now would be more than both together. Where
        # no use is measured, there is nothing to be compared with, and it goes on.
        end_ns = now_mono_ns
        if "core" in self.measured and "core" not in self.unmeasured:
            end_ns = max(self.span.end_mono_ns, now_mono_ns - REMEMBERED_NS)
        return max(end_ns, self._published_mono_ns)  # a counter never falls

    @property
    def divides_core(self) -> bool:
        """Whether the core time of its newest window is known by owner, but for uncertain ones."""
        return "core" in self.measured and "core" not in self.unattributable

    def open_sums(self, of: type[OwnerKey], *names: str) -> None:
        """Opens sums for these namespaces of containers, or kinds of groups."""
        closed = self.closed[of]
        # A sum begins at 0 before its first use. Prometheus sees no growth of a series that begins
        # with what was used already.
        if not closed.keys() >= set(names):
            self.closed = {**self.closed, of: {**dict.fromkeys(names, NOTHING), **closed}}

    @property
    def lists_holders(self) -> bool:
        """Whether all that hold memory are known."""
        return self.held is not None and self.is_complete

    def set_memory(
        self, held: Mapping[Owner, MemoryHeld], now: Moment, *, is_complete: bool = True
    ) -> None:
        """Sets the owners that hold memory now; see ``Ledger.set_memory``."""
        # The list of processes is read every few seconds, and is the same value until then. An
        # account that was opened or closed meanwhile is of another holder.
        if held is self.held and is_complete == self.is_complete and not self._has_others:
            return
        for key in held:
            if not isinstance(key, Unattributed):
                self.account(key, now)
        self.held, self.is_complete, self._has_others = held, is_complete, False
        self._apply_memory()

    def _held_by(self, key: OwnerKey) -> MemoryHeld | None:
        if self.held is None:
            return None
        return self.held.get(key, NO_MEMORY if self.is_complete else None)

    def set_allocations(
        self,
        shares: Mapping[OwnerKey, Shares],
        rest: tuple[float, float] | None,
        before_mono_ns: int,
        now: Moment,
    ) -> None:
        """Sets the allocations of its containers from now on, the cycle after the given one.

        ``rest`` is how much of the board is nobody's, and how much is allocated beyond it; None for
        an instance, a part of a board.
        """
        for key in shares:
            account = self.account(key, now)
            if account.held is None and self.held is not None:
                self.owners[key] = account.with_memory(self._held_by(key))
        set_allocations(self.owners, shares, before_mono_ns, now)
        if rest is not None:
            free, beyond = rest
            self.unallocated = self.unallocated.then((free,), now.mono_ns)
            self.overcommitted = self.overcommitted.then((beyond,), now.mono_ns)

    def depart(self, now: Moment) -> None:
        """Ends what is free or overcommitted: a device that is not there is neither."""
        self.unallocated = self.unallocated.then((), now.mono_ns)
        self.overcommitted = self.overcommitted.then((), now.mono_ns)

    def _apply_memory(self) -> None:
        for key, account in self.owners.items():
            held = self._held_by(key)
            if held != account.held:
                self.owners[key] = account.with_memory(held)

    def settle(self, before_mono_ns: int, averaged_from_ns: int) -> None:
        """Ends the cycle after the given one, and drops the windows that no average needs any more.

        An owner that holds memory is live.
        """
        # On a device that cannot be read nobody is known to hold memory: the last list is no sign
        # of life, and its owners must end some time.
        residents = (self.held or ()) if self.stale is None else ()
        for key, account in self.owners.items():
            resident = key in residents
            if resident != account.resident:
                self.owners[key] = account.with_residency(before_mono_ns, resident=resident)
        self.pasts = newest(self.pasts, averaged_from_ns)
        if self.uncertain:
            # What an ended owner used in an uncertain window is in no counter, so its figures are
            # never known again. Who has ended is only known where all holders are listed.
            ended = (
                [k for k, a in self.owners.items() if not a.resident] if self.lists_holders else ()
            )
            self.uncertain = self.uncertain.lately(averaged_from_ns, ended)

    def close(self, gone: Collection[OwnerKey]) -> None:
        """Closes these accounts; their counters stay in the sums of their namespaces and kinds."""
        # The sums of namespaces and kinds never fall: they keep what an account had.
        for key in gone:
            self.keep(type(key), key[0], self.owners.pop(key).counters)
        if gone:
            self._has_others = True
            self.waited = {
                owner: {other: ns for other, ns in by_owner.items() if other not in gone}
                for owner, by_owner in self.waited.items()
                if owner not in gone
            }
            self._used.difference_update(gone)
            self.pasts = tuple(past.without(gone) for past in self.pasts)

    def keep(self, of: type[OwnerKey], name: str, counters: Counters) -> None:
        """Keeps the counters of an account that is closed in the sum of its namespace or kind."""
        closed = self.closed[of]
        if name in closed:
            left = sum_counters(closed[name], counters)
            self.closed = {**self.closed, of: {**closed, name: left}}

    def sums(self, of: type[OwnerKey]) -> dict[str, Counters]:
        """The counters of all containers by namespace, or of all groups by kind."""
        used = {name: [left] for name, left in self.closed[of].items()}
        for key, account in self.owners.items():
            if isinstance(key, of) and key[0] in used:
                used[key[0]].append(account.counters)
        return {name: sum_counters(*many) for name, many in used.items()}

    @property
    def newcomers(self) -> frozenset[Owner]:
        """The owners that hold memory now and were not there in the newest window."""
        # An average of an owner that has had no window yet would be 0, as if it idled.
        if not self.held or self.held is self.held_in_window:
            return NO_OWNERS
        used = self.pasts[-1].counters if self.pasts else {}
        return frozenset(self.held.keys() - (self.held_in_window or {}).keys() - used.keys())

    def frozen(self) -> "DeviceLedger":
        """A copy for readers, which no later cycle changes."""
        frozen = copy(self)
        frozen.owners = self.owners.copy()  # all else that changes in place is not for readers
        return frozen


def _used_as(owner: OwnerKey, used: Mapping[Owner, int]) -> OwnerKey:
    """The owner under which its use is: a container's may be under no container of its pod."""
    if isinstance(owner, ContainerKey) and not used.get(owner):
        whole_pod = owner.whole
        return whole_pod if used.get(whole_pod) else owner
    return owner
