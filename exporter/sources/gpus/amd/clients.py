"""A board without ``cu_occupancy``: the use of its DRM clients, by fdinfo, besides KFD's files.

amdgpu counts the time of its own queues for each client: graphics, compute and video by Mesa. The
time of KFD's queues, which ROCm uses, is not counted: such a process has DRM clients as well, with
counters that stand still. From RDNA 3 on, decoding is counted as encoding, because VCN has one
queue for both. Sources: ``amdgpu_fdinfo.c`` and ``vcn_v4_0.c`` in ``drivers/gpu/drm/amd/amdgpu``.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from exporter.model import (
    Clock,
    DeviceMemory,
    ProcessMemory,
    Unmeasured,
    Window,
)
from exporter.sources.gpus.amd.device import COMPUTE, ActivitySample, AmdDevice
from exporter.sources.gpus.amd.kfd import processes_of
from exporter.sources.gpus.drm.clients import DeviceClients, activities_of
from exporter.sources.gpus.drm.discovery import COPY, CORE, DECODER, ENCODER
from exporter.sources.gpus.drm.fdinfo import held_by
from exporter.sources.gpus.drm.holders import HandleScan
from exporter.sources.gpus.source import Demand
from exporter.sources.gpus.sysfs import RefusedError

ROLES = (CORE, ENCODER, DECODER)
RDNA_3 = 110_000  # its first target version
NO_KIND: frozenset[str] = frozenset()  # fdinfo does not say who computes and who draws


class ClientDevice:
    """Wraps an ``AmdDevice`` and adds the use of DRM clients. One caller at a time.

    The device is as busy as it reports, and at least as its clients together. The rest was used by
    KFD's processes or by the kernel.
    """

    def __init__(self, kfd: AmdDevice, clients: DeviceClients, sysfs: Path, clock: Clock) -> None:
        self.device = kfd.device
        self.found = kfd.found
        self._kfd = kfd
        one_queue = kfd.found.node is not None and kfd.found.node.gfx >= RDNA_3
        self._roles = (CORE, ENCODER) if one_queue else ROLES
        self._clients = clients
        self._sysfs = sysfs
        self._clock = clock
        self._scan: HandleScan | None = None
        self._computing: frozenset[int] = frozenset()  # pids of KFD's that have it open
        self._blind: Unmeasured | None = None
        self._held: dict[int, int | None] = {}

    def use_scan(self, scan: HandleScan | None) -> None:
        """Takes the newest scan of the processes; None before the first."""
        if scan is None or scan is self._scan:
            return
        self._scan, self._blind = scan, scan.blind
        try:
            processes = processes_of(self._sysfs)
            self._computing = self._clients.holders(scan).intersection(processes)
        except RefusedError:  # the clients of KFD's processes cannot be identified
            self._blind = self._blind or Unmeasured.NO_PERMISSION

    @property
    def has_all_clients(self) -> bool:
        """Whether all of its clients are visible, so that it is idle while they are."""
        return self._scan is not None and not self._scan.cut and self._blind is None

    @property
    def has_work(self) -> bool:
        """Whether a process of KFD has it open."""
        return bool(self._computing) or self._kfd.has_work

    def window(self, sample: ActivitySample) -> Window | None:
        """The window until now; None before the first scan of the processes."""
        scan = self._scan
        if scan is None:
            return None
        use = self._clients.read(scan, self._clock.monotonic_ns())
        memory = held_by(use.clients, self.device, None, scan.cut)
        self._held = {p.pid: p.used_bytes for p in memory.processes or ()}
        window = self._kfd.window(sample)
        if window is None or self._blind:
            return window
        return self._with(window, use.used)._replace(unmeasured_pids=scan.cut)

    def memory(self, demand: Demand, total: int | None, used: int | None) -> DeviceMemory:
        """Memory by process, from fdinfo and KFD: neither has all of it."""
        memory = self._kfd.memory(demand, total, used)
        if self._scan is None or self._blind:
            return memory
        of_kfd = {p.pid: p.used_bytes for p in memory.processes or ()}
        pids = sorted({*self._held, *of_kfd, *self._computing})
        return replace(memory, processes=tuple(self._resident(pid, of_kfd) for pid in pids))

    def _resident(self, pid: int, of_kfd: Mapping[int, int | None]) -> ProcessMemory:
        """The larger of KFD's and fdinfo's memory: the two may overlap, so they are not added."""
        sizes = [size for size in (self._held.get(pid), of_kfd.get(pid)) if size is not None]
        size = max(sizes, default=None if pid in self._held else 0)
        computes = pid in self._computing or pid in of_kfd
        return ProcessMemory(pid, size, COMPUTE if computes else NO_KIND)

    def unmeasured(self, window: Window | None) -> dict[str, Unmeasured]:
        reasons = self._kfd.unmeasured(window)
        if self._blind:
            missing = (*ROLES, "memory") if "memory" in reasons else ROLES
            return {**reasons, **dict.fromkeys(missing, self._blind)}
        return {q: reason for q, reason in reasons.items() if q not in (*self._roles, "memory")}

    def _with(self, window: Window, used: Mapping[int, Mapping[str, int]]) -> Window:
        """The window with the use of its clients, scaled to the observed part of the window."""
        observed_ns = window.observed_ns
        whole_ns = max(observed_ns + window.unobserved_ns, 1)
        parts = {
            pid: {role: ns * observed_ns // whole_ns for role, ns in own.items()}
            for pid, own in used.items()
        }
        busy, processes = activities_of(parts, self._roles, observed_ns)
        core_ns, how = window.busy.core, "fdinfo" if window.busy.core is None else "rates"
        return window._replace(
            busy=busy._replace(
                core=max(busy.core or 0, core_ns or 0), memory_active=window.busy.memory_active
            ),
            processes=processes,
            methods=replace(window.methods, busy=how, shares="fdinfo"),
            per_sample=True,  # they are counters, and not to be scaled up to what others did
            counted=self._counted(window.counted, used),
        )

    def _counted(
        self, of_kfd: Mapping[str, Mapping[int, int]], used: Mapping[int, Mapping[str, int]]
    ) -> Mapping[str, Mapping[int, int]]:
        """KFD's counters and the copy time of clients, which do not overlap."""
        if self._computing and COPY not in of_kfd:
            return of_kfd
        copied = dict(of_kfd.get(COPY, {}))
        for pid, own in used.items():
            if own.get(COPY):
                copied[pid] = copied.get(pid, 0) + own[COPY]
        return {**of_kfd, COPY: copied}
