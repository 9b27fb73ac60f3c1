"""The energy of one board: its counter (Volta and newer), else its power, integrated."""

from exporter.gpus.energy import EnergyMeter, Metered
from exporter.gpus.nvml.engines import EngineReader
from exporter.gpus.nvml.errors import DeviceLostError, DriverGoneError, NvmlError
from exporter.gpus.nvml.refusals import Refusals
from exporter.gpus.power import PowerIntegral
from exporter.model import Clock


class BoardEnergy:
    """Energy between two windows. It outlives a lost handle and a restarted driver."""

    def __init__(self, engines: EngineReader, refusals: Refusals, clock: Clock) -> None:
        self._engines = engines
        self._refusals = refusals
        self._clock = clock
        self._meter = EnergyMeter()
        self._power = PowerIntegral()
        self._taken_by = ""  # the method of the last reading

    @property
    def method(self) -> str:
        """How it is known: a value of ``Methods.energy``."""
        if "energy" not in self._refusals:
            return "counter"
        return "none" if "power" in self._refusals else "power"

    def take(self, core_ns: int | None) -> Metered:
        """Energy since the last window; asked once a window.

        Raises:
            DriverGoneError: the driver is not there.
            DeviceLostError: the device is not there.

        """
        try:
            counter_uj = self._engines.energy_uj()
            if counter_uj is None:
                counter_uj = self._integrated_uj()
        except (DriverGoneError, DeviceLostError):
            raise
        except NvmlError:
            counter_uj = None
        if counter_uj is not None and self._taken_by != self.method:
            self._taken_by = self.method
            self._meter.restart()  # the two methods count from different beginnings
        return self._meter.take(counter_uj, self._clock.monotonic_ns(), core_ns)

    def _integrated_uj(self) -> int | None:
        milliwatts = self._engines.power_mw()
        if milliwatts is None:
            return None
        return self._power.add(milliwatts, self._clock.monotonic_ns())
