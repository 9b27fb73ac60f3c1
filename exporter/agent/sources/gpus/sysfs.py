"""Reads small files of the kernel, in sysfs and proc, within bounds: they are not trusted.

Functions named ``read_…`` and ``names_in`` report what may not be read, the others do not.
"""

import errno
import os
import re
from pathlib import Path

from exporter.agent.sources import door
from exporter.agent.sources.door import Reply
from exporter.agent.sources.files import read

MAX_BYTES = 16_384  # sysfs shows a page, gpu_metrics not more than this either
LONGEST_LABEL = 64
_GONE = {errno.ENOENT, errno.ENODEV, errno.ENXIO, errno.ENOTDIR}
_NUMBER = re.compile(r"-?[0-9]{1,20}", re.ASCII)


class RefusedError(Exception):
    """The kernel refuses a file: by its mode, or by the device cgroup (KFD returns EPERM)."""


def read_bytes(path: str | Path) -> bytes | None:
    """The beginning of a file; None if it is missing, or the driver cannot answer now.

    Raises:
        RefusedError: it may not be read.

    """
    try:
        return read(path, MAX_BYTES)
    except PermissionError as error:
        raise RefusedError(str(path)) from error
    except OSError:  # ENOENT, ENODEV; EBUSY and EIO while a board resets; EOPNOTSUPP
        return None


def read_text(path: str | Path) -> str | None:
    """The same as text, without surrounding space.

    Raises:
        RefusedError: it may not be read.

    """
    content = read_bytes(path)
    return None if content is None else content.decode("ascii", "replace").strip()


def read_count(path: str | Path) -> int | None:
    """The number in a file, 0 or more; None if there is none.

    Raises:
        RefusedError: it may not be read.

    """
    return as_count(read_text(path))


def count_in(path: str | Path) -> Reply[int]:
    """The number in a file, 0 or more."""
    return door.parsed(door.read(path, MAX_BYTES), _count)


def _count(content: bytes) -> int:
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
    try:
        return sorted(os.listdir(folder))  # noqa: PTH208 - names are all that is wanted
    except PermissionError as error:
        raise RefusedError(str(folder)) from error
    except OSError:
        return []


def text(path: str | Path) -> str:
    """The text of a file; "" if it cannot be read."""
    try:
        return read_text(path) or ""
    except RefusedError:
        return ""


def number(path: str | Path) -> int | None:
    """The number in a file; None if it cannot be read, or has none."""
    found = text(path)
    return int(found) if _NUMBER.fullmatch(found) else None


def names(folder: str | Path) -> list[str]:
    """The sorted names in a folder; none if it cannot be listed."""
    try:
        return names_in(folder)
    except RefusedError:
        return []


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
    try:
        return os.path.basename(os.readlink(path))  # noqa: PTH115, PTH119 - a string
    except OSError:
        return ""


def is_refused(path: Path) -> bool:
    """Whether a file is there but cannot be read, as while its driver resets a board."""
    try:
        read(path, 1)
    except OSError as error:
        return error.errno not in _GONE
    return False


def is_gone(folder: str | Path) -> bool:
    """Whether a folder is certainly gone."""
    try:
        os.stat(folder)  # noqa: PTH116 - a string or a path
    except OSError as error:
        return error.errno in _GONE
    return False
