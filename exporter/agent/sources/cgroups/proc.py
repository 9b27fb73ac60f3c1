"""Reads a process from ``/proc``, and holds it so that its end is known, and its pid means it.

Sources: proc_pid_stat(5), cgroups(7), pid_namespaces(7), pidfd_open(2). The root is a parameter:
the node's ``/proc`` mounted elsewhere, or a plain directory laid out the same way. What a directory
lacks or garbles is not known, never guessed.
"""

import errno
import os
import resource
import select
import sys
from enum import Enum, auto
from typing import NamedTuple

from exporter.agent.sources.cgroups.layout import LONGEST_FILE, cgroup_paths

_STATE, _FLAGS, _START = 0, 6, 19  # positions after the command's ")", which is field 2
_PF_EXITING = 0x4  # include/linux/sched.h
_ATTEMPTS = 3
LONGEST_NAME = 64  # the kernel's own threads have up to that; others 15
_GONE = {errno.ENOENT, errno.ESRCH, errno.ENOTDIR}
_INITIAL_PID_NAMESPACE = "pid:[4026531836]"  # PROC_PID_INIT_INO of the kernel


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
        before = _stat(proc_root, pid)
        paths: tuple[str, ...] = ()
        has_gone = False
        try:
            paths = cgroup_paths(os.fsdecode(_read(f"{proc_root}/{pid}/cgroup")))
        except OSError as error:
            has_gone = error.errno in _GONE
        after = _stat(proc_root, pid)
        if has_gone and after is None:
            return None
        # Neither time it could be read, but it has cgroups: hidepid, or no right to read it.
        if after is None and before is None:
            return ProcessState(None, exiting=False, paths=paths)
        if before and after and (before.start, before.exiting) == (after.start, after.exiting):
            return ProcessState(after.start, after.exiting, paths, after.name)
    return ProcessState(None, exiting=False, paths=())  # never the same twice: nothing is known


def user_id(proc_root: str, pid: int) -> int | None:
    """Who runs a process: the real uid (``Uid`` of proc_pid_status(5)); None if unreadable.

    Not the owner of its directory, which is root's where the process may not be traced.
    """
    try:
        for line in _read(f"{proc_root}/{pid}/status").split(b"\n"):
            if line.startswith(b"Uid:"):
                return int(line.split()[1])
    except (OSError, ValueError, IndexError):
        pass
    return None


def start_time(proc_root: str, pid: int) -> int | None:
    """When the process started, in clock ticks since boot; None if that cannot be read."""
    stat = _stat(proc_root, pid)
    return stat.start if stat else None


def uptime_ns(proc_root: str) -> int | None:
    """Nanoseconds since boot, in hundredths of a second (proc_uptime(5)); None if unreadable."""
    try:
        return int(float(_read(f"{proc_root}/uptime").split()[0]) * 100) * 10**7
    except (OSError, ValueError, IndexError, OverflowError):
        return None


def pid_namespace_depth(proc_root: str) -> int:
    """How many PID namespaces this process is in, counted from the one ``proc_root`` shows.

    1 is normal. More means that ``proc_root`` is the node's and this process's pid namespace its
    container's: pids in ``proc_root`` are true, those that system calls take are others. 0: the
    directory does not show it (``NSpid`` of proc_pid_status(5)).
    """
    try:
        status = _read(f"{proc_root}/self/status")
    except OSError:
        return 0
    for line in status.split(b"\n"):
        if line.startswith(b"NSpid:"):
            return len(line.split()) - 1
    return 0


def shows_own_pids(proc_root: str) -> bool:
    """Whether ``proc_root`` is the live procfs of the PID namespace that this process is in.

    Only then does a pid read there mean the same to pidfd_open(2).
    """
    try:
        return os.readlink(f"{proc_root}/self") == str(os.getpid())  # noqa: PTH115 - a string
    except OSError:
        return False


def in_nested_pid_namespace(proc_root: str) -> bool:
    """Whether this process is in another PID namespace than the machine's first one.

    False if that is not known.
    """
    try:
        link = os.readlink(f"{proc_root}/self/ns/pid")  # noqa: PTH115 - a string
    except OSError:
        return False
    return link != _INITIAL_PID_NAMESPACE


class _Stat(NamedTuple):
    start: int
    exiting: bool
    name: str


def _stat(proc_root: str, pid: int) -> _Stat | None:
    try:
        content = _read(f"{proc_root}/{pid}/stat")
        # The command may hold anything, ") R 1" included: only the last ")" ends it.
        ends_at = content.rindex(b")")
        name = content[content.index(b"(") + 1 : ends_at][:LONGEST_NAME]
        fields = content[ends_at + 1 :].split()
        exiting = fields[_STATE] in {b"Z", b"X", b"x"} or bool(int(fields[_FLAGS]) & _PF_EXITING)
        return _Stat(int(fields[_START]), exiting, name.decode(errors="replace"))
    except (OSError, ValueError, IndexError):
        return None


def _read(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        return os.read(descriptor, LONGEST_FILE)
    finally:
        os.close(descriptor)


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
