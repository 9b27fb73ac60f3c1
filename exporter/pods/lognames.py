"""What the names of container logs say of pods. Pure.

The kubelet writes ``/var/log/pods/<namespace>_<pod>_<uid>/<container>/<restart>.log`` and, below
``/var/log/containers``, links to those files whose names end in the container's id
(``pkg/kubelet/kuberuntime``: ``BuildPodLogsDirectory``, ``logSymlink``). A link's name is cut at
255 bytes, so that one of long names has no id. A static pod's uid is the hash of its manifest.
"""

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from exporter.model import Container, Pod

MAX_IDS = 8  # of one container: the current one and those before its restarts

_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_NAME = r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?"
_POD = re.compile(rf"({_LABEL})_({_NAME})_([0-9A-Za-z-]{{1,64}})", re.ASCII)
_LINK = re.compile(rf"{_NAME}_{_LABEL}_{_LABEL}-([0-9a-f]{{64}})\.log", re.ASCII)
_LOG = re.compile(r"([0-9]{1,9})\.log", re.ASCII)
_CONTAINER = re.compile(_LABEL, re.ASCII)


class PodName(NamedTuple):
    """A pod as the name of its directory has it."""

    namespace: str
    name: str
    uid: str


class Log(NamedTuple):
    """One container of a pod, after so many restarts."""

    pod: PodName
    container: str
    restart: int
    container_id: str


def pod_name(directory: str) -> PodName | None:
    """The pod of a directory below ``pods``; None if that is none."""
    match = _POD.fullmatch(directory)
    return PodName(*match.groups()) if match else None


def is_container(directory: str) -> bool:
    """Whether a directory below a pod's may be a container's."""
    return _CONTAINER.fullmatch(directory) is not None


def log_of(link: str, target: str) -> Log | None:
    """What a link below ``containers`` says by its own name and its target's; None if nothing."""
    named = _LINK.fullmatch(link)
    *_, directory, container, file = ("", "", *target.split("/"))
    pod, log = pod_name(directory), _LOG.fullmatch(file)
    if named is None or pod is None or log is None or not is_container(container):
        return None
    return Log(pod, container, int(log[1]), named[1])


def pods_of(containers: Mapping[PodName, Iterable[str]], logs: Iterable[Log]) -> list[Pod]:
    """The pods that have a directory, with the ids of their containers, the current one first."""
    ids: dict[tuple[PodName, str], list[str]] = {}
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
