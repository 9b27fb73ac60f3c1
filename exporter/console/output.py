"""The one way out to people: what commands write on standard output and on standard error.

A terminal acts on control characters, and names in figures, messages and errors are others' texts:
a terminal gets none of them, whatever wrote the line. A file or pipe gets what was written. What
cannot be written ends the command with a message, or silently where nobody reads.
"""

import contextlib
import errno
import os
import shutil
import signal
import sys
from typing import BinaryIO

from exporter.shown.printable import printable, wrapped

NOT_READ = 128 + signal.SIGPIPE  # as shells report a signal
_CLOSED = OSError(errno.EBADF, "it is closed")
UNWRITTEN = 2  # as of a command that could print nothing


class OutputError(Exception):
    """Standard output cannot be written. ``status`` is that of the command then."""

    def __init__(self, error: OSError) -> None:
        super().__init__(f"standard output cannot be written: {error.strerror}")
        self.status = NOT_READ if isinstance(error, BrokenPipeError) else UNWRITTEN
        # At the end Python flushes it once more, and would complain.
        with contextlib.suppress(OSError, AttributeError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, sys.stdout.fileno())
            os.close(nowhere)


def say(text: str, *, coloured: bool = False) -> None:
    """Write to standard output. A terminal gets the colours of a ``coloured`` text, no more.

    Raises:
        OutputError: it cannot be written.

    """
    if sys.stdout is None:
        raise OutputError(_CLOSED)
    try:
        sys.stdout.write(printable(text, coloured=coloured) if is_terminal() else text)
        sys.stdout.flush()
    except OSError as error:
        raise OutputError(error) from None


def binary() -> BinaryIO:
    """Standard output for bytes, which a program reads; raises as ``say`` does if it is closed."""
    if sys.stdout is None:
        raise OutputError(_CLOSED)
    return sys.stdout.buffer


def warn(text: str) -> None:
    """Write lines to standard error, without control characters; lost if that cannot be."""
    if sys.stderr is not None:
        with contextlib.suppress(OSError):
            width = columns() if sys.stderr.isatty() else None
            sys.stderr.write(f"{wrapped(printable(text), width)}\n")
            sys.stderr.flush()


def is_terminal() -> bool:
    """Whether standard output is one."""
    return sys.stdout is not None and sys.stdout.isatty()


def columns() -> int | None:
    """How many columns the terminal has; None if standard output is none."""
    return shutil.get_terminal_size().columns if is_terminal() else None
