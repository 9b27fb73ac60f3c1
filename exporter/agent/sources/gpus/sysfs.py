"""Reads small files of the kernel, in sysfs and proc, within bounds: they are not trusted.

Functions named ``read_…`` and ``names_in`` report what may not be read, ``text`` does not. Where
this process itself has no descriptor or memory left, all raise OSError: no file is taken for absent
then, and no board for lost.
"""

import errno
import re
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
    if isinstance(reply, Failed):  # EBUSY and EIO while a board resets; EOPNOTSUPP
        _raise_if_ours(reply, path)
    return reply


def _raise_if_ours(reply: Failed, path: str | Path) -> None:
    """Raises what this process lacks: then nothing can be read, which says nothing of the board."""
    if reply.code in _OURS:
        raise OSError(reply.code, door.why(reply), str(path))


def read_text(path: str | Path) -> str | None:
    """A file's text without surrounding space; None if it is missing, or cannot be read now.

    Raises:
        RefusedError: it may not be read.

    """
    match read(path):
        case Whole(content) | Cut(content):
            return content.decode("ascii", "replace").strip()
        case Refused():
            raise RefusedError(str(path))
        case Absent() | Failed():
            return None


def read_count(path: str | Path) -> int | None:
    """The number in a file, 0 or more; None if there is none.

    Raises:
        RefusedError: it may not be read.

    """
    return as_count(read_text(path))


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


def names_in(folder: str | Path) -> list[str]:
    """The sorted names in a folder; none if it is missing.

    Raises:
        RefusedError: it may not be listed.

    """
    reply = door.names(folder, MAX_NAMES)
    match reply:
        case Whole(names) | Cut(names):
            return sorted(names)
        case Absent():
            return []
        case Refused():
            raise RefusedError(str(folder))
        case Failed():  # no list is no empty list
            raise OSError(reply.code, door.why(reply), str(folder))


def text(path: str | Path) -> str:
    """The text of a file; "" if it cannot be read."""
    try:
        return read_text(path) or ""
    except RefusedError:
        return ""


def host_memory(proc_root: str | Path) -> int | None:
    """Bytes of the machine's memory (``MemTotal`` of proc_meminfo(5)); None if not to be had."""
    for line in text(f"{proc_root}/meminfo").splitlines():
        if line.startswith("MemTotal:"):
            kib = as_count(line.split()[1])
            return None if kib is None else kib * 1024
    return None


def label(name: str) -> str:
    """A name by firmware or a driver as a label: of bounded length, and printable."""
    return "".join(c if c.isprintable() else "?" for c in name[:LONGEST_LABEL])


def link(path: str) -> str:
    """The last part of a link's target; "" if it is no link."""
    reply = door.link(path)
    match reply:
        case Whole(target) | Cut(target):
            return target.rpartition("/")[2]
        case Absent() | Refused():
            return ""
        case Failed():  # EINVAL: it is no link
            _raise_if_ours(reply, path)
            return ""


def is_refused(path: Path) -> bool:
    """Whether a file is there but cannot be read, as while its driver resets a board."""
    return isinstance(door.read(path, 1), Refused | Failed)


def is_gone(folder: str | Path) -> bool:
    """Whether a folder is certainly gone."""
    return isinstance(door.about(folder), Absent)


class NotedReads:
    """Reads what a device may be without, and notes what could not be read: that is no lack.

    ``unread``: by path, since the beginning.
    """

    def __init__(self) -> None:
        self.unread: dict[str, Refused | Failed] = {}

    def text(self, path: str) -> str:
        """The text of a file without surrounding space; "" if it is missing, or not read."""
        return self._value(path, door.parsed(door.read(path, MAX_BYTES), _text)) or ""

    def word(self, path: str) -> str:
        """The name in a file, likewise."""
        return self._value(path, door.parsed(door.read(path, MAX_BYTES), _word)) or ""

    def number(self, path: str) -> int | None:
        """The number in a file; None if it is missing, or not read."""
        return self._value(path, door.parsed(door.read(path, MAX_BYTES), _number_in))

    def hexadecimal(self, path: str) -> int | None:
        """The hexadecimal number in a file; None if it is missing, or not read."""
        return self._value(path, door.parsed(door.read(path, MAX_BYTES), _hexadecimal_in))

    def names(self, folder: str) -> list[str]:
        """The sorted names in a folder; none if it is missing, or not listed."""
        return sorted(self._value(folder, door.names(folder, MAX_NAMES)) or ())

    def link(self, path: str) -> str:
        """The last part of a link's target; "" if there is none, or it was not read."""
        return (self._value(path, door.link(path)) or "").rpartition("/")[2]

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
    if b"\0" in content:  # no driver writes that
        raise ValueError(content[:LONGEST_LABEL])
    return content.decode("ascii").strip()


def _hexadecimal_in(content: bytes) -> int:
    if not content.endswith(b"\n"):  # a part of an id is another's
        raise ValueError(content[:LONGEST_LABEL])
    return int(content, 16)


def _number_in(content: bytes) -> int:
    found = _text(content)
    if not _NUMBER.fullmatch(found):
        raise ValueError(found[:LONGEST_LABEL])
    return int(found)
