"""The cgroup tree of the node: which hierarchy holds its containers, its newest walk, the next one.

A walk costs ten milliseconds and more on a full node. There is at most one a second, and only for
a process that ``/proc`` hides and that is younger than the last walk. Pods that come and go cost
none.

The hierarchy is found by the layouts that systemd and the container runtimes mount (systemd's
CGROUP_DELEGATION document): unified (v2), one directory per controller (v1), or both side by side
(hybrid). Nothing but names and files is looked at - no mount table, no file system type - so that a
copy of the tree in a plain directory works the same way.
"""

import logging
import os
from collections import Counter, deque
from dataclasses import dataclass

from exporter.agent.sources.cgroups.batchpatterns import NO_SITE, GroupPatterns
from exporter.agent.sources.cgroups.layout import PathState, descend, kinds_of, root_of
from exporter.agent.sources.cgroups.walk import DEFAULT_LIMITS, Walk, walk
from exporter.agent.sources.door import Cut, Reply, Whole, about, folders, why
from exporter.model import CgroupIdentity, Clock

logger = logging.getLogger(__name__)

# Every container has a directory in each controller of cgroup v1 - in most setups. The first of
# these that holds containers is walked; the named hierarchy is systemd's own.
_PREFERRED = ("pids", "memory", "cpuset", "systemd")
_CONTROLLERS = frozenset({*_PREFERRED, "blkio", "cpu", "cpuacct", "devices", "freezer", "hugetlb"})
_UNIFIED = "unified"
_MAX_DIRECTORIES = 2000
_POD_CONTAINER, _SOMETHING, _NOTHING = 2, 1, 0

BETWEEN_WALKS_NS = 10**9
BETWEEN_REVIEWS_NS = 60 * 10**9  # while the tree can be read and is good for identities
BETWEEN_RETRIES_NS = 10 * 10**9  # while it is not
_NEVER = -(2**63)
_MOUNT = "mount the node's /sys/fs/cgroup read-only into the pod (hostPath) or set --path.cgroup"


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """Where to walk. ``version`` is v1, v2 or hybrid."""

    version: str
    root: str


def find_hierarchy(root: str) -> Reply[Hierarchy | None]:
    """The hierarchy to walk below ``root``; None if there is none.

    ``root`` may also be one hierarchy itself (a single controller's directory, or a subtree).
    """
    directories = folders(root, _MAX_DIRECTORIES)
    if not isinstance(directories, Whole | Cut):
        return directories
    if _has(root, "cgroup.controllers"):
        return Whole(Hierarchy("v2", root))
    if _has(root, "cgroup.procs"):
        return Whole(Hierarchy("v1" if _has(root, "tasks") else "v2", root))
    mounts: list[str] = []
    for name in directories.value:
        is_known = name == _UNIFIED or not _CONTROLLERS.isdisjoint(name.split(","))
        if is_known or _has(root, name, "cgroup.procs"):
            mounts.append(f"{root}/{name}")
    if not mounts:
        # A copy of a part of the tree may have nothing but directories. Their names say whether it
        # is one.
        return Whole(Hierarchy("v2", root) if _search(root) is not _NOTHING else None)
    unified = sum(_is_unified(mount) for mount in mounts)
    version = "hybrid" if len(mounts) > unified else "v2"
    mounts.sort(key=_preference)
    return Whole(Hierarchy(version if unified else "v1", _fullest(mounts)))


def _has(*path: str) -> bool:
    return isinstance(about("/".join(path)), Whole)


def _preference(mount: str) -> tuple[int, str]:
    name = mount.rpartition("/")[2]
    if _is_unified(mount):
        return len(_PREFERRED) + 1, name
    return (_PREFERRED.index(name) if name in _PREFERRED else len(_PREFERRED)), name


def _is_unified(mount: str) -> bool:
    return mount.endswith("/" + _UNIFIED) or _has(mount, "cgroup.controllers")


def _fullest(mounts: list[str]) -> str:
    """The first mount with a pod's container, else with any container, else the first."""
    best, found = mounts[0], _NOTHING
    for mount in mounts:
        holds = _search(mount)
        if holds == _POD_CONTAINER:
            return mount
        if holds > found:
            best, found = mount, holds
    return best


def _search(root: str) -> int:
    """What the first directories contain: breadth first, at most ``_MAX_DIRECTORIES``."""
    found = _NOTHING
    queue: deque[tuple[str, PathState]] = deque([(root, root_of())])
    for _ in range(_MAX_DIRECTORIES):
        if not queue:
            break
        path, place = queue.popleft()
        listed = folders(path, _MAX_DIRECTORIES)
        for name in listed.value if isinstance(listed, Whole | Cut) else ():
            child = descend(place, name)
            if child.identity.container_id is not None:
                if child.identity.pod_uid is not None:
                    return _POD_CONTAINER
                found = _SOMETHING
            else:
                found = max(found, _SOMETHING if child.is_pod else _NOTHING)
            queue.append((f"{path}/{name}", child))
    return found


class ContainerTree:
    """The newest walk below ``root``. Not for use by several threads at once."""

    def __init__(self, root: str, clock: Clock, patterns: GroupPatterns = NO_SITE) -> None:
        self._root, self._patterns = root, patterns
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
        found = find_hierarchy(self._root)
        if not isinstance(found, Whole | Cut):
            self._report(f"cannot read the cgroup tree {self._root!r} ({why(found)}): {_MOUNT}")
            return None
        hierarchy = found.value
        if hierarchy is None:
            self._report(f"no cgroup hierarchy below {self._root!r}: {_MOUNT}")
        return hierarchy

    def _do(self, hierarchy: Hierarchy) -> None:
        if hierarchy != self._hierarchy:
            self._hierarchy = hierarchy
            where = hierarchy.root
            logger.info("cgroup %s: containers are looked for in %s", hierarchy.version, where)
        self._started_ns = self._tried_ns
        self._walk = found = walk(hierarchy.root, DEFAULT_LIMITS, self._patterns)
        self.walks += 1
        self.skipped.update(found.skipped)
        self.group_kinds |= kinds_of(found.identities, self._patterns)
        own = found.by_pid.get(os.getpid())
        self._sees_others = any(identity != own for identity in found.by_pid.values())
        self._has_others = any(identity != own for identity in found.by_container.values())
        has_containers = any(one.pod_uid or one.container_id for one in found.identities)
        blind = found.skipped.get("unreadable", 0) and not has_containers
        self._report(f"cgroups below {hierarchy.root!r} are unreadable: {_MOUNT}" if blind else "")

    def _report(self, problem: str) -> None:
        if problem and problem != self.problem:
            logger.warning("%s", problem)
        self.problem = problem
