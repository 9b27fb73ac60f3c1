"""Pods by the names of their log files: namespace, pod, uid, container and id.

It needs no server, and has no limits, labels, annotations or owners, nor whether a pod still runs.
Files are listed, never opened or followed; their directories are checked twice a second for
changes.

The kubelet writes ``/var/log/pods/<namespace>_<pod>_<uid>/<container>/<restart>.log`` and, below
``/var/log/containers``, links to those files whose names end in the container's id
(``pkg/kubelet/kuberuntime``: ``BuildPodLogsDirectory``, ``logSymlink``). A link's name is cut at
255 bytes, so a link with long names has no id. A static pod's uid is the hash of its manifest.
"""

import logging
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from exporter.agent.fairness import Held
from exporter.agent.sources.pods.decode import MAX_CONTAINERS
from exporter.agent.sources.pods.reader import USUAL, PodThread, ReaderOptions
from exporter.model import SECOND_NS, Container, Pod

MAX_IDS = 8  # of one container: the current one and those before its restarts

_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_NAME = r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?"
_POD = re.compile(rf"({_LABEL})_({_NAME})_([0-9A-Za-z-]{{1,64}})", re.ASCII)
_LINK = re.compile(rf"{_NAME}_{_LABEL}_{_LABEL}-([0-9a-f]{{64}})\.log", re.ASCII)
_LOG = re.compile(r"([0-9]{1,9})\.log", re.ASCII)
_CONTAINER = re.compile(_LABEL, re.ASCII)


class PodDirectory(NamedTuple):
    """Namespace, name and uid of a pod, from the name of its directory."""

    namespace: str
    name: str
    uid: str


class Log(NamedTuple):
    """The log of one container of a pod after ``restart`` restarts."""

    pod: PodDirectory
    container: str
    restart: int
    container_id: str


def pod_name(directory: str) -> PodDirectory | None:
    """The pod of a directory below ``pods``; None if the name is not a pod's."""
    match = _POD.fullmatch(directory)
    return PodDirectory(*match.groups()) if match else None


def is_container(directory: str) -> bool:
    """Whether a directory below a pod's may be a container's."""
    return _CONTAINER.fullmatch(directory) is not None


def log_of(link: str, target: str) -> Log | None:
    """The log that a link below ``containers`` names by its own and its target's name."""
    named = _LINK.fullmatch(link)
    *_, directory, container, file = ("", "", *target.split("/"))
    pod, log = pod_name(directory), _LOG.fullmatch(file)
    if named is None or pod is None or log is None or not is_container(container):
        return None
    return Log(pod, container, int(log[1]), named[1])


def pods_of(containers: Mapping[PodDirectory, Iterable[str]], logs: Iterable[Log]) -> list[Pod]:
    """The pods that have a directory, with the ids of their containers, the current one first."""
    ids: dict[tuple[PodDirectory, str], list[str]] = {}
    for log in sorted(logs, key=lambda log: (log.pod, log.container, -log.restart)):
        ids.setdefault((log.pod, log.container), []).append(log.container_id)
    return [
        Pod(
            uid=pod.uid,
            namespace=pod.namespace,
            name=pod.name,
            containers=tuple(
                Container(name, container_ids=tuple(ids.get((pod, name), ())[:MAX_IDS]))
                for name in sorted(names)
            ),
        )
        for pod, names in containers.items()
    ]


MAX_PODS = 5_000
MAX_LINKS = 20_000
LOOKED_AT = 20  # times as many names
MAX_REPORTED = 1_000
LOOK_S = 0.5
RELIST_NS = 15 * SECOND_NS  # for changes that do not show in the two directories' times

Stamp = tuple[int | None, int | None]


