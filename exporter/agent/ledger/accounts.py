"""The account of one owner, pod or device: its counters, and since when its owner is live."""

from collections.abc import Mapping
from operator import add
from typing import Final, NamedTuple, Self, TypeVar

from exporter.model import Engines, MemoryHeld, Used

ENERGY = "energy"

K = TypeVar("K")


class Counters(NamedTuple):
    """The counters of one account: busy ns by engine, µJ of ``ENERGY``, ns of ``COUNTED``.

    ``allocated_idle`` and ``borrowed`` are core time below and above the allocated share, counted
    at each window. ``waiting`` is how long it may have waited for others.
    """

    core: int = 0
    memory_active: int = 0
    encoder: int = 0
    decoder: int = 0
    energy: int = 0
    copy: int = 0
    evicted: int = 0
    allocated_idle: int = 0
    borrowed: int = 0
    waiting: int = 0


NOTHING: Final = Counters()
NO_TIME: Final = Engines()


class Moment(NamedTuple):
    """Now, on both clocks."""

    mono_ns: int
    unix_ns: int

    def earlier(self, ns: int) -> Self:
        """The moment so long before this one."""
        return type(self)(self.mono_ns - ns, self.unix_ns - ns)


class WindowSpan(NamedTuple):
    """When a window was, by the monotonic clock. ``follows``: it begins where the last ended."""

    begin_mono_ns: int
    end_mono_ns: int
    follows: bool = True


REMEMBERED_NS = 60 * 10**9  # longer than windows are read after they ended


class Accrual(NamedTuple):
    """Shares of a GPU that are held since a moment, and what they came to before it, in ns.

    ``earlier`` are the shares until that moment, for windows that are read after it.
    """

    shares: tuple[float, ...] = ()
    since_mono_ns: int = 0
    before_ns: int = 0
    earlier: "Accrual | None" = None

    def at(self, mono_ns: int) -> int:
        """The shares times their time until the given moment, in ns; from its beginning on."""
        # A window is read after it ended: its end may lie before the newest change of the shares.
        if mono_ns < self.since_mono_ns and self.earlier is not None:
            return self.earlier.at(mono_ns)
        total_ns, elapsed_ns = self.before_ns, mono_ns - self.since_mono_ns
        if elapsed_ns > 0:
            for share in self.shares:
                total_ns += int(share * elapsed_ns)
        return total_ns

    def plus(self, ns: int) -> Self:
        """The accrual with so much more before it."""
        return self._replace(before_ns=self.before_ns + ns) if ns else self

    def then(self, shares: tuple[float, ...], mono_ns: int) -> Self:
        """The accrual with other shares from the given moment on."""
        return type(self)(shares, mono_ns, self.at(mono_ns), self.since(mono_ns - REMEMBERED_NS))

    def since(self, mono_ns: int) -> Self:
        """The accrual without the shares that ended before the given moment."""
        if self.earlier is None:
            return self
        if self.since_mono_ns <= mono_ns:
            return self._replace(earlier=None)
        return self._replace(earlier=self.earlier.since(mono_ns))


NEVER: Final = Accrual()


