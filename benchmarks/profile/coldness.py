"""What a cycle takes by what the CPU's caches still hold of it. Used by ``rooms``.

Between two cycles lies a second, in which whatever else the machine does has had the caches. Here
cycles run one right after the other, all clocks put ahead by a second for each, and before each of
them as much other memory is read as replaces what a cache holds.
"""

import ctypes
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from exporter.settings import Settings

CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
PROCESS = Path("/proc/self")
FORGET_REFERENCES = "1"  # proc_pid_clear_refs(5)
SECOND_NS = 10**9
ALL_WARM = "nothing in between"


def pauses(settings: Settings) -> dict[str, Callable[[], None]]:
    """What comes before a cycle, by name: nothing, and other memory that replaces a cache."""
    ahead = _skipping(settings)
    between: dict[str, Callable[[], None]] = {ALL_WARM: ahead}
    for level, size in sorted(_sizes().items()):
        other = bytearray(2 * size)
        name = f"{len(other) >> 20} MiB read in between (twice the cache of level {level})"
        between[name] = partial(_read, other, ahead)
    return between


def touched_mib(work: Callable[[], object]) -> float:
    """Memory of the process whose pages are read or written meanwhile."""
    (PROCESS / "clear_refs").write_text(FORGET_REFERENCES)
    work()
    lines = (PROCESS / "smaps_rollup").read_text().splitlines()
    (referenced,) = (line.split()[1] for line in lines if line.startswith("Referenced:"))
    return int(referenced) / 1024


def _read(memory: bytearray, then: Callable[[], None]) -> None:
    memory.count(1)
    then()


def _sizes() -> dict[int, int]:
    """Bytes of the CPU's caches that hold data, level 2 and above."""
    sizes = {}
    for cache in CACHES.glob("index*"):
        level = int((cache / "level").read_text())
        if level > 1:
            sizes[level] = int((cache / "size").read_text().strip().removesuffix("K")) << 10
    return sizes


def _skipping(settings: Settings) -> Callable[[], None]:
    """What puts all clocks ahead by a second: the process's, and the stand-in's."""
    driver, skipped = ctypes.CDLL(settings.nvml_library), 0

    def ahead(clock: Callable[[], int]) -> Callable[[], int]:
        return lambda: clock() + skipped

    clocks: Any = time
    clocks.time_ns, clocks.monotonic_ns = ahead(time.time_ns), ahead(time.monotonic_ns)

    def skip() -> None:
        nonlocal skipped
        skipped += SECOND_NS
        driver.fakenvml_skip(ctypes.c_longlong(SECOND_NS))

    return skip