class FilePods(PodThread):
    """Implements ``PodSource``. Its own thread reads, because a disk may hang.

    ``alone``: there is no other pod source, so a failure is logged as a warning.
    """

    name = "pods_files"

    def __init__(
        self,
        root: Path,
        options: ReaderOptions = USUAL,
        *,
        alone: bool = True,
        look_s: float = LOOK_S,
    ) -> None:
        super().__init__(options)
        self._pods, self._links, self._look_s = root / "pods", root / "containers", look_s
        self.level = logging.WARNING if alone else logging.INFO
        self._seen: Stamp | None = None
        self._read_ns = 0
        self._reported: set[str] = set()

    def _pause_s(self) -> float:
        return self._look_s

    def _step(self) -> None:
        """Read if the directories may have changed."""
        now_ns = self._clock.monotonic_ns()
        stamp = _changed_at(self._pods, follow=True), _changed_at(self._links, follow=True)
        if stamp == self._seen and now_ns - self._read_ns < RELIST_NS and self._status.up:
            self._heard()
            return
        try:
            pods = self._read()
        except OSError as error:
            reason = error.strerror or type(error).__name__
            self._down(
                f"{self._pods} cannot be read ({reason}); mount the node's, or see --path.logs"
            )
            return
        self._seen, self._read_ns = stamp, now_ns  # what comes while it is read is read again
        self._enter_list(pods, now_ns)
        self._up()

    def _read(self) -> list[Pod]:
        """All pods with a directory, the newest directory first."""
        found: list[tuple[int, PodDirectory, list[str]]] = []
        for entry in self._fairly(self._pods, MAX_PODS, 0):
            pod = pod_name(entry.name)
            changed_at = _changed_at(Path(entry.path))
            if pod is None or not entry.is_dir(follow_symlinks=False):
                self._reject("pods", entry.name)
            elif changed_at is not None:
                containers: list[str] = []
                # The pod is being removed where its directory cannot be listed any more.
                with suppress(OSError):
                    containers = [
                        one.name
                        for one in _entries(Path(entry.path), MAX_CONTAINERS)
                        if is_container(one.name) and one.is_dir(follow_symlinks=False)
                    ]
                found.append((changed_at, pod, containers))
        found.sort(reverse=True)
        return pods_of({pod: containers for _, pod, containers in found}, self._logs())

    def _logs(self) -> Iterator[Log]:
        """The logs that links name; empty if there are no links."""
        try:
            entries = self._fairly(self._links, MAX_LINKS, 1)
        except OSError:
            return
        for entry in entries:
            try:
                target = str(Path(entry.path).readlink())
            except OSError:
                target = ""  # no link, or removed meanwhile
            log = log_of(entry.name, target)
            if log is not None:
                yield log
            else:
                self._reject("containers", entry.name)

    def _fairly(self, folder: Path, most: int, part: int) -> list["os.DirEntry[str]"]:
        """At most so many entries, of each namespace a fair part: that part of their names."""
        found, held, cut = dict[str, os.DirEntry[str]](), Held[str](most, newest=True), 0
        for entry in _entries(folder, LOOKED_AT * most):
            found[entry.name] = entry
            namespace = entry.name.split("_", 2)[part : part + 1]
            if (over := held.add(entry.name, *namespace or [""])) is not None:
                del found[over]
                cut += 1
        if cut:
            item = f"a name in {folder} of the namespace with most"
            self._rejections.reject("pod_over_limit", item, cut)
        return [*found.values()]

    def _reject(self, place: str, name: str) -> None:
        item = f"{place}/{name[:300]!a}"
        if item not in self._reported and len(self._reported) < MAX_REPORTED:
            self._reported.add(item)
            self._rejections.reject("log_name_unusable", item)


def _entries(folder: Path, most: int) -> Iterator["os.DirEntry[str]"]:
    with os.scandir(folder) as entries:
        yield from islice(entries, most)


def _changed_at(path: Path, *, follow: bool = False) -> int | None:
    try:
        return path.stat(follow_symlinks=follow).st_mtime_ns
    except OSError:
        return None
