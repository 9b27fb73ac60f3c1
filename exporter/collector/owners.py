"""The owners of all processes on the devices, computed in each cycle. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from exporter.attribution.join import share_memory
from exporter.attribution.ownership import Member, member_of, owner_as
from exporter.attribution.tenancy import Residents, residents_of
from exporter.model import (
    CgroupIdentity,
    DeviceMemory,
    DeviceReading,
    MemoryHeld,
    Owner,
    PodTable,
    Unattributed,
)


def pids_of(devices: Iterable[DeviceReading]) -> set[int]:
    """All processes in these readings: those that hold memory, worked, or were evicted."""
    pids: set[int] = set()
    for device in devices:
        if device.memory is not None:
            pids.update([process.pid for process in device.memory.processes or ()])
        if device.window is not None:
            pids.update([process.pid for process in device.window.processes])
            pids.update(*device.window.counted.values())  # evicted ones hold nothing at the moment
    return pids


class Holders(NamedTuple):
    """The memory that owners hold on a device, and the residents; None if they are not listed."""

    held: Mapping[Owner, MemoryHeld]
    residents: Residents | None


@dataclass(frozen=True, slots=True)
class ProcessOwners:
    """The ``owners`` of all processes by pid, and the ``members`` of pods among them."""

    owners: Mapping[int, Owner]
    members: Mapping[int, Member]

    def seen_on(self, devices: Iterable[DeviceReading]) -> dict[Member, list[str]]:
        """The devices on which each container of a pod has a process now, by UUID."""
        seen: dict[Member, list[str]] = {}
        members = self.members
        for device in devices:
            for member in {members[pid] for pid in pids_of((device,)) if pid in members}:
                seen.setdefault(member, []).append(device.device.uuid)
        return seen

    def holders(self, memory: DeviceMemory | None) -> Holders:
        """The holders of a device's memory."""
        if memory is None or memory.processes is None:
            return Holders({}, None)
        residents = residents_of(memory.processes, self.owners)
        return Holders(share_memory(memory, self.owners), residents)


def owners_of(
    identities: Mapping[int, CgroupIdentity | Unattributed],
    table: PodTable,
    *,
    by_step: bool = False,
) -> ProcessOwners:
    """The owners of processes with these identities. ``by_step``: see ``owner_of``."""
    owners: dict[int, Owner] = {}
    members: dict[int, Member] = {}
    for pid, identity in identities.items():
        member = member_of(identity, table) if isinstance(identity, CgroupIdentity) else None
        owners[pid] = owner_as(identity, member, table, by_step=by_step)
        if member is not None:
            members[pid] = member
    return ProcessOwners(owners, members)
