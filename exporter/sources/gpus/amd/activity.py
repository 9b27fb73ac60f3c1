"""How busy a board or partition was, and which of its processes had work on it at that instant.

Neither is counted by the hardware in a unit that the kernel tells, so that both are sampled once a
cycle, and the newest sample speaks for the time since the one before.
"""

from collections.abc import Mapping
from typing import NamedTuple

from exporter.model import Engines, Methods, ProcessActivity, Window

LONGEST_NS = 5_000_000_000  # one sample says nothing of longer ago
LATELY_NS = 15_000_000_000  # who works in bursts is met by a sample now and then only


class ActivitySample(NamedTuple):
    """How busy a device was, in percent; None where that is not told.

    ``speaks_ns``: how long before it that was so, at most.
    """

    core: float | None
    memory: float | None
    speaks_ns: int = LONGEST_NS


class ActivityWindows:
    """Contiguous windows of one device. They go on by the monotonic clock, whatever is set."""

    def __init__(self, share: float, units: int) -> None:
        self._share = share
        self._units = units
        self._end_unix_ns: int | None = None
        self._ended_mono_ns = 0
        self._met: Mapping[int, int] = {}
        self._met_mono_ns = 0

    def cut(
        self, sample: ActivitySample, cus: Mapping[int, int] | None, unix_ns: int, mono_ns: int
    ) -> Window | None:
        """The window that ends now; None before the first.

        ``cus``: compute units with waves of each process; None where that is not told.
        """
        passed_ns = mono_ns - self._ended_mono_ns
        start_ns, self._ended_mono_ns = self._end_unix_ns, mono_ns
        if start_ns is None:
            self._end_unix_ns = unix_ns
            return None
        if passed_ns <= 0:
            return None
        self._end_unix_ns = start_ns + passed_ns
        observed_ns = min(passed_ns, sample.speaks_ns)
        told = sample.core is not None
        return Window(
            start_unix_ns=start_ns,
            end_unix_ns=self._end_unix_ns,
            observed_ns=observed_ns,
            unobserved_ns=passed_ns - observed_ns,
            busy=Engines(
                core=self._busy(sample.core, observed_ns),
                memory_active=self._busy(sample.memory, observed_ns),
            ),
            processes=self._processes(self._at_work(cus or {}), observed_ns) if told else (),
            methods=Methods(
                busy="rates" if told else "none",
                shares="cu_occupancy" if told and cus is not None else "none",
            ),
        )

    def _busy(self, percent: float | None, observed_ns: int) -> int | None:
        return None if percent is None else int(observed_ns * self._share * percent / 100)

    def _at_work(self, cus: Mapping[int, int]) -> Mapping[int, int]:
        """Who has waves in flight; if nobody at this instant, who had when last somebody had.

        A device that was busy and idle when it was looked at worked for one of those. Else who
        works in short bursts would be named only as often as he is met: for half of the half.
        """
        here = {pid: occupied for pid, occupied in cus.items() if occupied}
        if here:
            self._met, self._met_mono_ns = here, self._ended_mono_ns
        elif self._ended_mono_ns - self._met_mono_ns <= LATELY_NS:
            return {pid: occupied for pid, occupied in self._met.items() if pid in cus}
        return here

    def _processes(self, cus: Mapping[int, int], observed_ns: int) -> tuple[ProcessActivity, ...]:
        """A process's part of the device's compute units, for the whole window."""
        whole_ns, units = int(observed_ns * self._share), max(self._units, *cus.values(), 1)
        return tuple(
            ProcessActivity(pid, Engines(core=whole_ns * occupied // units))
            for pid, occupied in cus.items()
        )
