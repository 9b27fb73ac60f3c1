"""What all kinds of simulated device have in common: state, XIDs, the process list, energy."""

from abc import ABC, abstractmethod
from collections.abc import Mapping

from exporter.gpus.energy import EnergyMeter, with_energy
from exporter.gpus.xids import ACTED_ON, FALLEN_OFF
from exporter.model import Clock, Device, DeviceMemory, DeviceReading, DeviceState, Window, XidCount
from exporter.scenario.node import Node

MEMORY_EVERY_NS = 5 * 10**9
DETAILS = {
    DeviceState.LOST: "the scenario has taken this device off the bus for a while",
    DeviceState.STUCK: "the scenario lets calls for this device hang for a while",
    DeviceState.FAILED: "the scenario lets calls for this device fail for a while",
}


class SimulatedDevice(ABC):
    """A device in the state that its scenario has it in. ``_read``: its kind's way to be read."""

    def __init__(self, node: Node, number: int, device: Device, clock: Clock) -> None:
        self._node = node
        self._number = number
        self._device = device
        self._clock = clock
        self._memory: DeviceMemory | None = None
        self._memory_at_ns = 0
        self._known: frozenset[int] = frozenset()
        self._meter = EnergyMeter()
        self._metered = False

    def read(self, released: bool) -> DeviceReading:  # noqa: FBT001 - a state, not an option
        """What its source tells of it now."""
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
    def _read(self) -> DeviceReading:
        """What an up device's source tells."""

    def _xids(self) -> Mapping[str, XidCount]:
        """NVIDIA's driver's word for a device that has fallen off the bus."""
        if self._device.vendor != "nvidia":
            return {}
        when = self._node.fallen_off_unix_ns(self._number)
        counts = {str(xid): XidCount() for xid in ACTED_ON}
        return counts | ({str(FALLEN_OFF): XidCount(len(when), max(when))} if when else {})

    def _memory_now(self, active: frozenset[int]) -> DeviceMemory:
        """The process list, at the slow cadence of a driver's, and at once for a new process."""
        now_ns = self._clock.monotonic_ns()
        due = now_ns - self._memory_at_ns >= MEMORY_EVERY_NS or not active <= self._known
        if self._memory is None or due:
            self._memory = self._node.memory(self._number)
            self._memory_at_ns = now_ns
            # An active process that is not listed has ended: it is not worth a second look.
            self._known = active | {process.pid for process in self._memory.processes or ()}
        return self._memory

    def _with_energy(self, window: Window | None, busy_ns: int | None) -> Window | None:
        """Cut the energy counter where the window is cut; energy without a window waits."""
        if window is None and self._metered:
            return None
        counter_uj, now_ns = self._node.energy_uj(self._number), self._clock.monotonic_ns()
        metered = self._meter.take(counter_uj, now_ns, busy_ns)
        self._metered = True
        return window and with_energy(window, metered, "counter")
