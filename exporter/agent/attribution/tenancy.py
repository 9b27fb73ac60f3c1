"""Devices whose driver cannot distinguish all tenants: MIG, AMD partitions, MPS and fdinfo. Pure.

``exporter.agent.attribution.join`` divides a window by figures for each process. Around it:

* A MIG instance has one figure for all its processes. It is its only owner's. Where several
  owners hold memory on it, it is unattributed, and unmeasured for each of them.
* The energy of a board with MIG, or with AMD partitions, is that of all its parts together. It is
  unattributed. So is that of a module whose dies are boards of their own: it is all the first's.
* MPS clients run at once in one context, so a sample names their server (each row of a recorded
  H100 does: ``tests/replay/h100-mps.rec.gz``), or one of them. The server's time is that of the
  only owner of clients; with several owners it is unattributed. A client that is not named may have
  worked all the same. A server is known by its program's name, which anybody can choose. So one in
  a container or group counts as a client there, unless it is root's, or the operator says that
  servers there work for others.
* Where fdinfo measures each process's time, that of compute queues which the kernel does not
  schedule (AMD's KFD) is missing: owners of such queues are unmeasured. So are owners with more
  clients than are read.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from exporter.agent.attribution.join import account
from exporter.model import (
    MIG,
    MODULE,
    PARTITIONED,
    ContainerKey,
    Device,
    DeviceReading,
    DeviceUsage,
    Engines,
    GroupKey,
    Owner,
    ProcessActivity,
    ProcessMemory,
    Unattributed,
    Unmeasured,
    Used,
    Window,
)

SOLE_OWNER, FDINFO = "sole_owner", "fdinfo"
COMPUTE = "compute"
MPS, MPS_SERVER = "mps", "mps_server"

OF_ALL_PARTS = {MIG: Unattributed.MIG, PARTITIONED: Unattributed.PARTITIONED}

UNKNOWN = Unattributed.UNKNOWN_CGROUP  # of a process that was not identified
_EVERYONE = 0  # no process has this id
_OF_A_USER, _ROOT = frozenset({"host", "user"}), "0"  # groups that are called by the user's id


def without_tenants_servers(
    reading: DeviceReading, owners: Mapping[int, Owner], hosts: Collection[str]
) -> DeviceReading:
    """The reading, in whose memory a tenant's MPS server is a client: its use is its owner's.

    Servers work for others if they have no owner, or one of the ``hosts``: namespaces and systemd
    units. So do those that root runs outside of units, by hand or from a log-in.
    """
    memory = reading.memory
    if reading.device.sharing != MPS or memory is None:
        return reading
    tenants = set()
    for process in memory.processes or ():
        owner = owners.get(process.pid)
        # Anybody may call a program as the MPS server is called, and would pass its use on to all
        # clients on the device. So a server in a container or group is a client there.
        is_tenant = isinstance(owner, ContainerKey | GroupKey) and not _is_host(owner, hosts)
        if is_tenant and MPS_SERVER in process.kinds:
            tenants.add(process.pid)
    if not tenants:
        return reading
    processes = tuple(
        process._replace(kinds=process.kinds - {MPS_SERVER} | {MPS})
        if process.pid in tenants
        else process
        for process in memory.processes or ()
    )
    return reading._replace(memory=replace(memory, processes=processes))


def _is_host(owner: ContainerKey | GroupKey, hosts: Collection[str]) -> bool:
    """Whether MPS servers of this owner work for others: by the operator's word, or as root's."""
    if isinstance(owner, ContainerKey):
        return owner.namespace in hosts
    is_roots = owner.kind in _OF_A_USER and owner.group == _ROOT
    return is_roots or (owner.kind == "systemd" and owner.group in hosts)


class Residents(NamedTuple):
    """The owners of the processes that hold memory on a device, by their kind of process.

    ``mps`` are those of MPS clients and servers; ``clients`` and ``servers`` are process ids.
    ``served`` is whose work the servers do.
    """

    owners: frozenset[Owner]
    computing: frozenset[Owner]
    mps: frozenset[Owner]
    clients: frozenset[int]
    servers: frozenset[int]
    served: Owner


def residents_of(processes: Sequence[ProcessMemory], owners: Mapping[int, Owner]) -> Residents:
    """The residents of a device's process list. They change only with the list or an owner."""
    kinds_of = [(process.pid, process.kinds) for process in processes]
    servers = frozenset([pid for pid, kinds in kinds_of if MPS_SERVER in kinds])
    clients = frozenset([pid for pid, kinds in kinds_of if MPS in kinds])
    served = {_owner(owners, pid) for pid in clients} - {Unattributed.EXITED}
    working = _with_servers(owners, servers, Unattributed.MPS)
    owner_of = working.get
    found = {(owner_of(pid, UNKNOWN), kinds) for pid, kinds in kinds_of}
    return Residents(
        owners=frozenset(owner for owner, _ in found),
        computing=frozenset(owner for owner, kinds in found if COMPUTE in kinds),
        mps=frozenset(_owner(owners, pid) for pid in clients | servers).difference(Unattributed),
        clients=clients,
        servers=servers,
        served=served.pop() if len(served) == 1 else Unattributed.MPS,
    )


