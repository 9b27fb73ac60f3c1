"""One walk of a cgroup hierarchy: which containers exist and which processes are in them.

Stands on kernel documentation ``admin-guide/cgroup-v2.rst`` and ``cgroup-v1/cgroups.rst``. The
tree changes while it is walked, so every directory may be gone, unreadable or odd: each such costs
only itself and is counted in ``Walk.skipped``:

``vanished``     removed during the walk
``unreadable``   no permission, or any other error
``threaded``     a threaded cgroup lists no processes (EOPNOTSUPP); its domain root above does
``foreign_pid``  a process of another PID namespace, which cgroup v2 lists as 0
``malformed``    a line that is no process id
``too_large``    a process list cut at ``LARGEST_LIST`` bytes
``too_deep``, ``too_many``  directories left out because of the walk's limits

A container, user or machine whose cgroup is delegated makes as many directories as it likes. What
lies inside of such is walked last and counted for each, so that it hides no other pod or container.
"""

import errno
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from exporter.agent.sources.cgroups.batchpatterns import NO_SITE, GroupPatterns
from exporter.agent.sources.cgroups.layout import PathState, descend, is_own_inside, root_of
from exporter.agent.sources.door import Absent, Cut, Failed, Unread, Whole, folders, read
from exporter.model import CgroupIdentity

_DIGITS = 10  # of a process id, at most
LARGEST_LIST = 4 * 1024 * 1024
MOST_NAMES = 65_536  # of one directory, its files among them


@dataclass(frozen=True, slots=True)
class Walk:
    """What one walk found.

    ``identities`` are those of the pods, containers and units that have a directory, ``by_pid``
    those of their processes: of a process in two places, the one that was read later.
    ``by_container`` has the whole identity of each container by its id, ``skipped`` counts what
    could not be used, by reason.
    """

    identities: frozenset[CgroupIdentity] = frozenset()
    by_pid: Mapping[int, CgroupIdentity] = field(default_factory=dict)
    by_container: Mapping[str, CgroupIdentity] = field(default_factory=dict)
    skipped: Mapping[str, int] = field(default_factory=dict)


class WalkLimits(NamedTuple):
    """How much is walked: of a hierarchy down to its containers, and of what lies inside of one.

    A node of 110 pods that is itself a container has some 700 directories, 15 deep in the worst
    nesting known.
    """

    depth: int = 48
    directories: int = 50_000
    depth_inside: int = 24
    directories_inside: int = 2_000


class _Directory(NamedTuple):
    """``container``: the outermost directory that is one's own, from which ``depth`` counts; or "".

    That is a container's, a user's, a job's or a machine's.
    """

    path: str
    place: PathState
    depth: int = 0
    container: str = ""


DEFAULT_LIMITS = WalkLimits()


def walk(root: str, limits: WalkLimits = DEFAULT_LIMITS, patterns: GroupPatterns = NO_SITE) -> Walk:
    """Walk a hierarchy from its root. Never raises for what it finds there.

    Symbolic links are not followed.
    """
    walker = _Walker(limits)
    walker.descend_from(root, root_of(patterns))
    return walker.result()


def _is_owned(identity: CgroupIdentity) -> bool:
    """Whether what lies inside of a directory is made by a container, a user or a machine."""
    unit = identity.unit
    return identity.container_id is not None or bool(unit and unit.name and is_own_inside(unit))


class _Walker:
    def __init__(self, limits: WalkLimits) -> None:
        self._limits = limits
        self._left = limits.directories - 1  # but for the root
        self._inside: Counter[str] = Counter()  # directories by the container that they are in
        self._identities: set[CgroupIdentity] = set()
        self._by_pid: dict[int, CgroupIdentity] = {}
        self._by_container: dict[str, CgroupIdentity] = {}
        self._skipped: Counter[str] = Counter()

    def result(self) -> Walk:
        identities, skipped = frozenset(self._identities), dict(+self._skipped)
        return Walk(identities, self._by_pid, self._by_container, skipped)

    def descend_from(self, root: str, place: PathState) -> None:
        waiting = deque([_Directory(root, place)])
        while waiting and self._left > 0:
            for child in self._children(waiting.pop()):
                (waiting.appendleft if child.container else waiting.append)(child)
        self._skipped["too_many"] += len(waiting)

    def _children(self, parent: _Directory) -> Iterator[_Directory]:
        """The directories in a directory, after their own lists were read.

        They are read before their children's: processes are moved downward (crun's /container), so
        one on its way is seen twice rather than missed.
        """
        listed = folders(parent.path, MOST_NAMES)
        if not isinstance(listed, Whole | Cut):
            self._skip(listed)
            return
        names = listed.value
        self._skipped["too_many"] += isinstance(listed, Cut)
        container = parent.container
        deepest = self._limits.depth_inside if container else self._limits.depth
        if parent.depth >= deepest:
            self._skipped["too_deep"] += len(names)
            return
        for name in names:
            # Each container or user has a limit besides that of the whole walk. One that makes
            # directories without end spends its own, and its neighbours are still found.
            if container:
                self._inside[container] += 1
            if self._left <= 0 or self._inside[container] > self._limits.directories_inside:
                self._skipped["too_many"] += 1
                continue
            self._left -= 1
            path, place = f"{parent.path}/{name}", descend(parent.place, name)
            self._collect(path, place.identity)
            if container or not _is_owned(place.identity):
                yield _Directory(path, place, parent.depth + 1, container)
            else:
                yield _Directory(path, place, 0, path)

    def _collect(self, path: str, identity: CgroupIdentity) -> None:
        unit = identity.unit
        if not (identity.pod_uid or identity.container_id or (unit and unit.name)):
            return
        listed = read(f"{path}/cgroup.procs", LARGEST_LIST)
        lines: list[bytes] = []
        if isinstance(listed, Whole):
            lines = listed.value.split()
        elif isinstance(listed, Cut):  # a part of a line is another process's id
            self._skipped["too_large"] += 1
            lines = listed.value[: listed.value.rfind(b"\n") + 1].split()
        else:
            self._skip(listed)
            if isinstance(listed, Absent):
                return
        pids = [int(line) for line in lines if line.isdigit() and len(line) <= _DIGITS]
        # cgroup v2 lists a process of another PID namespace as 0, which is no process's id.
        ours = [pid for pid in pids if pid]
        self._skipped["malformed"] += len(lines) - len(pids)
        self._skipped["foreign_pid"] += len(pids) - len(ours)
        # The processes keep the job or container that they are in. The container is one, whatever
        # runs in it, so it is entered without.
        own = identity
        if identity.job is not None or identity.nested is not None:
            own = identity._replace(job=None, nested=None)
        self._identities.add(own)
        self._by_pid.update(dict.fromkeys(ours, identity))
        # A user's or a machine's, which has a unit, may have taken another's id.
        if identity.container_id is not None and identity.unit is None:
            self._by_container[identity.container_id] = own

    def _skip(self, reply: Unread) -> None:
        is_threaded = reply == Failed(errno.EOPNOTSUPP)
        other = "threaded" if is_threaded else "unreadable"
        self._skipped["vanished" if isinstance(reply, Absent) else other] += 1
