"""Simulated devices: the base of all kinds (state, XIDs, process list, energy), AMD and Intel.

AMD: the newest activity sample, the compute units that processes occupy at that instant, and the
board's energy, as ``sources.gpus.amd`` reads them. Intel: the kernel's counters of each client,
whose sum is the device's busy time, as ``sources.gpus.drm`` reads them.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping

from exporter.model import (
    PARTITIONED,
    Clock,
    Device,
    DeviceMemory,
    DeviceReading,
    DeviceState,
    Engines,
    Methods,
    ProcessActivity,
    Unmeasured,
    Window,
    XidCount,
)
from exporter.simulation.node import Node
from exporter.sources.gpus.amd.activity import ActivitySample, ActivityWindows
from exporter.sources.gpus.amd.board import UNDER_PARTITIONS
from exporter.sources.gpus.amd.device import COMPUTE, OF_THE_DEVICE_ONLY
from exporter.sources.gpus.energy import EnergyMeter, with_energy
from exporter.sources.gpus.xids import ACTED_ON, FALLEN_OFF

MEMORY_EVERY_NS = 5 * 10**9
DETAILS = {
    DeviceState.LOST: "the scenario has taken this device off the bus for a while",
    DeviceState.STUCK: "the scenario lets calls for this device hang for a while",
    DeviceState.FAILED: "the scenario lets calls for this device fail for a while",
}


class SimulatedDevice(ABC):
    """A device in the state that the scenario gives it. ``_read`` reads one that is up."""

    def __init__(self, node: Node, number: int, device: Device, clock: Clock) -> None:
        self._node = node
        self._number = number
        self._device = device
        self._clock = clock
        self._memory: DeviceMemory | None = None
        self._memory_at_ns = 0
        self._known: frozenset[int] = frozenset()
        self._meter = EnergyMeter()
        self._has_energy = False

    def read(self, released: bool) -> DeviceReading:  # noqa: FBT001 - a state, not an option
        state = DeviceState.RELEASED if released else self._node.state(self._number)
        if state is not DeviceState.UP:
            self._memory = None
            return DeviceReading(
                self._device,
                state,
                DETAILS.get(state, ""),
                xids={} if released else self._xids(),
            )
        return self._read()

    @abstractmethod
    def _read(self) -> DeviceReading: ...

    def _xids(self) -> Mapping[str, XidCount]:
        """The XIDs of NVIDIA's driver for a device that has fallen off the bus."""
        if self._device.vendor != "nvidia":
            return {}
        when = self._node.fallen_off_unix_ns(self._number)
        counts = {str(xid): XidCount() for xid in ACTED_ON}
        return counts | ({str(FALLEN_OFF): XidCount(len(when), max(when))} if when else {})

    def _memory_now(self, active: frozenset[int]) -> DeviceMemory:
        """The process list: read seldom, as from a driver, and at once for a new process."""
        now_ns = self._clock.monotonic_ns()
        due = now_ns - self._memory_at_ns >= MEMORY_EVERY_NS or not active <= self._known
        if self._memory is None or due:
            self._memory = self._node.memory(self._number)
            self._memory_at_ns = now_ns
            # An active process that is not listed has ended: it is not looked for again.
            self._known = active | {process.pid for process in self._memory.processes or ()}
        return self._memory

    def _with_energy(self, window: Window | None, busy_ns: int | None) -> Window | None:
        """Adds the energy since the last window. Without a window it waits for the next one."""
        if window is None and self._has_energy:
            return None
        counter_uj, now_ns = self._node.energy_uj(self._number), self._clock.monotonic_ns()
        energy = self._meter.take(counter_uj, now_ns, busy_ns)
        self._has_energy = True
        return window and with_energy(window, energy, "counter")


SECOND = 10**9
UNITS = 304  # compute units of an MI300X
NO_PART = dict.fromkeys(OF_THE_DEVICE_ONLY, Unmeasured.NOT_SUPPORTED)
OF_DRM = ("core", "decoder")
UNMEASURED_BY_DRM = dict.fromkeys(
    ("memory_active", "encoder", "throttle", "ecc_errors", "pcie"), Unmeasured.NOT_SUPPORTED
)


