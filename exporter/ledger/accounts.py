"""One account."""

from collections import deque
from typing import NamedTuple, Self, TypeVar

from exporter.model import (
    COUNTED,
    QUANTITIES,
    Engines,
    MemoryHeld,
    Spent,
)

ENERGY = "energy"

K = TypeVar("K")


class Moment(NamedTuple):
    """Now, on both clocks."""

    mono_ns: int
    unix_ns: int


class Account:
    """What one key has used since the account was opened: integers that only rise."""

    __slots__ = (
        "active_unix_ns",
        "allocated_core_ns",
        "held",
        "live_mono_ns",
        "peak_bytes",
        "since_unix_ns",
        "totals",
        "used_mono_ns",
    )

    def __init__(self, now: Moment) -> None:
        self.totals: dict[str, int] = dict.fromkeys((*QUANTITIES, ENERGY, *COUNTED), 0)
        self.allocated_core_ns = 0
        self.held: MemoryHeld | None = None
        self.peak_bytes: int | None = None
        self.since_unix_ns = now.unix_ns
        self.active_unix_ns: int | None = None
        self.live_mono_ns = now.mono_ns
        self.used_mono_ns = now.mono_ns

    def add(self, spent: Spent, now: Moment) -> None:
        """Enter what was used in one window."""
        _add(self.totals, spent.busy)
        self.totals[ENERGY] += spent.energy_uj or 0
        self.used_mono_ns = now.mono_ns
        if spent.busy.core:
            self.active_unix_ns = now.unix_ns

    def count(self, quantity: str, amount: int, now: Moment) -> None:
        """Enter what was counted in one window."""
        if amount:
            self.totals[quantity] += amount
            self.used_mono_ns = now.mono_ns

    def hold(self, held: MemoryHeld | None) -> None:
        """Set the memory held now."""
        self.held = held
        if held is not None and held.used_bytes is not None:
            self.peak_bytes = max(held.used_bytes, self.peak_bytes or 0)

    def frozen(self) -> Self:
        """What it says now, for readers of rows; it is not to be added to."""
        made = self.__class__.__new__(self.__class__)
        made.totals = self.totals.copy()
        made.allocated_core_ns = self.allocated_core_ns
        made.held, made.peak_bytes = self.held, self.peak_bytes
        made.since_unix_ns, made.active_unix_ns = self.since_unix_ns, self.active_unix_ns
        made.live_mono_ns = self.live_mono_ns
        return made

    def gone_since(self, mono_ns: int) -> bool:
        """Whether its owner has neither been there nor used anything since the given moment.

        Processes that come and go between two process lists are never there, and use all the same.
        """
        return self.live_mono_ns < mono_ns and self.used_mono_ns < mono_ns


class Averaged(Account):
    """An account that is shown as an average, too: ``lately`` is used ns by quantity.

    ``recent`` holds the windows of that time in which something was used; an idle account costs
    nothing.
    """

    __slots__ = ("lately", "recent")

    def __init__(self, now: Moment) -> None:
        super().__init__(now)
        self.lately: dict[str, int] = dict.fromkeys(QUANTITIES, 0)
        self.recent: deque[tuple[int, Engines]] = deque()

    def add(self, spent: Spent, now: Moment) -> None:
        """Enter what was used in one window."""
        super().add(spent, now)
        if _add(self.lately, spent.busy):
            self.recent.append((now.mono_ns, spent.busy))

    def frozen(self) -> Self:
        """What it says now, with its averages."""
        made = super().frozen()
        made.lately = self.lately.copy()
        return made

    def forget(self, mono_ns: int) -> None:
        """Leave out of the averages what ended at the given moment or before."""
        while self.recent and self.recent[0][0] <= mono_ns:
            _, busy = self.recent.popleft()
            for quantity in QUANTITIES:
                self.lately[quantity] -= getattr(busy, quantity) or 0


def _add(sums: dict[str, int], busy: Engines) -> bool:
    """Add to each quantity what was used; whether anything was."""
    used = False
    for quantity in QUANTITIES:
        amount = getattr(busy, quantity)
        if amount:
            sums[quantity] += amount
            used = True
    return used


def opened(accounts: dict[K, Account], key: K, now: Moment) -> Account:
    """The account of this key, opened if there is none."""
    account = accounts.get(key)
    if account is None:
        account = accounts[key] = Account(now)
    return account
