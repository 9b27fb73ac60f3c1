"""Rows of pods, namespaces and kinds of groups: accounts of their own, gauges over devices.

The pods as seen at the end of one cycle, and which of their containers count for what.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from exporter.ledger.accounts import ENERGY
from exporter.ledger.averages import OwnerKey
from exporter.ledger.ledger import Allotted
from exporter.model import ContainerKey, GroupKey, Labelled, Row, Table
from exporter.rows.allocation_rows import allocated
from exporter.rows.book_view import BookView, Columns, CycleFacts, by_name, counters
from exporter.rows.limits import PodLimit
from exporter.rows.view import View, by_quantity, of_limit, of_told, where

T = TypeVar("T", int, float)
Name = tuple[str, str]
Places = Sequence[int]
"""Where the containers of a pod stand among all, each on a device."""


class Pods:
    """Those that have or had something to do with a GPU here; a column of each thing.

    ``closed`` are the pods' own accounts: what containers used whose accounts are closed. ``parts``
    says where the containers of each stand, ``alive`` where those that are there, ``using`` where
    those of whom it is known what they use. ``live``: it is there; ``blind``: it is or should be on
    a device that cannot be read; ``told``: what it used is.
    """

    def __init__(self, view: View) -> None:
        ledger, owners = view.ledger, view.containers
        self._view, self.owners = view, owners
        self.names, self.closed = list(ledger.pods), list(ledger.pods.values())
        self._closed_totals = by_quantity([closed.totals for closed in self.closed])
        self.limits = list(map(view.limits.of_pod, self.names))
        self._whose = self._pods_of(owners.keys)
        self.parts = self._parts()
        self.alive = _only(self.parts, owners.live)
        self.using = _only(self.alive, [not pending for pending in owners.pending])
        self.live = [
            bool(alive) or view.live(closed)
            for alive, closed in zip(self.alive, self.closed, strict=True)
        ]
        self.blind = self._blind()
        self.told = [not (blind or ledger.nameless) for blind in self.blind]

    def _pods_of(self, keys: Sequence[ContainerKey]) -> Sequence[int | None]:
        """The pod of each container; None if it never used or was allotted anything."""
        numbers = {name: number for number, name in enumerate(self.names)}
        return [numbers.get(key[:2]) for key in keys]

    def _parts(self) -> Sequence[Places]:
        parts: list[list[int]] = [[] for _ in self.names]
        for place, pod in enumerate(self._whose):
            if pod is not None:
                parts[pod].append(place)
        return parts

    def _blind(self) -> list[bool]:
        if not any(seen.blind for seen in self._view.books.values()):
            return [False] * len(self.names)
        return [
            any(self._is_blind(place, limit.allotted) for place in parts)
            or _is_allotted_blind(self._view, limit.allotted)
            for parts, limit in zip(self.parts, self.limits, strict=True)
        ]

    def _is_blind(self, place: int, limits: Sequence[Allotted]) -> bool:
        """Whether a pod is, as far as is known, on a container's device that cannot be read.

        One that is allotted other devices now, and not this one, has left it: a StatefulSet's pod
        that was made anew keeps its name. But not one that had its allotment while it was still
        seen here.
        """
        seen, key = self.owners.seen[place], self.owners.keys[place]
        if not seen.blind or not (self.owners.live[place] or key in (seen.book.held or ())):
            return False
        if not limits or any(a.device in {None, seen.uuid} for _, a in limits):
            return True
        tenure = self._view.ledger.tenures.get(key[:2])
        return tenure is not None and tenure.since_mono_ns <= seen.book.read_mono_ns

    def known(self) -> list[frozenset[str]]:
        """What is known of each: on all its devices, or on any before its placement is known."""
        told = self.owners.told
        anywhere = [seen.shared for seen in self._view.books.values() if not seen.blind]
        return [
            frozenset.intersection(*[told[place] for place in alive or parts])
            if parts
            else frozenset().union(*anywhere)
            for parts, alive in zip(self.parts, self.alive, strict=True)
        ]

    def used(self, quantity: str) -> list[int]:
        """What each used of a quantity, with all of its containers."""
        used = list(self._closed_totals.get(quantity, ()))
        for pod, part in zip(self._whose, self.owners.totals.get(quantity, ()), strict=True):
            if pod is not None:
                used[pod] += part
        return used

    def last_active(self) -> list[int | None]:
        """When each last used the core of any device."""
        newest = [closed.active_unix_ns for closed in self.closed]
        for pod, account in zip(self._whose, self.owners.accounts, strict=True):
            at = account.active_unix_ns
            if pod is not None and at and at > (newest[pod] or 0):
                newest[pod] = at
        return newest

    def limited(self) -> Sequence[Places]:
        """The containers whose use is held against their pod's limit of the core."""
        return [
            self._held_against(places, limit.containers)
            for places, limit in zip(self.using, self.limits, strict=True)
        ]

    def fullness(self, held: Sequence[int | None]) -> list[float | None]:
        """What the containers of each hold, against its limit on the fullest device."""
        return [
            max(self._fullnesses(places, limit, held), default=None)
            for places, limit in zip(self.using, self.limits, strict=True)
        ]

    def _fullnesses(
        self, places: Places, limit: PodLimit, held: Sequence[int | None]
    ) -> Iterator[float]:
        for device, containers, most in limit.memory:
            here = [place for place in places if self.owners.uuids[place] == device]
            used = whole([held[place] for place in self._held_against(here, containers)])
            if used is not None and most:
                yield used / most

    def _held_against(self, places: Places, limited: Collection[str]) -> Places:
        """Those with a limit; all of them where its use or a limit is the pod's as a whole."""
        names = [self.owners.keys[place].container for place in places]
        if "" in limited or not all(names):
            return places
        return [place for place, name in zip(places, names, strict=True) if name in limited]


