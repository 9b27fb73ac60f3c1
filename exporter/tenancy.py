"""Devices on which the driver cannot tell one tenant from another: MIG, AMD partitions and MPS.

Pure. Stands around ``attribution``, which shares a window out by figures for each process:

* A MIG instance has one figure for all its processes. It is its only owner's; where several hold
  memory on it, it is nobody's, and unmeasured for each of them.
* The energy of a board with MIG, or with AMD partitions, is that of all its parts together, and
  nobody's.
* MPS clients run at once in one context, so that a sample names one of them, or their server. What
  the server is credited with is nobody's; a client that is not named may have worked all the same.
* Where fdinfo tells each process's time, that of compute queues which the kernel does not schedule
  (AMD's KFD) is not in it: who has such queues is unmeasured. So is who has more clients than are
  looked at.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from exporter.attribution import NO_CREDIT, account
from exporter.model import (
    PARTITIONED,
    Credit,
    Device,
    DeviceUsage,
    Owner,
    ProcessActivity,
    ProcessMemory,
    Spent,
    Unattributed,
    Unmeasured,
    Window,
)

SOLE_OWNER, FDINFO = "sole_owner", "fdinfo"
COMPUTE = "compute"
MIG, MPS, MPS_SERVER = "mig", "mps", "mps_server"

OF_ALL_PARTS = {MIG: Unattributed.MIG, PARTITIONED: Unattributed.PARTITIONED}

_EVERYONE = 0  # no process has this id


def account_for(
    device: Device,
    window: Window,
    owners: Mapping[int, Owner],
    residents: Sequence[ProcessMemory] | None,
    idle_weights: Mapping[Owner, int] | None = None,
    credit: Mapping[Owner, Credit] = NO_CREDIT,
) -> DeviceUsage:
    """Share out one window of a device; ``residents`` hold memory there, None if that is unknown.

    The rest is as with ``attribution.account``: the shares add up.
    """
    servers = [p.pid for p in residents or () if MPS_SERVER in p.kinds]
    if servers:
        owners = {**owners, **dict.fromkeys(servers, Unattributed.MPS)}
    if window.methods.shares == SOLE_OWNER:
        return _account_instance(device, window, owners, residents)
    usage = account(device, window, owners, idle_weights, credit)
    if device.sharing in OF_ALL_PARTS:
        return replace(usage, shares=_of_all_parts(usage.shares, OF_ALL_PARTS[device.sharing]))
    if residents is None and device.sharing == MPS:
        return replace(usage, unmeasured=None)
    if window.methods.shares == FDINFO:
        computing = {_owner(owners, p) for p in residents or () if COMPUTE in p.kinds}
        untold = {owners.get(pid, Unattributed.UNKNOWN_CGROUP) for pid in window.untold}
        unmeasured = dict.fromkeys(computing, Unmeasured.NOT_SUPPORTED)
        return replace(usage, unmeasured=unmeasured | dict.fromkeys(untold, Unmeasured.READ_FAILED))
    unnamed = _unnamed_clients(window, owners, residents or ())
    return replace(usage, unmeasured=unnamed) if unnamed else usage


def _account_instance(
    device: Device,
    window: Window,
    owners: Mapping[int, Owner],
    residents: Sequence[ProcessMemory] | None,
) -> DeviceUsage:
    """Give all of an instance's activity to its only owner, or else to nobody."""
    found = {_owner(owners, process) for process in residents or ()}
    tenants = found - {Unattributed.EXITED, Unattributed.MPS}  # neither keeps the instance busy
    if len(tenants) == 1:
        (whose,) = tenants
    else:
        whose = Unattributed.MIG if tenants or residents is None else Unattributed.NO_PID
    all_of_it = ProcessActivity(_EVERYONE, window.busy)
    whole = replace(window, processes=() if whose is Unattributed.NO_PID else (all_of_it,))
    usage = account(device, whole, {_EVERYONE: whose})
    shared = tenants if len(tenants) > 1 else ()
    return replace(usage, named_core_ns=0, unmeasured=dict.fromkeys(shared, Unmeasured.MIG))


def _of_all_parts(shares: Mapping[Owner, Spent], reason: Unattributed) -> dict[Owner, Spent]:
    """What no process explains is no riddle on a divided board: it is the parts' together."""
    return {
        reason if owner is Unattributed.NO_PID else owner: spent for owner, spent in shares.items()
    }


def _unnamed_clients(
    window: Window, owners: Mapping[int, Owner], residents: Sequence[ProcessMemory]
) -> dict[Owner, Unmeasured]:
    """MPS clients without a row while the device was busy. On an idle device they are idle."""
    if not window.busy.core:
        return {}
    clients = {_owner(owners, process) for process in residents if MPS in process.kinds}
    named = {_owner(owners, process) for process in window.processes}
    return dict.fromkeys(clients - named, Unmeasured.MPS)


def _owner(owners: Mapping[int, Owner], process: ProcessMemory | ProcessActivity) -> Owner:
    return owners.get(process.pid, Unattributed.UNKNOWN_CGROUP)
