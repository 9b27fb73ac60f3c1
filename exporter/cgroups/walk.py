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
"""

import errno
import os
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from exporter.cgroups.layout import ROOT, Place, descend
from exporter.cgroups.tree import TreeBuilder
from exporter.model import CgroupIdentity, Tree

LARGEST_LIST = 4 * 1024 * 1024
_CHUNK = 64 * 1024
_PID_DIGITS = 10
_NO_SUBDIRECTORIES = 2  # links of an empty directory: its name and its "."

_REASONS = {
    errno.ENOENT: "vanished",
    errno.ENODEV: "vanished",
    errno.EOPNOTSUPP: "threaded",
}


class Walk(NamedTuple):
    """A finished walk. The mappings index what ``tree`` holds, with the whole identity."""

    tree: Tree
    by_pid: Mapping[int, CgroupIdentity]
    by_container: Mapping[str, CgroupIdentity]


class Limits(NamedTuple):
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
    place: Place
    depth: int
    links: int
    container: str = ""


DEFAULT_LIMITS = Limits()


def walk(
    roots: Iterable[str],
    enter: Callable[[str], None] = lambda _: None,
    limits: Limits = DEFAULT_LIMITS,
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
    def __init__(self, enter: Callable[[str], None], limits: Limits) -> None:
        self._enter = enter
        self._limits = limits
        self._left = limits.directories
        self._inside: Counter[str] = Counter()  # directories by the container that they are in
        self._builder = TreeBuilder()
        self._by_pid: dict[int, CgroupIdentity] = {}
        self._by_container: dict[str, CgroupIdentity] = {}
        self._skipped: Counter[str] = Counter()

    def result(self) -> Walk:
        tree = self._builder.build(self._skipped)
        return Walk(tree, self._by_pid, self._by_container)

    def descend_from(self, root: str) -> None:
        self._enter(root)
        waiting = deque([_Directory(root, ROOT, 0, self._links(root))])
        while waiting:
            if self._left <= 0:
                self._skipped["too_many"] += len(waiting)
                return
            self._left -= 1
            # A directory's own list is read before its children's: processes are moved downward
            # (crun's /container), so one on its way is seen twice rather than missed.
            directory = waiting.pop()
            self._collect(directory.path, directory.place.identity)
            if directory.links != _NO_SUBDIRECTORIES:
                put = waiting.appendleft if directory.container else waiting.append
                for child in self._children(directory):
                    put(child)

    def _links(self, root: str) -> int:
        try:
            return os.stat(root).st_nlink  # noqa: PTH116 - same call as the entries' own
        except OSError as error:
            self._skip(error)
            return _NO_SUBDIRECTORIES

    def _collect(self, path: str, identity: CgroupIdentity) -> None:
        unit = identity.unit
        if not (identity.pod_uid or identity.container_id or (unit and unit.name)):
            return
        pids: tuple[int, ...] = ()
        try:
            pids = self._processes(path + "/cgroup.procs")
        except OSError as error:
            if self._skip(error) == "vanished":
                return
        self._builder.add(identity, pids)
        self._by_pid.update(dict.fromkeys(pids, identity))
        # A user's or a machine's, which has a unit, may have taken another's id.
        if identity.container_id is not None and identity.unit is None:
            self._by_container[identity.container_id] = identity

    def _processes(self, path: str) -> tuple[int, ...]:
        lines = self._read(path).split()
        good = [line for line in lines if line.isdigit() and len(line) <= _PID_DIGITS]
        if len(good) < len(lines):
            self._skipped["malformed"] += len(lines) - len(good)
            lines = good
        pids = tuple(map(int, lines))
        foreign = pids.count(0)
        if foreign:
            self._skipped["foreign_pid"] += foreign
            pids = tuple(filter(None, pids))
        return pids

    def _read(self, path: str) -> bytes:
        # Non-blocking, for where a plain directory stands in and holds a pipe of that name.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
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

    def _children(self, parent: _Directory) -> Iterator[_Directory]:
        try:
            with os.scandir(parent.path) as listing:
                entries = [entry for entry in listing if entry.is_dir(follow_symlinks=False)]
        except OSError as error:
            self._skip(error)
            return
        inside = parent.container
        deepest = self._limits.depth_inside if inside else self._limits.depth
        if entries and parent.depth >= deepest:
            self._skipped["too_deep"] += len(entries)
            return
        # Listing a directory is the dear part: a cgroup's holds some 70 files. Where the file
        # system counts subdirectories as links, as cgroup's does, those with none are not listed.
        counted = parent.links == len(entries) + _NO_SUBDIRECTORIES
        for entry in entries:
            if inside and not self._has_room(inside):
                continue
            place = descend(parent.place, entry.name)
            if place.identity.container_id is None:
                self._enter(entry.path)
            try:
                links = entry.stat(follow_symlinks=False).st_nlink if counted else 0
            except OSError as error:
                self._skip(error)
                continue
            if inside or place.identity.container_id is None:
                yield _Directory(entry.path, place, parent.depth + 1, links, inside)
            else:
                yield _Directory(entry.path, place, 0, links, entry.path)

    def _has_room(self, container: str) -> bool:
        """Count one more directory inside of a container; whether it is to be walked."""
        self._inside[container] += 1
        if self._inside[container] <= self._limits.directories_inside:
            return True
        self._skipped["too_many"] += 1
        return False

    def _skip(self, error: OSError) -> str:
        reason = _REASONS.get(error.errno or 0, "unreadable")
        self._skipped[reason] += 1
        return reason
