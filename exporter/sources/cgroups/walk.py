"""One walk of a cgroup hierarchy: which containers exist and which processes are in them.

Stands on kernel documentation ``admin-guide/cgroup-v2.rst`` and ``cgroup-v1/cgroups.rst``. The
tree changes while it is walked, so every directory may be gone, unreadable or odd: each such costs
only itself and is counted in ``Tree.skipped``:

``vanished``     removed during the walk (ENOENT, ENODEV)
``unreadable``   no permission, or any other error
``threaded``     a threaded cgroup lists no processes (EOPNOTSUPP); its domain root above does
``foreign_pid``  a process of another PID namespace, which cgroup v2 lists as 0
``malformed``    a line that is no process id
``too_large``    a process list cut at ``LARGEST_LIST`` bytes
``too_deep``, ``too_many``  directories left out because of the walk's limits

A container whose cgroup is delegated to it makes as many directories as it likes. What lies inside
of containers is walked last and counted for each, so that it hides no other pod or container.

What a walk has found, and what a list of processes says. Pure.

Collects who is in which cgroup into the room's ``Tree``. Pure.
"""

import errno
import os
import re
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple

from exporter.model import CgroupIdentity, Tree
from exporter.sources.cgroups.layout import ROOT, PathState, descend

POD_ITSELF = ""


class TreeBuilder:
    """Takes the processes directory by directory; those of deeper ones join their container."""

    def __init__(self) -> None:
        self._pods: dict[str, dict[str, dict[int, None]]] = {}
        self._containers: dict[str, dict[int, None]] = {}

    def add(self, identity: CgroupIdentity, pids: Iterable[int]) -> None:
        """Note a directory that exists and its processes; host directories leave no trace."""
        place = self._place(identity, pids)
        if place is not None:
            place.update(dict.fromkeys(pids))

    def _place(self, identity: CgroupIdentity, pids: Iterable[int]) -> dict[int, None] | None:
        if identity.pod_uid is not None:
            containers = self._pods.setdefault(identity.pod_uid, {})
            if identity.container_id is None and not pids:
                return None
            return containers.setdefault(identity.container_id or POD_ITSELF, {})
        if identity.container_id is not None:
            return self._containers.setdefault(identity.container_id, {})
        return None

    def build(self, skipped: Mapping[str, int]) -> Tree:
        """The tree of all that was added."""
        pods = {
            uid: MappingProxyType(
                {container: tuple(pids) for container, pids in containers.items()}
            )
            for uid, containers in self._pods.items()
        }
        containers = {container: tuple(pids) for container, pids in self._containers.items()}
        return Tree(
            MappingProxyType(pods), MappingProxyType(containers), MappingProxyType(dict(skipped))
        )


_DIGITS = 10  # of a process id, at most
# Possessive: what matched is kept, so that no way back is remembered, 100 bytes for each line.
_SOUND = re.compile(rb"(?:[1-9][0-9]{0,%d}+\n)*+" % (_DIGITS - 1))


class ProcessList(NamedTuple):
    """A directory and its ``cgroup.procs``, of which ``is_sound`` is true."""

    identity: CgroupIdentity
    lines: bytes


class Walk:
    """A finished walk.

    The lists stay as they were read until somebody asks for processes, which is rare: ``/proc``
    names the owner of a process sooner. ``by_container`` has the whole identity of each container.
    """

    def __init__(
        self,
        lists: Sequence[ProcessList] = (),
        by_container: Mapping[str, CgroupIdentity] | None = None,
        skipped: Mapping[str, int] | None = None,
    ) -> None:
        self.lists = lists
        self.by_container = by_container or {}
        self.skipped = skipped or {}

    @cached_property
    def by_pid(self) -> Mapping[int, CgroupIdentity]:
        """Where each process is; of two places the one that was read later."""
        return {pid: identity for identity, lines in self.lists for pid in map(int, lines.split())}

    @cached_property
    def tree(self) -> Tree:
        """Pods and containers with their processes."""
        builder = TreeBuilder()
        for identity, lines in self.lists:
            builder.add(identity, tuple(map(int, lines.split())))
        return builder.build(self.skipped)

    @property
    def has_containers(self) -> bool:
        """Whether there is any pod or container."""
        return any(one.identity.pod_uid or one.identity.container_id for one in self.lists)

    def of(self, pid: int) -> CgroupIdentity | None:
        """Where one process is, as ``by_pid`` has it; None if it is in none of the lists."""
        line = b"\n%d\n" % pid
        listed = (one.identity for one in reversed(self.lists) if line in b"\n" + one.lines)
        return next(listed, None)


def is_sound(content: bytes) -> bool:
    """Whether each line is a process of ours."""
    return _SOUND.fullmatch(content) is not None


class FilteredList(NamedTuple):
    """The lines of a list that are processes of ours, and how many are others."""

    lines: bytes
    malformed: int
    foreign: int  # cgroup v2 lists a process of another PID namespace as 0


def filter_list(content: bytes) -> FilteredList:
    """Leave out what is no process of ours."""
    lines = content.split()
    good = [int(line) for line in lines if line.isdigit() and len(line) <= _DIGITS]
    ours = [pid for pid in good if pid]
    text = b"".join(map(b"%d\n".__mod__, ours))
    return FilteredList(text, len(lines) - len(good), len(good) - len(ours))


LARGEST_LIST = 4 * 1024 * 1024
_CHUNK = 64 * 1024
# Non-blocking, for where a plain directory stands in and holds a pipe instead of a list.
_TO_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
_NO_SUBDIRECTORIES = 2  # links of an empty directory: its name and its "."

