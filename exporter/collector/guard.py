"""Calls to sources that may fail: timed, caught, told once."""

import logging
import re
from collections.abc import Callable
from typing import TypeVar

from exporter.gpus.source import GpuSource, RestartRequiredError
from exporter.model import Clock, Reading, SourceStatus

logger = logging.getLogger(__name__)

T = TypeVar("T")

_SECONDS = re.compile(r"[0-9.]+ s\b")


class Guard:
    """Keeps one source's failures from the cycle, and remembers when it last succeeded."""

    def __init__(self, name: str, clock: Clock) -> None:
        self.name = name
        self.away = SourceStatus(name, up=False)
        self._no_reading = Reading(self.away)
        self._clock = clock
        self._last_success_unix_ns: int | None = None
        self._failures: dict[str, str] = {}  # what the last call of each kind raised
        self._said = ""

    def read(self, source: GpuSource) -> Reading:
        """Read a GPU source; a defect in it is a source that is down."""
        started = self._clock.monotonic_ns()
        reading = self.call("read", source.read, self._no_reading)
        status = self.note(reading.status, started)
        return reading if status is reading.status else reading._replace(status=status)

    def call(self, kind: str, ask: Callable[[], T], otherwise: T) -> T:
        """What ``ask`` returns; if it fails, ``otherwise``, and the source is down.

        A failure that goes on is logged once for each kind of call.

        Raises:
            RestartRequiredError: the source cannot be helped by asking again.

        """
        try:
            answer = ask()
        except RestartRequiredError:
            raise
        except Exception as error:
            failure = repr(error)[:200]
            if failure != self._failures.get(kind):
                logger.exception("source %s failed; it is asked again each cycle", self.name)
            self._failures[kind] = failure
            return otherwise
        if self._failures:
            self._failures.pop(kind, None)
        return answer

    def tell(self, action: Callable[[], None]) -> None:
        """Tell the source something. It is no less up if it does not take it in."""
        try:
            action()
        except Exception:
            logger.exception("source %s does not follow the new settings; restart", self.name)

    def note(self, status: SourceStatus, started_mono_ns: int | None = None) -> SourceStatus:
        """Complete a status with time and last success; log each change of it once.

        A detail in which only a time changes ("for 3 s") is no news.
        """
        if self._failures:
            status = status._replace(up=False, detail="; ".join(self._failures.values()))
        name, up, detail, took_ns, success_unix_ns, reason, absent = status
        if up:
            self._last_success_unix_ns = self._clock.time_ns()
        trouble = "" if up or absent else detail or "no answer"
        if trouble or self._said:
            self._tell(trouble)
        if absent:
            return status  # shown to nobody
        if not took_ns and started_mono_ns is not None:
            took_ns = self._clock.monotonic_ns() - started_mono_ns
        success_unix_ns = success_unix_ns or self._last_success_unix_ns
        noted = SourceStatus(name, up, detail, took_ns, success_unix_ns, reason, absent)
        return status if noted == status else noted

    def _tell(self, detail: str) -> None:
        said = _SECONDS.sub("", detail) if detail else ""
        if said == self._said:
            return
        if detail:
            logger.warning("source %s is down: %s", self.name, detail)
        else:
            logger.info("source %s is up again", self.name)
        self._said = said
