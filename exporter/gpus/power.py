"""An energy counter for boards that keep none: their power readings, integrated."""

from exporter.gpus.energy import LONGEST_GAP_NS


class PowerIntegral:
    """Trapezoids between power readings, as a counter for ``EnergyMeter``. An estimate."""

    def __init__(self) -> None:
        self._milliwatts = 0
        self._read_mono_ns: int | None = None
        self._half_picojoules = 0

    def add(self, milliwatts: int, mono_ns: int) -> int:
        """Take a reading; gives the microjoules so far.

        After too long a gap the counter begins anew at 0, as one does after a driver reload.
        """
        before, self._milliwatts = self._milliwatts, milliwatts
        since_ns, self._read_mono_ns = self._read_mono_ns, mono_ns
        if since_ns is None or not 0 <= mono_ns - since_ns <= LONGEST_GAP_NS:
            self._half_picojoules = 0
        else:
            self._half_picojoules += (before + milliwatts) * (mono_ns - since_ns)
        return self._half_picojoules // 2_000_000
