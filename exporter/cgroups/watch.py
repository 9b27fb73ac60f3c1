"""Tells when a directory was made or removed in a watched one: inotify(7) through ctypes.

cgroup file systems report mkdir and rmdir like any other, also through a read-only bind mount, but
a fork inside a cgroup is no event: this keeps a set of containers current, never one of processes.
"""

import ctypes
import errno
import logging
import os
import struct

from exporter.model import Clock

logger = logging.getLogger(__name__)

_IN_MOVE = 0x000000C0
_IN_CREATE = 0x00000100
_IN_DELETE = 0x00000200
_IN_Q_OVERFLOW = 0x00004000
_IN_ONLYDIR = 0x01000000
_IN_DONT_FOLLOW = 0x02000000
_IN_ISDIR = 0x40000000

_EVENT = struct.Struct("iIII")  # wd, mask, cookie, length of the name that follows
_BUFFER = 64 * 1024
_REFUSED = {errno.ENOSPC, errno.ENOMEM}  # max_user_watches reached; anything else is the path's own
_UNAVAILABLE = (
    "cannot watch the cgroup tree (%s): it is walked every %d s instead; "
    "raise fs.inotify.max_user_instances or max_user_watches"
)


class Watch:
    """A set of watched directories.

    Where the kernel refuses (no inotify, a limit reached) it reports a change every
    ``interval_ns`` instead, so that no change goes unseen for longer.
    """

    def __init__(self, clock: Clock, interval_ns: int = 10 * 10**9) -> None:
        self._clock = clock
        self._interval_ns = interval_ns
        self._reported_ns = clock.monotonic_ns()
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._complete = True  # events alone suffice: the kernel has refused none
        self._descriptor: int = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._descriptor < 0:
            self._give_up(ctypes.get_errno())

    def add(self, path: str) -> None:
        """Watch a directory; again is free. One that is gone or unreadable is left out."""
        if self._descriptor < 0:
            return
        mask = _IN_CREATE | _IN_DELETE | _IN_MOVE | _IN_ONLYDIR | _IN_DONT_FOLLOW
        added = self._libc.inotify_add_watch(self._descriptor, os.fsencode(path), mask)
        if added < 0 and ctypes.get_errno() in _REFUSED:
            self._give_up(ctypes.get_errno())

    def changed(self) -> bool:
        """Whether a directory came or went since the last call. Does not wait."""
        heard = self._drain()
        now = self._clock.monotonic_ns()
        overdue = not self._complete and now - self._reported_ns >= self._interval_ns
        if heard or overdue:
            self._reported_ns = now
        return heard or overdue

    def close(self) -> None:
        """Give the descriptor back. Nothing is heard any more."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _drain(self) -> bool:
        heard = False
        while self._descriptor >= 0:
            try:
                events = os.read(self._descriptor, _BUFFER)
            except BlockingIOError:
                break
            heard = heard or _tells(events)
        return heard

    def _give_up(self, error: int) -> None:
        if self._complete:
            self._complete = False
            logger.warning(_UNAVAILABLE, os.strerror(error), self._interval_ns // 10**9)


def _tells(events: bytes) -> bool:
    offset = 0
    while offset < len(events):
        _, mask, _, length = _EVENT.unpack_from(events, offset)
        if mask & (_IN_ISDIR | _IN_Q_OVERFLOW):
            return True
        offset += _EVENT.size + length
    return False
