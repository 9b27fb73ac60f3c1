"""The join: a device's window and memory, and the owners of its processes → use by owner. Pure.

Every nanosecond, microjoule and byte of a device ends in exactly one place: a container, a group,
or a reason why it has no owner. ``attribution.shares`` divides busy time; docs/accuracy.md measures
how well.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain, repeat
from typing import NamedTuple

from exporter.agent.attribution.shares import apportion, reported_time, share_averages, share_core
from exporter.model import (
    QUANTITIES,
    Allocation,
    CgroupMemory,
    ContainerKey,
    Device,
    DeviceMemory,
    DeviceUsage,
    Engines,
    GroupKey,
    MemoryHeld,
    Owner,
    ProcessMemory,
    Unattributed,
    Used,
    Window,
)


def account(
    device: Device,
    window: Window,
    owners: Mapping[int, Owner],
    idle_weights: Mapping[Owner, int] | None = None,
) -> DeviceUsage:
    """Divides one window of a device among the owners of its processes.

    The board's idle energy is divided by ``idle_weights``; without any it is unattributed.
    """
    reported, busy = reported_time(window, owners), window.busy
    core = share_core(window, reported["core"])
    energy = _energy_parts(window)
    counted: dict[str, dict[Owner, int]] = {}
    for name, by_pid in window.counted.items():
        by_owner = counted[name] = {}
        for pid, amount in by_pid.items():
            owner = owners.get(pid, Unattributed.UNKNOWN_CGROUP)
            by_owner[owner] = by_owner.get(owner, 0) + amount
    others = zip(QUANTITIES[1:], busy[1:], strict=True)
    shares = _by_owner(
        core.shares,
        *[share_averages(busy_ns, reported[engine], window) for engine, busy_ns in others],
        _share_energy(window, energy, core.shares or {}, idle_weights or {}),
    )
    return DeviceUsage(
        device=device,
        observed_ns=window.observed_ns,
        unobserved_ns=window.unobserved_ns,
        total=Used(busy, window.energy_uj),
        shares=shares,
        idle_energy_uj=energy.idle if energy and window.idle_energy_uj is not None else None,
        rejected=sum(window.rejected.values()),
        reported_core_ns=sum(reported["core"].values()),
        unexplained=core.unexplained,
        methods=window.methods,
        counted=counted,
        is_lower_bound=window.is_sum_of_processes,
        end_unix_ns=window.end_unix_ns,
    )


def _by_owner(*parts: Mapping[Owner, int] | None) -> dict[Owner, Used]:
    """The use of each owner, from the parts of each engine's time and, last, of the energy."""
    # Whoever has a part of any engine or of the energy gets one of each: 0 of what he did not use,
    # because a series must not begin with its first use.
    everyone = dict.fromkeys(chain.from_iterable(filter(None, parts)))
    *engines, energy = map(_column, parts, repeat(everyone))
    spent = map(Used, map(Engines, *engines), energy)
    return dict(zip(everyone, spent, strict=True))


def _column(part: Mapping[Owner, int] | None, everyone: Collection[Owner]) -> Iterable[int | None]:
    """Each owner's part, 0 for one without any; None for all where it is not measured."""
    if not part:
        return repeat(None if part is None else 0, len(everyone))
    return map(part.get, everyone, repeat(0))


class _Energy(NamedTuple):
    """A window's energy in µJ: of unobserved time, of idling, and of work."""

    unobserved: int
    idle: int
    active: int


