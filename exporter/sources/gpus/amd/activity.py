"""Windows of a board or partition, out of samples of its busy share and of its processes.

The kernel documents no counter of either. So both are sampled once a cycle, and the newest sample
covers the time since the one before.
"""

from collections.abc import Mapping
from typing import NamedTuple

from exporter.model import Engines, Methods, ProcessActivity, Window

LONGEST_NS = 5_000_000_000  # the most that one sample covers
LATELY_NS = 15_000_000_000  # a process that works in bursts is only now and then in a sample


class ActivitySample(NamedTuple):
    """The busy percentages of a device; None if not reported.

    ``covers_ns``: how much time before it the sample covers, at most.
    """

    core: float | None
    memory: float | None
    covers_ns: int = LONGEST_NS


class ActivityWindows:
    """Contiguous windows of one device, by the monotonic clock."""

    def __init__(self, share: float, units: int) -> None:
        self._share = share
        self._units = units
        self._end_unix_ns: int | None = None
        self._ended_mono_ns = 0
        self._last: Mapping[int, int] = {}
        self._last_mono_ns = 0

    def cut(
        self, sample: ActivitySample, cus: Mapping[int, int] | None, unix_ns: int, mono_ns: int
    ) -> Window | None:
        """The window that ends now; None before the first.

        ``cus``: compute units with waves of each process; None if not reported.
        """
        passed_ns = mono_ns - self._ended_mono_ns
        start_ns, self._ended_mono_ns = self._end_unix_ns, mono_ns
        if start_ns is None:
            self._end_unix_ns = unix_ns
            return None
        if passed_ns <= 0:
            return None
        self._end_unix_ns = start_ns + passed_ns
        observed_ns = min(passed_ns, sample.covers_ns)
        is_measured = sample.core is not None
        return Window(
            start_unix_ns=start_ns,
            end_unix_ns=self._end_unix_ns,
            observed_ns=observed_ns,
            unobserved_ns=passed_ns - observed_ns,
            busy=Engines(
                core=self._busy(sample.core, observed_ns),
                memory_active=self._busy(sample.memory, observed_ns),
            ),
            processes=self._processes(self._at_work(cus or {}), observed_ns) if is_measured else (),
            methods=Methods(
                busy="rates" if is_measured else "none",
                shares="cu_occupancy" if is_measured and cus is not None else "none",
            ),
        )

    def _busy(self, percent: float | None, observed_ns: int) -> int | None:
        return None if percent is None else int(observed_ns * self._share * percent / 100)

    def _at_work(self, cus: Mapping[int, int]) -> Mapping[int, int]:
        """The processes with waves in flight; if there are none now, those of the last time.

        A device that was busy, and idle at the sample, probably worked for one of those. Otherwise
        processes that work in short bursts would be charged too little.
        """
        here = {pid: occupied for pid, occupied in cus.items() if occupied}
        if here:
            self._last, self._last_mono_ns = here, self._ended_mono_ns
        elif self._ended_mono_ns - self._last_mono_ns <= LATELY_NS:
            return {pid: occupied for pid, occupied in self._last.items() if pid in cus}
        return here

    def _processes(self, cus: Mapping[int, int], observed_ns: int) -> tuple[ProcessActivity, ...]:
        """Each process's part of the device's compute units, for the whole window."""
        whole_ns, units = int(observed_ns * self._share), max(self._units, *cus.values(), 1)
        return tuple(
            ProcessActivity(pid, Engines(core=whole_ns * occupied // units))
            for pid, occupied in cus.items()
        )
