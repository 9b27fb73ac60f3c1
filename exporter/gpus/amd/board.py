"""One board: what it tells of itself, and its device or its partitions.

Of a partitioned board, power, energy and sensors are the board's; no file splits them. Each
partition has its own processes, memory and, where ``gpu_metrics`` has them, figures of activity.
"""

from dataclasses import replace
from pathlib import Path

from exporter.gpus.amd.activity import Sample
from exporter.gpus.amd.clients import ClientDevice
from exporter.gpus.amd.device import AmdDevice
from exporter.gpus.amd.discovery import FoundBoard
from exporter.gpus.amd.energy import BoardEnergy
from exporter.gpus.amd.files import RefusedError, is_gone, read_bytes, read_count
from exporter.gpus.amd.metrics import Metrics, decode
from exporter.gpus.amd.sensors import Hwmon, Throttling, memory_errors
from exporter.gpus.drm.holders import Sight
from exporter.gpus.drm.reader import ClientReader
from exporter.gpus.drm.rest import Rest, State
from exporter.gpus.energy import Metered, with_energy
from exporter.gpus.source import Demand
from exporter.model import (
    QUANTITIES,
    Clock,
    DeviceReading,
    DeviceState,
    Sensors,
    Unmeasured,
    Window,
)

SECOND = 1_000_000_000
WHOLE = 100
LONGEST_PAUSE_NS = 15 * SECOND  # amdgpu lets a board sleep after 5 s, unless told otherwise
SENSED = {"power": "power", "power_limit": "power", "temperature": "temperature", "clock": "clocks"}
UNDER_PARTITIONS = dict.fromkeys((*QUANTITIES, "memory"), Unmeasured.PARTITIONED)


