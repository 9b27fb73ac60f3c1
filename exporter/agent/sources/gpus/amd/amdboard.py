"""Reads one AMD board: its sensors, and its device or its partitions.

A partitioned board has power, energy and sensors as a whole, because no file splits them. Each
partition has its own processes, memory and, if ``gpu_metrics`` has it, activity.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

from exporter.agent.sources import door
from exporter.agent.sources.door import Absent, Cut, Failed, Refused, Whole
from exporter.agent.sources.gpus import sysfs
from exporter.agent.sources.gpus.amd.amdclients import ClientDevice
from exporter.agent.sources.gpus.amd.amddevice import LONGEST_NS, ActivitySample, AmdDevice
from exporter.agent.sources.gpus.amd.amddiscovery import FoundBoard
from exporter.agent.sources.gpus.amd.gpumetrics import GpuMetrics, decode, decode_partition
from exporter.agent.sources.gpus.amd.kfdprocesses import KfdList
from exporter.agent.sources.gpus.amd.sensors import ERROR_FILES, Throttling, errors_of
from exporter.agent.sources.gpus.board_energy import BoardEnergy
from exporter.agent.sources.gpus.drm.drmboard import PowerState, RuntimeSleep
from exporter.agent.sources.gpus.drm.drmclients import DeviceClients
from exporter.agent.sources.gpus.drm.holders import HandleScan
from exporter.agent.sources.gpus.energy import EnergyUse, with_energy
from exporter.agent.sources.gpus.fleet import GONE
from exporter.agent.sources.gpus.gpusource import Demand
from exporter.agent.sources.gpus.hwmon import Hwmon, unmeasured
from exporter.model import (
    MODULE,
    QUANTITIES,
    SECOND_NS,
    Clock,
    DeviceMemory,
    DeviceReading,
    DeviceState,
    Sensors,
    Unmeasured,
    Window,
)

logger = logging.getLogger(__name__)

MOST_PERCENT = 100
WITHOUT_METRICS = (
    "throttling, the use of partitions and energy by counter are unknown, and what else has no "
    "file of its own"
)
OLD_FORM = (
    "fdinfo has amdgpu's form of before Linux 5.19, which names no client: who uses the board is "
    "known of ROCm's processes alone, until the kernel is newer"
)
LONGEST_PAUSE_NS = 15 * SECOND_NS  # amdgpu lets a board sleep after 5 s by default
IDLE_COVERS_NS = LONGEST_PAUSE_NS + LONGEST_NS  # idle before the pause and after it: throughout
SENSED = {"power": "power", "power_limit": "power", "temperature": "temperature", "clock": "clocks"}
FILES = {  # what is only in them, or in them first
    "gpu_busy_percent": ("core",),
    "mem_busy_percent": ("memory_active",),
    "mem_info_vram_total": ("device_memory",),
    "mem_info_vram_used": ("device_memory",),
    "gpu_metrics": ("throttle",),
    **dict.fromkeys(ERROR_FILES, ("ecc_errors",)),
}
T = TypeVar("T")

UNDER_PARTITIONS = dict.fromkeys((*QUANTITIES, "memory"), Unmeasured.PARTITIONED)


class NodeProcesses(NamedTuple):
    """What a cycle has of the node's processes: who has which device open, and KFD's.

    ``devices``: how many devices ask about the latter.
    """

    scan: HandleScan | None = None
    kfd: KfdList | None = None
    devices: int = 1


class AmdBoard:
    """Reads one board. One caller at a time.

    ``before`` is the same board with its earlier partitions: ``energy`` and ``throttling`` of the
    board go on.
    """

    def __init__(
        self,
        found: FoundBoard,
        procfs: Path,
        clock: Clock,
        before: "AmdBoard | None" = None,
    ) -> None:
        self.found = found
        self._folder = found.folder
        self._clock = clock
        self._hwmon = Hwmon(str(found.folder), "amdgpu")
        self._whole: AmdDevice | ClientDevice = AmdDevice(found.whole, clock)
        if not found.parts:
            address = found.whole.device.pci_bus_id
            clients = DeviceClients(found.minors, (address,), str(procfs))
            shares = found.shares_host
            self._whole = ClientDevice(self._whole, clients, clock, shares_host=shares)
        self._parts = tuple(AmdDevice(part, clock) for part in found.parts)
        nodes = (each.node for each in (found.whole, *found.parts))
        self._gfx = next((node.gfx for node in nodes if node), 0)
        self.energy: BoardEnergy = before.energy if before else BoardEnergy()
        self.throttling: Throttling = before.throttling if before else Throttling()
        self._rest = RuntimeSleep(str(found.folder / "power"), LONGEST_PAUSE_NS)
        self._paused = False  # it was not read since the last full read, so that it can fall asleep
        self._sample = ActivitySample(None, None)  # the board's newest
        self._parts_busy: Mapping[int, float] = {}  # percent by partition, in that sample
        self._sensors = Sensors()
        self._sensed_mono_ns: int | None = None
        self._unknown = ""  # a table of gpu_metrics
        self._unread: dict[str, Unmeasured] = {}  # why, by the name of a file that is there

    @property
    def by_clients(self) -> bool:
        """Whether its processes are found by their DRM clients, too."""
        return isinstance(self._whole, ClientDevice)

    @property
    def needs_clients(self) -> bool:
        """Whether they are found by nothing else."""
        return self.by_clients and not self._whole.has_occupancy

    @property
    def by_kfd(self) -> int:
        """The number of its devices that KFD has processes of."""
        return sum(each.found.node is not None for each in (self._whole, *self._parts))

    def read(self, demand: Demand, lists: NodeProcesses) -> tuple[DeviceReading, ...]:
        """The readings of the board and its partitions."""
        if isinstance(self._whole, ClientDevice):
            self._whole.follow(lists.scan, lists.kfd, lists.devices)
        for part in self._parts:
            part.follow(lists.kfd, lists.devices)
        if door.is_gone(self._folder / "drm"):
            return self.unread(DeviceState.LOST, GONE)
        now_ns = self._clock.monotonic_ns()
        state = PowerState.AWAKE if demand.wake else self._rest.state(now_ns)
        if state is PowerState.ASLEEP:
            return self._asleep(demand)
        # A board that a process of KFD uses does not fall asleep, so nothing is won by waiting.
        has_work = any(device.has_work for device in (self._whole, *self._parts))
        if state is PowerState.DROWSY and not has_work:
            return self._drowsy(demand)
        metrics = self._metrics()
        core = self._percent("gpu_busy_percent", metrics.gfx_percent)
        active = self._percent("mem_busy_percent", metrics.umc_percent)
        self._parts_busy = self._busy_by_part(metrics)
        # A board is as busy as its busiest partition. If the board's own figure is missing,
        # partitions that report 0 do not prove that it is idle.
        busiest = max((p for p in (core, *self._parts_busy.values()) if p), default=core)
        idle = busiest == 0 and not active
        covers_ns = self._covers_ns(idle=idle)
        self._sample = ActivitySample(core, active)
        window = self._window(self._sample, covers_ns)
        self._rest.note(now_ns, idle=idle and not _has_worked(window))
        # Energy that is taken without a window to put it in would be lost: it waits for the next.
        # Only the very first read has none, and begins the counter.
        if window is not None or not self.energy.begun:
            counter = self._hwmon.energy_uj() if metrics.energy_uj is None else metrics.energy_uj
            busy_ns = None if busiest is None else int(busiest * SECOND_NS)
            energy = self.energy.take(counter, self._hwmon.power_mw, now_ns, busy_ns)
            window = window and with_energy(window, energy, self.energy.method)
        self._sense(metrics, demand)
        parts = (self._part(part, covers_ns, demand) for part in self._parts)
        return (self._board(window, demand), *parts)

    def unread(self, state: DeviceState, detail: str) -> tuple[DeviceReading, ...]:
        devices = (self._whole.device, *(part.device for part in self._parts))
        return tuple(DeviceReading(device, state, detail) for device in devices)

    def _window(self, sample: ActivitySample, covers_ns: int) -> Window | None:
        own = ActivitySample(None, None) if self._parts else sample
        window = self._whole.window(own._replace(covers_ns=covers_ns))
        is_unread = sample.core is None and "gpu_busy_percent" in self._unread
        is_unread = is_unread or self._whole.found.refused
        if window and is_unread and isinstance(self._whole, ClientDevice):
            both = window.unmeasured_pids | self._whole.computing
            return window._replace(unmeasured_pids=both)
        return window

    def _covers_ns(self, *, idle: bool) -> int:
        """How much time the sample that is taken now covers, at most."""
        paused, self._paused = self._paused, False
        return IDLE_COVERS_NS if paused and idle else LONGEST_NS

    def _drowsy(self, demand: Demand) -> tuple[DeviceReading, ...]:
        """The readings while the board may fall asleep: nothing is read that keeps it awake.

        Reading its clients wakes nothing. Until they work, the board is as idle as in its last
        sample; then it is read again. If clients are not visible, the window waits for the next
        full read.
        """
        self._paused = True
        window = None
        whole = self._whole
        if isinstance(whole, ClientDevice) and whole.has_all_clients and not whole.has_occupancy:
            window = self._whole.window(self._sample)
        if window and _has_worked(window):
            self._rest.note(self._clock.monotonic_ns(), idle=False)
            # The last sample's 0 was of an idle board. How busy memory is now is not known.
            window = window._replace(busy=window.busy._replace(memory_active=None))
        window = window and with_energy(window, EnergyUse(), self.energy.method)
        parts = (self._part(part, None, demand) for part in self._parts)
        return (self._board(window, demand), *parts)

    def _asleep(self, demand: Demand) -> tuple[DeviceReading, ...]:
        """The readings while the board sleeps, and is idle: nothing is read that would wake it."""
        covers_ns = self._covers_ns(idle=True)
        self._parts_busy = {part.found.partition: 0.0 for part in self._parts}
        window = self._window(ActivitySample(0.0, 0.0), covers_ns)
        self.energy.sleep()
        self._sensors = self._sensors.but(
            power_watts=None,
            power_limit_watts=None,
            temperature_celsius={},
            clock_hertz={},
        )
        window = window and with_energy(window, EnergyUse(), self.energy.method)
        whole = self._board(window, demand)
        reasons = {
            q: Unmeasured.ASLEEP for q, group in SENSED.items() if group not in demand.disabled
        }
        parts = (self._part(part, covers_ns, demand) for part in self._parts)
        return (whole._replace(unmeasured={**whole.unmeasured, **reasons}), *parts)

    def _metrics(self) -> GpuMetrics:
        read = self._read(self._folder / "gpu_metrics", partial(decode, gfx=self._gfx))
        metrics = read or GpuMetrics()
        if metrics.unknown and metrics.unknown != self._unknown:
            logger.warning(
                "%s: gpu_metrics %s is not known: %s; report it with this number",
                *(self.found.whole.device.uuid, metrics.unknown, WITHOUT_METRICS),
            )
        self._unknown = metrics.unknown
        return metrics

    def _busy_by_part(self, metrics: GpuMetrics) -> Mapping[int, float]:
        """The busy percentage of each partition: by the board's table, else by the partition's."""
        found = metrics.of_partitions(len(self._parts)) if self._parts else {}
        if found or not self._parts:
            return found
        tables = {part.found.partition: part.found.folder for part in self._parts}
        each = {
            number: self._read(folder / "xcp/xcp_metrics", decode_partition)
            for number, folder in tables.items()
            if folder is not None
        }
        return {number: percent for number, percent in each.items() if percent is not None}

    def _read(self, path: Path, parse: Callable[[bytes], T]) -> T | None:
        """What is in a file; None if it is not there, or not read, which is noted by its name."""
        reply = door.parsed(sysfs.read(path), parse)
        self._unread.pop(path.name, None)
        match reply:
            case Whole(value) | Cut(value):
                return value
            case Refused():
                self._unread[path.name] = Unmeasured.NO_PERMISSION
            case Failed():
                self._unread[path.name] = Unmeasured.READ_FAILED
            case Absent():
                pass
        return None

    def _count(self, name: str) -> int | None:
        return self._read(self._folder / name, sysfs.count_of)

    def _percent(self, name: str, otherwise: float | None) -> float | None:
        percent = self._read(self._folder / name, _percent_of)
        return otherwise if percent is None else percent

    def _memory_errors(self) -> Mapping[str, float]:
        """Errors of the device memory since the driver was loaded; {} on boards without RAS."""
        for name in ERROR_FILES:
            if (found := self._read(self._folder / "ras" / name, errors_of)) is not None:
                return found
        return {}

    def _board(self, window: Window | None, demand: Demand) -> DeviceReading:
        """The reading of the board; of a partitioned one without use and memory."""
        memory, reasons = None, dict(UNDER_PARTITIONS)
        if not self._parts:
            total = self._count("mem_info_vram_total")
            memory = self._memory(demand, total)
            reasons = self._whole.unmeasured(window)
            if None in {total, memory.used_bytes}:
                reasons["device_memory"] = Unmeasured.READ_FAILED
            elif memory.total_bytes is None:
                reasons["device_memory"] = Unmeasured.NOT_SUPPORTED
        reasons |= unmeasured(self._sensors, self.energy, demand.disabled, self._hwmon.unmeasured)
        if self._whole.device.sharing == MODULE:
            # What is known of the first die is its module's, and of the second there is nothing.
            missing = (q for q in ("power", "power_limit") if q in reasons)
            reasons |= dict.fromkeys(("energy", *missing), Unmeasured.MODULE)
        known = {q for q, why in reasons.items() if why is not Unmeasured.PARTITIONED}
        for name, why in self._unread.items():
            reasons |= dict.fromkeys(known.intersection(FILES.get(name, ())), why)
        refused = (n for n, why in self._unread.items() if why is Unmeasured.NO_PERMISSION)
        said = [f"{name} may not be read" for name in sorted(refused)]
        if self._unknown:
            said.append(f"gpu_metrics {self._unknown} is not known")
        if isinstance(self._whole, ClientDevice) and self._whole.has_old_form:
            said.append(OLD_FORM)
        if self.found.shares_host:
            said.append("its memory is its host's, GTT included")
        return DeviceReading(
            self._whole.device,
            detail="; ".join(said),
            window=window,
            memory=memory,
            sensors=self._sensors,
            unmeasured=reasons,
        )

    def _memory(self, demand: Demand, total: int | None) -> DeviceMemory:
        """The memory of a board without partitions.

        A total of 0 is none. Neither is 0 in use where processes hold some: they have it in use.
        The kernel's count of GTT may lack what KFD gave out of it (legacy-rocm-build#5444).
        """
        used = self._count("mem_info_vram_used")
        if self.found.shares_host:
            in_gtt = self._count("mem_info_gtt_used")
            total, used = None, (used or 0) + in_gtt if in_gtt else 0
        memory = self._whole.memory(demand, total or None, used)
        held = _as_held(memory) if used == 0 or self.found.shares_host else memory
        return held if used == 0 or (held.used_bytes or 0) > (used or 0) else memory

    def _part(self, part: AmdDevice, covers_ns: int | None, demand: Demand) -> DeviceReading:
        """The reading of a partition; without ``covers_ns`` its window waits."""
        percent = self._parts_busy.get(part.found.partition)
        window = (
            None if covers_ns is None else part.window(ActivitySample(percent, None, covers_ns))
        )
        memory = part.memory(demand, part.device.memory_bytes, None)
        memory = _as_held(memory)  # no file says how much of a partition is in use
        reasons = part.unmeasured(window)
        reasons["energy"] = Unmeasured.PARTITIONED
        if percent is None:
            reasons["core"] = Unmeasured.PARTITIONED
        return DeviceReading(part.device, window=window, memory=memory, unmeasured=reasons)

    def _sense(self, metrics: GpuMetrics, demand: Demand) -> None:
        now_ns = self._clock.monotonic_ns()
        last_ns = self._sensed_mono_ns
        if last_ns is None or now_ns - last_ns >= demand.sensors_every_ns:
            self._sensed_mono_ns = now_ns
            off = demand.disabled
            self._sensors = self._hwmon.sensors(off).but(
                throttle_seconds_total={}
                if "throttle" in off
                else self.throttling.add(metrics, now_ns),
                ecc_errors_total={} if "ecc" in off else self._memory_errors(),
            )


def _percent_of(content: bytes) -> float:
    percent = sysfs.count_of(content)
    # The kernel ends each number: a part of 70 would be 7.
    if percent > MOST_PERCENT or not content.endswith(b"\n"):
        raise ValueError(percent)
    return float(percent)


def _as_held(memory: DeviceMemory) -> DeviceMemory:
    """The memory, of which that is in use which its processes hold; None if they are not known."""
    held = [process.used_bytes for process in memory.processes or ()]
    known = [size for size in held if size is not None]
    is_known = memory.processes is not None and len(known) == len(held)
    return replace(memory, used_bytes=sum(known) if is_known else None)


def _has_worked(window: Window | None) -> bool:
    """Whether any engine of the device is known to have worked."""
    if window is None:
        return False
    busy = (getattr(window.busy, quantity) for quantity in QUANTITIES)
    return any(busy) or any(window.counted.values())
