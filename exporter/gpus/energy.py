"""A board's energy counter, cut into windows, with the part it would have used anyway.

Stands on a counter that only rises (NVML: ``nvmlDeviceGetTotalEnergyConsumption``, since the
driver was loaded) and on the device's busy time.
"""


class EnergyMeter:
    """Energy used between two readings of one device, and the idle part of it.

    The idle power is the lowest average seen in a window in which the device did nothing. Until
    there was one, the idle part is unknown (None), not zero.
    """

    def __init__(self) -> None:
        self._counter_uj: int | None = None
        self._read_mono_ns = 0
        self._idle_watts: float | None = None  # microjoules per microsecond

    def take(
        self, counter_uj: int | None, mono_ns: int, busy_ns: int | None
    ) -> tuple[int | None, int | None]:
        """Energy since the last reading and its idle part, in microjoules.

        Both None at the first reading, without a counter, and after the counter was set back by
        a driver reload.
        """
        before, self._counter_uj = self._counter_uj, counter_uj
        elapsed_ns, self._read_mono_ns = mono_ns - self._read_mono_ns, mono_ns
        if before is None or counter_uj is None or counter_uj < before or elapsed_ns <= 0:
            return None, None
        used = counter_uj - before
        if busy_ns == 0:
            watts = used * 1000 / elapsed_ns
            self._idle_watts = min(watts, self._idle_watts or watts)
        if self._idle_watts is None:
            return used, None
        return used, min(used, int(self._idle_watts * elapsed_ns / 1000))
