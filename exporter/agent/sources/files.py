"""Reads files of the kernel and of the node within bounds: whoever made them is not trusted."""

import os
from pathlib import Path

_TO_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK  # a pipe in a file's place does not block
_CHUNK = 64 * 1024


def read(path: str | Path, most: int) -> bytes:
    """The beginning of a file, in one call: the kernel may change it between two.

    Raises:
        OSError: it cannot be read.

    """
    descriptor = os.open(path, _TO_READ)
    try:
        return os.read(descriptor, most)
    finally:
        os.close(descriptor)


def read_long(path: str | Path, most: int) -> bytes:
    """So many bytes of a file at most, in as many calls as it takes; raises as ``read``."""
    descriptor = os.open(path, _TO_READ)
    try:
        content = chunk = os.read(descriptor, _CHUNK)
        while chunk and len(content) < most:
            chunk = os.read(descriptor, _CHUNK)
            content += chunk
        return content[:most]
    finally:
        os.close(descriptor)
