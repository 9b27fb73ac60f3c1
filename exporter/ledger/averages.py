"""Averages over the newest windows of a device: what its accounts say now, less what they said."""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from exporter.ledger.accounts import Account, Totals
from exporter.model import ContainerKey, GroupKey

OwnerKey = ContainerKey | GroupKey


class Past(NamedTuple):
    """One window, and what the accounts that it was entered into said before it.

    ``accounts``: by owner; None: the device itself. ``given_ns`` of its core time went to
    processes, where the driver credits them with ``named_ns``.
    """

    ended_mono_ns: int
    observed_ns: int
    given_ns: int
    named_ns: int
    accounts: Mapping[OwnerKey | None, Account]

    def without(self, owners: Collection[OwnerKey]) -> "Past":
        """Without the accounts of some owners, which are closed."""
        kept = {owner: a for owner, a in self.accounts.items() if owner not in owners}
        return self._replace(accounts=kept)


Pasts = tuple[Past, ...]  # oldest first


class Since(NamedTuple):
    """What was observed since some moment."""

    mono_ns: int
    observed_ns: int
    pasts: Pasts

    def before(self, owner: OwnerKey | None, account: Account) -> Totals:
        """The totals then of an account, which is the owner's, or the device's (None)."""
        if account.used_mono_ns > self.mono_ns:
            for past in self.pasts:
                then = past.accounts.get(owner)
                if then is not None:
                    return then.totals
        return account.totals


def since(pasts: Pasts, mono_ns: int) -> Since:
    """Over the windows that ended after the given moment."""
    pasts = newest(pasts, mono_ns)
    return Since(mono_ns, sum([past.observed_ns for past in pasts]), pasts)


def newest(pasts: Pasts, mono_ns: int) -> Pasts:
    """Those that ended after the given moment."""
    old = 0
    while old < len(pasts) and pasts[old].ended_mono_ns <= mono_ns:
        old += 1
    return pasts[old:] if old else pasts


def normalization(pasts: Pasts) -> float | None:
    """Core time given to processes against what the driver credits them with; None: with none."""
    named_ns = sum([past.named_ns for past in pasts])
    return sum([past.given_ns for past in pasts]) / named_ns if named_ns else None
