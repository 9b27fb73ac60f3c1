"""Averages over the newest windows of a device: the counters now, less the counters then."""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from exporter.ledger.accounts import Account, Counters
from exporter.model import ContainerKey, GroupKey

OwnerKey = ContainerKey | GroupKey


class Past(NamedTuple):
    """One window, and the accounts as they were before it.

    ``accounts`` are by owner; None is the device itself. ``given_ns`` of the core time went to
    processes, for which the driver reports ``named_ns``.
    """

    ended_mono_ns: int
    observed_ns: int
    given_ns: int
    named_ns: int
    accounts: Mapping[OwnerKey | None, Account]

    def without(self, owners: Collection[OwnerKey]) -> "Past":
        """The same window without the accounts of some owners, which are closed."""
        kept = {owner: a for owner, a in self.accounts.items() if owner not in owners}
        return self._replace(accounts=kept)


Pasts = tuple[Past, ...]  # oldest first


class Since(NamedTuple):
    """The windows observed since some moment."""

    mono_ns: int
    observed_ns: int
    pasts: Pasts

    def before(self, owner: OwnerKey | None, account: Account) -> Counters:
        """The counters at that moment of an owner's account, or of the device's (None)."""
        if account.used_mono_ns > self.mono_ns:
            for past in self.pasts:
                then = past.accounts.get(owner)
                if then is not None:
                    return then.counters
        return account.counters


def since(pasts: Pasts, mono_ns: int) -> Since:
    """The windows that ended after the given moment."""
    pasts = newest(pasts, mono_ns)
    return Since(mono_ns, sum([past.observed_ns for past in pasts]), pasts)


def newest(pasts: Pasts, mono_ns: int) -> Pasts:
    """The windows that ended after the given moment."""
    old = 0
    while old < len(pasts) and pasts[old].ended_mono_ns <= mono_ns:
        old += 1
    return pasts[old:] if old else pasts


def normalization(pasts: Pasts) -> float | None:
    """Core time given to processes over what the driver reports for them; None without any."""
    named_ns = sum([past.named_ns for past in pasts])
    return sum([past.given_ns for past in pasts]) / named_ns if named_ns else None