class AmdBoard:
    """Reads one board. One caller at a time.

    ``before`` is the same one as it was found before, partitioned otherwise: what counts of the
    board itself, ``energy`` and ``throttling``, goes on.
    """

    def __init__(
        self,
        found: FoundBoard,
        sysfs: Path,
        procfs: Path,
        clock: Clock,
        before: "AmdBoard | None" = None,
    ) -> None:
        self.found = found
        self._folder = found.folder
        self._clock = clock
        self._hwmon = Hwmon(found.folder)
        self._whole: AmdDevice | ClientDevice = AmdDevice(found.whole, sysfs, clock)
        if not found.parts and not self._whole.tells_parts:
            reader = ClientReader(found.minors, found.whole.device.pci_bus_id, str(procfs))
            self._whole = ClientDevice(self._whole, reader, sysfs, clock)
        self._parts = tuple(AmdDevice(part, sysfs, clock) for part in found.parts)
        nodes = (each.node for each in (found.whole, *found.parts))
        self._gfx = next((node.gfx for node in nodes if node), 0)
        self.energy: BoardEnergy = before.energy if before else BoardEnergy(clock)
        self.throttling: Throttling = before.throttling if before else Throttling()
        self._rest = Rest(str(found.folder / "power"), LONGEST_PAUSE_NS)
        self._sensors = Sensors()
        self._sensed_mono_ns: int | None = None

    @property
    def by_clients(self) -> bool:
        """Whether its processes are known by their DRM clients."""
        return isinstance(self._whole, ClientDevice)

    def read(self, demand: Demand, sight: Sight | None = None) -> tuple[DeviceReading, ...]:
        """The board, then its partitions. ``sight``: who has it open, as far as that is known."""
        if isinstance(self._whole, ClientDevice):
            self._whole.see(sight)
        if is_gone(self._folder / "drm"):
            return self.all(DeviceState.LOST, "its folder in sysfs is gone")
        try:
            return self._read(demand)
        except RefusedError as error:
            return self.all(DeviceState.FAILED, f"{error} may not be read")

    def all(self, state: DeviceState, detail: str) -> tuple[DeviceReading, ...]:
        """The board and its partitions in one state, none of them read."""
        devices = (self._whole.device, *(part.device for part in self._parts))
        return tuple(DeviceReading(device, state, detail) for device in devices)

    def _read(self, demand: Demand) -> tuple[DeviceReading, ...]:
        now_ns = self._clock.monotonic_ns()
        state = State.AWAKE if demand.wake else self._rest.state(now_ns)
        if state is State.ASLEEP or (state is State.DROWSY and not self._has_work):
            return self._spared(demand, asleep=state is State.ASLEEP)
        metrics = self._metrics()
        core = self._percent("gpu_busy_percent", metrics.gfx_percent)
        active = self._percent("mem_busy_percent", metrics.umc_percent)
        window = self._whole.window(Sample(None, None) if self._parts else Sample(core, active))
        busiest = max((p for p in (core, *metrics.partitions.values()) if p), default=core)
        self._rest.note(now_ns, idle=busiest == 0)
        if window is not None or not self.energy.begun:
            metered = self.energy.take(metrics, self._hwmon, busiest)
            window = window and with_energy(window, metered, self.energy.method)
        sensors = self._sense(metrics, demand)
        whole = self._parted(window) if self._parts else self._undivided(window, demand)
        parts = (
            self._part(p, metrics.partitions.get(p.found.partition), demand) for p in self._parts
        )
        return (replace(whole, sensors=sensors), *parts)

    @property
    def _has_work(self) -> bool:
        """Whether a process of KFD is on it, which lets no board fall asleep."""
        return any(device.has_work for device in (self._whole, *self._parts))

    def _spared(self, demand: Demand, *, asleep: bool) -> tuple[DeviceReading, ...]:
        """The board while it sleeps, or may fall asleep: nothing is read that keeps it awake.

        Who sleeps is idle. Until then clients are asked, which wakes nothing, and if they work it
        is read again; where nobody tells of clients, the window waits.
        """
        window = None
        if asleep or self.by_clients:
            window = self._whole.window(Sample(None, None) if self._parts else Sample(0.0, 0.0))
        if not asleep and window is not None and window.busy.core:
            self._rest.note(self._clock.monotonic_ns(), idle=False)
            window = replace(window, busy=replace(window.busy, memory_active=None))
        if asleep:
            self.energy.sleep()
            self._sensors = replace(
                self._sensors,
                power_watts=None,
                power_limit_watts=None,
                temperature_celsius={},
                clock_hertz={},
            )
        window = window and with_energy(window, Metered(), self.energy.method)
        whole = self._parted(window) if self._parts else self._undivided(window, demand)
        reasons = {
            q: Unmeasured.ASLEEP for q, group in SENSED.items() if group not in demand.disabled
        }
        told = {**whole.unmeasured, **(reasons if asleep else {})}
        parts = (self._part(part, 0.0, demand) for part in self._parts)
        return (replace(whole, sensors=self._sensors, unmeasured=told), *parts)

    def _metrics(self) -> Metrics:
        return decode(read_bytes(self._folder / "gpu_metrics") or b"", self._gfx)

    def _percent(self, name: str, otherwise: float | None) -> float | None:
        told = read_count(self._folder / name)
        return otherwise if told is None else float(min(told, WHOLE))

    def _undivided(self, window: Window | None, demand: Demand) -> DeviceReading:
        total = read_count(self._folder / "mem_info_vram_total")
        used = read_count(self._folder / "mem_info_vram_used")
        memory = None if used is None else self._whole.memory(demand, total, used)
        reasons = self._whole.unmeasured(window)
        if self.energy.method == "none":
            reasons["energy"] = Unmeasured.NOT_SUPPORTED
        return DeviceReading(self._whole.device, window=window, memory=memory, unmeasured=reasons)

    def _parted(self, window: Window | None) -> DeviceReading:
        reasons = dict(UNDER_PARTITIONS)
        if self.energy.method == "none":
            reasons["energy"] = Unmeasured.NOT_SUPPORTED
        return DeviceReading(self._whole.device, window=window, unmeasured=reasons)

    def _part(self, part: AmdDevice, told: float | None, demand: Demand) -> DeviceReading:
        window = part.window(Sample(told, None))
        memory = part.memory(demand, part.device.memory_bytes, None)
        reasons = part.unmeasured(window)
        reasons["energy"] = Unmeasured.PARTITIONED
        if told is None:
            reasons["core"] = Unmeasured.PARTITIONED
        return DeviceReading(part.device, window=window, memory=memory, unmeasured=reasons)

    def _sense(self, metrics: Metrics, demand: Demand) -> Sensors:
        now_ns = self._clock.monotonic_ns()
        last_ns = self._sensed_mono_ns
        if last_ns is None or now_ns - last_ns >= int(demand.sensors_every_s * SECOND):
            self._sensed_mono_ns = now_ns
            off = demand.disabled
            self._sensors = replace(
                self._hwmon.sensors(off),
                throttle_ns={} if "throttle" in off else self.throttling.add(metrics, now_ns),
                ecc_errors={} if "ecc" in off else memory_errors(self._folder),
            )
        return self._sensors