class SimulatedAmd(SimulatedDevice):
    """A board. A partitioned one has only its energy and sensors."""

    def __init__(self, node: Node, number: int, device: Device, clock: Clock) -> None:
        super().__init__(node, number, device, clock)
        self._windows = ActivityWindows(device.core_share, round(UNITS * device.core_share))
        parts = [n for n, each in enumerate(node.devices()) if each.parent_uuid == device.uuid]
        self._parts = parts or [number]
        self._ended_unix_ns: int | None = None

    def _read(self) -> DeviceReading:
        parted = self._device.sharing == PARTITIONED
        window = self._cut(ActivitySample(None, None) if parted else self._sample())
        busiest = max(self._node.busy_percent(part, "core") for part in self._parts)
        return DeviceReading(
            self._device,
            window=self._with_energy(window, int(busiest * SECOND)),
            memory=None if parted else self._held(window),
            sensors=self._node.sensors(self._number),
            unmeasured=UNDER_PARTITIONS if parted else NO_PART,
        )

    def _sample(self) -> ActivitySample:
        core, active = (self._node.busy_percent(self._number, e) for e in ("core", "memory_active"))
        return ActivitySample(core, active)

    def _cut(self, sample: ActivitySample) -> Window | None:
        now_ns = self._clock.time_ns()
        pids = self._node.occupants(self._number)
        units = round(UNITS * self._device.core_share)
        here = self._node.memory(self._number).processes or ()  # KFD has the idle ones too
        cus = {each.pid: 0 for each in here} | {pid: units // len(pids) for pid in pids}
        window = self._windows.cut(sample, cus, now_ns, self._clock.monotonic_ns())
        before, self._ended_unix_ns = self._ended_unix_ns, now_ns
        if window is None or before is None or sample.core is None:
            return window
        spent = self._node.spent_ns(self._number, before, now_ns)
        copied = {pid: engines["copy"] for pid, engines in spent.items() if engines["copy"]}
        return window._replace(counted={"copy": copied, "evicted": {}})

    def _held(self, window: Window | None) -> DeviceMemory:
        """Memory as KFD lists it: without the processes that hold none."""
        active = frozenset(row.pid for row in window.processes) if window else frozenset()
        memory = self._memory_now(active)
        processes = [each for each in memory.processes or () if each.used_bytes]
        return DeviceMemory(
            memory.total_bytes,
            sum(each.used_bytes or 0 for each in processes),
            None,
            tuple(each._replace(kinds=COMPUTE) for each in processes),
        )


class SimulatedAmdPart(SimulatedAmd):
    """A partition: its busy time by process. Power and energy are the board's."""

    def _read(self) -> DeviceReading:
        window = self._cut(self._sample()._replace(memory=None))
        return DeviceReading(
            self._device,
            window=window,
            memory=self._held(window),
            unmeasured={**NO_PART, "energy": Unmeasured.PARTITIONED},
        )


class SimulatedDrm(SimulatedDevice):
    """A card of Intel's driver xe. Its video engines encode too, and all counts as decoding."""

    _end_unix_ns: int | None = None

    def _read(self) -> DeviceReading:
        window = self._cut()
        memory = self._node.memory(self._number)
        held = tuple(each._replace(kinds=frozenset()) for each in memory.processes or ())
        return DeviceReading(
            self._device,
            window=self._with_energy(window, window.busy.core if window else None),
            memory=DeviceMemory(self._device.memory_bytes, None, None, held),
            sensors=self._node.sensors(self._number),
            unmeasured=UNMEASURED_BY_DRM,
        )

    def _cut(self) -> Window | None:
        now_ns = self._clock.time_ns()
        start_ns, self._end_unix_ns = self._end_unix_ns, now_ns
        if start_ns is None or now_ns <= start_ns:
            return None
        spent = self._node.spent_ns(self._number, start_ns, now_ns)
        used = {
            pid: Engines(core=own["core"], decoder=own["encoder"] + own["decoder"])
            for pid, own in spent.items()
        }
        length_ns = now_ns - start_ns
        busy = (sum(getattr(own, each) for own in used.values()) for each in OF_DRM)
        core, decoder = (min(ns, length_ns) for ns in busy)
        return Window(
            start_ns,
            now_ns,
            observed_ns=length_ns,
            unobserved_ns=0,
            busy=Engines(core=core, decoder=decoder),
            processes=tuple(ProcessActivity(pid, own) for pid, own in used.items()),
            methods=Methods("fdinfo", "fdinfo"),
            counted={"copy": {pid: own["copy"] for pid, own in spent.items() if own["copy"]}},
        )
