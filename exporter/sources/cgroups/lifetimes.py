"""Holds processes, so that their end is known and their pid means the same process until then.

One epoll over all pidfds (pidfd_open(2)) reports the end of processes in a microsecond. A held
pidfd also proves, without reading ``/proc``, that a pid still means the same process.
"""

import errno
import os
import resource
import select
import sys
from enum import Enum, auto

_GONE = {errno.ESRCH}
_SHARE_OF_DESCRIPTORS = 2  # one half is left to the rest of the program: sockets above all


class Hold(Enum):
    """What became of the attempt to hold a process."""

    HELD = auto()
    GONE = auto()
    IMPOSSIBLE = auto()  # no pidfds in this kernel or sandbox, no descriptor or watch left


class Lifetimes:
    """Holds processes: one pidfd for each, all of them watched by one epoll.

    If ``enabled`` is False, none is held: for pids of another PID namespace, where a pidfd
    would be of another process. ``close`` closes ``epoll`` too.
    """

    def __init__(self, *, enabled: bool = True, epoll: select.epoll | None = None) -> None:
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
            return Hold.GONE if error.errno in _GONE else Hold.IMPOSSIBLE
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
