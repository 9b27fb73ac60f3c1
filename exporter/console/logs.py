"""Messages on standard error, one line for each: as logfmt or JSON, or plain for people."""

import json
import logging
import sys
import time
from collections import OrderedDict
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, TextIO

from exporter.shown.printable import printable

if TYPE_CHECKING:  # the model is not loaded to print a help
    from exporter.model import Clock

PLAIN = "plain"
_FORMS = ("logfmt", "json", PLAIN)
SECOND_NS = 10**9
REPEATS_NS = 60 * SECOND_NS
MAX_REMEMBERED = 256


def configure(
    level: str, form: str, stream: TextIO | None = None, program: str = "mgpu-exporter"
) -> None:
    """Send events of this level and above to ``stream``, by default standard error.

    ``program``: how lines for people begin.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(LineFormatter(form, program))
    # With force the handler before this one is closed, which writes the counts that it holds.
    logging.basicConfig(level=level.upper(), handlers=[Collapsing(handler)], force=True)
    logging.captureWarnings(capture=True)


@dataclass(slots=True)
class _WrittenMessage:
    """A message that was written, and how often it was repeated since."""

    record: logging.LogRecord
    since_mono_ns: int
    again: int = 0


class Collapsing(logging.Handler):
    """Writes a message at once, and its repetitions within a minute as one line with their count.

    The count is written with the first event of any kind after the minute, and at the end. At most
    ``MAX_REMEMBERED`` messages are remembered; the oldest is forgotten first.
    """

    def __init__(self, inner: logging.Handler, clock: "Clock" = time) -> None:
        super().__init__()
        self._inner = inner
        self._clock = clock
        self._said: OrderedDict[tuple[str, int, str], _WrittenMessage] = OrderedDict()

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record, or count it."""
        now_ns = self._clock.monotonic_ns()
        self._forget(now_ns - REPEATS_NS)
        key = (record.name, record.levelno, record.getMessage())
        said = self._said.get(key)
        if said is not None:
            said.again += 1
            return
        if len(self._said) >= MAX_REMEMBERED:
            self._write_count(self._said.popitem(last=False)[1], now_ns)
        self._said[key] = _WrittenMessage(record, now_ns)
        self._inner.handle(record)

    def flush(self) -> None:
        """Write the counts so far."""
        # Emit is called with this lock (Handler.handle), a flush without it.
        self.acquire()
        try:
            self._forget(self._clock.monotonic_ns())
        finally:
            self.release()
        self._inner.flush()

    def close(self) -> None:
        """Write the counts so far and close the inner handler."""
        self.flush()
        self._inner.close()
        super().close()

    def _forget(self, until_mono_ns: int) -> None:
        """Forget the messages up to a moment, and write how often they were repeated."""
        now_ns = self._clock.monotonic_ns()
        while self._said:
            key, said = next(iter(self._said.items()))
            # They stand in the order in which they were written: all behind this one are younger.
            if said.since_mono_ns > until_mono_ns:
                return
            del self._said[key]
            self._write_count(said, now_ns)

    def _write_count(self, said: _WrittenMessage, now_ns: int) -> None:
        if not said.again:
            return
        record = copy(said.record)
        seconds = (now_ns - said.since_mono_ns) // SECOND_NS
        times = "once more" if said.again == 1 else f"{said.again} times"
        record.msg = f"{record.getMessage()} (repeated {times} within the last {seconds} s)"
        record.args, record.exc_info, record.created = (), None, self._clock.time_ns() / SECOND_NS
        self._inner.handle(record)


class LineFormatter(logging.Formatter):
    """Formats a record as one line; ``form`` is ``logfmt``, ``json`` or ``plain``."""

    def __init__(self, form: str, program: str = "mgpu-exporter") -> None:
        if form not in _FORMS:
            raise ValueError(f"{form!r} is not one of {', '.join(_FORMS)}")
        super().__init__()
        writers: dict[str, Callable[[dict[str, str]], str]]
        writers = {"json": json.dumps, "logfmt": _logfmt, PLAIN: partial(_plain, program)}
        self._write = writers[form]

    def format(self, record: logging.LogRecord) -> str:
        """The line: time, level, logger and message, and the traceback if there is one."""
        moment = datetime.fromtimestamp(record.created, UTC)
        fields = {
            "ts": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "msg": record.getMessage(),
        }
        if record.exc_info:
            fields["error"] = self.formatException(record.exc_info)
        return self._write(fields)


def _logfmt(fields: dict[str, str]) -> str:
    pairs: list[str] = []
    for name, text in fields.items():
        is_bare = text and text.isascii() and text.isprintable() and not set(text) & set(' ="\\')
        quoted = text if is_bare else json.dumps(text, ensure_ascii=not text.isprintable())
        pairs.append(f"{name}={quoted}")
    return " ".join(pairs)


def _plain(program: str, fields: dict[str, str]) -> str:
    """The message; a warning or an error begins with the program's name, as those of shells do."""
    begin = "" if fields["level"] in {"debug", "info"} else f"{program}: "
    lines = "\n".join(filter(None, (fields["msg"], fields.get("error"))))
    return begin + printable(lines)