class Account(NamedTuple):
    """The use of one key since the account was opened: integers that only rise.

    It is immutable: a window makes another one, so readers may keep what they were given.

    ``cores``: the allocated core time, with 0 for an allocation that promises none. ``gpus``: the
    parts of GPUs that are kept from others. ``compared_ns``: the part of ``cores`` until the end of
    the newest window. ``resident``: it is known to hold memory.
    ``live_mono_ns``: when the owner was last live, if it has no allocation and is not resident.
    ``used_mono_ns``: when it last used anything; ``changed_mono_ns``: when a counter last changed;
    ``ran_mono_ns``: when it last used the core, None if never.
    """

    since_unix_ns: int
    live_mono_ns: int
    held: MemoryHeld | None = None
    peak_bytes: int | None = None
    resident: bool = False
    cores: Accrual = NEVER
    gpus: Accrual = NEVER
    compared_ns: int = 0
    used_mono_ns: int = 0
    changed_mono_ns: int = 0
    ran_mono_ns: int | None = None
    active_unix_ns: int | None = None
    counters: Counters = NOTHING

    @classmethod
    def opened(cls, now: Moment) -> Self:
        """A new account whose owner is live now."""
        return cls(now.unix_ns, now.mono_ns, used_mono_ns=now.mono_ns)

    def with_window(
        self,
        spent: Used | None,
        now: Moment,
        over_ns: int | None = None,
        compared_ns: int = 0,
        waited_ns: int = 0,
    ) -> Self:
        """The account after one more window. ``spent`` None: its owner is not named in it.

        ``over_ns``: use beyond the share in this window, below 0 what of it was idle; None if they
        are not compared. Until its end ``compared_ns`` were allocated. It may have waited so long.
        """
        busy, before, over = spent.busy if spent else NO_TIME, self.counters, over_ns or 0
        # One of idle and borrowed grows, never both: used + idle - borrowed = allocated holds for
        # each window, and so for any sum of windows.
        counters = Counters(
            before.core + (busy.core or 0),
            before.memory_active + (busy.memory_active or 0),
            before.encoder + (busy.encoder or 0),
            before.decoder + (busy.decoder or 0),
            before.energy + (spent.energy_uj or 0 if spent else 0),
            before.copy,
            before.evicted,
            before.allocated_idle - min(over, 0),
            before.borrowed + max(over, 0),
            before.waiting + waited_ns,
        )
        return self._replace(
            counters=counters,
            changed_mono_ns=now.mono_ns,
            used_mono_ns=now.mono_ns if spent else self.used_mono_ns,
            compared_ns=self.compared_ns if over_ns is None else compared_ns,
            ran_mono_ns=now.mono_ns if busy.core else self.ran_mono_ns,
            active_unix_ns=now.unix_ns if busy.core else self.active_unix_ns,
        )

    def add_count(self, quantity: str, amount: int, now: Moment) -> Self:
        """The account with what one more window counted."""
        if not amount:
            return self
        counters = self.counters._replace(**{quantity: getattr(self.counters, quantity) + amount})
        return self._replace(
            counters=counters, used_mono_ns=now.mono_ns, changed_mono_ns=now.mono_ns
        )

    def live_at(self, mono_ns: int) -> Self:
        """The account with its owner live at the given moment."""
        return self._replace(live_mono_ns=max(self.live_mono_ns, mono_ns))

    def with_memory(self, held: MemoryHeld | None) -> Self:
        """The account with the memory held now."""
        peak_bytes = self.peak_bytes
        if held is not None and held.used_bytes is not None:
            peak_bytes = max(held.used_bytes, peak_bytes or 0)
        return self._replace(held=held, peak_bytes=peak_bytes)

    def with_residency(self, before_mono_ns: int, *, resident: bool) -> Self:
        """The account with its owner holding memory, or not any more since the cycle before."""
        account = self.live_at(before_mono_ns) if self.resident else self
        return account._replace(resident=resident)

    def due_ns(self, span: WindowSpan) -> int:
        """The core time that was allocated in a window, in the part in which it was allocated."""
        # It is what was allocated until the end of the window, less what was until the end of the
        # window before. So each ns that is allocated is of one window, however long the windows
        # are, and whenever the allocation begins, changes or ends in them.
        before_ns = self.compared_ns
        if not self.cores.shares and before_ns == self.cores.before_ns:
            return 0  # as nearly all that have no allocation
        # What was allocated in a gap between two windows was not observed, and is due in none.
        if not span.follows:
            before_ns = max(before_ns, self.cores.at(span.begin_mono_ns))
        return max(self.cores.at(span.end_mono_ns) - before_ns, 0)

    def compared_at(self, span: WindowSpan) -> int:
        """What was allocated of the core until the end of this window, in ns."""
        return max(self.compared_ns, self.cores.at(span.end_mono_ns))

    def allocated(self, to: "Shares", before_mono_ns: int, mono_ns: int) -> Self:
        """The account with other allocations from now on. It had its own in the cycle before."""
        account = self.live_at(before_mono_ns) if self.has_allocation else self
        return account._replace(
            cores=self.cores.then(to.cores, mono_ns), gpus=self.gpus.then(to.gpus, mono_ns)
        )

    def merged(self, other: "Account", mono_ns: int, until_mono_ns: int) -> Self:
        """The account with all that another one has, which is closed.

        Its owner is live when the other's is. What the other was allocated counts until a moment.
        """
        return self._replace(
            live_mono_ns=max(self.live_mono_ns, other.last_live_ns(mono_ns)),
            used_mono_ns=max(self.used_mono_ns, other.used_mono_ns),
            cores=self.cores.plus(other.cores.at(until_mono_ns)),
            gpus=self.gpus.plus(other.gpus.at(until_mono_ns)),
            counters=sum_counters(self.counters, other.counters),
            active_unix_ns=max(self.active_unix_ns or 0, other.active_unix_ns or 0) or None,
        )

    @property
    def has_allocation(self) -> bool:
        """Whether its owner has an allocation now."""
        return bool(self.cores.shares or self.gpus.shares)

    def last_live_ns(self, mono_ns: int) -> int:
        """When its owner was last live, up to the given moment."""
        # A resident, and an owner with an allocation, are live until further notice.
        is_live = self.resident or self.has_allocation
        return mono_ns if is_live else self.live_mono_ns


def sum_counters(counters: Counters, *others: Counters) -> Counters:
    """The sums of the counters of some accounts."""
    for other in others:
        counters = Counters(*map(add, counters, other))
    return counters


def opened(accounts: dict[K, Account], key: K, now: Moment) -> Account:
    """The account of this key; it is opened if there is none."""
    account = accounts.get(key)
    if account is None:
        account = accounts[key] = Account.opened(now)
    return account


class Shares(NamedTuple):
    """The shares that one owner was allocated: of the core, and what is kept from others."""

    cores: tuple[float, ...] = ()
    gpus: tuple[float, ...] = ()


NO_SHARES: Final = Shares()


def set_allocations(
    accounts: dict[K, Account], shares: Mapping[K, Shares], before_mono_ns: int, now: Moment
) -> None:
    """Sets all allocations from now on, the cycle after the given one; missing accounts are opened.

    Accounts that are not in ``shares`` get none.
    """
    for key in shares:
        opened(accounts, key, now)
    # The time allocated until now is cut to whole ns in all accounts at once, also in those whose
    # shares stay. So a sum and its parts lose the same fractions, and go on to add up.
    for key, account in accounts.items():
        if key in shares or account.has_allocation:
            shared = shares.get(key, NO_SHARES)
            accounts[key] = account.allocated(shared, before_mono_ns, now.mono_ns)
