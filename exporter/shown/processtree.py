"""The tree of a Snapshot, with its processes. Pure; nothing is cached.

A process's part of its container's use is what the driver reports for it, over what the driver
reports for all of the container's processes. So the processes of a container add up to it.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from exporter.model import (
    NO_AVERAGES,
    QUANTITIES,
    ContainerKey,
    GroupKey,
    Owner,
    Process,
    ProcessActivity,
    ProcessInfo,
    ProcessMemory,
    SharedWindow,
    Snapshot,
    Tenants,
    Unattributed,
)
from exporter.shown.tree import Tree, tree_of

_SERVER = "mps_server"


def tree_of_snapshot(snapshot: Snapshot) -> Tree:
    """The tree of this process's own node."""
    nobody = {tenants.device_uuid: unattributed_core(tenants) for tenants in snapshot.tenants}
    return tree_of(snapshot.facts, processes_of(snapshot), nobody)


def processes_of(snapshot: Snapshot) -> Iterator[Process]:
    """Every process that is on a device now, device by device."""
    facts = snapshot.facts
    averages = {(held.owner, held.uuid): held.average for held in facts.holdings}
    of_devices = {device.uuid: device.average for device in facts.devices}
    for tenants in snapshot.tenants:
        here = {
            process.pid: owner
            for process in _present(tenants)
            if (owner := snapshot.owners.get(process.pid, Unattributed.UNKNOWN_CGROUP))
            is not Unattributed.EXITED
        }
        uuid = tenants.device_uuid
        # A process has only those ratios that its owner has. Of nobody's it has the device's.
        known: dict[Owner, list[str]] = {}
        for owner in set(here.values()):
            if isinstance(owner, ContainerKey | GroupKey):
                own = averages.get((owner, uuid))
            else:
                own = of_devices.get(uuid)
            known[owner] = [q for q in QUANTITIES if getattr(own or NO_AVERAGES, q) is not None]
        parts = _parts(tenants.windows, here)
        observed = sum(window.observed_ns for window in tenants.windows)
        for process in _present(tenants):
            if process.pid in here:
                owner = here[process.pid]
                ratios = _ratios(process, known[owner], parts, observed)
                info = snapshot.processes.get(process.pid, ProcessInfo(""))
                yield Process(
                    process.pid,
                    tenants.device_uuid,
                    owner,
                    process.kinds or None,
                    process.used_bytes,
                    **ratios,
                    name=info.name,
                    start_unix_ns=info.start_unix_ns,
                    job=info.job,
                )


def _ratios(
    process: ProcessMemory,
    known: Iterable[str],
    parts: Mapping[tuple[int, str], float | None],
    observed_ns: int,
) -> dict[str, float]:
    # What a server is credited with is the work of its clients.
    if _SERVER in process.kinds or not observed_ns:
        return {}
    spent = {quantity: parts.get((process.pid, quantity), 0.0) for quantity in known}
    return {quantity: ns / observed_ns for quantity, ns in spent.items() if ns is not None}


def unattributed_core(tenants: Tenants) -> dict[Unattributed, float]:
    """Shares of the device's time without an owner, by reason, over its newest windows."""
    observed = sum(window.observed_ns for window in tenants.windows)
    spent: dict[Unattributed, int] = defaultdict(int)
    for window in tenants.windows:
        for owner, share in window.shares.items():
            if isinstance(owner, Unattributed) and share.busy.core:
                spent[owner] += share.busy.core
    return {reason: ns / observed for reason, ns in spent.items()} if observed else {}


def _present(tenants: Tenants) -> Iterable[ProcessMemory]:
    """The listed processes; where the driver lists none, those that it has named lately."""
    if tenants.listed is not None:
        return tenants.listed
    pids = dict.fromkeys(p.pid for window in tenants.windows for p in window.processes)
    return (ProcessMemory(pid, None, frozenset()) for pid in pids)


def _parts(
    windows: Iterable[SharedWindow], here: Mapping[int, Owner]
) -> dict[tuple[int, str], float | None]:
    """Busy ns by process and quantity; None where an owner's part cannot be divided."""
    parts: dict[tuple[int, str], float] = defaultdict(float)
    unplaced: dict[tuple[Owner, str], float] = defaultdict(float)
    for window in windows:
        named: dict[Owner, list[ProcessActivity]] = defaultdict(list)
        for process in window.processes:
            named[window.owners.get(process.pid, Unattributed.UNKNOWN_CGROUP)].append(process)
        for owner, spent in window.shares.items():
            for quantity in QUANTITIES:
                share = getattr(spent.busy, quantity)
                if not share:
                    continue
                credited = [(p.pid, getattr(p.busy, quantity) or 0) for p in named.get(owner, ())]
                total = sum(ns for _, ns in credited)
                # In a window that names none of an owner's processes, its part is divided as it is
                # in all others together.
                if not total:
                    unplaced[owner, quantity] += share
                for pid, ns in credited if total else ():
                    parts[pid, quantity] += share * ns / total
    return {**parts, **_settled(parts, unplaced, here)}


def _settled(
    parts: Mapping[tuple[int, str], float],
    unplaced: Mapping[tuple[Owner, str], float],
    here: Mapping[int, Owner],
) -> dict[tuple[int, str], float | None]:
    settled: dict[tuple[int, str], float | None] = {}
    pids: dict[Owner, list[int]] = defaultdict(list)
    for pid, whose in here.items():
        pids[whose].append(pid)
    for (owner, quantity), more in unplaced.items():
        members = pids[owner]
        # The only process of an owner has all of it, also if it is never named. Of several that are
        # never named it is not known which one worked.
        total = sum(parts.get((pid, quantity), 0.0) for pid in members)
        for pid in members:
            own = parts.get((pid, quantity), 0.0)
            alone = more if len(members) == 1 else None
            settled[pid, quantity] = own * (1 + more / total) if total else alone
    return settled