def summed(places: Sequence[Places], values: Sequence[T | None]) -> list[T | None]:
    """The sums over the containers of each pod; None where one is not known, or there is none."""
    return [
        values[mine[0]] if len(mine) == 1 else whole([values[place] for place in mine])
        for mine in places
    ]


def whole(parts: Sequence[T | None]) -> T | None:
    """The sum if every part is known; None if one is not, or there is none."""
    present = [part for part in parts if part is not None]
    return sum(present) if present and len(present) == len(parts) else None


def _only(places: Sequence[Places], flags: Sequence[bool]) -> Sequence[Places]:
    return [[place for place in mine if flags[place]] for mine in places]


def _is_allotted_blind(view: View, limits: Sequence[Allotted]) -> bool:
    books = (view.books.get(a.device or "") for _, a in limits)
    return any(seen is not None and seen.blind for seen in books)


def pod_rows(view: View) -> Table:
    """One row for each pod that has or had something to do with a GPU here."""
    pods = Pods(view)
    columns = {**_counters(view, pods), **_gauges(pods)}
    facts, names = view.facts, pods.names
    infos, more = _infos(facts, names)
    there = [live or blind for live, blind in zip(pods.live, pods.blind, strict=True)]
    columns["info"] = where(there, infos)
    return Table(names, columns, {"info": more})


def _infos(
    facts: CycleFacts, names: Iterable[Name]
) -> tuple[Sequence[Labelled | None], Sequence[Mapping[str, str] | None]]:
    """What the pods are, as far as it is known, and the labels that they show."""
    pods = [facts.pods.get(name) for name in names]
    infos: list[Labelled | None] = [
        {(pod.uid, pod.qos, pod.owner_kind, pod.owner_name): 1} if pod else None for pod in pods
    ]
    return infos, [facts.shown.get(pod.uid) if pod else None for pod in pods]


def _counters(view: View, pods: Pods) -> Columns:
    columns: Columns = {}
    known = pods.known()
    for quantity, name in (("core", "core_seconds_total"), (ENERGY, "energy_joules_total")):
        columns[name] = where(pods.told, of_told(quantity, known, pods.used(quantity)))
    columns["allocated_core_seconds_total"] = where(
        pods.told, allocated(view, pods.closed, pods.limits)
    )
    return columns


def _gauges(pods: Pods) -> Columns:
    """Core against the limited containers only; memory against the fullest device."""
    cores, held = pods.owners.cores(), pods.owners.memory_bytes()
    limited = summed(pods.limited(), cores)
    columns: Columns = {
        "core_usage_gpus": summed(pods.using, cores),
        "memory_used_bytes": summed(pods.using, held),
        "core_limit_utilization_ratio": [
            of_limit(core, limit.core) for core, limit in zip(limited, pods.limits, strict=True)
        ],
        "memory_limit_utilization_ratio": pods.fullness(held),
        "last_active_timestamp_seconds": pods.last_active(),
        **by_name(*[limit.shown for limit in pods.limits]),
    }
    shown = [told and live for told, live in zip(pods.told, pods.live, strict=True)]
    return {name: where(shown, values) for name, values in columns.items()}


def namespace_rows(view: View) -> Iterable[Row]:
    """One row for each namespace on each device whose owners are measured."""
    return _sums(view, ContainerKey)


def group_kind_rows(view: View) -> Iterable[Row]:
    """One row for each kind of group on each device whose owners are measured."""
    return _sums(view, GroupKey)


def _sums(view: View, of: type[OwnerKey]) -> Iterable[Row]:
    for seen in view.books.values():
        if seen.hidden:
            continue
        for name, totals in seen.book.sums(of).items():
            yield Row((name, seen.uuid), counters(totals, _shared_in(seen, of, name)))


def _shared_in(seen: BookView, of: type[OwnerKey], name: str) -> frozenset[str]:
    """What is known of all owners of a namespace, or of a kind, on the device."""
    shared = seen.shared
    for owner in seen.book.doubts:
        if isinstance(owner, of) and owner[0] == name:
            shared = shared.difference(seen.unshared_of(owner))
    return shared
