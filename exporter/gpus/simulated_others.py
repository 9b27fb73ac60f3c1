"""Simulated devices of AMD and Intel: told what their sources read, and no more.

AMD: the newest sample of how busy it is, the compute units that processes occupy at that instant,
and the board's energy (``exporter.gpus.amd``). Intel: what the kernel counts for each client, the
sum of which is the device's busy time (``exporter.gpus.drm``).
"""

from exporter.gpus.amd.activity import Sample, Windows
from exporter.gpus.amd.board import UNDER_PARTITIONS
from exporter.gpus.amd.device import COMPUTE, OF_THE_DEVICE_ONLY
from exporter.gpus.simulated_device import SimulatedDevice
from exporter.model import (
    PARTITIONED,
    Clock,
    Device,
    DeviceMemory,
    DeviceReading,
    Engines,
    Methods,
    ProcessActivity,
    Unmeasured,
    Window,
)
from exporter.scenario.node import Node

SECOND = 10**9
UNITS = 304  # compute units of an MI300X
NO_PART = dict.fromkeys(OF_THE_DEVICE_ONLY, Unmeasured.NOT_SUPPORTED)
OF_DRM = ("core", "decoder")
UNTOLD_BY_DRM = dict.fromkeys(
    ("memory_active", "encoder", "throttle", "ecc_errors", "pcie"), Unmeasured.NOT_SUPPORTED
)


class SimulatedAmd(SimulatedDevice):
    """A board, partitioned or not: of one that is, its energy and sensors only."""

    def __init__(self, node: Node, number: int, device: Device, clock: Clock) -> None:
        super().__init__(node, number, device, clock)
        self._windows = Windows(device.core_share, round(UNITS * device.core_share))
        parts = [n for n, each in enumerate(node.devices()) if each.parent_uuid == device.uuid]
        self._parts = parts or [number]
        self._ended_unix_ns: int | None = None

    def _read(self) -> DeviceReading:
        parted = self._device.sharing == PARTITIONED
        window = self._cut(Sample(None, None) if parted else self._sample())
        busiest = max(self._node.busy_percent(part, "core") for part in self._parts)
        return DeviceReading(
            self._device,
            window=self._with_energy(window, int(busiest * SECOND)),
            memory=None if parted else self._held(window),
            sensors=self._node.sensors(self._number),
            unmeasured=UNDER_PARTITIONS if parted else NO_PART,
        )

    def _sample(self) -> Sample:
        core, active = (self._node.busy_percent(self._number, e) for e in ("core", "memory_active"))
        return Sample(core, active)

    def _cut(self, sample: Sample) -> Window | None:
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
        """As KFD lists it: who holds none is not there."""
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
    """A partition: how busy it is and with whom; power and energy are the board's."""

    def _read(self) -> DeviceReading:
        window = self._cut(self._sample()._replace(memory=None))
        return DeviceReading(
            self._device,
            window=window,
            memory=self._held(window),
            unmeasured={**NO_PART, "energy": Unmeasured.PARTITIONED},
        )


class SimulatedDrm(SimulatedDevice):
    """A card of Intel's driver xe: video engines decode and encode and do not say which."""

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
            unmeasured=UNTOLD_BY_DRM,
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
