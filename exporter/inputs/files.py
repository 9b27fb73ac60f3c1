"""Files that people name: settings, prices, recordings, secrets."""

import errno
import os
import select
import stat
from typing import BinaryIO

WAIT_S = 5.0


def opened(path: str) -> BinaryIO:
    """The file, to be read. It may be a pipe, as of a shell's ``<(...)``, that somebody writes to.

    Raises:
        OSError: it cannot be read, or it is a pipe and nothing comes for some seconds.
        ValueError: the path is not valid.

    """
    # Without this flag, opening a pipe waits for a writer, which may never come.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    is_pipe = stat.S_ISFIFO(os.fstat(descriptor).st_mode)
    if is_pipe and not select.select([descriptor], [], [], WAIT_S)[0]:
        os.close(descriptor)
        raise OSError(errno.ETIMEDOUT, f"a pipe that nobody wrote to within {WAIT_S:g} s")
    os.set_blocking(descriptor, True)
    return os.fdopen(descriptor, "rb")
