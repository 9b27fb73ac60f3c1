"""Rows of pods, namespaces and kinds of groups: their own counters, and gauges over devices."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from exporter.ledger.accounts import ENERGY
from exporter.ledger.device_ledger import OwnerKey
from exporter.ledger.ledger import Allocated
from exporter.model import ContainerKey, GroupKey, Labelled, Row, Table
from exporter.rows.allocation_rows import allocated_core_ns
from exporter.rows.device_view import Columns, CycleFacts, DeviceView, by_name, counter_values
from exporter.rows.limits import PodLimit
from exporter.rows.view import View, by_quantity, of_known, of_limit, where

T = TypeVar("T", int, float)
_ALLOCATED = "allocated_core_seconds_total"
Name = tuple[str, str]
Places = Sequence[int]
"""Where the containers of a pod stand among all, each on a device."""


class Pods:
    """The pods with any account here; one column for each thing known of them.

    ``closed`` are the pods' own accounts: the counters of closed accounts of containers. ``parts``
    are the places of each pod's containers, ``alive`` of those that are there, ``using`` of those
    whose use is known. ``live``: the pod is there. ``stale``: it is, or should be, on a device that
    cannot be read. ``measured``: its use is known.
    """

    def __init__(self, view: View) -> None:
        ledger, owners = view.ledger, view.containers
        self._view, self.owners = view, owners
        self.names, self.closed = list(ledger.pods), list(ledger.pods.values())
        self._closed_counters = by_quantity([closed.counters for closed in self.closed])
        self.limits = list(map(view.limits.of_pod, self.names))
        self._whose = self._pods_of(owners.keys)
        self.parts = self._parts()
        self.alive = _only(self.parts, owners.live)
        self.using = _only(self.alive, [not pending for pending in owners.pending])
        self.live = [
            bool(alive) or view.live(closed)
            for alive, closed in zip(self.alive, self.closed, strict=True)
        ]
        self.stale = self._stale()
        self.measured = [not (stale or ledger.unidentified) for stale in self.stale]

    def _pods_of(self, keys: Sequence[ContainerKey]) -> Sequence[int | None]:
        """The pod of each container; None if it never used or was allocated anything."""
        numbers = {name: number for number, name in enumerate(self.names)}
        return [numbers.get(key[:2]) for key in keys]

    def _parts(self) -> Sequence[Places]:
        parts: list[list[int]] = [[] for _ in self.names]
        for place, pod in enumerate(self._whose):
            if pod is not None:
                parts[pod].append(place)
        return parts

    def _stale(self) -> list[bool]:
        if not any(seen.stale for seen in self._view.devices.values()):
            return [False] * len(self.names)
        return [
            any(self._is_stale(place, limit.allocated) for place in parts)
            or _is_allocated_stale(self._view, limit.allocated)
            for parts, limit in zip(self.parts, self.limits, strict=True)
        ]

    def _is_stale(self, place: int, limits: Sequence[Allocated]) -> bool:
        """Whether a pod is, as far as is known, on a container's device that cannot be read.

        A pod that now has allocations on other devices only has left this one: a StatefulSet's pod
        that was created again keeps its name. A pod that had its allocation while it was still seen
        here has not.
        """
        seen, key = self.owners.seen[place], self.owners.keys[place]
        if not seen.stale or not (
            self.owners.live[place] or key in (seen.device_ledger.held or ())
        ):
            return False
        if not limits or any(a.device in {None, seen.uuid} for _, a in limits):
            return True
        tenure = self._view.ledger.tenures.get(key[:2])
        return tenure is not None and tenure.since_mono_ns <= seen.device_ledger.read_mono_ns

    def known(self) -> list[frozenset[str]]:
        """The quantities known of each pod: on all its devices, or on any before it is placed."""
        known = self.owners.known
        anywhere = [seen.attributable for seen in self._view.devices.values() if not seen.stale]
        return [
            frozenset.intersection(*[known[place] for place in alive or parts])
            if parts
            else frozenset().union(*anywhere)
            for parts, alive in zip(self.parts, self.alive, strict=True)
        ]

    def used(self, quantity: str) -> list[int]:
        """The use of a quantity by each pod, over all of its containers."""
        used = list(self._closed_counters.get(quantity, ()))
        for pod, part in zip(self._whose, self.owners.counters.get(quantity, ()), strict=True):
            if pod is not None:
                used[pod] += part
        return used

    def last_active(self) -> list[int | None]:
        """When each pod last used the core of any device."""
        newest = [closed.active_unix_ns for closed in self.closed]
        for pod, account in zip(self._whose, self.owners.accounts, strict=True):
            at = account.active_unix_ns
            if pod is not None and at and at > (newest[pod] or 0):
                newest[pod] = at
        return newest

    def limited(self) -> Sequence[Places]:
        """The containers whose use is compared with their pod's limit of the core."""
        return [
            self._held_against(places, limit.containers)
            for places, limit in zip(self.using, self.limits, strict=True)
        ]

    def fullness(self, held: Sequence[int | None]) -> list[float | None]:
        """The memory of each pod's containers over its limit, on the fullest device."""
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
        """The containers with a limit; all of them where a use or a limit is the whole pod's."""
        names = [self.owners.keys[place].container for place in places]
        if "" in limited or not all(names):
            return places
        return [place for place, name in zip(places, names, strict=True) if name in limited]


