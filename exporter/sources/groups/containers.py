"""Names of containers outside pods, asked of the engines that run them, by a thread of its own.

Asked only while a container without a name uses a GPU, and now and then whether it is still called
so: an engine is not kept busy, and one that starts on demand (podman's) is left alone.
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from exporter.model import CgroupIdentity, Clock, GroupFacts, GroupKey, GroupMember, SourceStatus
from exporter.sources.groups.engine import ContainerEngine, EngineError, is_of, is_socket

logger = logging.getLogger(__name__)

AUTO, NONE = "auto", "none"
DOCKER, PODMAN = "/run/docker.sock", "/run/podman/podman.sock"
OF_USERS = "/run/user"
SECOND_NS = 10**9
FIRST_AGAIN_NS = 2 * SECOND_NS
LAST_AGAIN_NS = 60 * SECOND_NS
RENAMED_NS = 300 * SECOND_NS
CLOSE_TIMEOUT_S = 0.9
_MOST_DOUBLINGS = 5


@dataclass(frozen=True, slots=True)
class _Container:
    """A container whose name is wanted, and when to ask for it (again)."""

    container_id: str
    runtime: str | None
    uid: int | None
    name: str = ""
    due_ns: int = 0
    failures: int = 0


def sockets_of(runtime: str | None, uid: int | None, root: str = "") -> Iterator[str]:
    """Where the engine of a container may listen: the machine's, or that of a user without root."""
    if uid is None:
        usual = {"docker": (DOCKER,), "podman": (PODMAN,), None: (DOCKER, PODMAN)}
        yield from (f"{root}{path}" for path in usual.get(runtime, ()))
        return
    of_user = {"docker": ("docker.sock",), "podman": ("podman/podman.sock",)}
    yield from (f"{root}{OF_USERS}/{uid}/{path}" for path in of_user.get(runtime or "", ()))


class ContainerNames:
    """Implements ``GroupSource`` over the sockets of Docker and Podman.

    ``sockets`` is "auto", for the usual places as far as they can be used, or paths, each of which
    must answer, and is asked about every container but those of another user. ``root`` goes before
    the usual places.
    """

    name = "containers"

    def __init__(
        self,
        sockets: tuple[str, ...] = (AUTO,),
        clock: Clock = time,
        *,
        root: str = "",
        engine: ContainerEngine | None = None,
    ) -> None:
        self._paths = () if sockets == (AUTO,) else sockets
        self._clock, self._root = clock, root
        self._engine = engine or ContainerEngine()
        self._news = threading.Condition()  # for who changes what is below, or looks at all of it
        self._stopped = False
        self._wanted: dict[GroupKey, _Container] = {}
        self._facts: Mapping[GroupKey, GroupFacts] = {}
        self._status = SourceStatus(self.name, up=True)
        self._rejected: Counter[str] = Counter()
        self._problems: dict[str, str] = {}  # by socket; its thread's own
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)

    # --- for other threads ---

    def start(self) -> None:
        """Begin to ask once there is a container."""
        self._thread.start()

    def facts(self, members: Mapping[GroupKey, GroupMember]) -> Mapping[GroupKey, GroupFacts]:
        """See ``GroupSource``."""
        here = {
            key: member.identity
            for key, member in members.items()
            if member.identity.container_id and not _elsewhere(member.identity)
        }
        with self._news:
            if here.keys() != self._wanted.keys():
                before = self._wanted
                self._wanted = {
                    key: before.get(key)
                    or _Container(
                        one.container_id or "", one.runtime, one.unit.uid if one.unit else None
                    )
                    for key, one in here.items()
                }
                self._facts = _facts(self._wanted)
                self._news.notify_all()
            return self._facts

    def status(self) -> SourceStatus:
        """Up unless a socket that was named does not answer."""
        status = self._status
        if not self._wanted and not status.up:
            return status._replace(up=True, detail="there is nothing to ask about now")
        return status

    def rejected(self) -> Mapping[str, int]:
        """Questions that had no answer since the start."""
        with self._news:
            return dict(self._rejected)

    def close(self) -> None:
        """End the thread, and the question that it is in."""
        with self._news:
            self._stopped = True
            self._news.notify_all()
        self._engine.interrupt()
        if self._thread.is_alive():
            self._thread.join(CLOSE_TIMEOUT_S)

    # --- in its own thread ---

    def _run(self) -> None:
        while due := self._due():
            self._ask(due)

    def _due(self) -> list[_Container]:
        """Wait for containers to ask about; none at the end."""
        with self._news:
            while not self._stopped:
                now = self._clock.monotonic_ns()
                due = [one for one in self._wanted.values() if one.due_ns <= now]
                if due:
                    return due
                next_ns = min((one.due_ns for one in self._wanted.values()), default=None)
                self._news.wait(None if next_ns is None else (next_ns - now) / SECOND_NS)
        return []

    def _ask(self, due: list[_Container]) -> None:
        by_socket: dict[str, list[str]] = {}
        for one in due:
            for path in self._paths or sockets_of(one.runtime, one.uid, self._root):
                if is_of(path, one.uid) if self._paths else is_socket(path, one.uid):
                    by_socket.setdefault(path, []).append(one.container_id)
        names: dict[str, str] = {}
        started_ns = self._clock.monotonic_ns()
        for path, ids in by_socket.items():
            names |= self._names(path, ids)
        self._note(due, names, started_ns)

    def _names(self, path: str, ids: list[str]) -> Mapping[str, str]:
        try:
            names = self._engine.names(path, ids)
        except EngineError as error:
            problem = str(error)
            if problem != self._problems.get(path):
                logger.warning(
                    "containers of %s are shown by their ids (%s): let the exporter use the "
                    "socket, or set --groups.sockets=none",
                    *(path, problem),
                )
            self._problems[path] = problem
            with self._news:
                self._rejected["container_names_unanswered"] += 1
            return {}
        self._problems.pop(path, None)
        return names

    def _note(self, due: list[_Container], names: Mapping[str, str], started_ns: int) -> None:
        now = self._clock.monotonic_ns()
        asked = {one.container_id for one in due}
        problems = "; ".join(f"{path}: {text}" for path, text in self._problems.items())
        with self._news:
            for key, one in self._wanted.items():
                if one.container_id in asked:
                    self._wanted[key] = _asked(one, names.get(one.container_id, ""), now)
            if names:
                self._facts = _facts(self._wanted)
            succeeded = None if problems else self._clock.time_ns()
            self._status = SourceStatus(
                self.name,
                up=not (problems and self._paths),
                detail=problems[:500],
                duration_ns=now - started_ns,
                last_success_unix_ns=succeeded or self._status.last_success_unix_ns,
            )


def _facts(wanted: Mapping[GroupKey, _Container]) -> Mapping[GroupKey, GroupFacts]:
    return {key: GroupFacts(name=one.name) for key, one in wanted.items() if one.name}


def _elsewhere(identity: CgroupIdentity) -> bool:
    """Whether no engine of this machine or its users has it, whatever its id says."""
    unit = identity.unit
    return identity.pod_uid is not None or (unit is not None and unit.uid is None)


def _asked(one: _Container, name: str, now_ns: int) -> _Container:
    """A container after it was asked about: its name stays when nobody has it any more."""
    if name:
        return replace(one, name=name, due_ns=now_ns + RENAMED_NS, failures=0)
    delay_ns = min(LAST_AGAIN_NS, FIRST_AGAIN_NS << min(one.failures, _MOST_DOUBLINGS))
    again = max(delay_ns, RENAMED_NS if one.name else 0)
    return replace(one, due_ns=now_ns + again, failures=one.failures + 1)
