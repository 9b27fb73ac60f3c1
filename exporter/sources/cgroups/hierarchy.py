"""Finds the cgroup hierarchy that holds the node's containers below a root directory.

Stands on the layouts that systemd and the container runtimes mount (systemd's CGROUP_DELEGATION
document): unified (v2), one directory per controller (v1), or both side by side (hybrid). Nothing
but names and files is looked at - no mount table, no file system type - so that a copy of the tree
in a plain directory works the same way.
"""

import os
from collections import deque
from dataclasses import dataclass

from exporter.sources.cgroups.layout import ROOT, PathState, descend

# Every container has a directory in each controller of cgroup v1 - in most setups. The first of
# these that holds containers is walked; the named hierarchy is systemd's own.
_PREFERRED = ("pids", "memory", "cpuset", "systemd")
_CONTROLLERS = frozenset({*_PREFERRED, "blkio", "cpu", "cpuacct", "devices", "freezer", "hugetlb"})
_UNIFIED = "unified"
_MOST_DIRECTORIES = 2000
_POD_CONTAINER, _SOMETHING, _NOTHING = 2, 1, 0


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """Where to walk. ``version`` is v1, v2 or hybrid."""

    version: str
    root: str


def find_hierarchy(root: str) -> Hierarchy | None:
    """The hierarchy to walk below ``root``, None if there is none.

    Raises OSError where ``root`` cannot be listed. ``root`` may also be one hierarchy itself (a
    single controller's directory, or a subtree).
    """
    files, directories = _list(root)
    if "cgroup.controllers" in files:
        return Hierarchy("v2", root)
    if "cgroup.procs" in files:
        return Hierarchy("v1" if "tasks" in files else "v2", root)
    mounts = [f"{root}/{name}" for name in directories if _is_mount(root, name)]
    if not mounts:
        holds = _search(root) is not _NOTHING
        return Hierarchy("v2", root) if holds else None
    mounts.sort(key=_preference)
    return Hierarchy(_version(mounts), _fullest(mounts))


def _list(path: str) -> tuple[set[str], list[str]]:
    files, directories = set(), []
    with os.scandir(path) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                directories.append(entry.name)
            else:
                files.add(entry.name)
    return files, directories


def _is_mount(root: str, name: str) -> bool:
    if name == _UNIFIED or not _CONTROLLERS.isdisjoint(name.split(",")):
        return True
    return os.path.exists(f"{root}/{name}/cgroup.procs")  # noqa: PTH110 - strings all through: a path object each costs more than the call


def _preference(mount: str) -> tuple[int, str]:
    name = mount.rpartition("/")[2]
    if _is_unified(mount):
        return len(_PREFERRED) + 1, name
    return (_PREFERRED.index(name) if name in _PREFERRED else len(_PREFERRED)), name


def _version(mounts: list[str]) -> str:
    unified = sum(_is_unified(mount) for mount in mounts)
    if not unified:
        return "v1"
    return "hybrid" if len(mounts) > unified else "v2"


def _is_unified(mount: str) -> bool:
    return mount.endswith("/" + _UNIFIED) or os.path.exists(f"{mount}/cgroup.controllers")  # noqa: PTH110 - as above


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
    """What the first directories contain: breadth first, at most ``_MOST_DIRECTORIES``."""
    found = _NOTHING
    queue: deque[tuple[str, PathState]] = deque([(root, ROOT)])
    for _ in range(_MOST_DIRECTORIES):
        if not queue:
            break
        path, place = queue.popleft()
        try:
            names = _list(path)[1]
        except OSError:
            continue
        for name in names:
            child = descend(place, name)
            if child.identity.container_id is not None:
                if child.identity.pod_uid is not None:
                    return _POD_CONTAINER
                found = _SOMETHING
            else:
                found = max(found, _SOMETHING if child.is_pod else _NOTHING)
            queue.append((f"{path}/{name}", child))
    return found
