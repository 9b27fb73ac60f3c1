"""Reads small files of the kernel, in sysfs and proc."""

import os
import re

LONGEST = 4096
LONGEST_LABEL = 64
_NUMBER = re.compile(r"-?[0-9]{1,20}", re.ASCII)


def read(path: str, most: int) -> bytes:
    """The beginning of a file, in one call: the kernel may change it between two.

    Raises:
        OSError: it cannot be read.

    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        return os.read(descriptor, most)
    finally:
        os.close(descriptor)


def text(path: str) -> str:
    """The text of a file without surrounding space; "" if it cannot be read."""
    try:
        return read(path, LONGEST).decode("ascii", errors="replace").strip()
    except OSError:
        return ""


def label(name: str) -> str:
    """A name by firmware or a driver as a label: of bounded length, and printable."""
    return "".join(c if c.isprintable() else "?" for c in name[:LONGEST_LABEL])


def number(path: str) -> int | None:
    """The number in a file; None if it cannot be read, or has none."""
    found = text(path)
    return int(found) if _NUMBER.fullmatch(found) else None


def names(path: str) -> list[str]:
    """The sorted names in a directory; none if it cannot be read."""
    try:
        return sorted(os.listdir(path))  # noqa: PTH208 - names are all that is wanted
    except OSError:
        return []


def link(path: str) -> str:
    """The last part of a link's target; "" if it is no link."""
    try:
        return os.path.basename(os.readlink(path))  # noqa: PTH115, PTH119 - a string
    except OSError:
        return ""
