"""A board without ``cu_occupancy``: what its DRM clients use, by fdinfo, beside what KFD tells.

amdgpu counts the time of its own queues for each client: graphics, compute and video by Mesa. The
time of KFD's queues, which ROCm uses, is counted nowhere; such a process has DRM clients as well,
and they are silent. Source: ``drivers/gpu/drm/amd/amdgpu/amdgpu_fdinfo.c``.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from exporter.model import (
    Clock,
    DeviceMemory,
    Engines,
    ProcessActivity,
    ProcessMemory,
    Unmeasured,
    Window,
)
from exporter.sources.gpus.amd.activity import ActivitySample
from exporter.sources.gpus.amd.device import COMPUTE, AmdDevice
from exporter.sources.gpus.amd.files import RefusedError
from exporter.sources.gpus.amd.kfd import pids_of
from exporter.sources.gpus.drm.clients import ClientAccounts, ClientReader, by_process
from exporter.sources.gpus.drm.discovery import COPY, CORE, DECODER, ENCODER
from exporter.sources.gpus.drm.fdinfo import held_by
from exporter.sources.gpus.drm.holders import HandleScan
from exporter.sources.gpus.source import Demand

ROLES = (CORE, ENCODER, DECODER)
OF_NOBODY: frozenset[str] = frozenset()  # fdinfo does not tell who computes and who draws


class ClientDevice:
    """Stands where ``AmdDevice`` does, and around one. One caller at a time.

    The device is as busy as it says, and never less than its clients together: what they do not
    explain is KFD's processes', or the kernel's.
    """

    def __init__(self, kfd: AmdDevice, reader: ClientReader, sysfs: Path, clock: Clock) -> None:
        self.device = kfd.device
        self.found = kfd.found
        self._kfd = kfd
        self._reader = reader
        self._sysfs = sysfs
        self._clock = clock
        self._clients = ClientAccounts()
        self._sight: HandleScan | None = None
        self._computing: frozenset[int] = frozenset()  # pids of KFD's that have it open
        self._blind: Unmeasured | None = None
        self._held: dict[int, int | None] = {}

    def see(self, sight: HandleScan | None) -> None:
        """Take the newest look at the processes; None before the first."""
        if sight is None or sight is self._sight:
            return
        self._sight, self._blind = sight, sight.blind
        try:
            self._computing = self._reader.holders(sight) & pids_of(self._sysfs)
        except RefusedError:  # whose clients are silent because they are KFD's is not known
            self._blind = self._blind or Unmeasured.NO_PERMISSION

    @property
    def sees_clients(self) -> bool:
        """Whether all of its clients are seen, so that it is idle while they are."""
        return self._sight is not None and not self._sight.cut and self._blind is None

    @property
    def has_work(self) -> bool:
        """Whether a process of KFD has it open."""
        return bool(self._computing) or self._kfd.has_work

    def window(self, sample: ActivitySample) -> Window | None:
        """The window until now; none before the processes have been looked through."""
        sight = self._sight
        if sight is None:
            return None
        asked = self._reader.ask(sight)
        since_ns = None if self._blind else sight.since_mono_ns
        clients = [client for _, client in asked.values()]
        holders = {client_id: pid for client_id, (pid, _) in asked.items()}
        unsure = [i for i, pid in holders.items() if pid in sight.cut or pid in sight.was_cut]
        spent = self._clients.take(clients, self._clock.monotonic_ns(), since_ns, unsure)
        memory = held_by(asked.values(), self.device, None, sight.cut)
        self._held = {p.pid: p.used_bytes for p in memory.processes or ()}
        window = self._kfd.window(sample)
        if window is None or self._blind:
            return window
        return self._with(window, by_process(spent, holders))._replace(unmeasured_pids=sight.cut)

    def memory(self, demand: Demand, total: int | None, used: int | None) -> DeviceMemory | None:
        """Who holds how much: by fdinfo and by KFD, of which neither has all."""
        memory = self._kfd.memory(demand, total, used)
        if memory is None or self._sight is None or self._blind:
            return memory
        of_kfd = {p.pid: p.used_bytes for p in memory.processes or ()}
        pids = sorted({*self._held, *of_kfd, *self._computing})
        return replace(memory, processes=tuple(self._resident(pid, of_kfd) for pid in pids))

    def _resident(self, pid: int, of_kfd: Mapping[int, int | None]) -> ProcessMemory:
        """Memory by KFD may be in fdinfo as well: the larger one is certainly held."""
        told = [size for size in (self._held.get(pid), of_kfd.get(pid)) if size is not None]
        size = max(told, default=None if pid in self._held else 0)
        computes = pid in self._computing or pid in of_kfd
        return ProcessMemory(pid, size, COMPUTE if computes else OF_NOBODY)

    def unmeasured(self, window: Window | None) -> dict[str, Unmeasured]:
        """What cannot be told of processes, or of the device at all, and why."""
        reasons = self._kfd.unmeasured(window)
        if self._blind:
            untold = (*ROLES, "memory") if "memory" in reasons else ROLES
            return {**reasons, **dict.fromkeys(untold, self._blind)}
        return {q: reason for q, reason in reasons.items() if q not in (*ROLES, "memory")}

    def _with(self, window: Window, used: Mapping[int, Mapping[str, int]]) -> Window:
        """The window with what clients used in it; of a long one, the observed part of that."""
        observed_ns = window.observed_ns
        whole_ns = max(observed_ns + window.unobserved_ns, 1)
        parts = {
            pid: {role: ns * observed_ns // whole_ns for role, ns in own.items()}
            for pid, own in used.items()
        }
        sums = {
            role: min(sum(own.get(role, 0) for own in parts.values()), observed_ns)
            for role in ROLES
        }
        told = window.busy.core is not None
        sums[CORE] = max(sums[CORE], window.busy.core or 0)
        return window._replace(
            busy=window.busy._replace(**sums),
            processes=tuple(
                ProcessActivity(pid, Engines(**{role: own.get(role, 0) for role in ROLES}))
                for pid, own in parts.items()
                if any(own.get(role) for role in ROLES)
            ),
            methods=replace(window.methods, busy="rates" if told else "fdinfo", shares="fdinfo"),
            per_sample=True,  # they are counters, and not to be scaled up to what others did
            counted=self._counted(window.counted, used),
        )

    def _counted(
        self, of_kfd: Mapping[str, Mapping[int, int]], used: Mapping[int, Mapping[str, int]]
    ) -> Mapping[str, Mapping[int, int]]:
        """KFD's counters, and the copy time of clients, which is none of those."""
        if self._computing and COPY not in of_kfd:
            return of_kfd
        copied = dict(of_kfd.get(COPY, {}))
        for pid, own in used.items():
            if own.get(COPY):
                copied[pid] = copied.get(pid, 0) + own[COPY]
        return {**of_kfd, COPY: copied}
