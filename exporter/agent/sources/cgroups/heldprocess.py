"""Sees a process with its cgroups, and holds it so that its end is known, and its pid means it.

Sources: cgroups(7), pidfd_open(2).
"""

import errno
import os
import resource
import select
import sys
from enum import Enum, auto
from typing import NamedTuple

from exporter.agent.sources import door
from exporter.agent.sources.cgroups.layout import LONGEST_FILE, cgroup_paths
from exporter.agent.sources.door import Absent, Cut, Reply, Whole
from exporter.agent.sources.proc import ProcessStat, stat_of

_ATTEMPTS = 3


class ProcessState(NamedTuple):
    """A process as ``/proc`` shows it.

    ``start``: field 22, clock ticks since boot; with the pid it names a process for good. None
    where it could not be read. ``exiting``: a zombie or on the way; its cgroup then reads ``/`` on
    cgroup v1. ``paths``: of all hierarchies, empty where they could not be read. ``name``: comm,
    whatever its owner has written there.
    """

    start: int | None
    exiting: bool
    paths: tuple[str, ...]
    name: str = ""


def look_at(proc_root: str, pid: int) -> ProcessState | None:
    """The process of this pid, None if there is none. Never raises.

    The start time is read before and after, so that the answer is about one process, even where
    the pid is taken by another one meanwhile.
    """
    for _ in range(_ATTEMPTS):
        before, cgroup = (
            stat_of(proc_root, pid),
            door.read(f"{proc_root}/{pid}/cgroup", LONGEST_FILE),
        )
        after = stat_of(proc_root, pid)
        if isinstance(cgroup, Absent) and isinstance(after, Absent):
            return None
        paths: tuple[str, ...] = ()
        if isinstance(cgroup, Whole | Cut):
            # A line without an end is a part of one, and a part of a path is another cgroup's.
            lines = cgroup.value[: cgroup.value.rfind(b"\n") + 1]
            paths = cgroup_paths(os.fsdecode(lines))
        first, last = _known(before), _known(after)
        # Neither time it could be read, but it has cgroups: hidepid, or no right to read it.
        if first is None and last is None:
            return ProcessState(None, exiting=False, paths=paths)
        if first and last and (first.start, first.exiting) == (last.start, last.exiting):
            return ProcessState(last.start, last.exiting, paths, last.name)
    return ProcessState(None, exiting=False, paths=())  # never the same twice: nothing is known


def _known(stat: Reply[ProcessStat]) -> ProcessStat | None:
    return stat.value if isinstance(stat, Whole | Cut) else None


_SHARE_OF_DESCRIPTORS = 2  # one half is left to the rest of the program: sockets above all


class Hold(Enum):
    """What became of the attempt to hold a process."""

    HELD = auto()
    GONE = auto()
    IMPOSSIBLE = auto()  # no pidfds in this kernel or sandbox, no descriptor or watch left


class Lifetimes:
    """Holds processes: one pidfd for each, all of them watched by one epoll.

    The epoll reports the end of processes in a microsecond. A held pidfd also proves, without
    reading ``/proc``, that a pid still means the same process. If ``enabled`` is False, none is
    held: for pids of another PID namespace, where a pidfd would be of another process. ``close``
    closes ``epoll`` too.
    """

    def __init__(self, *, enabled: bool = True, epoll: "select.epoll | None" = None) -> None:
        self._enabled = enabled and hasattr(os, "pidfd_open")
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self._most = sys.maxsize if limit < 0 else limit // _SHARE_OF_DESCRIPTORS
        self._epoll = epoll or select.epoll()
        self._pid_of: dict[int, int] = {}
        self._pidfd_of: dict[int, int] = {}

    def hold(self, pid: int) -> Hold:
        """Hold the process that has this pid now, if that is possible."""
        if not self._enabled or len(self._pid_of) >= self._most:
            return Hold.IMPOSSIBLE
        self.release(pid)
        try:
            pidfd = os.pidfd_open(pid)
        except OSError as error:
            return Hold.GONE if error.errno == errno.ESRCH else Hold.IMPOSSIBLE
        try:
            self._epoll.register(pidfd, select.EPOLLIN)
        except OSError:  # ENOSPC: fs.epoll.max_user_watches is reached
            os.close(pidfd)
            return Hold.IMPOSSIBLE
        self._pid_of[pidfd], self._pidfd_of[pid] = pid, pidfd
        return Hold.HELD

    def ended(self) -> list[int]:
        """The held processes that ended since the last call, zombies included; now released."""
        pids = [self._pid_of[pidfd] for pidfd, _ in self._epoll.poll(0)] if self._pid_of else []
        for pid in pids:
            self.release(pid)
        return pids

    def release(self, pid: int) -> None:
        """Hold this process no longer. It need not be held."""
        pidfd = self._pidfd_of.pop(pid, None)
        if pidfd is not None:
            del self._pid_of[pidfd]
            self._epoll.unregister(pidfd)  # closing is not enough while a forked child has a copy
            os.close(pidfd)

    def close(self) -> None:
        """Release all."""
        for pid in list(self._pidfd_of):
            self.release(pid)
        self._epoll.close()
