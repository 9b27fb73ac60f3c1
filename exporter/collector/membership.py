"""Whose the processes are, and where: made anew only when processes or pods changed."""

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import NamedTuple

from exporter.attribution import hold
from exporter.collector.pids import pids_of
from exporter.model import (
    CgroupIdentity,
    DeviceMemory,
    DeviceReading,
    MemoryHeld,
    Owner,
    Pod,
    PodTable,
    Unattributed,
)
from exporter.ownership import Member, member_of, owner_as
from exporter.tenancy import Residents, residents_of

_Identity = CgroupIdentity | Unattributed


class Holders(NamedTuple):
    """The memory that owners hold on a device, and who they are: None, if that is not told."""

    held: Mapping[Owner, MemoryHeld]
    residents: Residents | None


class _Distinct(NamedTuple):
    """Identities: ``same`` has one object for all that are equal, ``each`` is these objects.

    ``ids`` are those of pods and containers in them: news of pods with none of these are no news.
    """

    same: Mapping[int, _Identity]
    each: tuple[_Identity, ...]
    ids: frozenset[str]


class Membership:
    """``owners`` of all processes by pid, and the ``members`` among them: containers of pods."""

    def __init__(self) -> None:
        self.owners: Mapping[int, Owner] = {}
        self.members: Mapping[int, Member] = {}
        self._identities: Mapping[int, _Identity] = {}
        self._distinct = _Distinct({}, (), frozenset())
        self._whose: Mapping[int, tuple[Owner, Member | None]] = {}  # by id() of the distinct ones
        self._table = PodTable()
        self._by_step = False
        self._holders: dict[str, tuple[DeviceMemory, Holders]] = {}  # by device

    def update(
        self,
        identities: Mapping[int, _Identity],
        table: PodTable,
        *,
        by_step: bool = False,
    ) -> None:
        """Take in what the processes are now. Those of one container have equal identities.

        ``by_step``: see ``owner_of``.
        """
        as_before = identities is self._identities or identities == self._identities
        if as_before and table is self._table and by_step == self._by_step:
            return
        as_told = as_before and by_step == self._by_step
        if as_told and not any(map(self._concerns, table.news_since(self._table))):
            self._table = table
            return
        distinct = self._distinct if as_before else _distinct(identities)
        whose = {id(i): _whose(i, table, by_step=by_step) for i in distinct.each}
        self._table, self._by_step = table, by_step
        if as_before and whose == self._whose:
            return
        self._identities, self._distinct, self._whose = identities, distinct, whose
        self._holders = {}
        self.owners = {pid: whose[id(i)][0] for pid, i in distinct.same.items()}
        members = ((pid, whose[id(i)][1]) for pid, i in distinct.same.items())
        self.members = {pid: member for pid, member in members if member is not None}

    def _concerns(self, pod: Pod) -> bool:
        """Whether one of these processes may be in it; most news of pods is about others."""
        ids = self._distinct.ids
        return (
            pod.uid in ids
            or pod.static_hash in ids
            or any(not ids.isdisjoint(container.container_ids) for container in pod.containers)
        )

    def seen_on(self, devices: Iterable[DeviceReading]) -> dict[Member, list[str]]:
        """The devices on which each container of a pod has a process now, by UUID."""
        seen: dict[Member, list[str]] = {}
        members = self.members
        for device in devices:
            for member in {members[pid] for pid in pids_of(device) if pid in members}:
                seen.setdefault(member, []).append(device.device.uuid)
        return seen

    def holders(self, uuid: str, memory: DeviceMemory | None) -> Holders:
        """Who holds a device's memory: the same as before as long as the driver's answer is."""
        if memory is None or memory.processes is None:
            return Holders({}, None)
        known = self._holders.get(uuid)
        if known is None or known[0] is not memory:
            residents = residents_of(memory.processes, self.owners)
            known = self._holders[uuid] = memory, Holders(hold(memory, self.owners), residents)
        return known[1]


def _distinct(identities: Mapping[int, _Identity]) -> _Distinct:
    one: dict[_Identity, _Identity] = {}
    same = {pid: one.setdefault(i, i) for pid, i in identities.items()}
    slots = [
        slot
        for i in one
        if isinstance(i, CgroupIdentity)
        for slot in ((i.pod_uid, i.container_id), *i.enclosing)
    ]
    return _Distinct(same, tuple(one), frozenset(filter(None, chain.from_iterable(slots))))


def _whose(identity: _Identity, table: PodTable, *, by_step: bool) -> tuple[Owner, Member | None]:
    member = member_of(identity, table) if isinstance(identity, CgroupIdentity) else None
    return owner_as(identity, member, table, by_step=by_step), member
