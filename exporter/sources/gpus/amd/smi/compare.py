"""What the library says against what sysfs said. Pure.

The two are not read at the same instant. So what is of the moment is compared with the lowest and
the highest that sysfs said since the library was last asked; what sysfs did not tell, or the
library does not, is not compared. Of energy the rise between two asks is compared.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import NamedTuple

from exporter.model import PARTITIONED, DeviceReading
from exporter.sources.gpus.amd.smi.library import Processor

MIB = 1 << 20
MOST_POINTS = 512  # of energy between two asks: cycles


class Tolerance(NamedTuple):
    """By how much the two may differ: ``share`` of the larger, and ``beyond``."""

    share: float
    beyond: float
    unit: str
    divisor: float = 1.0


TOLERANCES: Mapping[str, Tolerance] = {
    "memory_total": Tolerance(0.01, 0, "MiB", MIB),
    "memory_used": Tolerance(0.05, 512 * MIB, "MiB", MIB),
    "power": Tolerance(0.1, 10, "W"),
    "temperature": Tolerance(0, 5, "degrees"),
    "core": Tolerance(0, 20, "%"),
    "energy": Tolerance(0.1, 100e6, "J", 1e6),
}
"""By quantity, a value of the family's label."""


class Comparison(NamedTuple):
    """One figure of the library's beside sysfs's lowest and highest."""

    figure: str
    theirs: float
    low: float
    high: float

    @property
    def quantity(self) -> str:
        """What it is of: the three temperatures are one."""
        return self.figure if self.figure in TOLERANCES else self.figure.partition("_")[0]

    @property
    def differs(self) -> bool:
        """Whether the library's is farther off than is allowed."""
        allowed = TOLERANCES[self.quantity]
        slack = allowed.beyond + allowed.share * max(self.theirs, self.high)
        return not self.low - slack <= self.theirs <= self.high + slack

    def __str__(self) -> str:
        """In words."""
        unit, by = TOLERANCES[self.quantity].unit, TOLERANCES[self.quantity].divisor
        low, high = f"{self.low / by:.0f}", f"{self.high / by:.0f}"
        ours = low if low == high else f"{low} to {high}"
        return f"{self.figure} {self.theirs / by:.0f} {unit}, by sysfs {ours} {unit}"


class Seen:
    """What sysfs said of one board since it was last compared."""

    def __init__(self) -> None:
        self._ranges: dict[str, tuple[float, float]] = {}
        self._points: deque[tuple[int, float]] = deque(maxlen=MOST_POINTS)  # energy since a start
        self._before: tuple[float, float] | None = None  # energy at the last ask, theirs and ours

    def add(self, reading: DeviceReading, mono_ns: int) -> None:
        """Take a reading in."""
        for figure, value in _told(reading).items():
            low, high = self._ranges.get(figure, (value, value))
            self._ranges[figure] = min(low, value), max(high, value)
        if reading.window is None:
            return
        used = reading.window.energy_uj
        if used is None or reading.window.methods.energy != "counter":
            self._points.clear()
            self._before = None
            return
        total = self._points[-1][1] if self._points else 0.0
        self._points.append((mono_ns, total + used))

    def compare(self, processor: Processor) -> list[Comparison]:
        """Compare all that both told, and begin anew."""
        found = [
            Comparison(figure, theirs, *self._ranges[figure])
            for figure, theirs in processor.values.items()
            if figure in self._ranges
        ]
        self._ranges = {}
        rise = self._rise(processor)
        return [*found, rise] if rise else found

    def _rise(self, processor: Processor) -> Comparison | None:
        theirs, ours = processor.values.get("energy"), self._energy_at(processor.read_mono_ns)
        before, self._before = self._before, None
        if theirs is None or ours is None:
            return None
        self._before = theirs, ours
        if before is None or theirs < before[0]:  # set back by a reset
            return None
        rise = ours - before[1]
        return Comparison("energy", theirs - before[0], rise, rise)

    def _energy_at(self, mono_ns: int) -> float | None:
        """Between two readings as if it had risen evenly; older ones are not needed any more."""
        points = list(self._points)
        for (earlier, low), (later, high) in pairwise(points):
            if earlier <= mono_ns <= later:
                while self._points[0][0] < earlier:
                    self._points.popleft()
                return low + (high - low) * (mono_ns - earlier) / max(later - earlier, 1)
        return None


def _told(reading: DeviceReading) -> dict[str, float]:
    memory, sensors, window = reading.memory, reading.sensors, reading.window
    figures: dict[str, float | None] = {"power": sensors.power_watts}
    figures |= {f"temperature_{name}": t for name, t in sensors.temperature_celsius.items()}
    if memory:
        figures |= {"memory_total": memory.total_bytes, "memory_used": memory.used_bytes}
    if window and window.methods.shares != "fdinfo":  # else it may be what clients count together
        busy_ns, of_ns = window.busy.core, window.observed_ns
        figures["core"] = 100 * busy_ns / of_ns if busy_ns is not None and of_ns else None
    return {name: float(value) for name, value in figures.items() if value is not None}


def matched(
    processors: Iterable[Processor], boards: Iterable[DeviceReading]
) -> tuple[dict[str, Processor], list[str]]:
    """The processor that speaks for each board, by UUID, and addresses that are no board's.

    A partition has the number of its own as the function of its address. Power, energy and sensors
    of a partitioned board are told with its first; the others are matched and tell nothing: their
    memory is the whole board's in some versions of the library (ROCm issue 4750).
    """
    by_address = {board.device.pci_bus_id: board.device for board in boards}
    found: dict[str, Processor] = {}
    unknown: list[str] = []
    for processor in processors:
        device = by_address.get(processor.pci_bus_id)
        if device is None:
            whole = by_address.get(f"{processor.pci_bus_id[:-1]}0")
            if whole is None or whole.sharing != PARTITIONED:
                unknown.append(processor.pci_bus_id)
        elif device.uuid not in found or processor.partition == 0:
            found[device.uuid] = processor
    return found, unknown
