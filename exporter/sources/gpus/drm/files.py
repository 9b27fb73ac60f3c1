"""Small files of the kernel: sysfs with one value each, and proc."""

import os
import re

LONGEST = 4096
LONGEST_LABEL = 64
_NUMBER = re.compile(r"-?[0-9]{1,20}", re.ASCII)


def read(path: str, most: int) -> bytes:
    """Read the beginning of a file, in one go: what the kernel makes up must not be torn.

    Raises:
        OSError: it cannot be read.

    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        return os.read(descriptor, most)
    finally:
        os.close(descriptor)


def text(path: str) -> str:
    """What a file says, without space around it; "" if it cannot be read."""
    try:
        return read(path, LONGEST).decode("ascii", errors="replace").strip()
    except OSError:
        return ""


def label(told: str) -> str:
    """What firmware and drivers call something, as a label: of bounded length, and printable."""
    return "".join(c if c.isprintable() else "?" for c in told[:LONGEST_LABEL])


def number(path: str) -> int | None:
    """The number that a file holds; None if it cannot be read, or holds none."""
    found = text(path)
    return int(found) if _NUMBER.fullmatch(found) else None


def names(path: str) -> list[str]:
    """What is in a directory, in order; nothing if it cannot be read."""
    try:
        return sorted(os.listdir(path))  # noqa: PTH208 - names are all that is wanted
    except OSError:
        return []


def link(path: str) -> str:
    """The last part of where a link leads to; "" if it is none."""
    try:
        return os.path.basename(os.readlink(path))  # noqa: PTH115, PTH119 - a string
    except OSError:
        return ""
