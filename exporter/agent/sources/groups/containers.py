"""Names of containers outside pods, asked of the engines that run them.

Asked only while a container without a name uses a GPU, and now and then whether it is still called
so: an engine is not kept busy, and one that starts on demand (podman's) is left alone.
"""

import logging
import time
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from exporter.agent.sources.groups.engine import ContainerEngine, is_of, is_socket
from exporter.agent.sources.groups.groupsource import Facts, Members
from exporter.agent.sources.polled import Inquiry, PollTimings
from exporter.httpclient import NoAnswerError
from exporter.model import Clock, GroupFacts, GroupKey

AUTO, NONE = "auto", "none"
DOCKER, PODMAN = "/run/docker.sock", "/run/podman/podman.sock"
OF_USERS = "/run/user"
RENAMED_NS = 300 * 10**9
RHYTHM = PollTimings(period_s=60, least_s=2)


class _Container(NamedTuple):
    """A container whose name is wanted; ``uid`` is its user's, None for the machine's."""

    container_id: str
    runtime: str | None
    uid: int | None


class _Named(NamedTuple):
    name: str
    asked_ns: int


def sockets_of(runtime: str | None, uid: int | None, root: str = "") -> Iterator[str]:
    """Where the engine of a container may listen: the machine's, or that of a user without root."""
    if uid is None:
        usual = {"docker": (DOCKER,), "podman": (PODMAN,), None: (DOCKER, PODMAN)}
        yield from (f"{root}{path}" for path in usual.get(runtime, ()))
        return
    docker, podman = "docker.sock", "podman/podman.sock"
    of_user = {"docker": (docker,), "podman": (podman,), None: (docker, podman)}
    yield from (f"{root}{OF_USERS}/{uid}/{path}" for path in of_user.get(runtime, ()))


class ContainerNames(Inquiry[Members, Mapping[_Container, str], Facts]):
    """Asks the sockets of Docker and Podman.

    ``sockets`` is "auto", for the usual places as far as they can be used, or paths, each of which
    must answer, and is asked about every container but those of another user. ``root`` goes before
    the usual places.
    """

    name = "containers"
    nothing: Facts = MappingProxyType({})

    def __init__(
        self, sockets: tuple[str, ...] = (AUTO,), clock: Clock = time, *, root: str = ""
    ) -> None:
        super().__init__()
        self._paths = () if sockets == (AUTO,) else sockets
        self._clock, self._root = clock, root
        self._engine = ContainerEngine()
        self._known: dict[_Container, _Named] = {}
        self._problems: dict[str, str] = {}  # by socket

    def subject(self, given: Members) -> frozenset[_Container] | None:
        return frozenset(_wanted(given).values()) or None

    def ask(self, given: Members) -> Mapping[_Container, str]:
        """The names of those that are wanted; a name stays when nobody has it any more."""
        now_ns = self._clock.monotonic_ns()
        wanted = self.subject(given) or frozenset()
        self._known = {one: named for one, named in self._known.items() if one in wanted}
        by_socket: dict[str, list[_Container]] = {}
        for one in wanted:
            named = self._known.get(one)
            is_due = named is None or now_ns - named.asked_ns >= RENAMED_NS
            # A socket in a user's folder is that user's own program, which may answer anything. It
            # is asked about his containers and about no other's.
            if self._paths:
                paths = [path for path in self._paths if is_of(path, one.uid)]
            else:
                usual = sockets_of(one.runtime, one.uid, self._root)
                paths = [path for path in usual if is_socket(path, one.uid)]
            for path in paths:
                by_socket.setdefault(path, []).extend([one] * is_due)
        self._problems = {path: why for path, why in self._problems.items() if path in by_socket}
        for path, containers in by_socket.items():
            ids = [one.container_id for one in containers]
            names = self._names(path, ids) if ids else {}
            for one in containers:
                if one.container_id in names:
                    self._known[one] = _Named(names[one.container_id], now_ns)
                    if not names[one.container_id]:
                        self._rejections.reject(
                            "container_names_unanswered",
                            f"the name of container {one.container_id[:12]}, whose description is "
                            "too long,",
                            remedy="shorten its labels",
                            owner="" if one.uid is None else f"user {one.uid}",
                        )
        self.problem = "; ".join(self._problems.values())
        self.is_down = bool(self.problem and self._paths)
        return {one: named.name for one, named in self._known.items()}

    def facts(self, answer: Mapping[_Container, str], given: Members) -> Facts:
        wanted = _wanted(given)
        return {key: GroupFacts(answer[one]) for key, one in wanted.items() if one in answer}

    def interrupt(self) -> None:
        self._engine.interrupt()

    def _names(self, path: str, ids: list[str]) -> Mapping[str, str]:
        try:
            names = self._engine.names(path, ids)
        except NoAnswerError as error:
            self._problems[path] = str(error)
            self._rejections.count("container_names_unanswered")
            self._rejections.once(
                logging.WARNING,
                f"{error}: its containers are shown by their ids; let the exporter use the "
                "socket, or set --groups.sockets=none",
            )
            return {}
        self._problems.pop(path, None)
        return names


def _wanted(members: Members) -> Mapping[GroupKey, _Container]:
    """The containers whose engine may be asked.

    A pod's container has its name from the pod. One in a unit without a user, such as a machine of
    its own, is in no engine of this machine or of its users, whatever its id says.
    """
    return {
        key: _Container(one.container_id, one.runtime, one.unit.uid if one.unit else None)
        for key, (_, one) in members.items()
        if one.container_id and one.pod_uid is None
        if one.unit is None or one.unit.uid is not None
    }
