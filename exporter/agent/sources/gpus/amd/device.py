"""Reads the window and the memory of one board or partition from its files.

The kernel documents no counter of its busy time, or of its processes'. So both are sampled once a
cycle, and the newest sample covers the time since the one before.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from exporter.agent.sources.gpus.amd.discovery import KfdDevice
from exporter.agent.sources.gpus.amd.kfd import CounterSums, counted, occupied, processes_of, vram
from exporter.agent.sources.gpus.amd.metrics import CENTRAL_GFX
from exporter.agent.sources.gpus.source import Demand
from exporter.agent.sources.gpus.sysfs import RefusedError, is_gone
from exporter.model import (
    Clock,
    DeviceMemory,
    Engines,
    Methods,
    ProcessActivity,
    ProcessMemory,
    Unmeasured,
    Window,
)

COMPUTE = frozenset({"compute"})
OF_PROCESSES = ("core", "memory")
OF_THE_DEVICE_ONLY = ("memory_active", "encoder", "decoder")  # no file has a process's part
LONGEST_NS = 5_000_000_000  # the most that one sample covers
LATELY_NS = 15_000_000_000  # a process that works in bursts is only now and then in a sample


class ActivitySample(NamedTuple):
    """The busy percentages of a device; None if not reported.

    ``covers_ns``: how much time before it the sample covers, at most.
    """

    core: float | None
    memory: float | None
    covers_ns: int = LONGEST_NS


class ActivityWindows:
    """Contiguous windows of one device, by the monotonic clock."""

    def __init__(self, share: float, units: int) -> None:
        self._share = share
        self._units = units
        self._end_unix_ns: int | None = None
        self._ended_mono_ns = 0
        self._last: Mapping[int, int] = {}
        self._last_mono_ns = 0

    def cut(
        self, sample: ActivitySample, cus: Mapping[int, int] | None, unix_ns: int, mono_ns: int
    ) -> Window | None:
        """The window that ends now; None before the first.

        ``cus``: compute units with waves of each process; None if not reported.
        """
        passed_ns = mono_ns - self._ended_mono_ns
        start_ns, self._ended_mono_ns = self._end_unix_ns, mono_ns
        if start_ns is None:
            self._end_unix_ns = unix_ns
            return None
        if passed_ns <= 0:
            return None
        self._end_unix_ns = start_ns + passed_ns
        # One sample is of a moment. It stands for the time since the sample before, but for no
        # more than some seconds: the rest of a long pause was not observed.
        observed_ns = min(passed_ns, sample.covers_ns)
        is_measured = sample.core is not None
        processes: tuple[ProcessActivity, ...] = ()
        if is_measured:
            # Each process's part of the device's compute units, as if it were so all the time. What
            # they add up to may differ from the device's time: the join scales them.
            at_work = self._at_work(cus or {})
            most_ns, units = int(observed_ns * self._share), max(self._units, *at_work.values(), 1)
            processes = tuple(
                ProcessActivity(pid, Engines(core=most_ns * occupied // units))
                for pid, occupied in at_work.items()
            )
        return Window(
            start_unix_ns=start_ns,
            end_unix_ns=self._end_unix_ns,
            observed_ns=observed_ns,
            unobserved_ns=passed_ns - observed_ns,
            busy=Engines(
                core=self._busy(sample.core, observed_ns),
                memory_active=self._busy(sample.memory, observed_ns),
            ),
            processes=processes,
            methods=Methods(
                busy="rates" if is_measured else "none",
                shares="cu_occupancy" if is_measured and cus is not None else "none",
            ),
        )

    def _busy(self, percent: float | None, observed_ns: int) -> int | None:
        return None if percent is None else int(observed_ns * self._share * percent / 100)

    def _at_work(self, cus: Mapping[int, int]) -> Mapping[int, int]:
        """The processes with waves in flight; if there are none now, those of the last time.

        A device that was busy, and idle at the sample, probably worked for one of those. Otherwise
        processes that work in short bursts would be charged too little.
        """
        here = {pid: occupied for pid, occupied in cus.items() if occupied}
        if here:
            self._last, self._last_mono_ns = here, self._ended_mono_ns
        elif self._ended_mono_ns - self._last_mono_ns <= LATELY_NS:
            return {pid: occupied for pid, occupied in self._last.items() if pid in cus}
        return here


class AmdDevice:
    """A board or partition, by KFD's files of its processes. One caller at a time."""

    def __init__(self, found: KfdDevice, sysfs: Path, clock: Clock) -> None:
        self.device = found.device
        self.found = found
        self._clock = clock
        self._sysfs = sysfs
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

    @property
    def is_refused(self) -> bool:
        """Whether its processes may not be read, so that nothing is known of them."""
        return self._refused or self.found.refused

    def window(self, sample: ActivitySample) -> Window | None:
        """The window until now; ``sample`` covers all of it."""
        cus = self._cus()
        now = self._clock.time_ns(), self._clock.monotonic_ns()
        window = self._windows.cut(sample, cus, *now)
        return window and window._replace(counted=self._counting.take())

    def memory(self, demand: Demand, total: int | None, used: int | None) -> DeviceMemory:
        """The size, the use, and the use of each process: each is known without the others."""
        size = self.device.memory_bytes if total is None else total
        node, now_ns = self.found.node, self._clock.monotonic_ns()
        if node is None or self._refused:
            return DeviceMemory(size, used, None, None)
        listed_ns = self._listed_mono_ns
        if listed_ns is None or now_ns - listed_ns >= demand.processes_every_ns:
            try:
                folders = processes_of(self._sysfs)
                sizes = {pid: vram(folder, node.gpu_id) for pid, folder in folders.items()}
                counters = {pid: counted(folder, node.gpu_id) for pid, folder in folders.items()}
            except RefusedError:
                self._refused = True
                return DeviceMemory(size, used, None, None)
            self._counting.add(counters)
            # KFD has files of every process for every GPU, also those that it never used. Only one
            # that holds memory here is this GPU's.
            held = {pid: of_process for pid, of_process in sizes.items() if of_process}
            self._listed = (self._listed & folders.keys()) | held.keys()
            self._held = tuple(
                ProcessMemory(pid, of_process, COMPUTE) for pid, of_process in held.items()
            )
            self._listed_mono_ns = now_ns
        return DeviceMemory(size, used, None, self._held)

    def unmeasured(self, window: Window | None) -> dict[str, Unmeasured]:
        reasons = dict.fromkeys(OF_THE_DEVICE_ONLY, Unmeasured.NOT_SUPPORTED)
        if self.is_refused:
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
            folders = processes_of(self._sysfs)
            found = {p: occupied(f, node.gpu_id) for p, f in folders.items()}
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
            # A process that works and is not listed is looked for at once. If it holds nothing, it
            # is so only once, and not in each cycle.
            self._listed_mono_ns = None
            self._listed |= active
        return known if self._occupancy else None
