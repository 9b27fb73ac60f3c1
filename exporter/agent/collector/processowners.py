"""The owners of all processes on the devices, computed in each cycle, and their newest windows."""

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

from exporter.agent.attribution.join import share_memory
from exporter.agent.attribution.ownership import (
    NO_SANDBOXES,
    Member,
    Sandboxes,
    is_unnamed,
    member_of,
    owner_as,
)
from exporter.agent.attribution.tenancy import Residents, residents_of
from exporter.agent.ledger import Allocated
from exporter.model import (
    CgroupIdentity,
    CgroupMemory,
    ContainerKey,
    DeviceMemory,
    DeviceReading,
    DeviceUsage,
    GroupKey,
    InnerJobs,
    MemoryHeld,
    Owner,
    PodTable,
    ProcessActivity,
    ProcessInfo,
    SharedWindow,
    Tenants,
    Unattributed,
    Unit,
)

# Of one device: as many windows as averages go back, up to ten minutes, unless they have many
# processes. So many are kept in any case, which is four times of what averages need by default.
LEAST_WINDOWS, MAX_ACTIVITIES = 60, 8192
SANDBOX_NS = 60 * 10**9  # after so long an id that is in no status does not come into one
MAX_JOBS = 16  # inside of one container, on one device
_NONE: deque[SharedWindow] = deque(maxlen=0)


def pids_of(devices: Iterable[DeviceReading]) -> set[int]:
    """All processes in these readings: those that were seen, and those that may have worked."""
    devices = tuple(devices)
    windows = (window for device in devices for window in device.windows)
    return seen_in(devices).union(*(window.unmeasured_pids for window in windows))


def seen_in(devices: Iterable[DeviceReading]) -> set[int]:
    """The processes that hold memory of these devices, worked there, or were evicted."""
    pids: set[int] = set()
    for device in devices:
        if device.memory is not None:
            pids.update([process.pid for process in device.memory.processes or ()])
        pids.update(device.seen)
        for window in device.windows:
            pids.update([process.pid for process in window.processes])
            pids.update(*window.counted.values())  # evicted ones hold nothing at the moment
    return pids


class Holders(NamedTuple):
    """The memory that owners hold on a device, and the residents; None if they are not listed."""

    held: Mapping[Owner, MemoryHeld]
    residents: Residents | None


@dataclass(frozen=True, slots=True)
class ProcessOwners:
    """The ``owners`` of all processes by pid, and the ``members`` of pods among them.

    ``charged`` are the owners of cgroups that the kernel charges for device memory. ``jobs`` are
    those of batch systems inside of containers, by the pids of their processes.
    ``unnamed`` are the pods, by uid, with a process in a container that no status names.
    """

    owners: Mapping[int, Owner]
    members: Mapping[int, Member]
    charged: Mapping[CgroupIdentity, Owner]
    unnamed: frozenset[str] = frozenset()
    jobs: Mapping[int, Unit] = field(default_factory=dict)

    def jobs_on(self, devices: Iterable[DeviceReading]) -> InnerJobs:
        """The jobs inside of each container or group, by device and owner.

        Whoever may make cgroups there chooses them: of one owner there are few.
        """
        found: dict[tuple[str, ContainerKey | GroupKey], set[Unit]] = {}
        for device in devices if self.jobs else ():
            for pid in self.jobs.keys() & pids_of((device,)):
                owner = self.owners[pid]
                if isinstance(owner, ContainerKey | GroupKey):
                    jobs = found.setdefault((device.device.uuid, owner), set())
                    jobs.add(self.jobs[pid]._replace(step="", uid=None))
        return {key: tuple(sorted(jobs)[:MAX_JOBS]) for key, jobs in found.items()}

    def seen_on(self, devices: Iterable[DeviceReading]) -> dict[Member, list[str]]:
        """The devices on which each container of a pod has a process now, by UUID."""
        seen: dict[Member, list[str]] = {}
        members = self.members
        for device in devices:
            for member in {members[pid] for pid in seen_in((device,)) if pid in members}:
                seen.setdefault(member, []).append(device.device.uuid)
        return seen

    def holders(self, memory: DeviceMemory | None) -> Holders:
        """The holders of a device's memory; if nobody is listed, those that are charged."""
        if memory is None:
            return Holders({}, None)
        # An owner with several cgroups, as a job with steps, has the sum of their charges. Its
        # limits are those of the first, which is the outermost.
        charged: dict[Owner, CgroupMemory] = {}
        for identity, cgroup in memory.charges:
            owner = self.charged.get(identity, Unattributed.UNKNOWN_CGROUP)
            if isinstance(owner, Unattributed):
                continue
            first = charged.setdefault(owner, cgroup)
            if first is not cgroup:
                both = (first.charged_bytes or 0) + (cgroup.charged_bytes or 0)
                charged[owner] = first._replace(charged_bytes=both)
        if memory.processes is None:
            return Holders(share_memory(memory, {}, charged) if charged else {}, None)
        residents = residents_of(memory.processes, self.owners)
        return Holders(share_memory(memory, self.owners, charged), residents)


