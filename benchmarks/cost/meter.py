"""What a process has used: CPU to the nanosecond, all its threads; memory."""

import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Self

_SCHEDULED = 2  # CPUCLOCK_SCHED of the kernel's posix-timers.h
MIB_KB = 1024


@dataclass(frozen=True, slots=True)
class Used:
    """CPU since the start, in ns; ``driver`` is the part that the stand-in for NVML took."""

    whole: int
    driver: int

    @property
    def own(self) -> int:
        """CPU outside of the driver."""
        return self.whole - self.driver

    def __sub__(self, other: Self) -> "Used":
        return Used(self.whole - other.whole, self.driver - other.driver)


class Meter:
    """Reads what a process used. ``driver`` is the file that FAKENVML_CPU names."""

    def __init__(self, pid: int, driver: Path) -> None:
        self.pid = pid
        self._clock = ~pid << 3 | _SCHEDULED  # MAKE_PROCESS_CPUCLOCK
        self._driver = driver

    def used(self) -> Used:
        """What it used so far."""
        driver = self._driver.read_bytes() if self._driver.exists() else b""
        return Used(time.clock_gettime_ns(self._clock), int.from_bytes(driver, "little"))

    def memory_mib(self, field: str = "VmRSS") -> float:
        """``VmRSS``, what is resident now; ``VmHWM``, the most so far."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        found = re.search(rf"^{field}:\s+(\d+) kB$", status, re.MULTILINE)
        assert found, status
        return int(found[1]) / MIB_KB

    def each_second(self, seconds: float) -> float:
        """CPU milliseconds outside of the driver each second, over so many."""
        before, begun = self.used(), time.monotonic()
        time.sleep(seconds)
        return (self.used() - before).own / 1e6 / (time.monotonic() - begun)


def fixed_loop_ms() -> float:
    """CPU of a loop that is always the same: what the machine gives just now."""
    took = []
    for _ in range(5):
        begun = time.process_time_ns()
        sum(number * number for number in range(200_000))
        took.append((time.process_time_ns() - begun) / 1e6)
    return min(took)
