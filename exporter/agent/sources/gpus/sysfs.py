"""Reads small files of the kernel, in sysfs and proc, within bounds: they are not trusted.

What could not be read stays known: as a reply, or in ``NotedReads``, whose reader has to look at
it. Where this process itself has no descriptor or memory left, ``read`` raises OSError: no file is
taken for absent then, and no board for lost.
"""

import errno
import re
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from exporter.agent.sources import door
from exporter.agent.sources.door import Absent, Cut, Failed, Refused, Reply, UnreadError, Whole
from exporter.model import Unmeasured

T = TypeVar("T")

MAX_BYTES = 16_384  # sysfs shows a page, gpu_metrics not more than this either
LONGEST_LABEL = 64
MAX_NAMES = 4096
_OURS = {errno.EMFILE, errno.ENFILE, errno.ENOMEM}
_NUMBER = re.compile(r"-?[0-9]{1,20}", re.ASCII)


class RefusedError(Exception):
    """The kernel refuses a file: by its mode, or by the device cgroup (KFD returns EPERM)."""


def read(path: str | Path) -> Reply[bytes]:
    """The beginning of a file."""
    reply = door.read(path, MAX_BYTES)
    # EBUSY and EIO while a board resets, and EOPNOTSUPP, are of the board. What this process lacks,
    # as file descriptors, says nothing of it: then nothing can be read.
    if isinstance(reply, Failed) and reply.code in _OURS:
        raise OSError(reply.code, door.why(reply), str(path))
    return reply


def count_in(path: str | Path) -> Reply[int]:
    """The number in a file, 0 or more."""
    return door.parsed(door.read(path, MAX_BYTES), count_of)


def count_of(content: bytes) -> int:
    """The number that a file's content is.

    Raises:
        ValueError: it is none, or less than 0.

    """
    number = as_count(content.decode("ascii", "replace").strip())
    if number is None:
        raise ValueError(content[:LONGEST_LABEL])
    return number


def as_count(text: str | None) -> int | None:
    """A plain decimal number of at most 64 bits; None for anything else."""
    if text is None or not (text.isascii() and text.isdigit()) or len(text) > len(str(2**64)):
        return None
    number = int(text)
    return number if number < 2**64 else None


def text_in(path: str | Path) -> Reply[str]:
    """The text of a file without surrounding space."""
    return door.parsed(read(path), _text)


def label(name: str) -> str:
    """A name by firmware or a driver as a label: of bounded length, and printable."""
    return "".join(c if c.isprintable() else "?" for c in name[:LONGEST_LABEL])


class NotedReads:
    """Reads what a device may be without, and notes what could not be read: that is no lack.

    ``unread``: by path, since the beginning.
    """

    def __init__(self) -> None:
        self.unread: dict[str, Refused | Failed] = {}

    def text(self, path: str) -> str:
        """The text of a file without surrounding space; "" if it is missing, or not read."""
        return self.parsed(path, _text) or ""

    def word(self, path: str) -> str:
        """The name in a file, likewise."""
        return self.parsed(path, _word) or ""

    def number(self, path: str) -> int | None:
        """The number in a file; None if it is missing, or not read."""
        return self.parsed(path, number_of)

    def hexadecimal(self, path: str) -> int | None:
        """The hexadecimal number in a file; None if it is missing, or not read."""
        return self.parsed(path, _hexadecimal_in)

    def parsed(self, path: str, parse: Callable[[bytes], T]) -> T | None:
        """What a file says; None if it is missing, not read, or of another form."""
        return self._value(path, door.parsed(door.read(path, MAX_BYTES), parse))

    def names(self, folder: str) -> list[str]:
        """The sorted names in a folder; none if it is missing, or not listed."""
        return sorted(self._value(folder, door.names(folder, MAX_NAMES)) or ())

    def link(self, path: str) -> str:
        """The last part of a link's target; "" if there is none, or it was not read."""
        return (self._value(path, door.link(path)) or "").rpartition("/")[2]

    def host_memory(self, proc_root: str | Path) -> int | None:
        """Bytes of the machine's memory (``MemTotal`` of proc_meminfo(5)); None if not known."""
        for line in self.text(f"{proc_root}/meminfo").splitlines():
            if line.startswith("MemTotal:"):
                kib = as_count(line.split()[1])
                return None if kib is None else kib * 1024
        return None

    @property
    def reason(self) -> Unmeasured | None:
        """Why something is not known, if anything could not be read."""
        if any(isinstance(each, Refused) for each in self.unread.values()):
            return Unmeasured.NO_PERMISSION
        return Unmeasured.READ_FAILED if self.unread else None

    def require(self) -> None:
        """Raise where anything was not read, but for what the kernel refuses."""
        if any(isinstance(each, Failed) for each in self.unread.values()):
            raise UnreadError(self.said)

    @property
    def said(self) -> str:
        """The first that could not be read, for people."""
        path, reply = next(iter(self.unread.items()))
        return f"{path}: {door.why(reply)}"

    def _value(self, path: str, reply: Reply[T]) -> T | None:
        match reply:
            case Whole(value):
                return value
            case Absent():
                return None
            case Cut():
                self.unread[path] = Failed(errno.EMSGSIZE)
            case Refused() | Failed():
                self.unread[path] = reply
        return None


def _text(content: bytes) -> str:
    return content.decode("ascii", "replace").strip()


def _word(content: bytes) -> str:
    # A part of a word would be another one. No driver writes a NUL, or two of them.
    if b"\0" in content or not content.endswith(b"\n") or len(content.split()) > 1:
        raise ValueError(content[:LONGEST_LABEL])
    return content.decode("ascii").strip()


def _hexadecimal_in(content: bytes) -> int:
    if not content.endswith(b"\n"):  # a part of an id is another's
        raise ValueError(content[:LONGEST_LABEL])
    return int(content, 16)


def number_of(content: bytes) -> int:
    """The whole number that a file's content is.

    Raises:
        ValueError: it is none.

    """
    found = _text(content)
    if not _NUMBER.fullmatch(found):
        raise ValueError(found[:LONGEST_LABEL])
    return int(found)
