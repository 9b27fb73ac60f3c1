"""The door to the file system: what a caller gets is one of five replies, and never an exception.

``Whole``    all of what was asked for
``Cut``      the beginning of it: a bound was reached
``Absent``   it is not there; a driver or cgroup that has gone says so of its files (ENODEV)
``Refused``  the kernel does not allow it (EACCES, EPERM)
``Failed``   it may be there, and cannot be read now (EIO, EMFILE …), or makes no sense (EBADMSG)

They are types, so that a caller treats each: an empty folder is no folder that could not be listed.
A call that hangs is its caller's to watch. What a tenant can make (descriptors, mounts below his
root, a process's memory such as ``environ``) is asked through ``Aside`` only.
"""

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import Generic, TypeVar

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
U = TypeVar("U")


@dataclass(frozen=True, slots=True)
class Whole(Generic[T_co]):
    """All of it."""

    value: T_co


@dataclass(frozen=True, slots=True)
class Cut(Generic[T_co]):
    """Its beginning. ``by``: what cut it, for people."""

    value: T_co
    by: str


@dataclass(frozen=True, slots=True)
class Absent:
    """It is not there. ``code``: the errno that says so."""

    code: int = errno.ENOENT


@dataclass(frozen=True, slots=True)
class Refused:
    """It may not be read."""

    code: int = errno.EACCES


@dataclass(frozen=True, slots=True)
class Failed:
    """Nothing is known of it."""

    code: int


Unread = Absent | Refused | Failed
Reply = Whole[T] | Cut[T] | Unread


class UnreadError(Exception):
    """Something could not be read now, so that what follows is not known. The text says what."""


_ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ESRCH, errno.ENODEV, errno.ENXIO})
_REFUSED = frozenset({errno.EACCES, errno.EPERM})
_TO_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK  # a pipe in a file's place does not block
_CHUNK = 64 * 1024

Path = str | os.PathLike[str]


def read(path: Path, most: int) -> Reply[bytes]:
    """The content of a file; of a longer one, ``most`` bytes.

    It is asked until the file ends, because the kernel may give less than there is. A file of up
    to 64 KiB comes in one piece, between whose parts nothing has changed.
    """
    try:
        descriptor = os.open(path, _TO_READ)
    except (OSError, ValueError) as error:
        return unread(error)
    try:
        # One byte more than is wanted shows that there is more.
        content = chunk = os.read(descriptor, min(most + 1, _CHUNK))
        while chunk and len(content) <= most:
            chunk = os.read(descriptor, min(most + 1 - len(content), _CHUNK))
            content += chunk
    except OSError as error:
        return unread(error)
    finally:
        os.close(descriptor)
    if len(content) > most:
        return Cut(content[:most], f"only {most} bytes of it are read")
    return Whole(content)


def opens(path: Path, flags: int = os.O_RDONLY) -> Whole[None] | Unread:
    """Whether a file can be opened; nothing is read of it."""
    try:
        os.close(os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK))
    except (OSError, ValueError) as error:
        return unread(error)
    return Whole(None)


def names(folder: Path, most: int) -> Reply[list[str]]:
    """The names in a folder, in no order; of more than ``most``, any so many."""
    return _listed(folder, most, lambda _entry: True)


def folders(folder: Path, most: int) -> Reply[list[str]]:
    """The names of the folders in a folder, likewise. Symbolic links are none."""
    return _listed(folder, most, lambda entry: entry.is_dir(follow_symlinks=False))


def link(path: Path, folder: int | None = None) -> Reply[str]:
    """Where a symbolic link leads; absent if it is none. Nothing is asked of what is there.

    ``folder``: the descriptor of an open folder that the path begins at.
    """
    try:
        return Whole(os.readlink(os.fspath(path), dir_fd=folder))
    except (OSError, ValueError) as error:
        reply = unread(error)
        # What readlink(2) says of something that is no link.
        return Absent(errno.EINVAL) if reply == Failed(errno.EINVAL) else reply


def about(path: Path, folder: int | None = None, *, follow: bool = True) -> Reply[os.stat_result]:
    """What stat(2) says of a path; ``follow``: of what its links lead to."""
    try:
        return Whole(os.stat(path, dir_fd=folder, follow_symlinks=follow))
    except (OSError, ValueError) as error:
        return unread(error)


def is_gone(path: Path) -> bool:
    """Whether nothing is there, for certain: what cannot be looked at is tried, and says why."""
    return isinstance(about(path), Absent)


def parsed(reply: Reply[T], parse: Callable[[T], U]) -> Reply[U]:
    """The reply with its value parsed; ``Failed`` where ``parse`` raises, as for other forms."""
    match reply:
        case Whole(value) | Cut(value):
            try:
                made = parse(value)
            except (ValueError, IndexError, KeyError, OverflowError, StopIteration):
                return Failed(errno.EBADMSG)
            return Cut(made, reply.by) if isinstance(reply, Cut) else Whole(made)
        case Absent() | Refused() | Failed():
            return reply


def unread(error: Exception) -> Unread:
    """The reply that an exception of a system call stands for."""
    code = (error.errno if isinstance(error, OSError) else None) or errno.EINVAL
    if code in _ABSENT:
        return Absent(code)
    return Refused(code) if code in _REFUSED else Failed(code)


def why(reply: Unread) -> str:
    """What is wrong, in the kernel's words."""
    return os.strerror(reply.code)


def _listed(
    folder: Path, most: int, wanted: Callable[["os.DirEntry[str]"], bool]
) -> Reply[list[str]]:
    try:
        with os.scandir(folder) as entries:
            # A folder that changes meanwhile may list a name twice.
            found = {entry.name: None for entry in islice(entries, most) if wanted(entry)}
            is_cut = next(entries, None) is not None
    except (OSError, ValueError) as error:
        return unread(error)
    names_found = list(found)
    return Cut(names_found, f"only {most} names in it are read") if is_cut else Whole(names_found)
