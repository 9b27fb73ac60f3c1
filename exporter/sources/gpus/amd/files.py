"""Reads small files of sysfs, within bounds: their content is not trusted."""

import errno
from pathlib import Path

MOST_BYTES = 16_384  # sysfs shows a page, gpu_metrics not more than this either
_GONE = {errno.ENOENT, errno.ENODEV, errno.ENXIO, errno.ENOTDIR}


class RefusedError(Exception):
    """The kernel refuses a file: by its mode, or by the device cgroup (KFD returns EPERM)."""


def read_bytes(path: Path) -> bytes | None:
    """The beginning of a file; None if it is missing, or the driver cannot answer now.

    Raises:
        RefusedError: it may not be read.

    """
    try:
        with path.open("rb") as file:
            return file.read(MOST_BYTES)
    except PermissionError as error:
        raise RefusedError(str(path)) from error
    except OSError:  # ENOENT, ENODEV; EBUSY and EIO while a board resets; EOPNOTSUPP
        return None


def read_text(path: Path) -> str | None:
    """The same as text, without the end of the line.

    Raises:
        RefusedError: it may not be read.

    """
    content = read_bytes(path)
    return None if content is None else content.decode("ascii", "replace").strip()


def read_count(path: Path) -> int | None:
    """The number in a file, 0 or more; None if there is none.

    Raises:
        RefusedError: it may not be read.

    """
    return as_count(read_text(path))


def as_count(text: str | None) -> int | None:
    """A plain decimal number of at most 64 bits; None for anything else."""
    if text is None or not (text.isascii() and text.isdigit()) or len(text) > len(str(2**64)):
        return None
    number = int(text)
    return number if number < 2**64 else None


def names_in(folder: Path) -> list[str]:
    """The sorted names in a folder; none if it is missing.

    Raises:
        RefusedError: it may not be listed.

    """
    try:
        return sorted(entry.name for entry in folder.iterdir())
    except PermissionError as error:
        raise RefusedError(str(folder)) from error
    except OSError:
        return []


def is_refused(path: Path) -> bool:
    """Whether a file is there but cannot be read, as while its driver resets a board."""
    try:
        with path.open("rb") as file:
            file.read(1)
    except OSError as error:
        return error.errno not in _GONE
    return False


def is_gone(folder: Path) -> bool:
    """Whether a folder is certainly gone."""
    try:
        folder.stat()
    except OSError as error:
        return error.errno in _GONE
    return False
