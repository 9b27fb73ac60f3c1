"""The containers of the cgroup tree: walked rarely, and kept current by inotify events.

A walk costs ten milliseconds and more on a full node. There is at most one a second, and only when
it is needed: when the tree is read after a change, or for a process that ``/proc`` hides and that
is younger than the last walk. Pods that come and go cost none.

cgroup file systems report mkdir and rmdir like any other, also through a read-only bind mount, but
a fork inside a cgroup is no event: this keeps a set of containers current, never one of processes.
"""

import ctypes
import errno
import logging
import os
import struct
from collections import Counter
from collections.abc import Mapping

from exporter.model import CgroupIdentity, Clock
from exporter.sources.cgroups.hierarchy import Hierarchy, find_hierarchy
from exporter.sources.cgroups.layout import kinds_of
from exporter.sources.cgroups.walk import Walk, walk

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


class DirectoryWatch:
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
            heard = heard or _is_change(events)
        return heard

    def _give_up(self, error: int) -> None:
        if self._complete:
            self._complete = False
            logger.warning(_UNAVAILABLE, os.strerror(error), self._interval_ns // 10**9)


def _is_change(events: bytes) -> bool:
    offset = 0
    while offset < len(events):
        _, mask, _, length = _EVENT.unpack_from(events, offset)
        if mask & (_IN_ISDIR | _IN_Q_OVERFLOW):
            return True
        offset += _EVENT.size + length
    return False


BETWEEN_WALKS_NS = 10**9
BETWEEN_REVIEWS_NS = 60 * 10**9  # while the tree can be read and is good for identities
_NEVER = -(2**63)
_MOUNT = "mount the node's /sys/fs/cgroup read-only into the pod (hostPath) or set --path.cgroup"


class ContainerTree:
    """The newest walk below ``root``. Not for use by several threads at once."""

    def __init__(self, root: str, clock: Clock) -> None:
        self._root = root
        self._clock = clock
        self._watch = DirectoryWatch(clock)
        self._walk = Walk()
        self._sees_others = self._has_others = False  # processes, containers: but for our own
        self._hierarchy: Hierarchy | None = None
        self._started_ns = _NEVER
        self._tried_ns = _NEVER
        self._changed = True
        self._skipped: Counter[str] = Counter()
        self._walks = 0
        self._group_kinds: frozenset[str] = frozenset()
        self._problem = ""

    @property
    def problem(self) -> str:
        """What prevents walking and what to do; empty if nothing."""
        return self._problem

    @property
    def skipped(self) -> Mapping[str, int]:
        """What all walks so far could not use, by the reasons of ``Tree.skipped``."""
        return dict(self._skipped)

    @property
    def walks(self) -> int:
        """How often the tree was walked."""
        return self._walks

    @property
    def group_kinds(self) -> frozenset[str]:
        """The kinds of groups that the node can have, by all walks so far."""
        return self._group_kinds

    def newest(self) -> Walk:
        """The newest walk, walked again if a container came or went since."""
        self._listen()
        if self._changed:
            self._try()
        return self._walk

    def review(self) -> None:
        """Find out whether the tree can be read: soon after a change if it could not be so far.

        While it can, that costs no walk, because ``/proc`` names the owner of a process.
        """
        if self._started_ns == _NEVER or self._problem or self.hides_processes(nested=True):
            self.newest()
            return
        now = self._clock.monotonic_ns()
        if now - self._tried_ns >= BETWEEN_REVIEWS_NS:
            self._tried_ns = now
            self._listen()
            hierarchy = self._find()
            if hierarchy is not None and hierarchy != self._hierarchy:
                self._do(hierarchy, now)
            self._changed = self._changed or hierarchy is None  # so that it is tried again soon

    def since(self, moment_ns: int) -> Walk | None:
        """A walk begun at or after a moment, None while there may be none yet.

        Only such a walk may be asked for a process that was there at that moment: an older one
        may know its pid from a process that had it before.
        """
        if self._started_ns < moment_ns:
            self._try()
        return self._walk if self._started_ns >= moment_ns else None

    def container(self, container_id: str | None) -> CgroupIdentity | None:
        """A container of the newest walk; its id is its own for good."""
        return self._walk.by_container.get(container_id) if container_id else None

    def hides_processes(self, *, nested: bool) -> bool:
        """Whether the newest walk saw no process but those of our own container.

        All others are then in a PID namespace that is not ours: cgroup v2 lists such as 0, cgroup
        v1 leaves them out, which proves it only to a process ``nested`` in such a namespace.
        """
        if self._sees_others:
            return False
        return bool(self._walk.skipped.get("foreign_pid")) or (nested and self._has_others)

    def close(self) -> None:
        """Stop watching."""
        self._watch.close()

    def _try(self) -> None:
        now = self._clock.monotonic_ns()
        if now - self._tried_ns < BETWEEN_WALKS_NS:
            return
        self._tried_ns = now
        hierarchy = self._find()
        if hierarchy is not None:
            self._do(hierarchy, now)

    def _listen(self) -> None:
        self._changed = self._watch.changed() or self._changed

    def _find(self) -> Hierarchy | None:
        try:
            hierarchy = find_hierarchy(self._root)
        except OSError as error:
            reason = os.strerror(error.errno or 0)
            self._report(f"cannot read the cgroup tree {self._root!r} ({reason}): {_MOUNT}")
            return None
        if hierarchy is None:
            self._report(f"no cgroup hierarchy below {self._root!r}: {_MOUNT}")
        return hierarchy

    def _do(self, hierarchy: Hierarchy, now: int) -> None:
        if hierarchy != self._hierarchy:
            self._hierarchy = hierarchy
            where = ", ".join(hierarchy.roots)
            logger.info("cgroup %s: containers are looked for in %s", hierarchy.version, where)
        self._changed = False  # first: what changes during the walk is heard for the next one
        for mount in hierarchy.mounts:
            self._watch.add(mount)
        self._walk = walk(hierarchy.roots, self._watch.add)
        self._started_ns = now
        self._walks += 1
        self._group_kinds |= kinds_of(one.identity for one in self._walk.lists)
        own = self._walk.of(os.getpid())
        self._sees_others = any(one.lines and one.identity != own for one in self._walk.lists)
        self._has_others = any(one != own for one in self._walk.by_container.values())
        skipped = self._walk.skipped
        self._skipped.update(skipped)
        blind = skipped.get("unreadable", 0) and not self._walk.has_containers
        self._report(f"cgroups below {hierarchy.roots[0]!r} are unreadable: {_MOUNT}" * bool(blind))

    def _report(self, problem: str) -> None:
        if problem and problem != self._problem:
            logger.warning("%s", problem)
        self._problem = problem
