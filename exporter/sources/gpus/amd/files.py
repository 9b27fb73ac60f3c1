"""Small files of sysfs, read whole and never far: what the other side writes is not trusted."""

import errno
from pathlib import Path

MOST_BYTES = 16_384  # sysfs shows a page, gpu_metrics not more than this either
_GONE = {errno.ENOENT, errno.ENODEV, errno.ENXIO, errno.ENOTDIR}


class RefusedError(Exception):
    """The kernel denies us the file: by its mode, or by the device cgroup (KFD gives EPERM)."""


def read_bytes(path: Path) -> bytes | None:
    """The file's beginning; None where it is not there, or the driver cannot tell now.

    Raises:
        RefusedError: we may not read it.

    """
    try:
        with path.open("rb") as file:
            return file.read(MOST_BYTES)
    except PermissionError as error:
        raise RefusedError(str(path)) from error
    except OSError:  # ENOENT, ENODEV; EBUSY and EIO while a board resets; EOPNOTSUPP
        return None


def read_text(path: Path) -> str | None:
    """The same as text without the line's end.

    Raises:
        RefusedError: we may not read it.

    """
    content = read_bytes(path)
    return None if content is None else content.decode("ascii", "replace").strip()


def read_count(path: Path) -> int | None:
    """A number that is not below 0; None where there is none.

    Raises:
        RefusedError: we may not read it.

    """
    return as_count(read_text(path))


def as_count(text: str | None) -> int | None:
    """A plain decimal number of at most 64 bits; None for anything else."""
    if text is None or not (text.isascii() and text.isdigit()) or len(text) > len(str(2**64)):
        return None
    number = int(text)
    return number if number < 2**64 else None


def names_in(folder: Path) -> list[str]:
    """What is in a folder, in order; nothing where it is not there.

    Raises:
        RefusedError: we may not look into it.

    """
    try:
        return sorted(entry.name for entry in folder.iterdir())
    except PermissionError as error:
        raise RefusedError(str(folder)) from error
    except OSError:
        return []


def is_refused(path: Path) -> bool:
    """Whether a file that is there does not tell what is in it: while its driver resets a board."""
    try:
        with path.open("rb") as file:
            file.read(1)
    except OSError as error:
        return error.errno not in _GONE
    return False


def is_gone(folder: Path) -> bool:
    """Whether a folder is certainly not there any more."""
    try:
        folder.stat()
    except OSError as error:
        return error.errno in _GONE
    return False
