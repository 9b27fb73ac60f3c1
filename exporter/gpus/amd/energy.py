"""The energy of one board: the counter of its firmware or hwmon, else its power, integrated."""

from exporter.gpus.amd.metrics import Metrics
from exporter.gpus.amd.sensors import Hwmon
from exporter.gpus.energy import EnergyMeter, Metered
from exporter.gpus.power import PowerIntegral
from exporter.model import Clock

SECOND = 1_000_000_000


class BoardEnergy:
    """Energy between two windows. It outlives a board that is partitioned anew."""

    def __init__(self, clock: Clock) -> None:
        self.method = "none"  # how it is known: a value of Methods.energy
        self.begun = False
        self.rested = False  # it was left alone for a while
        self._clock = clock
        self._meter, self._power = EnergyMeter(), PowerIntegral()

    def sleep(self) -> None:
        """The board sleeps. A counter goes on or begins anew; power in between nobody can tell."""
        self.rested = True
        if self.method == "power":
            self._power = PowerIntegral()

    def take(self, metrics: Metrics, hwmon: Hwmon, busy: float | None) -> Metered:
        """Energy since the last window, of which the device was busy for so much of one.

        Raises:
            RefusedError: we may not read it.

        """
        self.begun = True
        mono_ns = self._clock.monotonic_ns()
        counter = self._counter(metrics, hwmon, mono_ns)
        rested, self.rested = self.rested, False
        busy_ns = None if busy is None or rested else int(busy * SECOND)
        metered = self._meter.take(counter, mono_ns, busy_ns)
        return metered.all_idle() if rested else metered

    def _counter(self, metrics: Metrics, hwmon: Hwmon, mono_ns: int) -> int | None:
        counted = metrics.energy_uj
        if counted is None:
            counted = hwmon.energy_uj()
        if counted is not None:
            if self.method == "power":  # the firmware was late: the two are not one counter
                self._meter = EnergyMeter()
            self.method = "counter"
            return counted
        power_uw = hwmon.power_uw() if self.method != "counter" else None
        if power_uw is None:
            return None
        self.method = "power"
        return self._power.add(power_uw // 1000, mono_ns)
