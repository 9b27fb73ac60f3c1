"""The GPU source of a simulated node: the same cursor and meter as for a driver.

NVIDIA: a card's ring of samples, and a MIG instance by its hardware counters. AMD: the newest
activity sample, the compute units that processes occupy at that instant, and the board's energy, as
``sources.gpus.amd`` reads them. Intel: the kernel's counters of each client, whose sum is the
device's busy time, as ``sources.gpus.drm`` reads them.
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from exporter.agent.simulation.node import Node
from exporter.agent.sources.gpus.amd.amdboard import UNDER_PARTITIONS
from exporter.agent.sources.gpus.amd.amddevice import (
    COMPUTE,
    OF_THE_DEVICE_ONLY,
    ActivitySample,
    ActivityWindows,
)
from exporter.agent.sources.gpus.board_energy import BoardEnergy
from exporter.agent.sources.gpus.cuts import energies_of
from exporter.agent.sources.gpus.energy import EnergyUse, with_energy
from exporter.agent.sources.gpus.fleet import DeviceChanges
from exporter.agent.sources.gpus.gpusource import Demand
from exporter.agent.sources.gpus.processpresence import ProcessPresence
from exporter.agent.sources.gpus.window import WindowCursor
from exporter.agent.sources.gpus.xids import ACTED_ON, FALLEN_OFF, log_first
from exporter.model import (
    PARTITIONED,
    QUANTITIES,
    SECOND_NS,
    Clock,
    Device,
    DeviceMemory,
    DeviceReading,
    DeviceState,
    Engines,
    Methods,
    ProcessActivity,
    ProcessSample,
    Reading,
    Sample,
    SourceStatus,
    Unmeasured,
    Window,
    XidCount,
)

logger = logging.getLogger(__name__)

NAME = "simulated"
MIG = dict.fromkeys(QUANTITIES, Unmeasured.MIG)
MIG_MEMORY, MIG_ENERGY = {"memory": Unmeasured.MIG}, {"energy": Unmeasured.MIG}
MEMORY_EVERY_NS = 5 * 10**9
LOOK_NS = 5 * 10**8  # in each cycle, however late one was
DETAILS = {
    DeviceState.LOST: "the scenario has taken this device off the bus for a while",
    DeviceState.STUCK: "the scenario lets calls for this device hang for a while",
    DeviceState.FAILED: "the scenario lets calls for this device fail for a while",
}
UNITS = 304  # compute units of an MI300X
NO_PART = dict.fromkeys(OF_THE_DEVICE_ONLY, Unmeasured.NOT_SUPPORTED)
NO_PCIE = {"pcie": Unmeasured.NOT_SUPPORTED}
OF_DRM = ("core", "decoder")
UNMEASURED_BY_DRM = dict.fromkeys(
    ("memory_active", "encoder", "throttle", "ecc_errors", "pcie"), Unmeasured.NOT_SUPPORTED
)


class _Device(ABC):
    """A device in the state that the scenario gives it. ``_read`` reads one that is up."""

    def __init__(self, node: Node, number: int, device: Device, clock: Clock) -> None:
        self._node = node
        self._number = number
        self._device = device
        self._clock = clock
        self._memory: DeviceMemory | None = None
        self._memory_at_ns = 0
        self._known: frozenset[int] = frozenset()
        self._energy = BoardEnergy()
        self._end_unix_ns: int | None = None
        self._xids_logged = False
        self._every_ns = 0

    def follow(self, demand: Demand) -> None:
        self._every_ns = demand.samples_every_ns

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
        if when and not self._xids_logged:
            self._xids_logged = True
            log_first(self._device.uuid, FALLEN_OFF)
        counts = {str(xid): XidCount() for xid in ACTED_ON}
        return counts | ({str(FALLEN_OFF): XidCount(len(when), max(when))} if when else {})

    def _memory_now(self, active: frozenset[int]) -> DeviceMemory:
        """The process list: read seldom, as from a driver, and at once for a new process."""
        now_ns = self._clock.monotonic_ns()
        every_ns = LOOK_NS if self._every_ns else MEMORY_EVERY_NS
        due = now_ns - self._memory_at_ns >= every_ns or not active <= self._known
        if self._memory is None or due:
            self._memory = self._node.memory(self._number)
            self._memory_at_ns = now_ns
            # An active process that is not listed has ended: it is not looked for again.
            self._known = active | {process.pid for process in self._memory.processes or ()}
        return self._memory

    def _span(self) -> tuple[int, int]:
        """When the last window ended, and now; twice now before the first."""
        now_ns = self._clock.time_ns()
        before, self._end_unix_ns = self._end_unix_ns, now_ns
        return now_ns if before is None else before, now_ns

    def _with_energy(self, window: Window | None, busy_ns: int | None) -> Window | None:
        """Adds the energy since the last window. Without a window it waits for the next one."""
        if window is None and self._energy.begun:
            return None
        energy = self._take(busy_ns)
        return window and with_energy(window, energy, "counter")

    def _take(self, busy_ns: int | None) -> EnergyUse:
        counter_uj, now_ns = self._node.energy_uj(self._number), self._clock.monotonic_ns()
        return self._energy.take(counter_uj, lambda: None, now_ns, busy_ns)


class _Card(_Device):
    """A whole card: windows of its ring, with its energy. It is its own ``SampleReader``."""

    def __init__(self, node: Node, number: int, device: Device, clock: Clock) -> None:
        super().__init__(node, number, device, clock)
        self._cursor, self._presence = WindowCursor(self, clock), ProcessPresence()

    def _read(self) -> DeviceReading:
        is_due = not self._every_ns or self._is_due()
        self._cursor.absent_until_us = self._presence.absent_until_us
        windows = self._windows() if is_due else ()
        active = frozenset(row.pid for window in windows for row in window.processes)
        memory = self._memory_now(active)
        return DeviceReading(
            self._device,
            window=windows[-1] if windows else None,
            earlier=windows[:-1],
            memory=memory,
            sensors=self._node.sensors(self._number),
            xids=self._xids(),
            raw=self._cursor.raw if is_due else None,
        )

    def _is_due(self) -> bool:
        """As of a driver's card: rows alone are read between its readings, of young processes."""
        self._memory_now(frozenset())
        is_due, mono_us = self._cursor.is_due(self._every_ns), self._clock.monotonic_ns() // 1000
        self._cursor.absent_until_us = self._presence.absent_until_us
        if not is_due and self._presence.may_lose(self._cursor.rows_read_us, mono_us):
            self._cursor.look()
        return is_due

    def _memory_now(self, active: frozenset[int]) -> DeviceMemory:
        before_ns, memory = self._memory_at_ns, super()._memory_now(active)
        if self._memory_at_ns != before_ns:  # it was just read
            pids = frozenset(process.pid for process in memory.processes or ())
            self._presence.list(pids, self._memory_at_ns // 1000)
        return memory

    def _windows(self) -> tuple[Window, ...]:
        windows = self._cut()
        if not windows and self._energy.begun:
            return ()  # the energy waits for the next one
        cores = [window.busy.core for window in windows if window.busy.core is not None]
        energy = self._take(sum(cores) if cores else None)
        return tuple(
            with_energy(window, own, "counter")
            for window, own in zip(windows, energies_of(windows, energy), strict=True)
        )

    def _cut(self) -> tuple[Window, ...]:
        return self._cursor.next()

    def busy_samples(self, engine: str, newer_than_us: int) -> Sequence[Sample]:
        return self._node.busy_samples(self._number, engine, newer_than_us)

    def utilization(self, engine: str) -> float | None:
        samples = self._node.busy_samples(self._number, engine, 0)
        return samples[-1].percent if samples else None

    def process_samples(self, newer_than_us: int) -> Sequence[ProcessSample]:
        return self._node.process_samples(self._number, newer_than_us)


class _DividedCard(_Card):
    """A card with MIG instances: it has energy and sensors, and nothing else."""

    def _read(self) -> DeviceReading:
        return super()._read()._replace(memory=None, unmeasured={**MIG, **MIG_MEMORY})

    def _cut(self) -> tuple[Window, ...]:
        return tuple(
            window._replace(busy=Engines(), processes=(), methods=Methods())
            for window in super()._cut()
        )


class _Instance(_Device):
    """A MIG instance: its activity by hardware counters (GPM), if its board has them."""

    def _read(self) -> DeviceReading:
        measured = self._node.has_gpm(self._number)
        window = self._window() if measured else None
        known = {"core": MIG["core"]} if not measured else {}
        others = {quantity: reason for quantity, reason in MIG.items() if quantity != "core"}
        return DeviceReading(
            self._device,
            window=window,
            memory=self._memory_now(frozenset()),
            unmeasured={**others, **known, **MIG_ENERGY},
        )

    def _window(self) -> Window | None:
        start_ns, now_ns = self._span()
        if now_ns <= start_ns:
            return None
        active_ns = self._node.active_ns(self._number, start_ns, now_ns)
        return Window(
            start_ns,
            now_ns,
            observed_ns=now_ns - start_ns,
            unobserved_ns=0,
            busy=Engines(core=int(active_ns * self._device.core_share)),
            methods=Methods(busy="gpm", shares="sole_owner"),
        )


class _Amd(_Device):
    """A board. A partitioned one has only its energy and sensors."""

    def __init__(self, node: Node, number: int, device: Device, clock: Clock) -> None:
        super().__init__(node, number, device, clock)
        self._windows = ActivityWindows(device.core_share, round(UNITS * device.core_share))
        parts = [n for n, each in enumerate(node.devices()) if each.parent_uuid == device.uuid]
        self._parts = parts or [number]

    def _read(self) -> DeviceReading:
        parted = self._device.sharing == PARTITIONED
        window = self._cut(ActivitySample(None, None) if parted else self._sample())
        busiest = max(self._node.busy_percent(part, "core") for part in self._parts)
        return DeviceReading(
            self._device,
            window=self._with_energy(window, int(busiest * SECOND_NS)),
            memory=None if parted else self._held(window),
            sensors=self._node.sensors(self._number),
            unmeasured={**(UNDER_PARTITIONS if parted else NO_PART), **NO_PCIE},
        )

    def _sample(self) -> ActivitySample:
        core, active = (self._node.busy_percent(self._number, e) for e in ("core", "memory_active"))
        return ActivitySample(core, active)

    def _cut(self, sample: ActivitySample) -> Window | None:
        before, now_ns = self._span()
        pids = self._node.occupants(self._number)
        units = round(UNITS * self._device.core_share)
        here = self._node.memory(self._number).processes or ()  # KFD has the idle ones too
        cus = {each.pid: 0 for each in here} | {pid: units // len(pids) for pid in pids}
        window = self._windows.cut(sample, cus, now_ns, self._clock.monotonic_ns())
        if window is None or sample.core is None:
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


class _AmdPart(_Amd):
    """A partition: its busy time by process. Power and energy are the board's."""

    def _read(self) -> DeviceReading:
        window = self._cut(self._sample()._replace(memory=None))
        return DeviceReading(
            self._device,
            window=window,
            memory=self._held(window),
            unmeasured={**NO_PART, "energy": Unmeasured.PARTITIONED},
        )


class _Intel(_Device):
    """A card of Intel's driver xe. Its video engines encode too, and all counts as decoding."""

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
        start_ns, now_ns = self._span()
        if now_ns <= start_ns:
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


def _kind_of(device: Device) -> type[_Device]:
    if device.vendor == "intel":
        return _Intel
    if device.vendor == "amd":
        return _AmdPart if device.parent_uuid else _Amd
    if device.parent_uuid:
        return _Instance
    return _DividedCard if device.sharing == "mig" else _Card


class SimulatedGpus:
    """Implements ``GpuSource`` over a node in memory. ``clock`` is the node's own."""

    def __init__(self, node: Node, clock: Clock) -> None:
        self._clock = clock
        self._node = node
        self._devices = tuple(
            _kind_of(device)(node, number, device, clock)
            for number, device in enumerate(node.devices())
        )
        self._released, self._opened, self._changes = False, False, DeviceChanges()

    @property
    def name(self) -> str:
        return NAME

    def read(self) -> Reading:
        begun_ns = self._clock.monotonic_ns()
        if not self._opened and not self._released:
            self._opened = True
            logger.info("simulated driver opened: %d devices", len(self._devices))
        readings = tuple(device.read(self._released) for device in self._devices)
        if not self._released:
            self._changes.log(readings)
        status = SourceStatus(
            NAME,
            up=not self._released,
            detail="released" if self._released else "",
            duration_ns=self._clock.monotonic_ns() - begun_ns,
            last_success_unix_ns=None if self._released else self._clock.time_ns(),
        )
        return Reading(status, readings, simulated=True)

    def release(self, released: bool) -> None:  # noqa: FBT001 - a state, not an option
        self._released = released
        self._opened = self._opened and not released

    def follow(self, demand: Demand) -> None:
        for device in self._devices:
            device.follow(demand)

    def look_soon(self) -> None:
        pass

    def close(self) -> None:
        pass
