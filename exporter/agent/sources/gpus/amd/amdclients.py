"""The use of a board's DRM clients, by fdinfo, beside KFD's files of its processes.

amdgpu counts the time of its own queues for each client: graphics, compute and video by Mesa. The
time of KFD's queues, which ROCm uses, is not counted: such a process has DRM clients as well, with
counters that stand still. From RDNA 3 on, decoding is counted as encoding, because VCN has one
queue for both. Sources: ``amdgpu_fdinfo.c`` and ``vcn_v4_0.c`` in ``drivers/gpu/drm/amd/amdgpu``.
"""

from collections.abc import Mapping
from dataclasses import replace

from exporter.agent.sources.gpus.amd.amddevice import COMPUTE, ActivitySample, AmdDevice
from exporter.agent.sources.gpus.amd.kfdprocesses import KfdList
from exporter.agent.sources.gpus.drm.drmclients import DeviceClients, activities_of
from exporter.agent.sources.gpus.drm.drmdiscovery import COPY, CORE, DECODER, ENCODER
from exporter.agent.sources.gpus.drm.fdinfo import LOCAL, OF_AN_APU, held_by
from exporter.agent.sources.gpus.drm.holders import HandleScan
from exporter.agent.sources.gpus.gpusource import Demand
from exporter.model import (
    Clock,
    DeviceMemory,
    Engines,
    ProcessActivity,
    ProcessMemory,
    Unmeasured,
    Window,
)

ROLES = (CORE, ENCODER, DECODER)
RDNA_3 = 110_000  # its first target version
MOST = 4  # times what a process occupied at an instant, it may have used of what clients leave
DOUBTED_NS = 10 * 10**9  # so long a percentage is 100 before its clients are asked
NO_KIND: frozenset[str] = frozenset()  # fdinfo does not say who computes and who draws


