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
import re
import stat
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from exporter.agent.fairness import Held
from exporter.agent.sources import door
from exporter.agent.sources.door import Absent, Cut, Failed, Refused, Reply, Whole
from exporter.agent.sources.pods.decode import MAX_CONTAINERS
from exporter.agent.sources.pods.podreader import USUAL, PodThread, ReaderOptions
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
        self._known: Mapping[PodDirectory, Sequence[str]] = {}  # the containers of each
        self._named: dict[str, Log] = {}  # by its link

    def _pause_s(self) -> float:
        return self._look_s

    def _step(self) -> None:
        """Read if the directories may have changed."""
        now_ns = self._clock.monotonic_ns()
        stamp = _changed_at(self._pods), _changed_at(self._links)
        if stamp == self._seen and now_ns - self._read_ns < RELIST_NS and self._status.up:
            self._heard()
            return
        names = self._fairly(self._pods, MAX_PODS, 0)
        if not isinstance(names, Whole | Cut):
            reason = f"{self._pods} cannot be read ({door.why(names)})"
            self._down(f"{reason}; mount the node's, or see --path.logs")
            return
        pods = pods_of(self._containers(names.value), self._logs())
        self._seen, self._read_ns = stamp, now_ns  # what comes while it is read is read again
        self._enter_list(pods, now_ns)
        self._up()

    def _containers(self, names: Iterable[str]) -> Mapping[PodDirectory, Sequence[str]]:
        """The containers of each pod with a directory, the newest directory first."""
        found: list[tuple[int, PodDirectory, Sequence[str]]] = []
        for name in names:
            about, pod = door.about(self._pods / name, follow=False), pod_name(name)
            if isinstance(about, Absent):
                continue
            # What could not be looked at may be one: its pod is not dropped for that.
            is_folder = not isinstance(about, Whole) or stat.S_ISDIR(about.value.st_mode)
            if pod is None or not is_folder:
                self._reject("pods", name)
                continue
            inside = door.folders(self._pods / name, MAX_CONTAINERS)
            containers: Sequence[str] = ()  # absent or refused: the pod is being removed
            if isinstance(inside, Whole | Cut):
                containers = [one for one in inside.value if is_container(one)]
            elif isinstance(inside, Failed):  # what was there is there
                containers = self._known.get(pod, ())
            changed_ns = about.value.st_mtime_ns if isinstance(about, Whole) else 0
            found.append((changed_ns, pod, containers))
        found.sort(reverse=True)
        self._known = {pod: containers for _, pod, containers in found}
        return self._known

    def _logs(self) -> Iterable[Log]:
        """The logs that links name; empty if there are no links."""
        names, before = self._fairly(self._links, MAX_LINKS, 1), self._named
        if isinstance(names, Failed):
            return before.values()
        self._named = {}
        for name in names.value if isinstance(names, Whole | Cut) else ():
            target = door.link(self._links / name)
            log: Log | None = None  # absent or refused: no link, or removed meanwhile
            if isinstance(target, Whole | Cut):
                log = log_of(name, target.value)
            elif isinstance(target, Failed):
                log = before.get(name)
            if log is not None:
                self._named[name] = log
            else:
                self._reject("containers", name)
        return self._named.values()

    def _fairly(self, folder: Path, most: int, part: int) -> Reply[list[str]]:
        """At most so many names, of each namespace a fair part: that part of the names."""
        names = door.names(folder, LOOKED_AT * most)
        if not isinstance(names, Whole | Cut):
            return names
        found, held, cut = dict[str, None](), Held[str](most, newest=True), 0
        for name in names.value:
            found[name] = None
            namespace = name.split("_", 2)[part : part + 1]
            if (over := held.add(name, *namespace or [""])) is not None:
                del found[over]
                cut += 1
        if cut:
            item = f"a name in {folder} of the namespace with most"
            self._rejections.reject("pod_over_limit", item, cut)
        return Whole([*found])

    def _reject(self, place: str, name: str) -> None:
        item = f"{place}/{name[:300]!a}"
        if item not in self._reported and len(self._reported) < MAX_REPORTED:
            self._reported.add(item)
            self._rejections.reject("log_name_unusable", item)


def _changed_at(path: Path) -> int | None:
    match door.about(path):
        case Whole(found) | Cut(found):
            return found.st_mtime_ns
        case Absent() | Refused() | Failed():
            return None
