"""Reads ``/proc``: a process by its pid, and which processes its directory shows.

Sources: proc_pid_stat(5), pid_namespaces(7). The root is a parameter: the node's ``/proc`` mounted
elsewhere, or a plain directory laid out the same way. What a directory lacks or garbles is not
known, never guessed.
"""

import os
import time
from typing import NamedTuple

from exporter.agent.sources.files import read

LONGEST = 64 * 1024
LONGEST_NAME = 64  # the kernel's own threads have up to that; others 15
_STATE, _FLAGS, _START = 0, 6, 19  # positions after the command's ")", which is field 2
_PF_EXITING = 0x4  # include/linux/sched.h
_INITIAL_PID_NAMESPACE = "pid:[4026531836]"  # PROC_PID_INIT_INO of the kernel


class ProcessStat(NamedTuple):
    """What is read of ``/proc/PID/stat``. ``start``: clock ticks since boot; ``name``: comm."""

    start: int
    exiting: bool
    name: str


def stat_of(proc_root: str, pid: int) -> ProcessStat | None:
    """The state of the process that has this pid; None if it cannot be read."""
    try:
        content = read(f"{proc_root}/{pid}/stat", LONGEST)
        # The command may hold anything, ") R 1" included: only the last ")" ends it.
        ends_at = content.rindex(b")")
        name = content[content.index(b"(") + 1 : ends_at][:LONGEST_NAME]
        fields = content[ends_at + 1 :].split()
        exiting = fields[_STATE] in {b"Z", b"X", b"x"} or bool(int(fields[_FLAGS]) & _PF_EXITING)
        return ProcessStat(int(fields[_START]), exiting, name.decode(errors="replace"))
    except (OSError, ValueError, IndexError):
        return None


def user_id(proc_root: str, pid: int) -> int | None:
    """Who runs a process: the real uid (``Uid`` of proc_pid_status(5)); None if unreadable.

    Not the owner of its directory, which is root's where the process may not be traced.
    """
    try:
        for line in read(f"{proc_root}/{pid}/status", LONGEST).split(b"\n"):
            if line.startswith(b"Uid:"):
                return int(line.split()[1])
    except (OSError, ValueError, IndexError):
        pass
    return None


def start_time(proc_root: str, pid: int) -> int | None:
    """When the process started, in clock ticks since boot; None if that cannot be read."""
    stat = stat_of(proc_root, pid)
    return stat.start if stat else None


def uptime_ns(proc_root: str) -> int | None:
    """Nanoseconds since boot, in hundredths of a second (proc_uptime(5)); None if unreadable."""
    if os.path.ismount(f"{proc_root}/uptime"):  # by lxcfs: since its container's start
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    try:
        return int(float(read(f"{proc_root}/uptime", LONGEST).split()[0]) * 100) * 10**7
    except (OSError, ValueError, IndexError, OverflowError):
        return None


def pid_namespace_depth(proc_root: str) -> int:
    """How many PID namespaces this process is in, counted from the one ``proc_root`` shows.

    1 is normal. More means that ``proc_root`` is the node's and this process's pid namespace its
    container's: pids in ``proc_root`` are true, those that system calls take are others. 0: the
    directory does not show it (``NSpid`` of proc_pid_status(5)).
    """
    try:
        status = read(f"{proc_root}/self/status", LONGEST)
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
