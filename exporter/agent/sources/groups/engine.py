"""One question to a container engine: the names of some of its containers.

Docker's Engine API, which Podman serves as well: ``GET /containers/json`` over HTTP on a Unix
socket (docs.docker.com/reference/api/engine, docs.podman.io ``podman-system-service``). Nothing
else is ever asked. The engine may be a tenant's own: its answer is bounded in time, size and form.
"""

import json
import stat
from collections.abc import Collection, Mapping
from time import monotonic

from exporter.agent.sources.cgroups.layout import readable
from exporter.agent.sources.door import Absent, Cut, Failed, Refused, Whole, about
from exporter.httpclient import BoundedClient, NoAnswerError, TooLongError
from exporter.shown.printable import clean

TIMEOUT_S = 5.0
LARGEST_ANSWER = 1 << 20  # it may become thirty times as much when it is read
MAX_AT_ONCE = 32  # ids in one question: its line stays below what servers take


class ContainerEngine:
    """Asks engines, one call at a time; ``interrupt`` is for any thread."""

    def __init__(self, timeout_s: float = TIMEOUT_S) -> None:
        self._timeout_s = timeout_s
        self._client: BoundedClient | None = None
        self._interrupted = False

    def names(self, path: str, ids: Collection[str]) -> Mapping[str, str]:
        """Name by id of those containers that this engine has, stopped ones too.

        It is "" for one whose description is longer than what is read.

        Raises:
            NoAnswerError: it does not say.

        """
        found: dict[str, str] = {}
        wanted = sorted(ids)
        until_s = monotonic() + self._timeout_s
        for start in range(0, len(wanted), MAX_AT_ONCE):
            found |= self._some(path, wanted[start : start + MAX_AT_ONCE], until_s)
        return found

    def _some(self, path: str, ids: list[str], until_s: float) -> Mapping[str, str]:
        """The names of a few. A tenant chooses how long his container's description is.

        So an answer that is too long is asked for in halves, until it is that of one container. An
        engine that is a tenant's own may take its time over each: it has not more than all of it.
        """
        try:
            return _names(path, self._ask(path, ids), frozenset(ids))
        except TooLongError:
            if monotonic() > until_s:
                raise
            if len(ids) == 1:
                return {ids[0]: ""}
        half = len(ids) // 2
        first = self._some(path, ids[:half], until_s)
        return {**first, **self._some(path, ids[half:], until_s)}

    def interrupt(self) -> None:
        """End the call that is under way, and all later ones."""
        self._interrupted = True
        if self._client is not None:
            self._client.interrupt()

    def _ask(self, path: str, ids: list[str]) -> bytes:
        client = BoundedClient(
            clean(path, longest=None),
            socket=path,
            timeout_s=self._timeout_s,
            largest=LARGEST_ANSWER,
        )
        # The interrupt may have come before there was a client to end.
        self._client = client
        if self._interrupted:
            client.interrupt()
        filters = json.dumps({"id": ids})
        return client.get("/containers/json", {"all": "true", "filters": filters})


def is_socket(path: str, uid: int | None = None) -> bool:
    """Whether there is a socket, no link to one, and if asked whether it is this user's or root's.

    A folder of a user's own may hold anything.
    """
    match about(path, follow=False):
        case Whole(found) | Cut(found):
            return stat.S_ISSOCK(found.st_mode) and (uid is None or found.st_uid in {uid, 0})
        case Absent() | Refused() | Failed():
            return False


def is_of(path: str, uid: int | None) -> bool:
    """Whether a socket may name this user's containers; any may for the machine (None)."""
    if uid is None:
        return True
    match about(path):
        case Whole(found) | Cut(found):
            return found.st_uid == uid
        case Absent() | Refused() | Failed():
            return False


def _names(path: str, content: bytes, wanted: frozenset[str]) -> dict[str, str]:
    """The names in an answer, of those that were asked about and of no other."""
    try:
        listed = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise NoAnswerError(f"{path} answers with no JSON") from error
    if not isinstance(listed, list):
        raise NoAnswerError(f"{path} answers with no list of containers")
    found: dict[str, str] = {}
    for one in listed:
        if isinstance(one, dict) and isinstance(own := one.get("Id"), str) and own in wanted:
            names = one.get("Names")
            # A container's own name is ``/web``. One with a further slash is how a link to it is
            # called by another container.
            plain = [
                readable(plain)
                for name in (names if isinstance(names, list) else ())
                if isinstance(name, str)
                if (plain := name.removeprefix("/")) and "/" not in plain
            ]
            if name := min(plain, default=""):
                found[own] = name
    return found
