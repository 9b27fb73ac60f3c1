"""One device's book as seen at the end of one cycle: what is known of its owners, and why not."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import chain
from typing import Any

from exporter.ledger.accounts import ENERGY, Account, Moment, Totals
from exporter.ledger.averages import OwnerKey
from exporter.ledger.book import Book
from exporter.ledger.ledger import Allotted, Ledger
from exporter.model import (
    COUNTED,
    QUANTITIES,
    ContainerKey,
    DeviceReading,
    GroupFacts,
    GroupKey,
    Labelled,
    Pod,
    Unmeasured,
    Value,
)

RATIOS = {
    "core": "core_utilization_ratio",
    "memory_active": "memory_active_ratio",
    "encoder": "encoder_utilization_ratio",
    "decoder": "decoder_utilization_ratio",
}
COUNTERS = {
    "core": "core_seconds_total",
    "memory_active": "memory_active_seconds_total",
    "encoder": "encoder_seconds_total",
    "decoder": "decoder_seconds_total",
    ENERGY: "energy_joules_total",
    "copy": "copy_seconds_total",
    "evicted": "evicted_seconds_total",
}


@dataclass(frozen=True, slots=True)
class CycleFacts:
    """What one cycle knows beside the ledger."""

    now: Moment
    readings: Mapping[str, DeviceReading] = field(default_factory=dict)  # by device UUID
    allotted: Sequence[Allotted] = ()
    pods: Mapping[tuple[str, str], Pod] = field(default_factory=dict)  # by namespace, name
    replicas: Mapping[str, int] = field(default_factory=dict)  # of divided devices, by UUID
    shown: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # of pods, by uid
    groups: Mapping[GroupKey, GroupFacts] = field(default_factory=dict)


Columns = dict[str, Sequence[Any]]
"""By the family's name, what each row has of it; None where it has nothing."""

BY_CORE = ("core", "memory_active", ENERGY)  # known together: by the same samples, or by core

BY_CLIENT = (*QUANTITIES, *COUNTED, ENERGY)  # what is told of each of an owner's clients
NO_REASON: Labelled = {}
Names = tuple[tuple[str, str], ...]  # of values, after the quantities that they are of


class BookView:
    """A device's book as seen at the end of one cycle.

    What is asked for each owner and is the same for all of them is found out once. ``hidden`` says
    why the series of its owners must go, ``unshared`` what cannot be told of any of them and why,
    ``shared`` what can, but for those in doubt. ``told`` is what is known of the device itself.
    ``newcomers`` have no averages yet: no window has ended since they came or got their names.
    """

    def __init__(self, book: Book, ledger: Ledger, facts: CycleFacts) -> None:
        self.book = book
        self.uuid, self.index = book.device.uuid, str(book.device.index)
        self.blind = book.blind
        self.hidden = self.blind or ledger.nameless
        self.told = book.told
        self.unshared = book.unshared
        self.shared = book.measured.difference(self.unshared)
        self._since = facts.now.mono_ns - ledger.window_ns
        self._lately = book.since(self._since)
        self.observed_ns = self._lately.observed_ns
        self.newcomers = book.newcomers
        self._facts = facts
        self._doubts = book.doubts or None
        # The pods, by namespace and name, in whose accounts use stands under no container.
        self._whole_pods = {
            k[:2] for k in book.owners if isinstance(k, ContainerKey) and not k.container
        }

    def live(self, account: Account) -> bool:
        """Whether the owner was there in this cycle; else only its counters are shown.

        Without a process list, one that was active lately is there: a window does not name all.
        """
        if account.is_live(self._facts.now.mono_ns):
            return True
        return self.book.held is None and account.live_mono_ns > self._since

    def pending(self, key: OwnerKey) -> bool:
        """Whether a container's use may stand under "" for now: the pod's status lacks its id.

        Where all have their ids, one that was restarted has a new one: any without a process.
        """
        if not self._whole_pods or not isinstance(key, ContainerKey):
            return False
        if not key.container or key[:2] not in self._whole_pods:
            return False
        whole_pod = self.book.owners.get(key._replace(container=""))
        if whole_pod is None or not self.live(whole_pod):
            return False
        pod = self._facts.pods.get(key[:2])
        if pod is None:
            return False
        waiting = {c.name for c in pod.containers if not c.container_ids}
        held = self.book.owners[key].held
        return key.container in waiting if waiting else not (held and held.processes)

    def unshared_of(self, owner: OwnerKey) -> Mapping[str, Unmeasured]:
        """What cannot be told of an owner of the device, and why."""
        doubt = self._doubts.reason(owner, self._since) if self._doubts is not None else None
        if doubt is None:
            return self.unshared
        by_client = doubt is Unmeasured.READ_FAILED
        untold = [q for q in BY_CLIENT if q in self.book.measured] if by_client else BY_CORE
        return {**dict.fromkeys(untold, doubt), **self.unshared}

    def told_of(self, owner: OwnerKey | None) -> frozenset[str]:
        """What is known of an owner of the device; None: of the device itself."""
        if owner is None:
            return self.told
        if self._doubts is None:
            return self.shared
        return self.book.measured.difference(self.unshared_of(owner))

    def then_of(self, owner: OwnerKey | None, account: Account) -> Totals:
        """What an owner's account said, or the device's own, when the time of averages began."""
        return self._lately.before(owner, account)

    def use(self) -> dict[str, Value]:
        """What is known of the account of the device itself, and the averages of it."""
        account, observed_ns = self.book.whole, self.observed_ns
        values: dict[str, Value] = counters(account.totals, self.told)
        if observed_ns:
            then = self.then_of(None, account)
            for quantity, name in names(self.told)[1]:
                spent = getattr(account.totals, quantity) - getattr(then, quantity)
                values[name] = spent / observed_ns
        return values


def counters(totals: Totals, of: frozenset[str]) -> dict[str, Value]:
    """What was used of these quantities."""
    return {name: getattr(totals, quantity) for quantity, name in names(of)[0]}


@cache
def names(of: frozenset[str]) -> tuple[Names, Names]:
    """The names of what was used of these quantities, and of its averages."""
    counted = tuple((quantity, name) for quantity, name in COUNTERS.items() if quantity in of)
    return counted, tuple((quantity, name) for quantity, name in RATIOS.items() if quantity in of)


def unmeasured(*reasons: Mapping[str, Unmeasured]) -> Labelled:
    """Series that say which quantity is not measured, and why: nothing but the closed list."""
    if not any(reasons):  # as nearly always
        return NO_REASON
    return {
        (quantity, str(Unmeasured(reason))): 1
        for many in reasons
        for quantity, reason in many.items()
    }


def by_name(*each: Mapping[str, Any]) -> Columns:
    """What each row has, by name; None where it has nothing."""
    every = dict.fromkeys(chain.from_iterable(each))
    return {name: [has.get(name) for has in each] for name in every}
