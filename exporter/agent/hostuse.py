"""What processes use of their host: CPUs and resident memory, read from ``/proc`` on demand."""

import os
import threading
from collections.abc import Mapping
from typing import NamedTuple

from exporter.agent.sources.door import Cut, Whole, parsed, read
from exporter.model import Clock

MOST = 100  # processes that one answer reads: two files of each
_AGAIN_NS = 5 * 10**8  # between two readings of a process, so that its ticks are many enough
_FORGOTTEN_NS = 60 * 10**9
_LONGEST = 4096
_USER, _SYSTEM, _STARTED = 11, 12, 19  # of /proc/PID/stat, behind the name


class HostUse(NamedTuple):
    """CPUs since the reading before, None at the first; and resident bytes."""

    cpus: float | None
    resident_bytes: int


class _Times(NamedTuple):
    name: bytes
    started: bytes
    ticks: int


class _Read(NamedTuple):
    started: bytes
    ticks: int
    at_ns: int
    use: HostUse


class HostUses:
    """Reads the use of some processes. CPUs are a difference to the reading before. Thread-safe."""

    def __init__(self, procfs: str, clock: Clock) -> None:
        self._procfs = procfs
        self._clock = clock
        self._last: dict[int, _Read] = {}
        self._lock = threading.Lock()

    def of(self, names: Mapping[int, str]) -> Mapping[int, HostUse]:
        """The use of the first ``MOST`` of these, by pid; not of one with another name by now."""
        now_ns, found = self._clock.monotonic_ns(), {}
        with self._lock:
            for pid, name in [*names.items()][:MOST]:
                before = self._last.get(pid)
                if before is None or now_ns - before.at_ns >= _AGAIN_NS:
                    newest = self._read(pid, name, before, now_ns)
                    if newest is None:
                        continue
                    self._last[pid] = before = newest
                found[pid] = before.use
            self._last = {
                pid: one for pid, one in self._last.items() if now_ns - one.at_ns < _FORGOTTEN_NS
            }
        return found

    def _read(self, pid: int, name: str, before: _Read | None, now_ns: int) -> _Read | None:
        """A reading; None if it cannot be read, or another process has its pid by now."""
        folder = f"{self._procfs}/{pid}"
        stat = parsed(read(f"{folder}/stat", _LONGEST), _times)
        pages = parsed(read(f"{folder}/statm", _LONGEST), lambda statm: int(statm.split()[1]))
        if not (isinstance(stat, Whole | Cut) and isinstance(pages, Whole | Cut)):
            return None
        times = stat.value
        if times.name.decode(errors="replace") != name:
            return None
        cpus = None
        # Ticks of two processes that had one pid are no difference.
        if before is not None and before.started == times.started:
            spent_s = (times.ticks - before.ticks) / os.sysconf("SC_CLK_TCK")
            cpus = spent_s / ((now_ns - before.at_ns) / 1e9)
        use = HostUse(cpus, pages.value * os.sysconf("SC_PAGE_SIZE"))
        return _Read(times.started, times.ticks, now_ns, use)


def _times(stat: bytes) -> _Times:
    head, _, rest = stat.rpartition(b")")  # a name may hold any character
    fields = rest.split()
    ticks = int(fields[_USER]) + int(fields[_SYSTEM])
    return _Times(head.partition(b"(")[2], fields[_STARTED], ticks)
