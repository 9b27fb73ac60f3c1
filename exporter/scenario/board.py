"""A board's power, energy, temperature and clocks, from how busy it is.

Power is the idle power, and the way from there to the highest in proportion to the busy time. So
the energy of any range of time is known exactly.
"""

from exporter.model import Sensors
from exporter.scenario.description import DeviceSpec
from exporter.scenario.population import Population
from exporter.scenario.sharing import busy_ns

SECOND_NS = 10**9
STEP_NS = 4 * SECOND_NS
STEPS_KEPT = 256
COUNTER_NS = SECOND_NS // 10  # the energy counter moves about ten times a second (ml.energy)
WARMTH_NS = 12 * SECOND_NS
ROOM_CELSIUS = 32.0
RISE_CELSIUS = 45.0
MEMORY_WARMER_CELSIUS = 8.0
IDLE_CLOCK_HERTZ = 210_000_000
MEMORY_CLOCK_HERTZ = 1_593_000_000


class Board:
    """One device's sensors. Times are nanoseconds since the scenario's start.

    The busy time since the start is carried on in steps, of which a bounded number is kept; a
    question before those costs the whole way from the start, and has the same answer.
    """

    def __init__(self, population: Population, device: DeviceSpec) -> None:
        self._population = population
        self._device = device
        self._steps: dict[int, int] = {0: 0}

    def energy_uj(self, now_ns: int) -> int:
        """Microjoules since the start, in whole millijoules, a tenth of a second apart."""
        at = max(now_ns, 0) // COUNTER_NS * COUNTER_NS
        idle, active = energy_uj(self._device, at, self._busy_until(at))
        return (idle + active) // 1000 * 1000

    def sensors(self, now_ns: int) -> Sensors:
        """Power over the last second, temperature over the last twelve, clocks of the moment."""
        device = self._device
        busy = self._busy_ratio(now_ns, SECOND_NS)
        warmth = RISE_CELSIUS * self._busy_ratio(now_ns, WARMTH_NS)
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

    def _busy_ratio(self, now_ns: int, length_ns: int) -> float:
        begin = max(now_ns - length_ns, 0)
        if now_ns <= begin:
            return 0.0
        return (self._busy_until(now_ns) - self._busy_until(begin)) / (now_ns - begin)

    def _busy_until(self, ns: int) -> int:
        step = max(ns, 0) // STEP_NS
        return self._steps_until(step) + self._busy(step * STEP_NS, ns)

    def _steps_until(self, step: int) -> int:
        """Busy ns of all steps before one."""
        if step in self._steps:
            return self._steps[step]
        known = max((kept for kept in self._steps if kept < step), default=0)
        busy = self._steps.get(known, 0)
        for number in range(known, step):
            busy += self._busy(number * STEP_NS, (number + 1) * STEP_NS)
            self._steps[number + 1] = busy
            while len(self._steps) > STEPS_KEPT:
                del self._steps[min(self._steps)]
        return busy

    def _busy(self, begin_ns: int, end_ns: int) -> int:
        return busy_ns(self._population.bursts(self._device.index, begin_ns, end_ns))


def energy_uj(device: DeviceSpec, length_ns: int, busy: int) -> tuple[int, int]:
    """Microjoules that a device uses idle in a length of time, and on top for being busy."""
    idle = round(device.idle_watts * 1000) * length_ns // 10**6
    active = round((device.max_watts - device.idle_watts) * 1000) * busy // 10**6
    return idle, active
