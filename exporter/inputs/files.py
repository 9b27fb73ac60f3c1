"""Files that people name: settings, prices, recordings, secrets."""

import errno
import os
import select
import stat
from typing import BinaryIO

WAIT_S = 5.0


def without_waiting(path: str, flags: int) -> int:
    """Opens a file. Without this flag, opening a pipe waits for a writer, which may never come."""
    return os.open(path, flags | os.O_NONBLOCK)


def opened(path: str) -> BinaryIO:
    """The file, to be read. It may be a pipe, as of a shell's ``<(...)``, that somebody writes to.

    Raises:
        OSError: it cannot be read, or it is a pipe and nothing comes for some seconds.
        ValueError: the path is not valid.

    """
    # What os.open gives stays open if os.fdopen refuses it, as a folder; an opener's is closed.
    file = open(path, "rb", opener=without_waiting)  # noqa: SIM115 - who asks closes it
    is_pipe = stat.S_ISFIFO(os.fstat(file.fileno()).st_mode)
    if is_pipe and not select.select([file], [], [], WAIT_S)[0]:
        file.close()
        raise OSError(errno.ETIMEDOUT, f"a pipe that nobody wrote to within {WAIT_S:g} s")
    os.set_blocking(file.fileno(), True)
    return file
