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
        self._clock = clock
        self._meter, self._power = EnergyMeter(), PowerIntegral()

    def take(self, metrics: Metrics, hwmon: Hwmon, busy: float | None) -> Metered:
        """Energy since the last window, of which the device was busy for so much of one.

        Raises:
            RefusedError: we may not read it.

        """
        self.begun = True
        mono_ns = self._clock.monotonic_ns()
        counter = self._counter(metrics, hwmon, mono_ns)
        return self._meter.take(counter, mono_ns, None if busy is None else int(busy * SECOND))

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
