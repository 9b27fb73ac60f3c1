"""Errors of an AMD board's memory, and the time in which its clocks were throttled.

Sources: amdgpu's RAS counters (``Documentation/gpu/amdgpu/ras.rst``), and ``gpu_metrics``.
"""

from collections.abc import Mapping

from exporter.agent.sources.gpus.amd.gpumetrics import GpuMetrics
from exporter.agent.sources.gpus.sysfs import LONGEST_LABEL

ERRORS = {"ce": "corrected", "ue": "uncorrected"}
ERROR_FILES = ("umc_err_count", "aca_umc")  # the second in kernels with the newer decoder
_MOST_ERRORS = 1 << 48
_WRAP = 1 << 32


def errors_of(content: bytes) -> Mapping[str, float]:
    """The errors in a file of RAS, by their kind.

    Raises:
        ValueError: there is none in it, or more than a driver counts.

    """
    found: dict[str, float] = {}
    for line in content.decode("ascii").splitlines():
        kind, _, count = line.partition(":")
        if kind.strip() in ERRORS and count.strip().isdecimal() and int(count) < _MOST_ERRORS:
            found[ERRORS[kind.strip()]] = float(count)
    if not found:
        raise ValueError(content[:LONGEST_LABEL])
    return found


class Throttling:
    """Time in which clocks were throttled, since the first read.

    The firmware counts cycles, and those with a limit in force. Their share of the cycles between
    two reads is the throttled share of the time between them.
    """

    def __init__(self) -> None:
        self._cycles: int | None = None
        self._residencies: Mapping[str, int] = {}
        self._read_mono_ns = 0
        self._sums: dict[str, float] = {}

    def add(self, metrics: GpuMetrics, mono_ns: int) -> Mapping[str, float]:
        """Adds a table; returns the nanoseconds so far by cause."""
        passed_ns, self._read_mono_ns = mono_ns - self._read_mono_ns, mono_ns
        before, self._residencies = self._residencies, metrics.residencies
        cycles_before, self._cycles = self._cycles, metrics.cycles
        for name in metrics.residencies:
            self._sums.setdefault(name, 0.0)
        if cycles_before is None or metrics.cycles is None:
            return dict(self._sums)
        cycles = (metrics.cycles - cycles_before) % _WRAP
        for name, count in metrics.residencies.items():
            held = (count - before.get(name, count)) % _WRAP
            if 0 < held <= cycles:  # more: the counters were set back by a reset
                self._sums[name] += passed_ns * held / cycles
        return dict(self._sums)