_REASONS = {
    errno.ENOENT: "vanished",
    errno.ENODEV: "vanished",
    errno.EOPNOTSUPP: "threaded",
}


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
    """``container``: the outermost container's directory, from which ``depth`` counts; or ""."""

    path: str
    place: PathState
    depth: int = 0
    container: str = ""


DEFAULT_LIMITS = WalkLimits()


def walk(
    roots: Iterable[str],
    enter: Callable[[str], None] = lambda _: None,
    limits: WalkLimits = DEFAULT_LIMITS,
) -> Walk:
    """Walk hierarchies from their roots. Never raises for what it finds there.

    ``enter`` is called with each directory that is not part of a container, before it is listed:
    a watch set there misses no pod or container that comes later. Symbolic links are not followed.
    """
    walker = _Walker(enter, limits)
    for root in roots:
        walker.descend_from(root)
    return walker.result()


class _Walker:
    def __init__(self, enter: Callable[[str], None], limits: WalkLimits) -> None:
        self._enter = enter
        self._limits = limits
        self._left = limits.directories
        self._inside: Counter[str] = Counter()  # directories by the container that they are in
        self._lists: list[ProcessList] = []
        self._by_container: dict[str, CgroupIdentity] = {}
        self._skipped: Counter[str] = Counter()

    def result(self) -> Walk:
        return Walk(self._lists, self._by_container, dict(+self._skipped))

    def descend_from(self, root: str) -> None:
        self._enter(root)
        self._left -= 1
        waiting = deque([_Directory(root, ROOT)])
        while waiting and self._left > 0:
            for child in self._children(waiting.pop()):
                (waiting.appendleft if child.container else waiting.append)(child)
        self._skipped["too_many"] += len(waiting)

    def _children(self, parent: _Directory) -> list[_Directory]:
        """List a directory and collect those in it; those that have some in turn."""
        try:
            folder = os.open(parent.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            self._skip(error)
            return []
        try:
            names = _subdirectories(folder)
            # Listing a directory is the costly part: a cgroup's holds some 70 files. Where the file
            # system counts subdirectories as links, as cgroup's does, those with none are not
            # listed (kernfs_refresh_inode in the kernel's fs/kernfs/inode.c).
            counted = os.fstat(folder).st_nlink == len(names) + _NO_SUBDIRECTORIES
            deepest = self._limits.depth_inside if parent.container else self._limits.depth
            if parent.depth < deepest:
                found = [self._child(parent, folder, name, counted=counted) for name in names]
                return [child for child in found if child is not None]
            self._skipped["too_deep"] += len(names)
        except OSError as error:
            self._skip(error)
        finally:
            os.close(folder)
        return []

    def _child(
        self, parent: _Directory, folder: int, name: str, *, counted: bool
    ) -> _Directory | None:
        """Collect one directory; give it back if it may have subdirectories.

        Its own list is read before its children's: processes are moved downward (crun's
        /container), so one on its way is seen twice rather than missed.
        """
        if not self._has_room(parent.container):
            return None
        place = descend(parent.place, name)
        path = f"{parent.path}/{name}"
        if place.identity.container_id is None:
            self._enter(path)
        links = 0
        if counted and not place.is_pod:  # which is most often with containers: it is listed
            try:
                links = os.stat(name, dir_fd=folder, follow_symlinks=False).st_nlink
            except OSError as error:
                self._skip(error)
                return None
        self._collect(folder, name, place.identity)
        if links == _NO_SUBDIRECTORIES:
            return None
        if parent.container or place.identity.container_id is None:
            return _Directory(path, place, parent.depth + 1, parent.container)
        return _Directory(path, place, 0, path)

    def _has_room(self, container: str) -> bool:
        """Count one more directory, inside of this container if any; whether it is to be walked."""
        crowded = False
        if container:
            self._inside[container] += 1
            crowded = self._inside[container] > self._limits.directories_inside
        if crowded or self._left <= 0:
            self._skipped["too_many"] += 1
            return False
        self._left -= 1
        return True

    def _collect(self, folder: int, name: str, identity: CgroupIdentity) -> None:
        unit = identity.unit
        if not (identity.pod_uid or identity.container_id or (unit and unit.name)):
            return
        lines = b""
        try:
            lines = self._processes(folder, name + "/cgroup.procs")
        except OSError as error:
            if self._skip(error) == "vanished":
                return
        self._lists.append(ProcessList(identity, lines))
        # A user's or a machine's, which has a unit, may have taken another's id.
        if identity.container_id is not None and identity.unit is None:
            self._by_container[identity.container_id] = identity

    def _processes(self, folder: int, path: str) -> bytes:
        content = self._read(folder, path)
        if is_sound(content):
            return content
        lines, malformed, foreign = filter_list(content)
        self._skipped["malformed"] += malformed
        self._skipped["foreign_pid"] += foreign
        return lines

    def _read(self, folder: int, path: str) -> bytes:
        descriptor = os.open(path, _TO_READ, dir_fd=folder)
        try:
            content = chunk = os.read(descriptor, _CHUNK)
            while chunk and len(content) < LARGEST_LIST:
                chunk = os.read(descriptor, _CHUNK)
                content += chunk
        finally:
            os.close(descriptor)
        if len(content) >= LARGEST_LIST:
            self._skipped["too_large"] += 1
            content = content[: content.rfind(b"\n") + 1]
        return content

    def _skip(self, error: OSError) -> str:
        reason = _REASONS.get(error.errno or 0, "unreadable")
        self._skipped[reason] += 1
        return reason


def _subdirectories(folder: int) -> list[str]:
    with os.scandir(folder) as listing:
        return [entry.name for entry in listing if entry.is_dir(follow_symlinks=False)]
