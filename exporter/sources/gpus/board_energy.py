"""The energy of a board: by its counter, or else by its power, integrated."""

from collections.abc import Callable

from exporter.sources.gpus.energy import EnergyMeter, EnergyUse, PowerIntegral


class BoardEnergy:
    """The energy of one board between two windows. ``method``: a value of ``Methods.energy``."""

    def __init__(self) -> None:
        self.method = "none"
        self.begun = False
        self._slept = False  # since the last reading
        self._meter, self._power = EnergyMeter(), PowerIntegral()

    def take(
        self,
        counter_uj: int | None,
        power_mw: Callable[[], int | None],
        mono_ns: int,
        busy_ns: int | None,
    ) -> EnergyUse:
        """Energy since the last window. ``power_mw`` is asked if the board has had no counter."""
        slept, self._slept, self.begun = self._slept, False, True
        method = self.method if counter_uj is None else "counter"
        if method != "counter" and (milliwatts := power_mw()) is not None:
            method, counter_uj = "power", self._power.add(milliwatts, mono_ns)
        if method != self.method:
            self.method = method
            self._meter.restart()  # the two do not count from the same zero
        energy = self._meter.take(counter_uj, mono_ns, None if slept else busy_ns)
        return energy.as_idle() if slept else energy

    def sleep(self) -> None:
        """Notes that the board sleeps. Its power is unknown meanwhile; a counter goes on."""
        self._slept, self._power = True, PowerIntegral()

    def restart(self) -> None:
        """Leaves out what was used since the last reading."""
        self.begun = False
        self._meter.restart()

    def lose_counter(self) -> None:
        """Lets power be asked: the driver refuses the counter now."""
        if self.method == "counter":
            self.method = "none"