def _energy_parts(window: Window) -> _Energy | None:
    whole, late = window.energy_uj, window.late_energy_uj
    if whole is None:
        return None
    # A counter of energy goes on while a device is not watched. The part of that time is nobody's,
    # like what is late from windows in which the counter could not be read.
    length = window.observed_ns + window.unobserved_ns
    unobserved = late + ((whole - late) * window.unobserved_ns // length if length else 0)
    idle = min(window.idle_energy_uj or 0, whole - unobserved)
    return _Energy(unobserved, idle, whole - unobserved - idle)


def _share_energy(
    window: Window,
    energy: _Energy | None,
    core: Mapping[Owner, int],
    idle_weights: Mapping[Owner, int],
) -> dict[Owner, int] | None:
    """The window's energy by owner: unobserved, idle, and the rest divided by core time."""
    if energy is None:
        return None
    # Where some processes could not be read, the core time of the others is not the device's. By
    # it, the owners of those would pay nothing.
    by_core = {} if window.is_sum_of_processes else core
    shares = apportion(energy.active, by_core)
    if not shares and energy.active:
        is_idle = window.busy.core == 0 and not window.is_sum_of_processes
        nobody = Unattributed.IDLE if is_idle else Unattributed.NO_PID
        shares = {nobody: energy.active}
    idle_shares = apportion(energy.idle, idle_weights) or {Unattributed.IDLE: energy.idle}
    for owner, part in ((Unattributed.UNOBSERVED, energy.unobserved), *idle_shares.items()):
        if part:
            shares[owner] = shares.get(owner, 0) + part
    return shares


NOT_CHARGED: Mapping[Owner, CgroupMemory] = {}


def share_memory(
    memory: DeviceMemory,
    owners: Mapping[int, Owner],
    charged: Mapping[Owner, CgroupMemory] = NOT_CHARGED,
) -> dict[Owner, MemoryHeld]:
    """Device memory by owner. What no process explains (driver, reserved) goes to NO_PID.

    ``charged`` is what the kernel charges to owners, also to those of which the driver lists no
    process. The parts always add up to the device's memory, where that is known.
    """
    held_by: dict[Owner, list[ProcessMemory]] = {}
    for process in memory.processes or ():
        owner = owners.get(process.pid, Unattributed.UNKNOWN_CGROUP)
        held_by.setdefault(owner, []).append(process)
    held = {
        owner: _held(
            own,
            charged.get(owner),
            is_one=_has_one_cgroup(owner),
            rejected=memory.rejected,
        )
        for owner, own in held_by.items()
    }
    for owner in {owners.get(pid, Unattributed.UNKNOWN_CGROUP) for pid in memory.rejected}:
        held[owner] = replace(held[owner], is_rejected=True)
    for owner in {
        owners.get(pid, Unattributed.UNKNOWN_CGROUP) for pid in memory.unread
    } & held.keys():
        held[owner] = replace(held[owner], is_unread=True)
    held |= _unlisted(memory, held, charged)
    # What the driver and the firmware take has no process. Processes may also hold more together
    # than the device has in use: the driver counts shared memory for each of them, and reads device
    # and processes at different moments. That excess is OVERLAP, below zero. Each holder keeps the
    # driver's figure, because its limit is compared with that.
    whole = memory.used_bytes
    rest = 0 if whole is None else whole - sum(h.used_bytes or 0 for h in held.values())
    if (memory.processes is not None or held) and rest:
        held[Unattributed.NO_PID if rest > 0 else Unattributed.OVERLAP] = MemoryHeld(rest, 0)
    return held


def _unlisted(
    memory: DeviceMemory, held: Mapping[Owner, MemoryHeld], charged: Mapping[Owner, CgroupMemory]
) -> dict[Owner, MemoryHeld]:
    """The owners that are charged, and of which the driver lists no process."""
    # Their charge is what they hold, if the device has as much in use beside what is listed. Else
    # it may be a listed process's: one that moved to another cgroup, or whose cgroup is not known.
    # Then how much they hold is not known.
    others = {o: c for o, c in charged.items() if o not in held and c.charged_bytes}
    listed = sum(h.used_bytes or 0 for h in held.values())
    beside = sum(cgroup.charged_bytes or 0 for cgroup in others.values())
    fits = memory.used_bytes is None or listed + beside <= memory.used_bytes
    is_figure = fits and Unattributed.UNKNOWN_CGROUP not in held
    return {
        owner: MemoryHeld(
            cgroup.charged_bytes if is_figure else None, 0, cgroup=cgroup, is_charge=is_figure
        )
        for owner, cgroup in others.items()
    }


def _has_one_cgroup(owner: Owner) -> bool:
    """Whether all processes of an owner are in one cgroup, or in cgroups below it."""
    if isinstance(owner, GroupKey):
        return owner.kind != "host"
    return isinstance(owner, ContainerKey) and bool(owner.container)


def _held(
    processes: Sequence[ProcessMemory],
    charge: CgroupMemory | None,
    *,
    is_one: bool,
    rejected: Collection[int],
) -> MemoryHeld:
    """The memory of one owner; where the driver has no figure, what its cgroup is charged."""
    # A part of an owner's memory is not its memory: if one size is missing, the sum is not known.
    known = [process.used_bytes for process in processes if process.used_bytes is not None]
    used_bytes = sum(known) if len(known) == len(processes) else None
    cgroups = [p.cgroup for p in processes if is_one and p.cgroup and p.cgroup.evidence]
    if used_bytes is not None and charge is None and not cgroups:  # as nearly always
        return MemoryHeld(used_bytes, len(processes))
    cgroup = max(cgroups, key=lambda one: one.charged_bytes or 0, default=None)
    if charge is not None and (cgroup is None or cgroup.evidence == charge.evidence):
        cgroup = charge
    # The charge stands in for a figure that the driver does not have, not for one that was
    # rejected: that one says that something is wrong, and the charge of it may be wrong, too.
    is_charge = used_bytes is None and not any(p.pid in rejected for p in processes)
    if cgroup is None or cgroup.charged_bytes is None or not is_charge:
        return MemoryHeld(used_bytes, len(processes), cgroup=cgroup)
    return MemoryHeld(cgroup.charged_bytes, len(processes), cgroup=cgroup, is_charge=True)


def place(
    allocations: Sequence[Allocation], seen_on: Mapping[str, Sequence[str]]
) -> tuple[Allocation, ...]:
    """The allocations of one pod, where those without a device get one on which it was seen.

    ``seen_on``: container name → UUIDs on which its processes were.
    """
    waiting = {(a.container, a.among) for a in allocations if a.device is None}
    if not waiting:
        return tuple(allocations)
    own: dict[str, list[Allocation]] = {}
    for allocation in allocations:
        own.setdefault(allocation.container, []).append(allocation)
    free = {each: _free(own, *each, seen_on) for each in waiting}
    found: list[Allocation] = []
    for allocation in allocations:
        if allocation.device is not None:
            found.append(allocation)
            continue
        # The next free devices are this one's. Replicas may be of several cards: one replica goes
        # to each card, and the others stay unplaced.
        left, units = free[allocation.container, allocation.among], _units(allocation)
        devices, left[:] = left[:units], left[units:]
        if units == 1:
            found += [replace(allocation, device=uuid) for uuid in devices] or [allocation]
            continue
        found += [replace(allocation, device=uuid, replicas=1) for uuid in devices]
        if units > len(devices):
            found.append(replace(allocation, replicas=units - len(devices)))
    return tuple(found)


def _free(
    allocations: Mapping[str, Sequence[Allocation]],
    container: str,
    among: Collection[str] | None,
    seen_on: Mapping[str, Sequence[str]],
) -> list[str]:
    """The devices on which an unplaced allocation may be; none where there are too many.

    ``allocations`` are the pod's, by container.
    """
    seen = list(seen_on.get(container, ()))
    # An allocation to no container in particular is for those without any of their own.
    if not container:
        others = (uuids for name, uuids in seen_on.items() if name not in allocations)
        seen = list(dict.fromkeys([*seen, *(uuid for uuids in others for uuid in uuids)]))
    own = allocations[container]
    taken = {uuid for a in own for uuid in (a.device, *(a.among or () if among is None else ()))}
    # One that is of some devices is placed on no other.
    free = [uuid for uuid in seen if uuid not in taken and (among is None or uuid in among)]
    waiting = [a for a in own if a.device is None and a.among == among]
    # On more devices than it has allocations, the container is on one that it was not allocated:
    # which one cannot be determined.
    return free if len(free) <= sum(map(_units, waiting)) else []


def _units(allocation: Allocation) -> int:
    """The number of devices it may be of: replicas without a share may be of several."""
    shares = allocation.core is not None or allocation.memory_bytes is not None
    return 1 if shares else allocation.replicas or 1
