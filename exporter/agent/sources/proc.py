"""Reads ``/proc``: a process by its pid, and which processes its directory shows.

Sources: proc_pid_stat(5), pid_namespaces(7). The root is a parameter: the node's ``/proc`` mounted
elsewhere, or a plain directory laid out the same way. What a directory lacks or garbles is not
known, never guessed.
"""

import os
import time
from collections.abc import Callable, Hashable
from typing import NamedTuple

from exporter.agent.sources import door
from exporter.agent.sources.door import Absent, Cut, Failed, Refused, Reply, Whole, parsed

LONGEST = 64 * 1024
LONGEST_NAME = 64  # the kernel's own threads have up to that; others 15
_LATEST = 1 << 40  # a start in ticks: no machine is up for three hundred years
_STATE, _FLAGS, _START = 0, 6, 19  # positions after the command's ")", which is field 2
_PF_EXITING = 0x4  # include/linux/sched.h
_ALL_UIDS = [b"0", b"0", b"4294967295"]  # user_namespaces(7): the machine's own
_INITIAL_PID_NAMESPACE = "pid:[4026531836]"  # PROC_PID_INIT_INO of the kernel


class ProcessStat(NamedTuple):
    """What is read of ``/proc/PID/stat``. ``start``: clock ticks since boot; ``name``: comm."""

    start: int
    exiting: bool
    name: str


def stat_of(proc_root: str, pid: int) -> Reply[ProcessStat]:
    """The state of the process that has this pid."""
    return parsed(door.read(f"{proc_root}/{pid}/stat", LONGEST), _stat)


def _stat(content: bytes) -> ProcessStat:
    # The command may hold anything, ") R 1" included: only the last ")" ends it.
    ends_at = content.rindex(b")")
    name = content[content.index(b"(") + 1 : ends_at][:LONGEST_NAME]
    fields = content[ends_at + 1 :].split()
    exiting = fields[_STATE] in {b"Z", b"X", b"x"} or bool(int(fields[_FLAGS]) & _PF_EXITING)
    start = int(fields[_START])
    if start > _LATEST:
        raise ValueError(start)
    return ProcessStat(start, exiting, name.decode(errors="replace"))


def user_id(proc_root: str, pid: int) -> Reply[int]:
    """Who runs a process: the real uid (``Uid`` of proc_pid_status(5)).

    Not the owner of its directory, which is root's where the process may not be traced.
    """
    return parsed(door.read(f"{proc_root}/{pid}/status", LONGEST), _uid)


def _uid(status: bytes) -> int:
    return next(int(line.split()[1]) for line in status.split(b"\n") if line.startswith(b"Uid:"))


def has_users_of_its_own(proc_root: str, pid: int) -> bool:
    """Whether a process is in another user namespace, where numbers mean other users.

    Such as a container without root: its users are numbers that are kept for who runs it.
    """
    match door.read(f"{proc_root}/{pid}/uid_map", LONGEST):
        case Whole(uids) | Cut(uids):
            return uids.split() != _ALL_UIDS
        case Absent() | Refused() | Failed():
            return False


def start_time(proc_root: str, pid: int) -> int | None:
    """When the process started, in clock ticks since boot; None if that is not known now."""
    match stat_of(proc_root, pid):
        case Whole(stat) | Cut(stat):
            return stat.start
        case Absent() | Refused() | Failed():
            return None


def uptime_ns(proc_root: str) -> int | None:
    """Nanoseconds since boot, in hundredths of a second (proc_uptime(5)); None: not known now."""
    if os.path.ismount(f"{proc_root}/uptime"):  # by lxcfs: since its container's start
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    match parsed(door.read(f"{proc_root}/uptime", LONGEST), _hundredths):
        case Whole(hundredths) | Cut(hundredths):
            return hundredths * 10**7
        case Absent() | Refused() | Failed():
            return None


def _hundredths(uptime: bytes) -> int:
    return int(float(uptime.split()[0]) * 100)


class PidNamespaces(NamedTuple):
    """Which processes a directory shows, and to which process.

    ``depth``: how many PID namespaces this process is in, counted from the one that is shown. 1 is
    normal. More means that the directory is the node's and this process's pid namespace its
    container's: pids in the directory are true, those that system calls take are others. 0: it does
    not show it (``NSpid`` of proc_pid_status(5)).

    ``is_nested``: this process is in another PID namespace than the machine's first one.
    ``has_own_pids``: it is the live procfs of this process's own namespace. Only then does a pid
    read there mean the same to pidfd_open(2). Both are False where the directory does not show it.
    """

    depth: int = 0
    is_nested: bool = False
    has_own_pids: bool = False


def pid_namespaces(proc_root: str) -> Reply[PidNamespaces]:
    """What the directory shows of this process's PID namespaces; ``Failed``: not known now."""
    depth = parsed(door.read(f"{proc_root}/self/status", LONGEST), _depth)
    namespace, own = door.link(f"{proc_root}/self/ns/pid"), door.link(f"{proc_root}/self")
    for each in (depth, namespace, own):
        if isinstance(each, Failed):
            return each
    return Whole(
        PidNamespaces(
            depth.value if isinstance(depth, Whole | Cut) else 0,
            isinstance(namespace, Whole) and namespace.value != _INITIAL_PID_NAMESPACE,
            own == Whole(str(os.getpid())),
        )
    )


def _depth(status: bytes) -> int:
    lines = (line for line in status.split(b"\n") if line.startswith(b"NSpid:"))
    return len(next(lines, b"").split()[1:])


class OwnersOfProcesses:
    """The owner of a process for bounds: by its cgroup, else by its user. No process chooses it.

    ``of_cgroup``: the container or group of a process, None if it is in none or not known.
    """

    def __init__(self, proc_root: str, of_cgroup: Callable[[int], Hashable | None]) -> None:
        self._root, self._of_cgroup = proc_root, of_cgroup

    def of(self, pid: int) -> Hashable:
        owner = self._of_cgroup(pid)
        if owner is not None:
            return owner
        match user_id(self._root, pid):
            case Whole(uid) | Cut(uid):
                return ("uid", uid)
            case Absent() | Refused() | Failed():  # it has ended, or each is one of its own
                return ("pid", pid)
