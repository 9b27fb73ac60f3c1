"""A board's power, energy, temperature and clocks, from how busy it is.

Power is the idle power, and the way from there to the highest in proportion to the busy time. So
the energy of any range of time is known exactly.
"""

from exporter.model import Sensors
from exporter.scenario.description import DeviceSpec
from exporter.scenario.population import Population
from exporter.scenario.ring import DEPTH, PER_SECOND, Ring
from exporter.scenario.sharing import busy_ns

STEP_NS = 10**9
STEPS_KEPT = 1024
COUNTER_NS = 10**8  # the energy counter moves about ten times a second (ml.energy)
ROOM_CELSIUS = 32.0
RISE_CELSIUS = 45.0
MEMORY_WARMER_CELSIUS = 8.0
IDLE_CLOCK_HERTZ = 210_000_000
MEMORY_CLOCK_HERTZ = 1_593_000_000


class EnergyCounter:
    """One device's energy since the scenario's start, at times in nanoseconds since then.

    The busy time is carried on in steps, of which a bounded number is kept. A question from
    before those costs the whole way from the start, and has the same answer.
    """

    def __init__(self, population: Population, device: DeviceSpec) -> None:
        self._population = population
        self._device = device
        self._steps: dict[int, int] = {0: 0}

    def read_uj(self, now_ns: int) -> int:
        """Microjoules, in whole millijoules and tenths of a second."""
        at = max(now_ns, 0) // COUNTER_NS * COUNTER_NS
        step = at // STEP_NS
        busy = self._steps_until(step) + self._busy(step * STEP_NS, at)
        return sum(energy_uj(self._device, at, busy)) // 1000 * 1000

    def _steps_until(self, step: int) -> int:
        """Busy ns of all steps before one."""
        if step in self._steps:
            return self._steps[step]
        known = max((kept for kept in self._steps if kept < step), default=0)
        busy = self._steps.get(known, 0)
        for number in range(known, step):
            busy += self._busy(number * STEP_NS, (number + 1) * STEP_NS)
            self._steps[number + 1] = busy
            if len(self._steps) > STEPS_KEPT:
                del self._steps[min(self._steps)]
        return busy

    def _busy(self, begin_ns: int, end_ns: int) -> int:
        return busy_ns(self._population.bursts(self._device.index, begin_ns, end_ns))


def energy_uj(device: DeviceSpec, length_ns: int, busy: int) -> tuple[int, int]:
    """Microjoules that a device uses idle in a length of time, and on top for being busy."""
    idle = round(device.idle_watts * 1000) * length_ns // 10**6
    active = round((device.max_watts - device.idle_watts) * 1000) * busy // 10**6
    return idle, active


def sensors(device: DeviceSpec, ring: Ring, now_us: int) -> Sensors:
    """Power over the last second, temperature over the whole ring, clocks of the moment."""
    busy = ring.busy_ratio(now_us, PER_SECOND)
    warmth = RISE_CELSIUS * ring.busy_ratio(now_us, DEPTH)
    return Sensors(
        power_watts=round(device.idle_watts + (device.max_watts - device.idle_watts) * busy, 3),
        power_limit_watts=device.max_watts,
        temperature_celsius={
            "gpu": float(round(ROOM_CELSIUS + warmth)),
            "memory": float(round(ROOM_CELSIUS + MEMORY_WARMER_CELSIUS + warmth)),
        },
        clock_hertz={
            "sm": device.clock_hertz if busy else min(IDLE_CLOCK_HERTZ, device.clock_hertz),
            "memory": MEMORY_CLOCK_HERTZ,
        },
    )
