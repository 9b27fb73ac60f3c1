"""Progress of long work and of waiting, shown on a terminal; without one nothing is shown."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from exporter.shown.printable import printable

if TYPE_CHECKING:  # the model is not loaded to print a help
    from exporter.model import Clock

SECOND_NS = 10**9
_EVERY_NS = 10**8
_CLEAR = "\r\x1b[K"


class Progress:
    """One line that is overwritten at most ten times a second.

    The cursor stays at the beginning of the line, so that a log line overwrites it.
    """

    def __init__(self, stream: TextIO | None, clock: "Clock") -> None:
        self._stream = stream
        self._clock = clock
        self._shown = stream is not None and stream.isatty()
        self._next_ns = clock.monotonic_ns()

    def say(self, words: str) -> None:
        """Show this text in place of the last one."""
        now_ns = self._clock.monotonic_ns()
        if self._shown and now_ns >= self._next_ns:
            self._next_ns = now_ns + _EVERY_NS
            self._write(f"{_CLEAR}{printable(words)}\r")

    def end(self) -> None:
        """Clear the line."""
        if self._shown:
            self._write(_CLEAR)

    def _write(self, text: str) -> None:
        if self._stream is not None:
            self._stream.write(text)
            self._stream.flush()


@contextmanager
def progress(stream: TextIO | None = None, clock: "Clock" = time) -> Iterator[Progress]:
    """Show progress on ``stream``, else standard error, until the work ends."""
    shown = Progress(stream or sys.stderr, clock)
    try:
        yield shown
    finally:
        shown.end()


def watch(length_ns: int, where: str = "this node") -> None:
    """Wait for ``length_ns`` while a cycle runs in another thread or elsewhere."""
    begun_ns = time.monotonic_ns()
    with progress() as shown:
        while (left_ns := begun_ns + length_ns - time.monotonic_ns()) > 0:
            shown.say(f"looking at {where} for {left_ns / SECOND_NS:.0f} s more ...")
            time.sleep(min(left_ns, SECOND_NS) / SECOND_NS)