def owners_of(
    identities: Mapping[int, CgroupIdentity | Unattributed],
    table: PodTable,
    sandboxes: Sandboxes = NO_SANDBOXES,
    *,
    by_step: bool = False,
    cgroups: Iterable[CgroupIdentity] = (),
) -> ProcessOwners:
    """The owners of processes with these identities, and of these cgroups.

    ``by_step``: see ``owner_of``.
    """

    @cache  # many processes share a cgroup
    def known_of(identity: CgroupIdentity) -> tuple[Owner, Member | None, bool]:
        member = member_of(identity, table, sandboxes)
        owner = owner_as(identity, member, table, by_step=by_step)
        return owner, member, member is not None and is_unnamed(identity, member, table)

    owners: dict[int, Owner] = {}
    members: dict[int, Member] = {}
    unnamed: set[str] = set()
    jobs: dict[int, Unit] = {}
    for pid, identity in identities.items():
        if isinstance(identity, Unattributed):
            owners[pid] = identity
            continue
        if identity.job is not None:
            jobs[pid] = identity.job
        owners[pid], member, has_no_name = known_of(identity)
        if member is not None:
            members[pid] = member
            if has_no_name:
                unnamed.add(member.pod_uid)
    charged = {each: known_of(each)[0] for each in set(cgroups)}
    return ProcessOwners(owners, members, charged, frozenset(unnamed), jobs)


class Moves:
    """When processes went from one owner's cgroup to another's."""

    def __init__(self) -> None:
        self._identities: Mapping[int, CgroupIdentity | Unattributed] = {}
        self._owners: Mapping[int, Owner] = {}
        self._described: Mapping[int, ProcessInfo] = {}
        self._moved_mono_ns: dict[int, int] = {}

    def follow(
        self,
        identities: Mapping[int, CgroupIdentity | Unattributed],
        owners: Mapping[int, Owner],
        described: Mapping[int, ProcessInfo],
        mono_ns: int,
    ) -> None:
        """Takes what this cycle found. A new name of the same cgroup's owner is no move.

        Nor is a pid that came back: that process began where it is, and moved nowhere.
        """

        def is_same(pid: int) -> bool:
            starts = (
                each[pid].start_unix_ns for each in (self._described, described) if pid in each
            )
            return len(set(starts)) < 2  # noqa: PLR2004 - where a start is not known, it may be

        moved = [
            pid
            for pid, identity in self._identities.items()
            if identity != identities.get(pid, identity)
            and self._owners[pid] != owners[pid]
            and not isinstance(identity, Unattributed)
            and is_same(pid)
        ]
        stayed = {p: at for p, at in self._moved_mono_ns.items() if p in identities and is_same(p)}
        self._moved_mono_ns = stayed | dict.fromkeys(moved, mono_ns)
        self._identities, self._owners, self._described = identities, owners, described

    def owners(self, begun_mono_ns: int) -> Mapping[int, Owner]:
        """The owners in a window that began then, as far as that is certain.

        Of a process that moved after its beginning it is not known what it did where. So its use is
        neither its new owner's, who may have had nothing of it, nor its old one's.
        """
        late = [pid for pid, at in self._moved_mono_ns.items() if at > begun_mono_ns]
        if not late:
            return self._owners
        return {**self._owners, **dict.fromkeys(late, Unattributed.UNKNOWN_CGROUP)}


class Residency:
    """The tenants of each device. It only keeps values that the cycle makes in any case."""

    def __init__(self) -> None:
        self._windows: dict[str, deque[SharedWindow]] = {}  # by device UUID

    def enter(
        self,
        usage: DeviceUsage,
        processes: tuple[ProcessActivity, ...],
        owners: Mapping[int, Owner],
        mono_ns: int,
    ) -> None:
        """Keeps a window that ended now, for as long as averages go back."""
        windows = self._windows.get(usage.device.uuid)
        if windows is None:
            windows = self._windows[usage.device.uuid] = deque()
        windows.append(SharedWindow(mono_ns, usage.observed_ns, processes, usage.shares, owners))
        # A device with many processes keeps fewer windows, so that memory has a bound.
        while len(windows) > LEAST_WINDOWS:
            if sum([len(window.processes) for window in windows]) <= MAX_ACTIVITIES:
                break
            windows.popleft()

    def tenants(self, devices: Iterable[DeviceReading], since_ns: int) -> tuple[Tenants, ...]:
        """The tenants of each device that was read, by the windows that ended after a moment."""
        found: list[Tenants] = []
        kept: dict[str, deque[SharedWindow]] = {}
        for reading in devices:
            uuid, memory = reading.device.uuid, reading.memory
            windows = self._windows.get(uuid, _NONE)
            while windows and windows[0].ended_mono_ns <= since_ns:
                windows.popleft()
            if windows:
                kept[uuid] = windows
            found.append(Tenants(uuid, memory.processes if memory else None, tuple(windows)))
        self._windows = kept
        return tuple(found)


class SandboxWatch:
    """Finds pods in sandboxes, by how long their processes have been in an unnamed container."""

    def __init__(self) -> None:
        self.now = NO_SANDBOXES
        self._since_ns: Mapping[str, int] = {}  # by pod
        self._version = 0  # of the allocations

    def follow(
        self, found: ProcessOwners, allocated: Iterable[Allocated], version: int, mono_ns: int
    ) -> Sandboxes:
        """What this cycle found. It holds for the next one: allocations come after the owners."""
        self._since_ns = {uid: self._since_ns.get(uid, mono_ns) for uid in found.unnamed}
        of = self.now.allocated
        if version != self._version:
            # All that runs in a sandbox is the container's that has the pod's only allocation: the
            # others have no device.
            self._version = version
            containers: dict[str, set[str]] = defaultdict(set)
            for key, allocation in allocated:
                containers[allocation.pod_uid].add(key.container)
            only = ((uid, names) for uid, names in containers.items() if len(names) == 1)
            of = {uid: next(iter(names)) for uid, names in only if all(names)}
        # An id comes into the status a second after its container's start. One that does not come
        # in a minute never will.
        long = (uid for uid, since in self._since_ns.items() if mono_ns - since >= SANDBOX_NS)
        self.now = Sandboxes(of, frozenset(long))
        return self.now
