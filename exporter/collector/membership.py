"""Whose the processes are, and where: made anew only when processes or pods changed."""

from collections.abc import Iterable, Mapping

from exporter.attribution import Member, hold, member_of, owner_as
from exporter.model import (
    CgroupIdentity,
    DeviceMemory,
    DeviceReading,
    MemoryHeld,
    Owner,
    PodTable,
    Unattributed,
)


class Membership:
    """``owners`` of all processes by pid, and the ``members`` among them: containers of pods."""

    def __init__(self) -> None:
        self.owners: Mapping[int, Owner] = {}
        self.members: Mapping[int, Member] = {}
        self._identities: Mapping[int, CgroupIdentity | Unattributed] = {}
        self._table = PodTable()
        self._by_step = False
        self._held: dict[str, tuple[DeviceMemory, Mapping[Owner, MemoryHeld]]] = {}  # by device

    def update(
        self,
        identities: Mapping[int, CgroupIdentity | Unattributed],
        table: PodTable,
        *,
        by_step: bool = False,
    ) -> None:
        """Take in what the processes are now. Those of one container have equal identities.

        ``by_step``: see ``owner_of``.
        """
        same = table is self._table and by_step == self._by_step
        if same and identities == self._identities:
            return
        self._table, self._by_step, self._identities = table, by_step, identities
        self._held = {}
        found = {
            identity: member_of(identity, table) if isinstance(identity, CgroupIdentity) else None
            for identity in set(identities.values())
        }
        owners = {i: owner_as(i, m, table, by_step=by_step) for i, m in found.items()}
        self.owners = {pid: owners[i] for pid, i in identities.items()}
        self.members = {pid: m for pid, i in identities.items() if (m := found[i]) is not None}

    def seen_on(self, devices: Iterable[DeviceReading]) -> dict[Member, list[str]]:
        """The devices on which each container of a pod has a process now, by UUID."""
        seen: dict[Member, list[str]] = {}
        members = self.members
        for device in devices:
            for member in {members[pid] for pid in pids_of(device) if pid in members}:
                seen.setdefault(member, []).append(device.device.uuid)
        return seen

    def held(self, uuid: str, memory: DeviceMemory) -> Mapping[Owner, MemoryHeld]:
        """The device's memory by owner: the same as before as long as the driver's answer is."""
        known = self._held.get(uuid)
        if known is None or known[0] is not memory:
            known = self._held[uuid] = memory, hold(memory, self.owners)
        return known[1]


def pids_of(device: DeviceReading) -> set[int]:
    """All processes that a reading is about."""
    pids: set[int] = set()
    if device.window:
        pids.update(p.pid for p in device.window.processes)
        pids.update(*device.window.counted.values())  # evicted ones hold nothing at the moment
    if device.memory is not None:
        pids.update(p.pid for p in device.memory.processes or ())
    return pids