class ClientDevice:
    """Wraps an ``AmdDevice`` and adds the use of DRM clients. One caller at a time.

    The device is as busy as it reports, and at least as its clients together. The rest was used by
    KFD's processes or by the kernel. With ``cu_occupancy`` (gfx9) it is divided among the former.
    Without a figure of the device the core is not measured where one of them may compute.
    """

    def __init__(
        self,
        kfd: AmdDevice,
        clients: DeviceClients,
        clock: Clock,
        *,
        shares_host: bool,
    ) -> None:
        self.device = kfd.device
        self.found = kfd.found
        self._kfd = kfd
        one_queue = kfd.found.node is not None and kfd.found.node.gfx >= RDNA_3
        self._roles = (CORE, ENCODER) if one_queue else ROLES
        self._clients = clients
        self._regions = OF_AN_APU if shares_host else LOCAL
        self._clock = clock
        self._scan: HandleScan | None = None
        self._listed: KfdList | None = None
        self.has_old_form = False
        self.computing: frozenset[int] = frozenset()  # pids of KFD's that have it open
        self._blind: Unmeasured | None = None
        self._held: dict[int, int | None] = {}
        self._always_full = True  # every percentage so far was 100
        self._full_ns = self._explained_ns = 0  # how long, and what its clients did in that time
        self._uncounted = False  # queues of KFD may have worked, and it is not known how much

    def follow(self, scan: HandleScan | None, listed: KfdList | None, devices: int) -> None:
        """Takes the newest scan of the processes, None before the first, and KFD's list."""
        self._kfd.follow(listed, devices)
        if scan is None or (scan is self._scan and listed is self._listed):
            return
        self._scan, self._listed, self._blind = scan, listed, scan.blind
        # The fdinfo of old kernels names no client, so that of none it is known what it does.
        self.has_old_form = self._clients.is_unnamed(scan)
        if self.has_old_form:
            self._blind = self._blind or Unmeasured.NOT_SUPPORTED
        if listed is not None:
            self.computing = self._clients.holders(scan).intersection(listed.processes)
            # Without a list the clients of KFD's processes cannot be identified.
            why = None if listed.why is Unmeasured.NOT_SUPPORTED else listed.why
            self._blind = self._blind or why

    @property
    def has_occupancy(self) -> bool:
        """Whether KFD's processes are known without its clients."""
        return self._kfd.has_occupancy

    @property
    def has_all_clients(self) -> bool:
        """Whether all of its clients are visible, so that it is idle while they are."""
        return self._scan is not None and not self._scan.cut and self._blind is None

    @property
    def has_work(self) -> bool:
        """Whether a process of KFD has it open."""
        return bool(self.computing) or self._kfd.has_work

    @property
    def _may_compute(self) -> bool:
        """Whether KFD's queues may work, whose time is in no client."""
        return self.has_work or self._kfd.is_refused

    def window(self, sample: ActivitySample) -> Window | None:
        """The window until now; of clients alone, None before the first scan of the processes."""
        scan = self._scan
        if scan is None:
            return self._kfd.window(sample) if self.has_occupancy else None
        use = self._clients.read(scan, self._clock.monotonic_ns())
        memory = held_by(use.clients, self.device, None, scan.cut | use.unread, self._regions)
        self._held = {p.pid: p.used_bytes for p in memory.processes or ()}
        window = self._kfd.window(sample)
        if window is None or self._blind:
            return window
        both = window.unmeasured_pids | scan.cut | use.cut
        return self._with(window, use.used)._replace(unmeasured_pids=both)

    def memory(self, demand: Demand, total: int | None, used: int | None) -> DeviceMemory:
        """Memory by process, from fdinfo and KFD: neither has all of it."""
        memory = self._kfd.memory(demand, total, used)
        if self.has_old_form and not self.computing:
            return replace(memory, processes=None)  # KFD has none, and nobody names the others
        lacks_kfd = memory.processes is None and self.has_occupancy  # it has those that compute
        if self._scan is None or self._blind or lacks_kfd:
            return memory
        of_kfd = {p.pid: p.used_bytes for p in memory.processes or ()}
        processes: list[ProcessMemory] = []
        for pid in sorted({*self._held, *of_kfd, *self.computing}):
            # What KFD and fdinfo count may overlap. So the larger is taken, and no sum: a process
            # holds at least that much.
            sizes = [size for size in (self._held.get(pid), of_kfd.get(pid)) if size is not None]
            is_missing = pid in self._held or pid in of_kfd or pid in self._kfd.unsized
            size = max(sizes, default=None if is_missing else 0)
            computes = pid in self.computing or pid in of_kfd
            processes.append(ProcessMemory(pid, size, COMPUTE if computes else NO_KIND))
        return replace(memory, processes=tuple(processes))

    def unmeasured(self, window: Window | None) -> dict[str, Unmeasured]:
        reasons = self._kfd.unmeasured(window)
        if self._blind and not self.has_occupancy:
            is_unnamed = self.has_old_form and not self.computing
            missing = (*ROLES, "memory") if "memory" in reasons or is_unnamed else ROLES
            return {**reasons, **dict.fromkeys(missing, self._blind)}
        known = set(() if self._blind else self._roles)
        if self._blind:
            reasons |= {q: self._blind for q in self._roles if q != CORE and q in reasons}
        if not self.has_occupancy:
            known.add("memory")
        by_kfd = self.has_occupancy and (self._blind or self._may_compute)
        if self._uncounted or by_kfd:  # it is as KFD's files have it
            known.discard(CORE)
        return {q: reason for q, reason in reasons.items() if q not in known}

    def _with(self, window: Window, used: Mapping[int, Mapping[str, int]]) -> Window:
        """The window with the use of its clients, scaled to the observed part of the window."""
        observed_ns, core_ns = window.observed_ns, window.busy.core
        # Clients' counters cover all of the window, a percentage only its observed part. Without
        # the scale a client would work more in that part than the board did.
        elapsed_ns = max(observed_ns + window.unobserved_ns, 1)
        parts = {
            pid: {role: ns * observed_ns // elapsed_ns for role, ns in own.items()}
            for pid, own in used.items()
        }
        if self._is_stuck(core_ns, sum(own.get(CORE, 0) for own in parts.values()), observed_ns):
            core_ns = None
        # Without a client to speak for a board of gfx9, that nothing was seen is no evidence.
        is_unseen = self.has_occupancy and not parts
        self._uncounted = core_ns is None and (self._may_compute or is_unseen)
        roles = [role for role in self._roles if role != CORE or not self._uncounted]
        busy, processes = activities_of(parts, roles, observed_ns)
        of_clients = busy.core or 0
        if not self._uncounted:
            busy = busy._replace(core=max(of_clients, core_ns or 0))
        how = "rates" if core_ns is not None else "none" if self._uncounted else "fdinfo"
        shares = "fdinfo" if window.methods.shares == "none" else window.methods.shares
        # KFD's processes get what the clients leave, by the compute units that each occupied at
        # the sample. That is one moment of the window, so none gets more than some times its part:
        # else a short burst would take all that the clients left. Without clients the averages stay
        # as they are. A process that is both has both.
        working = {process.pid: process.busy for process in processes}
        averages = {process.pid: process.busy.core or 0 for process in window.processes}
        left = of_kfd = sum(averages.values())
        if of_clients:
            times = 1 if window.per_sample else MOST
            left = min((busy.core or 0) - of_clients, of_kfd * times)
        for pid, average in averages.items():
            own = working.get(pid, Engines())
            core = (own.core or 0) + (average * left // of_kfd if of_kfd else 0)
            working[pid] = own._replace(core=core)
        return window._replace(
            busy=busy._replace(memory_active=window.busy.memory_active),
            processes=tuple(ProcessActivity(pid, own) for pid, own in working.items()),
            methods=replace(window.methods, busy=how, shares=shares),
            # Counters are not to be scaled up to what others did, as averages are.
            per_sample=window.per_sample or bool(of_clients) or shares == "fdinfo",
            counted=self._counted(window.counted, used),
        )

    def _is_stuck(self, core_ns: int | None, of_clients_ns: int, observed_ns: int) -> bool:
        """Whether the percentage is 100 whatever happens, and so says nothing.

        It is on some APUs (Raven, Cyan Skillfish), whose register is read as all ones. A busy board
        shows another figure sooner or later, or it has clients or processes of KFD that work.
        """
        if core_ns is None or not self._always_full:
            return False
        self._always_full = core_ns >= observed_ns and not self._may_compute
        self._full_ns += observed_ns
        self._explained_ns += min(of_clients_ns, observed_ns)
        is_explained = self._explained_ns * 2 > self._full_ns
        return self._always_full and self._full_ns >= DOUBTED_NS and not is_explained

    def _counted(
        self, of_kfd: Mapping[str, Mapping[int, int]], used: Mapping[int, Mapping[str, int]]
    ) -> Mapping[str, Mapping[int, int]]:
        """KFD's counters and the copy time of clients, which do not overlap."""
        if self.computing and COPY not in of_kfd:
            return of_kfd
        copied = dict(of_kfd.get(COPY, {}))
        for pid, own in used.items():
            if own.get(COPY):
                copied[pid] = copied.get(pid, 0) + own[COPY]
        return {**of_kfd, COPY: copied}
