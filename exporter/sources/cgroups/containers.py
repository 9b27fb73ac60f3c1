"""The newest walk of the cgroup tree, and when the next one is due.

A walk costs ten milliseconds and more on a full node. There is at most one a second, and only for
a process that ``/proc`` hides and that is younger than the last walk. Pods that come and go cost
none.
"""

import logging
import os
from collections import Counter

from exporter.model import CgroupIdentity, Clock
from exporter.sources.cgroups.hierarchy import Hierarchy, find_hierarchy
from exporter.sources.cgroups.layout import kinds_of
from exporter.sources.cgroups.walk import Walk, walk

logger = logging.getLogger(__name__)

BETWEEN_WALKS_NS = 10**9
BETWEEN_REVIEWS_NS = 60 * 10**9  # while the tree can be read and is good for identities
BETWEEN_RETRIES_NS = 10 * 10**9  # while it is not
_NEVER = -(2**63)
_MOUNT = "mount the node's /sys/fs/cgroup read-only into the pod (hostPath) or set --path.cgroup"


class ContainerTree:
    """The newest walk below ``root``. Not for use by several threads at once."""

    def __init__(self, root: str, clock: Clock) -> None:
        self._root = root
        self._clock = clock
        self._walk = Walk()
        self._sees_others = self._has_others = False  # processes, containers: but for our own
        self._hierarchy: Hierarchy | None = None
        self._started_ns = _NEVER
        self._tried_ns = _NEVER
        self.skipped: Counter[str] = Counter()  # what all walks could not use, by reason
        self.walks = 0
        self.group_kinds: frozenset[str] = frozenset()  # by all walks so far
        self.problem = ""  # what prevents walking and what to do

    def review(self) -> None:
        """Find out from time to time whether the tree can be read.

        While it can, that costs no walk, because ``/proc`` names the owner of a process.
        """
        is_sound = not (self.problem or self.hides_processes(nested=True))
        if self._is_due(BETWEEN_REVIEWS_NS if is_sound else BETWEEN_RETRIES_NS):
            hierarchy = self._find()
            if hierarchy is not None and not (is_sound and hierarchy == self._hierarchy):
                self._do(hierarchy)

    def since(self, moment_ns: int) -> Walk | None:
        """A walk begun at or after a moment, None while there may be none yet.

        Only such a walk may be asked for a process that was there at that moment: an older one
        may know its pid from a process that had it before.
        """
        if self._started_ns < moment_ns and self._is_due(BETWEEN_WALKS_NS):
            hierarchy = self._find()
            if hierarchy is not None:
                self._do(hierarchy)
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

    def _is_due(self, interval_ns: int) -> bool:
        now = self._clock.monotonic_ns()
        is_due = now - self._tried_ns >= interval_ns
        if is_due:
            self._tried_ns = now
        return is_due

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

    def _do(self, hierarchy: Hierarchy) -> None:
        if hierarchy != self._hierarchy:
            self._hierarchy = hierarchy
            where = hierarchy.root
            logger.info("cgroup %s: containers are looked for in %s", hierarchy.version, where)
        self._started_ns = self._tried_ns
        self._walk = found = walk(hierarchy.root)
        self.walks += 1
        self.skipped.update(found.skipped)
        self.group_kinds |= kinds_of(found.identities)
        own = found.by_pid.get(os.getpid())
        self._sees_others = any(identity != own for identity in found.by_pid.values())
        self._has_others = any(identity != own for identity in found.by_container.values())
        has_containers = any(one.pod_uid or one.container_id for one in found.identities)
        blind = found.skipped.get("unreadable", 0) and not has_containers
        self._report(f"cgroups below {hierarchy.root!r} are unreadable: {_MOUNT}" * bool(blind))

    def _report(self, problem: str) -> None:
        if problem and problem != self.problem:
            logger.warning("%s", problem)
        self.problem = problem
