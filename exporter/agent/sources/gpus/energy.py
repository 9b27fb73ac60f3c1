"""Cuts a board's energy counter into windows, and estimates the idle part of each.

It takes a counter that only rises (NVML: ``nvmlDeviceGetTotalEnergyConsumption``, since the driver
was loaded) and the device's busy time. For boards without a counter, ``PowerIntegral`` makes one
out of power readings.
"""

from collections import deque
from dataclasses import replace
from statistics import median
from typing import NamedTuple, Protocol

from exporter.model import Window

IDLE_NS = 5_000_000_000  # boards update their counter about ten times a second; shorter is noise
IDLE_SPELLS = 9
LONGEST_GAP_NS = 90_000_000_000  # after a longer gap nothing is known of the counter


class EnergyUse(NamedTuple):
    """Microjoules since the last reading: all, the idle part, and the late part.

    ``late_uj`` belongs to windows in which the counter could not be read: whoever works now did not
    use it. ``idle_uj`` is a part of the rest. None: not known.
    """

    used_uj: int | None = None
    idle_uj: int | None = None
    late_uj: int = 0

    def as_idle(self) -> "EnergyUse":
        """The same energy, all of it idle if the idle part is unknown: the device was asleep.

        Otherwise the process that wakes the device would be charged for it.
        """
        if self.used_uj is None or self.idle_uj is not None:
            return self
        return self._replace(idle_uj=self.used_uj - self.late_uj)


class EnergySource(Protocol):
    """The energy of a device, window by window."""

    @property
    def method(self) -> str:
        """How it is measured: a value of ``Methods.energy``."""
        ...

    def take(self, core_ns: int | None) -> EnergyUse:
        """Energy since the last window, in which the core was busy for ``core_ns``."""
        ...


class EnergyMeter:
    """Energy used between two readings of one device, and the idle part of it.

    Idle power is the median of the newest idle spells of some seconds each: so one spell with a
    counter that stood still, or after hot work, does not decide it. Until the first spell, the idle
    part is unknown (None), not zero.

    If a reading fails and the next one comes in time, nothing is lost: the counter went on.
    """

    def __init__(self) -> None:
        self._counter_uj: int | None = None
        self._read_mono_ns = 0
        self._missed_mono_ns: int | None = None  # of the last reading that failed
        self._idle_uj = 0
        self._idle_ns = 0
        self._spells_watts: deque[float] = deque(maxlen=IDLE_SPELLS)
        self._idle_watts: float | None = None

    def restart(self) -> None:
        """Takes the next reading as one of another counter. The idle power stays known."""
        self._counter_uj = None

    def take(self, counter_uj: int | None, mono_ns: int, busy_ns: int | None) -> EnergyUse:
        """Energy since the last reading, at the end of a window. ``busy_ns`` is of that window.

        It is unknown at the first reading, without a counter (None), and after the counter was
        reset by a driver reload.
        """
        elapsed_ns = mono_ns - self._read_mono_ns
        if counter_uj is None:
            self._miss(mono_ns)
            return EnergyUse()
        before, self._counter_uj = self._counter_uj, counter_uj
        missed_ns, self._missed_mono_ns = self._missed_mono_ns, None
        gap_ns = 0 if missed_ns is None else missed_ns - self._read_mono_ns
        self._read_mono_ns = mono_ns
        # The last one is false at two readings of one moment, too: no time is between them to
        # divide by.
        if before is None or counter_uj < before or not 0 <= gap_ns < elapsed_ns:
            self._idle_uj = self._idle_ns = 0
            return EnergyUse()
        # In proportion to the time: nobody knows when in it the energy was used.
        late = (counter_uj - before) * gap_ns // elapsed_ns
        used, own_ns = counter_uj - before - late, elapsed_ns - gap_ns
        self._learn(used, own_ns, idle=busy_ns == 0)
        if self._idle_watts is None:
            return EnergyUse(used + late, None, late)
        # A spell may use less than the usual idle power.
        idle = min(used, int(self._idle_watts * own_ns / 1000))
        return EnergyUse(used + late, idle, late)

    def _miss(self, mono_ns: int) -> None:
        """Notes a reading that failed. The last one stays valid unless it is too old."""
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


def with_energy(window: Window, energy: EnergyUse, method: str) -> Window:
    """The window with the board's energy; ``method`` is a value of ``Methods.energy``."""
    return window._replace(
        energy_uj=energy.used_uj,
        idle_energy_uj=energy.idle_uj,
        late_energy_uj=energy.late_uj,
        methods=replace(window.methods, energy=method),
    )


class PowerIntegral:
    """A counter for ``EnergyMeter`` made of power readings, by trapezoids. An estimate."""

    def __init__(self) -> None:
        self._milliwatts = 0
        self._read_mono_ns: int | None = None
        self._half_picojoules = 0

    def add(self, milliwatts: int, mono_ns: int) -> int:
        """Adds a reading; returns the microjoules so far.

        After too long a gap the counter begins again at 0, as after a driver reload.
        """
        before, self._milliwatts = self._milliwatts, milliwatts
        since_ns, self._read_mono_ns = self._read_mono_ns, mono_ns
        if since_ns is None or not 0 <= mono_ns - since_ns <= LONGEST_GAP_NS:
            self._half_picojoules = 0
        else:
            # Milliwatts times nanoseconds are picojoules. They are halved at the end: nothing is
            # rounded on the way.
            self._half_picojoules += (before + milliwatts) * (mono_ns - since_ns)
        return self._half_picojoules // 2_000_000
