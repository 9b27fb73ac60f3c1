"""A board's energy counter, cut into windows, with the part it would have used anyway.

Stands on a counter that only rises (NVML: ``nvmlDeviceGetTotalEnergyConsumption``, since the
driver was loaded) and on the device's busy time.
"""

from collections import deque
from statistics import median
from typing import Protocol

IDLE_NS = 5_000_000_000  # boards move their counter about ten times a second; shorter is noise
IDLE_SPELLS = 9


class Metered(Protocol):
    """What tells of a device's energy."""

    @property
    def method(self) -> str:
        """How it is known: a value of ``Methods.energy``."""
        ...

    def take(self, core_ns: int | None) -> tuple[int | None, int | None]:
        """Microjoules since the last window and their idle part, where the core was so busy."""
        ...


class EnergyMeter:
    """Energy used between two readings of one device, and the idle part of it.

    The idle power is the median of the last spells, of some seconds on end each, in which the
    device did nothing: neither a spell with a counter that stood still nor one after hot work sets
    it. Until there was such a spell, the idle part is unknown (None), not zero.
    """

    def __init__(self) -> None:
        self._counter_uj: int | None = None
        self._read_mono_ns = 0
        self._idle_uj = 0
        self._idle_ns = 0
        self._spells_watts: deque[float] = deque(maxlen=IDLE_SPELLS)
        self._idle_watts: float | None = None

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
            self._idle_uj = self._idle_ns = 0
            return None, None
        used = counter_uj - before
        self._learn(used, elapsed_ns, idle=busy_ns == 0)
        if self._idle_watts is None:
            return used, None
        return used, min(used, int(self._idle_watts * elapsed_ns / 1000))

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
