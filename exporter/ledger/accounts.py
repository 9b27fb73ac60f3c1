"""The account of one owner, pod or device: its counters, and since when its owner is there."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, Self, TypeVar

from exporter.model import MemoryHeld, Spent

ENERGY = "energy"

K = TypeVar("K")


class Counters(NamedTuple):
    """The counters of one account: busy ns by engine, µJ of ``ENERGY``, ns of ``COUNTED``."""

    core: int = 0
    memory_active: int = 0
    encoder: int = 0
    decoder: int = 0
    energy: int = 0
    copy: int = 0
    evicted: int = 0


NOTHING: Final = Counters()


class Moment(NamedTuple):
    """Now, on both clocks."""

    mono_ns: int
    unix_ns: int


class Account(NamedTuple):
    """The use of one key since the account was opened: integers that only rise.

    It is immutable: a window makes another one, so readers may keep what they were given.

    ``cores``: the shares of a core allocated since ``cores_mono_ns``. ``allocated_before_ns``: the
    core time allocated before that. ``resident``: it is known to hold memory. ``live_mono_ns``:
    when the owner was last there, if it has no allocation and is not resident. ``used_mono_ns``:
    when it last used anything. A window changes this field and those after it.
    """

    since_unix_ns: int
    live_mono_ns: int
    held: MemoryHeld | None = None
    peak_bytes: int | None = None
    resident: bool = False
    cores: tuple[float, ...] = ()
    cores_mono_ns: int = 0
    allocated_before_ns: int = 0
    used_mono_ns: int = 0
    active_unix_ns: int | None = None
    counters: Counters = NOTHING

    @classmethod
    def opened(cls, now: Moment) -> Self:
        """A new account whose owner is there now."""
        return cls(now.unix_ns, now.mono_ns, used_mono_ns=now.mono_ns)

    def add_window(self, spent: Spent, now: Moment) -> Self:
        """The account with the use of one more window."""
        (core, memory_active, encoder, decoder), energy_uj = spent
        cores, memory_actives, encoders, decoders, energy, copy, evicted = self.counters
        counters = Counters(
            cores + (core or 0),
            memory_actives + (memory_active or 0),
            encoders + (encoder or 0),
            decoders + (decoder or 0),
            energy + (energy_uj or 0),
            copy,
            evicted,
        )
        active_unix_ns = now.unix_ns if core else self.active_unix_ns
        return type(self)(*self[:-3], now.mono_ns, active_unix_ns, counters)

    def add_count(self, quantity: str, amount: int, now: Moment) -> Self:
        """The account with what one more window counted."""
        if not amount:
            return self
        counters = self.counters._replace(**{quantity: getattr(self.counters, quantity) + amount})
        return self._replace(counters=counters, used_mono_ns=now.mono_ns)

    def seen(self, mono_ns: int) -> Self:
        """The account with its owner there at the given moment."""
        return self._replace(live_mono_ns=max(self.live_mono_ns, mono_ns))

    def with_memory(self, held: MemoryHeld | None) -> Self:
        """The account with the memory held now."""
        peak_bytes = self.peak_bytes
        if held is not None and held.used_bytes is not None:
            peak_bytes = max(held.used_bytes, peak_bytes or 0)
        return self._replace(held=held, peak_bytes=peak_bytes)

    def with_residency(self, before_mono_ns: int, *, resident: bool) -> Self:
        """The account with its owner holding memory, or not any more since the cycle before."""
        account = self.seen(before_mono_ns) if self.resident else self
        return account._replace(resident=resident)

    def allocated(self, cores: tuple[float, ...], since_mono_ns: int) -> Self:
        """The account with other allocations from the given moment on."""
        allocated_before_ns = self.allocated_core_ns(since_mono_ns)
        account = self.seen(since_mono_ns) if self.cores else self
        return account._replace(
            cores=cores, cores_mono_ns=since_mono_ns, allocated_before_ns=allocated_before_ns
        )

    def allocated_core_ns(self, mono_ns: int) -> int:
        """The core time allocated until the given moment, in ns."""
        elapsed_ns = mono_ns - self.cores_mono_ns
        allocated_ns = self.allocated_before_ns
        for core in self.cores:
            allocated_ns += int(core * elapsed_ns)
        return allocated_ns

    def merged(self, other: "Account", mono_ns: int) -> Self:
        """The account with the use of another one; its owner is there when the other's is."""
        there_mono_ns = mono_ns if other.lasts else other.live_mono_ns
        return self._replace(
            live_mono_ns=max(self.live_mono_ns, there_mono_ns),
            used_mono_ns=max(self.used_mono_ns, other.used_mono_ns),
            counters=sum_counters(self.counters, other.counters),
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
        """When its owner was last there or used anything, up to the given moment.

        Processes that start and end between two process lists are never there, but they do use the
        device.
        """
        return mono_ns if self.lasts else max(self.live_mono_ns, self.used_mono_ns)


def sum_counters(*counters: Counters) -> Counters:
    """The sums of the counters of some accounts."""
    return Counters(*map(sum, zip(*counters, strict=True)))


def opened(accounts: dict[K, Account], key: K, now: Moment) -> Account:
    """The account of this key; it is opened if there is none."""
    account = accounts.get(key)
    if account is None:
        account = accounts[key] = Account.opened(now)
    return account


def changed(accounts: Mapping[K, Account], cores: Mapping[K, Sequence[float]]) -> list[K]:
    """The keys whose allocations differ from those before."""
    before = {key: account.cores for key, account in accounts.items() if account.cores}
    keys = before.keys() | cores.keys()
    return [key for key in keys if tuple(cores.get(key, ())) != before.get(key, ())]


def set_allocations(
    accounts: dict[K, Account],
    cores: Mapping[K, Sequence[float]],
    since_mono_ns: int,
    now: Moment,
    is_cut: Callable[[K], bool],
) -> None:
    """Sets all allocations from the given moment on; missing accounts are opened.

    Accounts that are not in ``cores`` get none. An account with the same allocations is left as it
    is, unless ``is_cut``: the core time allocated until then is cut to whole ns, and a sum and its
    parts must lose the same fractions.
    """
    for key in cores:
        opened(accounts, key, now)
    for key, account in accounts.items():
        mine = tuple(cores.get(key, ()))
        if mine != account.cores or (mine and is_cut(key)):
            accounts[key] = account.allocated(mine, since_mono_ns)
