"""Names of users by their numbers, from a file in the form of passwd(5).

Not by the name service: in a container that is the container's own, and a directory server that
does not answer would hold up whoever asks. Where users come from one, ``getent passwd`` writes the
file.
"""

import logging
import os

from exporter.cgroups.units import readable
from exporter.model import Clock

logger = logging.getLogger(__name__)

LARGEST_FILE = 16 << 20
LOOK_AGAIN_NS = 10 * 10**9
_UID, _FIELDS = 2, 4
_LONGEST_UID = 10


class Users:
    """The users of one machine. Not for use by several threads at once."""

    def __init__(self, path: str, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._looked_ns: int | None = None
        self._state: tuple[int, int, int] | None = None
        self._names: dict[int, str] = {}
        self.problem = ""

    def name(self, uid: int) -> str:
        """The name of a user, "" where the file has none."""
        now = self._clock.monotonic_ns()
        if self._looked_ns is None or now - self._looked_ns >= LOOK_AGAIN_NS:
            self._looked_ns = now
            self._look()
        return self._names.get(uid, "")

    def _look(self) -> None:
        """Read the file if it is another one than before; of one that is unreadable, the last."""
        try:
            file = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            try:
                about = os.fstat(file)
                state = (about.st_ino, about.st_mtime_ns, about.st_size)
                if state != self._state:
                    self._names, self._state = _parsed(_read(file)), state
            finally:
                os.close(file)
        except OSError as error:
            self._report(f"{self._path}: {os.strerror(error.errno or 0)}")
        else:
            self._report("")

    def _report(self, problem: str) -> None:
        if problem and problem != self.problem:
            logger.warning("users have no names (%s): set --path.passwd to the host's", problem)
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
