"""Reads the sensors of one AMD board.

Sources: amdgpu's hwmon (``Documentation/gpu/amdgpu/thermal.rst``; on an APU the power is that of
the whole chip, CPU included) and its RAS counters (``.../ras.rst``).
"""

from collections.abc import Collection, Mapping
from pathlib import Path

from exporter.model import Sensors
from exporter.sources.gpus.amd.metrics import GpuMetrics
from exporter.sources.gpus.sysfs import RefusedError, names_in, read_count, read_text

MICRO = 1_000_000
TEMPERATURES = {"edge": "gpu", "junction": "junction", "mem": "memory"}
CLOCKS = {"sclk": "sm", "mclk": "memory"}
CHANNELS = range(1, 9)
ERRORS = {"ce": "corrected", "ue": "uncorrected"}
_WRAP = 1 << 32


class Hwmon:
    """The hwmon folder of a board. It is looked up at each use: resets change its number.

    ``RefusedError``: a file may not be read.
    """

    def __init__(self, board: Path) -> None:
        self._folder = board / "hwmon"

    def power_mw(self) -> int | None:
        """Board power in milliwatts: averaged by the firmware, or else the current one."""
        folder = self._current()
        if folder is None:
            return None
        both = (read_count(folder / f"power1_{name}") for name in ("average", "input"))
        return next((microwatts // 1000 for microwatts in both if microwatts is not None), None)

    def energy_uj(self) -> int | None:
        """The energy counter in microjoules, if the driver has one."""
        folder = self._current()
        return None if folder is None else read_count(folder / "energy1_input")

    def sensors(self, disabled: Collection[str]) -> Sensors:
        """The sensors, without those of disabled groups of families."""
        folder = self._current()
        if folder is None:
            return Sensors()
        power = None if "power" in disabled else self.power_mw()
        limit = None if "power" in disabled else read_count(folder / "power1_cap")
        millidegrees = {} if "temperature" in disabled else _labelled(folder, "temp", TEMPERATURES)
        clocks = {} if "clocks" in disabled else _labelled(folder, "freq", CLOCKS)
        return Sensors.of(
            power_watts=None if power is None else power / 1000,
            power_limit_watts=limit / MICRO if limit else None,
            temperature_celsius={name: value / 1000 for name, value in millidegrees.items()},
            clock_hertz=clocks,
        )

    def _current(self) -> Path | None:
        found = [name for name in names_in(self._folder) if name.startswith("hwmon")]
        return self._folder / found[0] if found else None


def _labelled(folder: Path, kind: str, names: Mapping[str, str]) -> dict[str, int]:
    """The values of the channels whose label is in ``names``."""
    found: dict[str, int] = {}
    for channel in CHANNELS:
        name = names.get(read_text(folder / f"{kind}{channel}_label") or "")
        value = read_count(folder / f"{kind}{channel}_input") if name else None
        if name and value is not None:
            found[name] = value
    return found


def memory_errors(board: Path) -> Mapping[str, float]:
    """Errors of the device memory since the driver was loaded; {} on boards without RAS."""
    found: dict[str, float] = {}
    for name in ("umc_err_count", "aca_umc"):  # the second in kernels with the newer decoder
        try:
            text = read_text(board / "ras" / name) or ""
        except RefusedError:
            continue
        for line in text.splitlines():
            kind, _, count = line.partition(":")
            if kind.strip() in ERRORS and count.strip().isdecimal():
                found[ERRORS[kind.strip()]] = float(count)
        if found:
            return found
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
