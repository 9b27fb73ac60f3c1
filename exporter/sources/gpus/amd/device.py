"""Reads the window and the memory of one board or partition from its files."""

from collections.abc import Mapping
from pathlib import Path

from exporter.model import (
    Clock,
    DeviceMemory,
    ProcessMemory,
    Unmeasured,
    Window,
)
from exporter.sources.gpus.amd.activity import ActivitySample, ActivityWindows
from exporter.sources.gpus.amd.discovery import KfdDevice
from exporter.sources.gpus.amd.kfd import CounterSums, KfdProcesses
from exporter.sources.gpus.amd.metrics import CENTRAL_GFX
from exporter.sources.gpus.source import Demand
from exporter.sources.gpus.sysfs import RefusedError, is_gone

SECOND = 1_000_000_000
COMPUTE = frozenset({"compute"})
OF_PROCESSES = ("core", "memory")
OF_THE_DEVICE_ONLY = ("memory_active", "encoder", "decoder")  # no file has a process's part


class AmdDevice:
    """A board or partition, by KFD's files of its processes. One caller at a time."""

    def __init__(self, found: KfdDevice, sysfs: Path, clock: Clock) -> None:
        self.device = found.device
        self.found = found
        self._clock = clock
        self._processes = KfdProcesses(sysfs)
        node = found.node
        self._windows = ActivityWindows(found.device.core_share, node.cus if node else 0)
        self._central = bool(node and node.cus and node.gfx // 10_000 == CENTRAL_GFX)
        self._held: tuple[ProcessMemory, ...] | None = None
        self._listed_mono_ns: int | None = None
        self._listed: frozenset[int] = frozenset()
        self._refused = False
        self._occupancy = self._central
        self._counting = CounterSums()

    @property
    def has_occupancy(self) -> bool:
        """Whether this kind of GPU has ``cu_occupancy``: the family gfx9."""
        return self._central

    @property
    def has_work(self) -> bool:
        """Whether a process of KFD holds something on it."""
        return bool(self._held)

    def window(self, sample: ActivitySample) -> Window | None:
        """The window until now; ``sample`` covers all of it."""
        cus = self._cus()
        now = self._clock.time_ns(), self._clock.monotonic_ns()
        window = self._windows.cut(sample, cus, *now)
        return window and window._replace(counted=self._counting.take())

    def memory(self, demand: Demand, total: int | None, used: int | None) -> DeviceMemory | None:
        """Memory by process. ``used`` None (a partition): the sum of its processes is in use."""
        if total is None:
            return None
        processes = self._residents(demand)
        if used is None and processes is not None:
            used = sum(process.used_bytes or 0 for process in processes)
        return None if used is None else DeviceMemory(total, used, None, processes)

    def unmeasured(self, window: Window | None) -> dict[str, Unmeasured]:
        reasons = dict.fromkeys(OF_THE_DEVICE_ONLY, Unmeasured.NOT_SUPPORTED)
        if self._refused or self.found.refused:
            return {**reasons, **dict.fromkeys(OF_PROCESSES, Unmeasured.NO_PERMISSION)}
        if self.found.node is None:
            return {**reasons, **dict.fromkeys(OF_PROCESSES, Unmeasured.NOT_SUPPORTED)}
        is_missing = window is not None and window.busy.core is None
        if is_missing or not self._occupancy:
            reasons["core"] = Unmeasured.NOT_SUPPORTED
        return reasons

    def _cus(self) -> Mapping[int, int] | None:
        """Occupied compute units by process; None if this kind of GPU does not report them."""
        node = self.found.node
        if node is None:
            return None
        try:
            folders = self._processes.folders()
            found = {p: self._processes.occupied(f, node.gpu_id) for p, f in folders.items()}
        except RefusedError:
            self._refused = True
            return None
        self._refused = False
        known = {pid: cus for pid, cus in found.items() if cus is not None}
        if known:
            self._occupancy = bool(node.cus)
        else:  # no process, or all have ended since the folders were listed
            ended = (is_gone(inner) for each in folders.values() for inner in each)
            self._occupancy = self._central and all(ended)
        active = frozenset(pid for pid, cus in known.items() if cus)
        if not active <= self._listed:
            self._listed_mono_ns = (
                None  # a process that works and is not listed is looked for at once
            )
            self._listed |= active  # and only once, if it holds nothing
        return known if self._occupancy else None

    def _residents(self, demand: Demand) -> tuple[ProcessMemory, ...] | None:
        node, now_ns = self.found.node, self._clock.monotonic_ns()
        if node is None or self._refused:
            return None
        if (
            self._listed_mono_ns is None
            or now_ns - self._listed_mono_ns >= demand.processes_every_ns
        ):
            try:
                self._held = self._list(self._processes.folders(), node.gpu_id)
            except RefusedError:
                self._refused = True
                return None
            self._listed_mono_ns = now_ns
        return self._held

    def _list(self, folders: Mapping[int, list[Path]], gpu_id: int) -> tuple[ProcessMemory, ...]:
        """The processes that hold memory here: KFD has files of every process for every GPU."""
        sizes = {p: self._processes.vram(f, gpu_id) for p, f in folders.items()}
        self._counting.add({p: self._processes.counted(f, gpu_id) for p, f in folders.items()})
        held = {pid: size for pid, size in sizes.items() if size}
        self._listed = (self._listed & folders.keys()) | held.keys()
        return tuple(ProcessMemory(pid, size, COMPUTE) for pid, size in held.items())
