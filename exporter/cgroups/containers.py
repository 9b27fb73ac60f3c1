"""Which containers exist: the walked tree, kept current by events and walked as rarely as can be.

A walk costs ten milliseconds and more on a full node, so there is at most one a second, and only
when somebody wants to know: who asks for the tree after a change, or a process that ``/proc`` hides
and that asks for a walk younger than itself. Pods that come and go cost none.
"""

import logging
import os
from collections import Counter
from collections.abc import Mapping

from exporter.cgroups.hierarchy import Hierarchy, find_hierarchy
from exporter.cgroups.kinds import kinds_of
from exporter.cgroups.walk import walk
from exporter.cgroups.walked import Walk
from exporter.cgroups.watch import Watch
from exporter.model import CgroupIdentity, Clock

logger = logging.getLogger(__name__)

BETWEEN_WALKS_NS = 10**9
BETWEEN_REVIEWS_NS = 60 * 10**9  # while the tree can be read and is good for identities
_NEVER = -(2**63)
_MOUNT = "mount the node's /sys/fs/cgroup read-only into the pod (hostPath) or set --path.cgroup"


class Containers:
    """The newest walk below ``root``. Not for use by several threads at once."""

    def __init__(self, root: str, clock: Clock) -> None:
        self._root = root
        self._clock = clock
        self._watch = Watch(clock)
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
        """What hinders walking and what to do; empty if nothing."""
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
        """The newest walk, made anew if a container came or went since."""
        self._listen()
        if self._changed:
            self._try()
        return self._walk

    def review(self) -> None:
        """Find out whether the tree can be read: soon after a change if it could not be so far.

        While it can, that costs no walk: whose a process is, ``/proc`` tells.
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
