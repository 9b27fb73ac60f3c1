"""Names of users by their numbers, from a file in the form of passwd(5).

Not by the name service: in a container that is the container's own, and a directory server that
does not answer would hold up whoever asks. Where users come from one, ``getent passwd`` writes the
file.
"""

import logging
import os
from collections.abc import Mapping
from threading import Thread

from exporter.cgroups.units import readable
from exporter.model import Clock

logger = logging.getLogger(__name__)

LARGEST_FILE = 16 << 20
AT_ONCE = 256 << 10  # bytes that are read in some 10 ms; longer ones are read aside
LOOK_AGAIN_NS = 10 * 10**9
_UID, _FIELDS = 2, 4
_LONGEST_UID = 10


class Users:
    """The users of one machine. Not for use by several threads at once.

    A long file, as of a directory's users, is read by a thread: the cycle does not wait for it.
    """

    def __init__(self, path: str, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._looked_ns: int | None = None
        self._state: tuple[int, int, int] | None = None
        self._names: dict[int, str] = {}
        self._reading: Thread | None = None
        self._refusal = ""  # why a long file could not be read
        self.problem = ""

    def names(self) -> Mapping[int, str]:
        """Of all users that the file names: the same mapping as long as the file is the same."""
        now = self._clock.monotonic_ns()
        if self._looked_ns is None or now - self._looked_ns >= LOOK_AGAIN_NS:
            self._looked_ns = now
            self._look()
        return self._names

    def _look(self) -> None:
        """Read the file if it is another one than before; of one that is unreadable, the last."""
        if self._reading is not None and self._reading.is_alive():
            return
        try:
            about = os.stat(self._path)  # noqa: PTH116 - a string
            state = (about.st_ino, about.st_mtime_ns, about.st_size)
            if state == self._state:
                self._refusal = ""
            elif about.st_size <= AT_ONCE:
                self._take(state)
            else:
                self._reading = Thread(target=self._aside, args=(state,), name="users", daemon=True)
                self._reading.start()
        except OSError as error:
            self._report(self._why(error))
        else:
            is_cut = about.st_size > LARGEST_FILE
            cut = f"{self._path}: of a file this long only {LARGEST_FILE >> 20} MiB are read"
            self._report(self._refusal or (cut if is_cut else ""))

    def _aside(self, state: tuple[int, int, int]) -> None:
        """Read a long file. What fails is said, and tried again, at the next look."""
        try:
            self._take(state)
        except OSError as error:
            self._refusal = self._why(error)

    def _why(self, error: OSError) -> str:
        return f"{self._path}: {os.strerror(error.errno or 0)}"

    def _take(self, state: tuple[int, int, int]) -> None:
        file = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            self._names = _parsed(_read(file))
            self._state, self._refusal = state, ""
        finally:
            os.close(file)

    def _report(self, problem: str) -> None:
        if problem and problem != self.problem:
            logger.warning("users lack names (%s): set --path.passwd to the host's", problem)
        self.problem = problem


def _read(file: int) -> bytes:
    content = chunk = os.read(file, LARGEST_FILE)
    while chunk and len(content) < LARGEST_FILE:
        chunk = os.read(file, LARGEST_FILE)
        content += chunk
    return content[:LARGEST_FILE]


def _parsed(content: bytes) -> dict[int, str]:
    """Number → name; of two with the same number the first, as getpwuid(3) has it."""
    names: dict[int, str] = {}
    for line in content.decode(errors="replace").split("\n"):
        fields = line.split(":", _FIELDS)
        if len(fields) <= _UID or not fields[0]:
            continue
        uid = fields[_UID]
        if uid.isascii() and uid.isdigit() and len(uid) <= _LONGEST_UID:
            names.setdefault(int(uid), readable(fields[0]))
    return names
