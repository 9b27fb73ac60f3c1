"""One account."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, Self, TypeVar

from exporter.model import MemoryHeld, Spent

ENERGY = "energy"

K = TypeVar("K")


class Totals(NamedTuple):
    """What was used of each quantity, in ns, of ``ENERGY``, in µJ, and of what is ``COUNTED``."""

    core: int = 0
    memory_active: int = 0
    encoder: int = 0
    decoder: int = 0
    energy: int = 0
    copy: int = 0
    evicted: int = 0


NOTHING: Final = Totals()


class Moment(NamedTuple):
    """Now, on both clocks."""

    mono_ns: int
    unix_ns: int


class Account(NamedTuple):
    """What one key has used since the account was opened: integers that only rise.

    It is a value: what is entered makes another one, so that whoever was given this one may keep
    it, and an account of which there is no news costs nothing.

    ``cores``: the parts of a core that it is allotted, since ``cores_mono_ns``; ``earned_ns`` is
    the core time allotted before. ``resident``: it is known to hold memory. ``live_mono_ns``: when
    it was last there, if it is neither allotted anything nor resident. ``used_mono_ns``: when it
    last used anything; this and what follows it is what a window changes.
    """

    since_unix_ns: int
    live_mono_ns: int
    held: MemoryHeld | None = None
    peak_bytes: int | None = None
    resident: bool = False
    cores: tuple[float, ...] = ()
    cores_mono_ns: int = 0
    earned_ns: int = 0
    used_mono_ns: int = 0
    active_unix_ns: int | None = None
    totals: Totals = NOTHING

    @classmethod
    def opened(cls, now: Moment) -> Self:
        """A new one, whose owner is there now."""
        return cls(now.unix_ns, now.mono_ns, used_mono_ns=now.mono_ns)

    def entered(self, spent: Spent, now: Moment) -> Self:
        """With what was used in one window."""
        (core, memory_active, encoder, decoder), energy_uj = spent
        cores, memory_actives, encoders, decoders, energy, copy, evicted = self.totals
        totals = Totals(
            cores + (core or 0),
            memory_actives + (memory_active or 0),
            encoders + (encoder or 0),
            decoders + (decoder or 0),
            energy + (energy_uj or 0),
            copy,
            evicted,
        )
        active_unix_ns = now.unix_ns if core else self.active_unix_ns
        return type(self)(*self[:-3], now.mono_ns, active_unix_ns, totals)

    def counting(self, quantity: str, amount: int, now: Moment) -> Self:
        """With what was counted in one window."""
        if not amount:
            return self
        totals = self.totals._replace(**{quantity: getattr(self.totals, quantity) + amount})
        return self._replace(totals=totals, used_mono_ns=now.mono_ns)

    def seen(self, mono_ns: int) -> Self:
        """With its owner there at the given moment."""
        return self._replace(live_mono_ns=max(self.live_mono_ns, mono_ns))

    def holding(self, held: MemoryHeld | None) -> Self:
        """With the memory held now."""
        peak_bytes = self.peak_bytes
        if held is not None and held.used_bytes is not None:
            peak_bytes = max(held.used_bytes, peak_bytes or 0)
        return self._replace(held=held, peak_bytes=peak_bytes)

    def residing(self, before_mono_ns: int, *, resident: bool) -> Self:
        """Known to hold memory, or not any more since the cycle before."""
        account = self.seen(before_mono_ns) if self.resident else self
        return account._replace(resident=resident)

    def allotted(self, cores: tuple[float, ...], since_mono_ns: int) -> Self:
        """With other allotments from the given moment on."""
        earned_ns = self.allocated_core_ns(since_mono_ns)
        account = self.seen(since_mono_ns) if self.cores else self
        return account._replace(cores=cores, cores_mono_ns=since_mono_ns, earned_ns=earned_ns)

    def allocated_core_ns(self, mono_ns: int) -> int:
        """The core time that it was allotted until the given moment."""
        elapsed_ns = mono_ns - self.cores_mono_ns
        allocated_ns = self.earned_ns
        for core in self.cores:
            allocated_ns += int(core * elapsed_ns)
        return allocated_ns

    def joined(self, other: "Account", mono_ns: int) -> Self:
        """With what another one used; there when the other is, until the given moment."""
        there_mono_ns = mono_ns if other.lasts else other.live_mono_ns
        return self._replace(
            live_mono_ns=max(self.live_mono_ns, there_mono_ns),
            used_mono_ns=max(self.used_mono_ns, other.used_mono_ns),
            totals=added(self.totals, other.totals),
            active_unix_ns=max(self.active_unix_ns or 0, other.active_unix_ns or 0) or None,
        )

    @property
    def lasts(self) -> bool:
        """Whether its owner is there until further notice."""
        return self.resident or bool(self.cores)

    def is_live(self, mono_ns: int) -> bool:
        """Whether its owner is there in the cycle of the given moment."""
        return self.resident or bool(self.cores) or self.live_mono_ns == mono_ns

    def last_sign_ns(self, mono_ns: int) -> int:
        """When, up to the given moment, its owner was last there or used anything.

        Processes that come and go between two process lists are never there, and use all the same.
        """
        return mono_ns if self.lasts else max(self.live_mono_ns, self.used_mono_ns)


def added(*totals: Totals) -> Totals:
    """The totals of some accounts together."""
    return Totals(*map(sum, zip(*totals, strict=True)))


def opened(accounts: dict[K, Account], key: K, now: Moment) -> Account:
    """The account of this key, opened if there is none."""
    account = accounts.get(key)
    if account is None:
        account = accounts[key] = Account.opened(now)
    return account


def changed(accounts: Mapping[K, Account], cores: Mapping[K, Sequence[float]]) -> list[K]:
    """Those that are allotted something else than before."""
    return [key for key, account in accounts.items() if tuple(cores.get(key, ())) != account.cores]


def allot(
    accounts: dict[K, Account],
    cores: Mapping[K, Sequence[float]],
    since_mono_ns: int,
    now: Moment,
    is_cut: Callable[[K], bool],
) -> None:
    """Set what each is allotted from the given moment on, opened if need be; the rest nothing.

    One that is allotted the same goes on as it was, unless it is cut with others: what it earned
    until then is whole ns, and a sum and its parts are to lose the same fractions.
    """
    for key in cores:
        opened(accounts, key, now)
    for key, account in accounts.items():
        mine = tuple(cores.get(key, ()))
        if mine != account.cores or (mine and is_cut(key)):
            accounts[key] = account.allotted(mine, since_mono_ns)
