"""The book of one device: its accounts, and what is known of it."""

from collections import deque
from collections.abc import Mapping

from exporter.ledger.accounts import ENERGY, Account, Averaged, Moment
from exporter.ledger.doubts import Doubts
from exporter.model import (
    COUNTED,
    QUANTITIES,
    ContainerKey,
    Credit,
    Device,
    DeviceState,
    DeviceUsage,
    Engines,
    GroupKey,
    MemoryHeld,
    Methods,
    Owner,
    Unattributed,
    Unexplained,
    Unmeasured,
)

BLIND_CYCLES = 3  # a single failed reading says nothing yet
IDLE_ENERGY = "idle_energy"
OWNED = (*QUANTITIES, ENERGY, "memory")  # what an owner has a part of
REJECTED_WINDOWS = 10  # so many in a row with rows that cannot be true, and the others are doubted


class Book:
    """The accounts of one device: the device itself, its owners, and what has no owner."""

    __slots__ = (
        "blind_cycles",
        "credit",
        "credited",
        "device",
        "doubts",
        "has_newcomers",
        "held",
        "idle_energy_uj",
        "is_lower_bound",
        "measured",
        "met_mono_ns",
        "methods",
        "namespaces",
        "owners",
        "read_mono_ns",
        "rejected_windows",
        "state",
        "unattributed",
        "unexplained",
        "unlisted_cycles",
        "unmeasured",
        "unobserved_ns",
        "was_read",
        "whole",
        "windows",
    )

    def __init__(self, device: Device, now: Moment) -> None:
        self.device = device
        self.state = DeviceState.UP
        self.was_read = False
        self.read_mono_ns = now.mono_ns
        self.blind_cycles = 0
        self.unlisted_cycles = 0
        self.met_mono_ns = now.mono_ns
        self.measured: set[str] = set()
        self.is_lower_bound = False
        self.unmeasured: Mapping[str, Unmeasured] = {}
        self.doubts = Doubts()
        self.methods = Methods()
        self.whole = Averaged(now)
        self.unattributed: dict[Unattributed, Account] = {}
        self.owners: dict[ContainerKey | GroupKey, Averaged] = {}
        self.namespaces: dict[str, Account] = {}
        self.idle_energy_uj = 0
        self.unobserved_ns = 0
        self.rejected_windows = 0
        self.credit: Mapping[Owner, Credit] = {}
        self.credited: deque[tuple[int, int, int]] = deque()
        self.unexplained: dict[Unexplained, int] = dict.fromkeys(Unexplained, 0)
        self.windows: deque[tuple[int, int]] = deque()
        self.held: Mapping[Owner, MemoryHeld] | None = None
        self.has_newcomers = False  # owners that are not yet told what they hold

    def account(self, key: ContainerKey | GroupKey, now: Moment) -> Averaged:
        """The owner's account on this device, opened if new."""
        found = self.owners.get(key)
        if found is None:
            found = self.owners[key] = Averaged(now)
            self.has_newcomers = True
        return found

    def renew(self, now: Moment, *, residents: bool) -> None:
        """Keep those alive who hold memory; on a device long unreadable, nobody is known to."""
        for key in self.held or () if residents else ():
            if not isinstance(key, Unattributed) and key in self.owners:
                self.owners[key].live_mono_ns = now.mono_ns

    @property
    def unlisted(self) -> bool:
        """Whether the driver has not listed the processes for some cycles."""
        return self.unlisted_cycles >= BLIND_CYCLES

    @property
    def blind(self) -> Unmeasured | None:
        """Why its series are withheld: the device could not be read for some cycles, or ever."""
        patience = BLIND_CYCLES if self.was_read else 1
        return Unmeasured(self.state) if self.blind_cycles >= patience else None

    def unlist(self) -> None:
        """The driver has not listed the processes for some time: who holds what is not known."""
        self.held = None
        for account in self.owners.values():
            account.hold(None)

    def measure(self, busy: Engines) -> None:
        """Note which engines the device measured in its newest window."""
        for quantity in QUANTITIES:
            if getattr(busy, quantity) is None:
                self.measured.discard(quantity)
            else:
                self.measured.add(quantity)

    def explain(self, usage: DeviceUsage, now: Moment) -> None:
        """Note how the core time of the newest window was shared out."""
        nobody = usage.shares.get(Unattributed.NO_PID)
        given_ns = (usage.total.busy.core or 0) - ((nobody.busy.core or 0) if nobody else 0)
        self.credited.append((now.mono_ns, given_ns, usage.named_core_ns))
        self.credit = usage.credit
        for reason, core_ns in usage.unexplained.items():
            self.unexplained[reason] += core_ns

    @property
    def undertold(self) -> frozenset[str]:
        """What its owners have, and the device at least as much as them together."""
        return frozenset(self.measured & {*QUANTITIES, *COUNTED} if self.is_lower_bound else ())

    @property
    def told(self) -> frozenset[str]:
        """What is known of the device as a whole."""
        return frozenset(self.measured - self.undertold)

    @property
    def unshared(self) -> Mapping[str, Unmeasured]:
        """What cannot be told of the device's owners, and why, though the device may have it.

        Energy goes by core: without it, nobody's part is known.
        """
        reasons: dict[str, Unmeasured] = {}
        if self.rejected_windows >= REJECTED_WINDOWS:
            reasons = {q: Unmeasured.REJECTED_SAMPLES for q in QUANTITIES if q in self.measured}
        reasons |= {q: r for q, r in self.unmeasured.items() if q in OWNED}
        if self.is_lower_bound:  # who used what of it goes by core, of which some is not told
            reasons.setdefault(ENERGY, Unmeasured.READ_FAILED)
        return {ENERGY: reasons["core"], **reasons} if "core" in reasons else reasons

    @property
    def shared(self) -> set[str]:
        """What is known of each owner of the device."""
        return self.measured - self.unshared.keys()

    def observed_since(self, mono_ns: int) -> int:
        """Observed ns in the windows that ended after the given moment."""
        return sum(ns for at, ns in self.windows if at > mono_ns)

    @property
    def normalization(self) -> float | None:
        """Core time given to processes against what the driver credits them with, lately."""
        named = sum(by_driver for _, _, by_driver in self.credited)
        return sum(given for _, given, _ in self.credited) / named if named else None

    def frozen(self) -> "Book":
        """A copy for readers of rows, which no later cycle changes."""
        made = Book.__new__(Book)
        for name in Book.__slots__:  # a third of what copy.copy takes
            setattr(made, name, getattr(self, name))
        made.measured = self.measured.copy()
        made.doubts = self.doubts.frozen()
        made.whole = self.whole.frozen()
        made.unattributed = {reason: a.frozen() for reason, a in self.unattributed.items()}
        made.owners = {key: a.frozen() for key, a in self.owners.items()}
        made.namespaces = {name: a.frozen() for name, a in self.namespaces.items()}
        made.credited, made.windows = self.credited.copy(), self.windows.copy()
        made.unexplained = self.unexplained.copy()
        return made

    def forget(self, mono_ns: int) -> None:
        """Drop the windows that no average needs any more."""
        while self.windows and self.windows[0][0] <= mono_ns:
            self.windows.popleft()
        while self.credited and self.credited[0][0] <= mono_ns:
            self.credited.popleft()
        for account in (self.whole, *self.owners.values()):
            account.forget(mono_ns)
