"""Log lines on standard error, as logfmt or JSON: one event, one line, whatever is in it."""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import TextIO

_FORMS = ("logfmt", "json")


def configure(level: str, form: str, stream: TextIO | None = None) -> None:
    """Send every logger's events of this level and above to ``stream``, else standard error."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(LineFormatter(form))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.captureWarnings(capture=True)


class LineFormatter(logging.Formatter):
    """Formats a record as one line; ``form`` is ``logfmt`` or ``json``."""

    def __init__(self, form: str) -> None:
        if form not in _FORMS:
            raise ValueError(f"{form!r} is not one of {', '.join(_FORMS)}")
        super().__init__()
        self._write = json.dumps if form == "json" else _logfmt

    def format(self, record: logging.LogRecord) -> str:
        """Write time, level, logger and message, and the traceback if there is one."""
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
    return " ".join(f"{name}={_value(text)}" for name, text in fields.items())


def _value(text: str) -> str:
    if text and text.isascii() and text.isprintable() and not set(text) & set(' ="\\'):
        return text
    return json.dumps(text, ensure_ascii=not text.isprintable())
