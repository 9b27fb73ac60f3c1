"""The view that facts are built from: the ledger at the end of one cycle, and the cycle's facts."""

from collections.abc import Mapping
from functools import cached_property
from typing import Generic, NamedTuple, TypeVar

from exporter.facts.device_view import CycleFacts, DeviceView, used
from exporter.facts.limits import Limits
from exporter.ledger.accounts import Account
from exporter.ledger.ledger import Ledger
from exporter.model import (
    NO_AVERAGES,
    NOTHING_USED,
    Averages,
    ContainerKey,
    GroupKey,
    HeldMemory,
    Unmeasured,
    Used,
)

K = TypeVar("K", ContainerKey, GroupKey)


class Part(NamedTuple, Generic[K]):
    """One owner on one device, whether or not it is shown.

    ``live``: it was there in this cycle; otherwise only its counters are shown. ``pending``: its
    use may be under its pod. ``withheld``: why its figures are withheld, None if they are shown.
    ``known`` are its known quantities, ``unattributable`` the others with reasons.
    """

    seen: DeviceView
    key: K
    account: Account
    live: bool
    pending: bool
    withheld: Unmeasured | None
    known: frozenset[str]
    unattributable: Mapping[str, Unmeasured]
    average: Averages

    @property
    def shown(self) -> bool:
        """Whether its gauges are shown."""
        return self.live and self.withheld is None

    @property
    def there(self) -> bool:
        """Whether it is there, or was when its device could still be read."""
        is_held = self.withheld is not None and self.key in (self.seen.device_ledger.held or ())
        return self.live or is_held

    @property
    def memory_bytes(self) -> int | None:
        """The device memory that it holds now; None: unknown."""
        return self.account.held.used_bytes if self.account.held else None

    @property
    def memory(self) -> HeldMemory:
        """The memory that it holds now."""
        account = self.account
        if account.held is None:
            return HeldMemory(peak_bytes=account.peak_bytes)
        return HeldMemory(account.held.used_bytes, account.peak_bytes, account.held.processes)

    @property
    def used(self) -> Used:
        """Its known counters, unless they are withheld."""
        return NOTHING_USED if self.withheld else used(self.account.counters, self.known)


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
        return self.facts.limits or Limits(self.facts.allocated, self.ledger.devices)

    @cached_property
    def ended(self) -> Limits:
        """The last allocations of pods that have ended."""
        return Limits(self.facts.ended, ())

    @cached_property
    def containers(self) -> list[Part[ContainerKey]]:
        """Each container on each device."""
        return self._parts(ContainerKey)

    @cached_property
    def groups(self) -> list[Part[GroupKey]]:
        """Each group on each device."""
        return self._parts(GroupKey)

    @cached_property
    def has_instances(self) -> bool:
        """Whether any device is a part of a board."""
        return any(seen.device_ledger.device.parent_uuid for seen in self.devices.values())

    @cached_property
    def has_stale(self) -> bool:
        """Whether any device cannot be read."""
        return any(seen.stale for seen in self.devices.values())

    def live(self, account: Account) -> bool:
        """Whether the owner was there in this cycle, on any device."""
        return account.is_live(self.facts.now.mono_ns)

    def _parts(self, kind: type[K]) -> list[Part[K]]:
        return [
            _part(seen, key, account)
            for seen in self.devices.values()
            for key, account in seen.device_ledger.owners.items()
            if isinstance(key, kind)
        ]


def _part(seen: DeviceView, key: K, account: Account) -> Part[K]:
    live, pending = seen.live(account), seen.pending(key)
    withheld = seen.withheld or (Unmeasured.CONTAINER_PENDING if live and pending else None)
    known = seen.known_of(key)
    is_new = key in seen.newcomers
    average = NO_AVERAGES if is_new else seen.average_of(key, account, known)
    unattributable = seen.unattributable_of(key)
    return Part(seen, key, account, live, pending, withheld, known, unattributable, average)
