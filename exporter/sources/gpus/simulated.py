"""The GPU source of a simulated node: the same cursor and meter as for a driver."""

from collections.abc import Sequence

from exporter.model import (
    QUANTITIES,
    Clock,
    Device,
    DeviceReading,
    Engines,
    Methods,
    ProcessSample,
    Reading,
    Sample,
    SourceStatus,
    Unmeasured,
    Window,
)
from exporter.simulation.node import Node
from exporter.sources.gpus.simulated_devices import (
    SimulatedAmd,
    SimulatedAmdPart,
    SimulatedDevice,
    SimulatedDrm,
)
from exporter.sources.gpus.source import Demand
from exporter.sources.gpus.window import WindowCursor

NAME = "simulated"
MIG = dict.fromkeys(QUANTITIES, Unmeasured.MIG)
MIG_MEMORY, MIG_ENERGY = {"memory": Unmeasured.MIG}, {"energy": Unmeasured.MIG}


class SimulatedGpus:
    """Implements ``GpuSource`` over a node in memory. ``clock`` is the node's own."""

    def __init__(self, node: Node, clock: Clock) -> None:
        self._clock = clock
        self._node = node
        self._devices = tuple(
            _kind_of(device)(node, number, device, clock)
            for number, device in enumerate(node.devices())
        )
        self._released = False

    @property
    def name(self) -> str:
        return NAME

    def read(self) -> Reading:
        begun_ns = self._clock.monotonic_ns()
        readings = tuple(device.read(self._released) for device in self._devices)
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

    def follow(self, demand: Demand) -> None:
        pass

    def close(self) -> None:
        pass


class _SimulatedCard(SimulatedDevice):
    """A whole card: windows of its ring, with its energy."""

    def __init__(self, node: Node, number: int, device: Device, clock: Clock) -> None:
        super().__init__(node, number, device, clock)
        self._cursor = WindowCursor(_RingReader(node, number), clock)

    def _read(self) -> DeviceReading:
        window = self._window()
        active = frozenset(row.pid for row in window.processes) if window else frozenset()
        return DeviceReading(
            self._device,
            window=self._with_energy(window, window.busy.core if window else None),
            memory=self._memory_now(active),
            sensors=self._node.sensors(self._number),
            xids=self._xids(),
            raw=self._cursor.raw,
        )

    def _window(self) -> Window | None:
        return self._cursor.next()


class _SimulatedParts(_SimulatedCard):
    """A card with MIG instances: it has energy and sensors, and nothing else."""

    def _read(self) -> DeviceReading:
        return super()._read()._replace(memory=None, unmeasured={**MIG, **MIG_MEMORY})

    def _window(self) -> Window | None:
        window = super()._window()
        return window and window._replace(busy=Engines(), processes=(), methods=Methods())


class _SimulatedInstance(SimulatedDevice):
    """A MIG instance: its activity by hardware counters (GPM), if its board has them."""

    _end_ns: int | None = None

    def _read(self) -> DeviceReading:
        measured = self._node.has_counters(self._number)
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
        now_ns = self._clock.time_ns()
        start_ns, self._end_ns = self._end_ns, now_ns
        if start_ns is None or now_ns <= start_ns:
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


def _kind_of(device: Device) -> type[SimulatedDevice]:
    if device.vendor == "intel":
        return SimulatedDrm
    if device.vendor == "amd":
        return SimulatedAmdPart if device.parent_uuid else SimulatedAmd
    if device.parent_uuid:
        return _SimulatedInstance
    return _SimulatedParts if device.sharing == "mig" else _SimulatedCard


class _RingReader:
    """The ``SampleReader`` of one simulated device."""

    def __init__(self, node: Node, index: int) -> None:
        self._node = node
        self._index = index

    def busy_samples(self, engine: str, newer_than_us: int) -> Sequence[Sample]:
        return self._node.busy_samples(self._index, engine, newer_than_us)

    def utilization(self, engine: str) -> float | None:
        samples = self._node.busy_samples(self._index, engine, 0)
        return samples[-1].percent if samples else None

    def process_samples(self, newer_than_us: int) -> Sequence[ProcessSample]:
        return self._node.process_samples(self._index, newer_than_us)
