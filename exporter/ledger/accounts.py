"""One account."""

from collections import deque
from typing import NamedTuple

from exporter.model import (
    COUNTED,
    QUANTITIES,
    Engines,
    MemoryHeld,
    Spent,
)

ENERGY = "energy"


class Moment(NamedTuple):
    """Now, on both clocks."""

    mono_ns: int
    unix_ns: int


class Account:
    """What one key has used since the account was opened: integers that only rise.

    ``recent`` holds the last windows in which something was used, for the averages; an idle
    account costs nothing.
    """

    __slots__ = (
        "active_unix_ns",
        "allocated_core_ns",
        "held",
        "live_mono_ns",
        "peak_bytes",
        "recent",
        "since_unix_ns",
        "totals",
        "used_mono_ns",
    )

    def __init__(self, now: Moment) -> None:
        self.totals: dict[str, int] = dict.fromkeys((*QUANTITIES, ENERGY, *COUNTED), 0)
        self.allocated_core_ns = 0
        self.recent: deque[tuple[int, Engines]] = deque()
        self.held: MemoryHeld | None = None
        self.peak_bytes: int | None = None
        self.since_unix_ns = now.unix_ns
        self.active_unix_ns: int | None = None
        self.live_mono_ns = now.mono_ns
        self.used_mono_ns = now.mono_ns

    def add(self, spent: Spent, now: Moment) -> None:
        """Enter what was used in one window."""
        busy = spent.busy
        used = False
        for quantity in QUANTITIES:
            amount = getattr(busy, quantity)
            if amount:
                self.totals[quantity] += amount
                used = True
        self.totals[ENERGY] += spent.energy_uj or 0
        self.used_mono_ns = now.mono_ns
        if used:
            self.recent.append((now.mono_ns, busy))
        if busy.core:
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

    def busy_since(self, quantity: str, mono_ns: int) -> int:
        """Busy ns in the windows that ended after the given moment."""
        return sum(getattr(busy, quantity) or 0 for at, busy in self.recent if at > mono_ns)

    def gone_since(self, mono_ns: int) -> bool:
        """Whether its owner has neither been there nor used anything since the given moment.

        Processes that come and go between two process lists are never there, and use all the same.
        """
        return self.live_mono_ns < mono_ns and self.used_mono_ns < mono_ns

    def forget(self, mono_ns: int) -> None:
        """Drop the windows that no average needs any more."""
        while self.recent and self.recent[0][0] <= mono_ns:
            self.recent.popleft()
