"""A board's energy counter, cut into windows, with the part it would have used anyway.

Stands on a counter that only rises (NVML: ``nvmlDeviceGetTotalEnergyConsumption``, since the
driver was loaded) and on the device's busy time.

An energy counter for boards that keep none: their power readings, integrated.
"""

from collections import deque
from dataclasses import replace
from statistics import median
from typing import NamedTuple, Protocol

from exporter.model import Window

IDLE_NS = 5_000_000_000  # boards move their counter about ten times a second; shorter is noise
IDLE_SPELLS = 9
LONGEST_GAP_NS = 90_000_000_000  # what a counter not told for longer did is anyone's guess


class Metered(NamedTuple):
    """Microjoules since the last reading, what of them idling costs, and what came too late.

    ``late_uj`` is of windows in which the counter was not told: whoever worked in those, it is not
    the one who works now. ``idle_uj`` is of the rest. None: not known.
    """

    used_uj: int | None = None
    idle_uj: int | None = None
    late_uj: int = 0

    def all_idle(self) -> "Metered":
        """As of a device that slept: what is not known to be idle energy is nobody's all the same.

        Else it would be the first one's to wake it.
        """
        if self.used_uj is None or self.idle_uj is not None:
            return self
        return self._replace(idle_uj=self.used_uj - self.late_uj)


class EnergySource(Protocol):
    """What tells of a device's energy, window by window."""

    @property
    def method(self) -> str:
        """How it is known: a value of ``Methods.energy``."""
        ...

    def take(self, core_ns: int | None) -> Metered:
        """Energy since the last window, in which the core was so busy."""
        ...


class EnergyMeter:
    """Energy used between two readings of one device, and the idle part of it.

    The idle power is the median of the last spells, of some seconds on end each, in which the
    device did nothing: neither a spell with a counter that stood still nor one after hot work sets
    it. Until there was such a spell, the idle part is unknown (None), not zero.

    A counter that fails to be read and is back in time has counted on: nothing of it is lost.
    """

    def __init__(self) -> None:
        self._counter_uj: int | None = None
        self._read_mono_ns = 0
        self._missed_mono_ns: int | None = None  # when it was last asked in vain
        self._idle_uj = 0
        self._idle_ns = 0
        self._spells_watts: deque[float] = deque(maxlen=IDLE_SPELLS)
        self._idle_watts: float | None = None

    def restart(self) -> None:
        """Take the next reading as one of another counter. What idling costs is still known."""
        self._counter_uj = None

    def take(self, counter_uj: int | None, mono_ns: int, busy_ns: int | None) -> Metered:
        """Energy since the last reading, at the end of a window. ``busy_ns`` is of that window.

        Nothing is known at the first reading, without a counter (None), and after the counter was
        set back by a driver reload.
        """
        elapsed_ns = mono_ns - self._read_mono_ns
        if counter_uj is None:
            self._miss(mono_ns)
            return Metered()
        before, self._counter_uj = self._counter_uj, counter_uj
        missed_ns, self._missed_mono_ns = self._missed_mono_ns, None
        gap_ns = 0 if missed_ns is None else missed_ns - self._read_mono_ns
        self._read_mono_ns = mono_ns
        if before is None or counter_uj < before or not 0 <= gap_ns < elapsed_ns:
            self._idle_uj = self._idle_ns = 0
            return Metered()
        late = (counter_uj - before) * gap_ns // elapsed_ns
        used, own_ns = counter_uj - before - late, elapsed_ns - gap_ns
        self._learn(used, own_ns, idle=busy_ns == 0)
        if self._idle_watts is None:
            return Metered(used + late, None, late)
        idle = min(used, int(self._idle_watts * own_ns / 1000))
        return Metered(used + late, idle, late)

    def _miss(self, mono_ns: int) -> None:
        """The counter was not told: go on from the last reading, unless that is too long ago."""
        self._missed_mono_ns = mono_ns
        self._idle_uj = self._idle_ns = 0
        if mono_ns - self._read_mono_ns > LONGEST_GAP_NS:
            self._counter_uj = None

    def _learn(self, used_uj: int, elapsed_ns: int, *, idle: bool) -> None:
        if not idle:
            self._idle_uj = self._idle_ns = 0
            return
        self._idle_uj += used_uj
        self._idle_ns += elapsed_ns
        if self._idle_ns >= IDLE_NS:
            self._spells_watts.append(self._idle_uj * 1000 / self._idle_ns)
            self._idle_watts = median(self._spells_watts)
            self._idle_uj = self._idle_ns = 0


def with_energy(window: Window, metered: Metered, method: str) -> Window:
    """The window with what the board used in it; ``method`` is a value of ``Methods.energy``."""
    return window._replace(
        energy_uj=metered.used_uj,
        idle_energy_uj=metered.idle_uj,
        late_energy_uj=metered.late_uj,
        methods=replace(window.methods, energy=method),
    )


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