def account_for(
    device: Device,
    window: Window,
    owners: Mapping[int, Owner],
    residents: Residents | None,
    idle_weights: Mapping[Owner, int] | None = None,
) -> DeviceUsage:
    """Divides one window of a device among owners; ``residents`` None: they are unknown.

    The rest is as with ``join.account``: the shares add up.
    """
    if residents:
        owners = _with_servers(owners, residents.servers, residents.served)
    if window.methods.shares == SOLE_OWNER:
        return _account_instance(device, window, residents)
    if device.sharing == MODULE:
        # The energy is that of all dies of the module together, whoever works on which. It is
        # nobody's, and the die's own use is divided without it.
        usage = account(device, window._replace(energy_uj=None), owners)
        shares = dict(usage.shares)
        if window.energy_uj is not None:
            idle = Engines(*(None if spent is None else 0 for spent in window.busy))
            shares[Unattributed.MODULE] = Used(idle, window.energy_uj)
        usage = usage._replace(total=Used(window.busy, window.energy_uj), shares=shares)
    else:
        usage = account(device, window, owners, idle_weights)
    if device.sharing in OF_ALL_PARTS:
        # No process explains the energy of a divided board: it is that of all its parts together.
        reason = OF_ALL_PARTS[device.sharing]
        parts = {reason if o is Unattributed.NO_PID else o: s for o, s in usage.shares.items()}
        return usage._replace(shares=parts)
    if residents is None and device.sharing == MPS:
        return usage._replace(unmeasured=None)
    if window.methods.shares == FDINFO or window.unmeasured_pids:
        # The kernel counts no time of compute queues that it does not schedule, and the rest of
        # an owner's time says nothing about them.
        by_clients = window.methods.shares == FDINFO
        computing = residents.computing if residents and by_clients else ()
        unread = {_owner(owners, pid) for pid in window.unmeasured_pids}
        unmeasured = dict.fromkeys(computing, Unmeasured.NOT_SUPPORTED)
        return usage._replace(unmeasured=unmeasured | dict.fromkeys(unread, Unmeasured.READ_FAILED))
    # A sample may name the server or any client. Of a client that is not named it is not known
    # whether it worked; but on an idle device all of them were idle.
    if residents and residents.clients and window.busy.core:
        theirs = residents.clients | residents.servers
        named = theirs.intersection([process.pid for process in window.processes])
        unnamed = residents.mps.difference([_owner(owners, pid) for pid in named])
        return usage._replace(unmeasured=dict.fromkeys(unnamed, Unmeasured.MPS))
    return usage


def _account_instance(device: Device, window: Window, residents: Residents | None) -> DeviceUsage:
    """Gives all of an instance's activity to its only owner, or to no owner."""
    found = residents.owners if residents else frozenset()
    # A process that has ended, or a server without clients, does not keep the instance busy.
    tenants = found - {Unattributed.EXITED, Unattributed.MPS}
    if len(tenants) == 1:
        (whose,) = tenants
    else:
        whose = Unattributed.MIG if tenants or residents is None else Unattributed.NO_PID
    all_of_it = ProcessActivity(_EVERYONE, window.busy)
    whole = window._replace(processes=() if whose is Unattributed.NO_PID else (all_of_it,))
    usage = account(device, whole, {_EVERYONE: whose})
    sharers = tenants if len(tenants) > 1 else ()
    return usage._replace(reported_core_ns=0, unmeasured=dict.fromkeys(sharers, Unmeasured.MIG))


def _with_servers(
    owners: Mapping[int, Owner], servers: Collection[int], served: Owner
) -> Mapping[int, Owner]:
    """The owners, in which the use of each MPS server is that of ``served``."""
    return {**owners, **dict.fromkeys(servers, served)} if servers else owners


def _owner(owners: Mapping[int, Owner], pid: int) -> Owner:
    return owners.get(pid, UNKNOWN)