def summed(places: Sequence[Places], values: Sequence[T | None]) -> list[T | None]:
    """The sums over the containers of each pod; None where one is unknown, or there is none."""
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


def _is_allocated_stale(view: View, limits: Sequence[Allocated]) -> bool:
    devices = (view.devices.get(a.device or "") for _, a in limits)
    return any(seen is not None and seen.stale for seen in devices)


def pod_rows(view: View) -> Table:
    """One row for each pod with any account here."""
    pods = Pods(view)
    columns = {**_counters(view, pods), **_gauges(pods)}
    facts, names = view.facts, pods.names
    infos, more = _infos(facts, names)
    there = [live or stale for live, stale in zip(pods.live, pods.stale, strict=True)]
    columns["info"] = where(there, infos)
    return Table(names, columns, {"info": more})


def _infos(
    facts: CycleFacts, names: Iterable[Name]
) -> tuple[Sequence[Labelled | None], Sequence[Mapping[str, str] | None]]:
    """The owners of the pods, as far as they are known, and the labels that they show."""
    pods = [facts.pods.get(name) for name in names]
    infos: list[Labelled | None] = [
        {(pod.uid, pod.qos, pod.owner_kind, pod.owner_name): 1} if pod else None for pod in pods
    ]
    return infos, [facts.shown.get(pod.uid) if pod else None for pod in pods]


def _counters(view: View, pods: Pods) -> Columns:
    columns: Columns = {}
    known = pods.known()
    for quantity, name in (("core", "core_seconds_total"), (ENERGY, "energy_joules_total")):
        columns[name] = where(pods.measured, of_known(quantity, known, pods.used(quantity)))
    limited = list(map(view.ledger.limited_core_ns.get, pods.names))
    columns["limited_core_seconds_total"] = where(pods.measured, of_known("core", known, limited))
    columns[_ALLOCATED] = where(pods.measured, allocated_core_ns(view, pods.closed, pods.limits))
    return columns


def _gauges(pods: Pods) -> Columns:
    """The gauges of pods: core over limited containers only, memory on the fullest device."""
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
    shown = [measured and live for measured, live in zip(pods.measured, pods.live, strict=True)]
    return {name: where(shown, values) for name, values in columns.items()}


def namespace_rows(view: View) -> Iterable[Row]:
    """One row for each namespace on each device whose owners are measured.

    The core allocated to it is under the device "" while its device is unknown.
    """
    accounts, now_ns = view.ledger.namespaces, view.facts.now.mono_ns
    allocated: dict[tuple[str, ...], int] = {
        part: account.allocated_core_ns(now_ns)
        for part, account in accounts.items()
        if any(account.cores.shares) or account.allocated_core_ns(now_ns)
    }
    for row in _sums(view, ContainerKey):
        core_ns = allocated.get(row.labels)
        yield row if core_ns is None else Row(row.labels, {**row.values, _ALLOCATED: core_ns})
    if not view.ledger.unidentified:
        for part, core_ns in allocated.items():
            if not part[1]:
                yield Row(part, {_ALLOCATED: core_ns})


def group_kind_rows(view: View) -> Iterable[Row]:
    """One row for each kind of group on each device whose owners are measured."""
    return _sums(view, GroupKey)


def _sums(view: View, of: type[OwnerKey]) -> Iterable[Row]:
    for seen in view.devices.values():
        if seen.withheld:
            continue
        for name, counters in seen.device_ledger.sums(of).items():
            known = _attributable_in(seen, of, name)
            yield Row((name, seen.uuid), counter_values(counters, known))


def _attributable_in(seen: DeviceView, of: type[OwnerKey], name: str) -> frozenset[str]:
    """The quantities known of all owners of a namespace, or of a kind, on the device."""
    attributable = seen.attributable
    for owner in seen.device_ledger.uncertain:
        if isinstance(owner, of) and owner[0] == name:
            attributable = attributable.difference(seen.unattributable_of(owner))
    return attributable
