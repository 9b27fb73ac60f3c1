"""Maps process ids to owners and devices, and groups to names; recomputed only on changes.

Who is charged for the energy that a board uses without work is the operator's choice
(``IdlePolicy``).
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from enum import StrEnum
from itertools import chain
from operator import attrgetter, is_
from typing import NamedTuple

from exporter.attribution.join import share_memory
from exporter.attribution.ownership import Member, member_of, owner_as
from exporter.attribution.tenancy import Residents, residents_of
from exporter.ledger import Allocated
from exporter.model import (
    CgroupIdentity,
    DeviceMemory,
    DeviceReading,
    GroupFacts,
    GroupKey,
    GroupMember,
    MemoryHeld,
    Owner,
    Pod,
    PodTable,
    Unattributed,
)

PARTS = 1_000_000  # of the whole device


class IdlePolicy(StrEnum):
    """The values of ``--energy.idle``."""

    UNATTRIBUTED = "unattributed"
    EQUAL = "equal"
    ALLOCATION = "allotment"


def idle_weights(
    policy: IdlePolicy, uuid: str, residents: Iterable[Owner], allocated: Iterable[Allocated]
) -> dict[Owner, int]:
    """How the idle energy of the device ``uuid`` is divided, for ``join.account``.

    Equal: each container and group among the residents, which hold a context on the device now, has
    the same part. Allocation: each container has its allocated share of the core there, at work or
    not, and none without one. The part that is not allocated stays unattributed. Where more than
    the whole is allocated, the parts are in proportion.
    """
    weights: dict[Owner, int] = {}
    if policy is IdlePolicy.EQUAL:
        weights = {owner: 1 for owner in residents if not isinstance(owner, Unattributed)}
    elif policy is IdlePolicy.ALLOCATION:
        for key, allocation in allocated:
            if allocation.device == uuid:
                weights[key] = weights.get(key, 0) + round((allocation.core or 0.0) * PARTS)
        weights[Unattributed.IDLE] = max(PARTS - sum(weights.values()), 0)
    return weights


_PID = attrgetter("pid")


class Pids:
    """The process ids of all devices; a process list is read again only when it changes."""

    def __init__(self) -> None:
        self._memories: Sequence[DeviceMemory | None] = ()
        self._listed: frozenset[int] = frozenset()

    def of(self, devices: Collection[DeviceReading]) -> frozenset[int]:
        """All processes in these readings."""
        memories = [device.memory for device in devices]
        if not all_same(memories, self._memories):
            self._memories = memories
            self._listed = frozenset[int]().union(*map(_listed, memories))
        listed, active = self._listed, _active(devices)
        return listed if listed.issuperset(active) else listed.union(active)


def pids_of(device: DeviceReading) -> set[int]:
    """All processes in a reading."""
    return _listed(device.memory) | _active((device,))


def _listed(memory: DeviceMemory | None) -> set[int]:
    return set(map(_PID, memory.processes or ())) if memory else set()


def _active(devices: Iterable[DeviceReading]) -> set[int]:
    windows = [device.window for device in devices if device.window is not None]
    active = set(map(_PID, chain.from_iterable([window.processes for window in windows])))
    for window in windows:
        active.update(*window.counted.values())  # evicted ones hold nothing at the moment
    return active


def all_same(some: Sequence[object], others: Sequence[object]) -> bool:
    """Whether these are the very same objects, one by one."""
    return len(some) == len(others) and all(map(is_, some, others))


_Identity = CgroupIdentity | Unattributed


class Holders(NamedTuple):
    """The memory that owners hold on a device, and the residents; None if they are not listed."""

    held: Mapping[Owner, MemoryHeld]
    residents: Residents | None


class _Distinct(NamedTuple):
    """The identities without duplicates: ``same`` has one object for all equal ones.

    ``each`` are these objects. ``ids`` are the ids of pods and containers in them: a change of a
    pod with none of these ids changes no owner.
    """

    same: Mapping[int, _Identity]
    each: tuple[_Identity, ...]
    ids: frozenset[str]


class ProcessOwners:
    """The ``owners`` of all processes by pid, and the ``members`` of pods among them."""

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
        """Applies new identities and pods. Processes of one container have equal identities.

        ``by_step``: see ``owner_of``.
        """
        as_before = identities is self._identities or identities == self._identities
        if as_before and table is self._table and by_step == self._by_step:
            return
        same_identities = as_before and by_step == self._by_step
        if same_identities and not any(map(self._concerns, table.news_since(self._table))):
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
        """Whether one of these processes may be in the pod; most changes are of other pods."""
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
        """The holders of a device's memory: the same object as long as the driver's answer is."""
        if memory is None or memory.processes is None:
            return Holders({}, None)
        known = self._holders.get(uuid)
        if known is None or known[0] is not memory:
            residents = residents_of(memory.processes, self.owners)
            known = self._holders[uuid] = (
                memory,
                Holders(share_memory(memory, self.owners), residents),
            )
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


_ID = re.compile(r"[0-9a-f]{64}")
SHORT_ID = 12  # digits of a container's id, as engines print it
_FIELDS = tuple(field.name for field in fields(GroupFacts))

Ask = Callable[[Mapping[GroupKey, GroupMember]], Sequence[Mapping[GroupKey, GroupFacts]]]


class GroupNames:
    """The names of groups, for as long as the ledger shows any of their series.

    They are cached, because an engine forgets a container that ends, and a job's processes go.
    """

    def __init__(self) -> None:
        self._known: dict[GroupKey, GroupFacts] = {}
        self._owners: Mapping[int, Owner] = {}
        self._members: dict[GroupKey, GroupMember] = {}  # of these owners
        self._answers: Sequence[Mapping[GroupKey, GroupFacts]] = ()
        self._staying: Collection[GroupKey] = ()
        self._named: Mapping[GroupKey, GroupFacts] = {}

    def of(
        self,
        owners: Mapping[int, Owner],
        identities: Mapping[int, CgroupIdentity | Unattributed],
        kept: Callable[[], Collection[GroupKey]],
        ask: Ask,
    ) -> Mapping[GroupKey, GroupFacts]:
        """Facts of the groups that have processes now, and of those that are ``kept``.

        The same mapping of owners has the same members, and the same answers of all sources have
        the same facts.
        """
        other_owners = owners is not self._owners
        if other_owners:
            self._owners, self._members = owners, _members(owners, identities)
        members = self._members
        if not (members or self._known):
            return self._known
        answers, staying = ask(members), kept()
        if other_owners or staying != self._staying or not all_same(answers, self._answers):
            self._answers, self._staying = answers, staying
            self._learn(answers, staying)
            self._named = {key: _named(key, facts) for key, facts in self._known.items()}
        return self._named

    def _learn(
        self, answers: Sequence[Mapping[GroupKey, GroupFacts]], staying: Collection[GroupKey]
    ) -> None:
        now = {
            key: _joined(by_path(key, member.identity), *(a[key] for a in answers if key in a))
            for key, member in self._members.items()
        }
        before = {k: facts for k, facts in self._known.items() if k in now or k in staying}
        self._known = before | {
            key: _joined(before.get(key, GroupFacts()), facts) for key, facts in now.items()
        }


def _members(
    owners: Mapping[int, Owner], identities: Mapping[int, CgroupIdentity | Unattributed]
) -> dict[GroupKey, GroupMember]:
    return {
        owner: GroupMember(pid, identity)
        for pid, owner in owners.items()
        if isinstance(owner, GroupKey) and isinstance(identity := identities[pid], CgroupIdentity)
    }


def by_path(key: GroupKey, identity: CgroupIdentity) -> GroupFacts:
    """The facts in a group's path. Pure."""
    unit = identity.unit
    if unit is None or unit.kind != "slurm":
        return GroupFacts()
    step = key.group.removeprefix(unit.name).removeprefix(".")
    return GroupFacts(slurm_job=unit.name, slurm_step=step)


def _joined(*facts: GroupFacts) -> GroupFacts:
    """All facts together; the later ones win, as far as they are known."""
    first, *others = facts
    for other in others:
        known = {name: text for name in _FIELDS if (text := getattr(other, name))}
        first = replace(first, **known)
    return first


def _named(key: GroupKey, facts: GroupFacts) -> GroupFacts:
    """The facts with a name in any case: of users their own, of containers the short id."""
    if facts.name or key.kind == "pod":
        return facts
    if key.kind in {"user", "host"}:
        return replace(facts, name=facts.user or key.group)
    own = key.group.rpartition("/")[2]
    return replace(facts, name=own[:SHORT_ID] if _ID.fullmatch(own) else key.group)
