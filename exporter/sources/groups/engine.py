"""One question to a container engine: the names of some of its containers.

Docker's Engine API, which Podman serves as well: ``GET /containers/json`` over HTTP on a Unix
socket (docs.docker.com/reference/api/engine, docs.podman.io ``podman-system-service``). Nothing
else is ever asked. The engine may be a tenant's own: its answer is bounded in time, size and form.
"""

import contextlib
import http.client
import json
import os
import socket
import stat
import threading
from collections.abc import Collection, Mapping
from urllib.parse import urlencode

from exporter.sources.cgroups.layout import readable

TIMEOUT_S = 5.0
LARGEST_ANSWER = 1 << 20  # it may become thirty times as much when it is read
MOST_AT_ONCE = 32  # ids in one question: its line stays below what servers take


class EngineError(Exception):
    """No answer; the text says why. ``absent``: there is no engine on this socket."""

    def __init__(self, message: str, *, absent: bool = False) -> None:
        super().__init__(message)
        self.absent = absent


class _Connection(http.client.HTTPConnection):
    """HTTP over a Unix socket. ``deadline`` cuts it off as a whole, however slow each byte is."""

    def __init__(self, path: str, timeout_s: float) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._path = path
        self._timeout_s = timeout_s
        self._timer = threading.Timer(timeout_s, self.cut)
        self._timer.daemon = True
        self.was_cut = False

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self._timeout_s)
        self.sock.connect(self._path)
        self._timer.start()

    def cut(self) -> None:
        """End the call that another thread is in."""
        self.was_cut = True
        if self.sock is not None:
            with contextlib.suppress(OSError):  # it was closed meanwhile
                self.sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._timer.cancel()
        super().close()


class ContainerEngine:
    """Asks engines, one call at a time; ``interrupt`` is for any thread."""

    def __init__(self, timeout_s: float = TIMEOUT_S) -> None:
        self._timeout_s = timeout_s
        self._call: _Connection | None = None
        self._interrupted = False

    def names(self, path: str, ids: Collection[str]) -> Mapping[str, str]:
        """Name by id of those containers that this engine has, stopped ones too.

        Raises:
            EngineError: it does not say.

        """
        found: dict[str, str] = {}
        wanted = sorted(ids)
        for start in range(0, len(wanted), MOST_AT_ONCE):
            some = wanted[start : start + MOST_AT_ONCE]
            found |= _names(self._ask(path, some), frozenset(some))
        return found

    def interrupt(self) -> None:
        """End the call that is under way, and all later ones."""
        self._interrupted = True
        call = self._call
        if call is not None:
            call.cut()

    def _ask(self, path: str, ids: list[str]) -> bytes:
        query = urlencode({"all": "true", "filters": json.dumps({"id": ids})})
        call = self._call = _Connection(path, self._timeout_s)
        try:
            if self._interrupted:
                raise EngineError("interrupted")
            call.request("GET", f"/containers/json?{query}", headers={"Connection": "close"})
            answer = call.getresponse()
            content = answer.read(LARGEST_ANSWER + 1)
        except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError) as error:
            raise EngineError(os.strerror(error.errno or 0), absent=True) from error
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise EngineError(self._explain(call, error)) from error
        finally:
            call.close()
            self._call = None
        if answer.status != http.client.OK:
            raise EngineError(f"it answers {answer.status}")
        if call.was_cut or (answer.length and len(content) <= LARGEST_ANSWER):
            raise EngineError(self._explain(call, http.client.IncompleteRead(b"", answer.length)))
        if len(content) > LARGEST_ANSWER:
            raise EngineError(f"its answer is longer than {LARGEST_ANSWER} bytes")
        return content

    def _explain(self, call: _Connection, error: Exception | None) -> str:
        if call.was_cut or isinstance(error, TimeoutError):
            return f"no whole answer within {self._timeout_s:g} s"
        if isinstance(error, OSError) and error.errno:
            return os.strerror(error.errno)
        return f"no HTTP: {error!r}"[:200]


def is_socket(path: str, uid: int | None = None) -> bool:
    """Whether there is a socket, no link to one, and if asked whether it is this user's or root's.

    A folder of a user's own may hold anything.
    """
    try:
        about = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISSOCK(about.st_mode) and (uid is None or about.st_uid in {uid, 0})


def is_of(path: str, uid: int | None) -> bool:
    """Whether a socket may name this user's containers; any may for the machine (None)."""
    try:
        return uid is None or os.stat(path).st_uid == uid  # noqa: PTH116 - a string
    except OSError:
        return False


def _names(content: bytes, wanted: frozenset[str]) -> dict[str, str]:
    """The names in an answer, of those that were asked about and of no other."""
    try:
        listed = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise EngineError("its answer is no JSON") from error
    if not isinstance(listed, list):
        raise EngineError("its answer is no list of containers")
    found: dict[str, str] = {}
    for one in listed:
        if isinstance(one, dict) and isinstance(own := one.get("Id"), str) and own in wanted:
            found[own] = _name(one.get("Names"))
    return {own: name for own, name in found.items() if name}


def _name(names: object) -> str:
    """A container's own name: ``/web``. One with a further slash is how a link calls it."""
    if not isinstance(names, list):
        return ""
    plain = [name.removeprefix("/") for name in names if isinstance(name, str)]
    return min((readable(name) for name in plain if name and "/" not in name), default="")
