"""Calls to sources that may fail: timed, caught, told once."""

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from exporter.gpus.source import GpuSource, RestartRequiredError
from exporter.model import Clock, Reading, SourceStatus

logger = logging.getLogger(__name__)

T = TypeVar("T")


class Guard:
    """Keeps one source's failures from the cycle, and remembers when it last succeeded."""

    def __init__(self, name: str, clock: Clock) -> None:
        self.name = name
        self._clock = clock
        self._last_success_unix_ns: int | None = None
        self._said = ""

    def read(self, source: GpuSource) -> Reading:
        """Read a GPU source; a defect in it is a source that is down."""
        started = self._clock.monotonic_ns()
        try:
            reading = source.read()
        except RestartRequiredError:
            raise
        except Exception as error:
            logger.exception("source %s failed; it is read again next cycle", self.name)
            reading = Reading(SourceStatus(self.name, up=False, detail=repr(error)[:200]))
        return replace(reading, status=self.note(reading.status, started))

    def call(self, ask: Callable[[], T], otherwise: T) -> T:
        """What ``ask`` returns; if it fails, ``otherwise``."""
        try:
            return ask()
        except Exception:
            logger.exception("source %s failed; it is asked again next cycle", self.name)
            return otherwise

    def note(self, status: SourceStatus, started_mono_ns: int | None = None) -> SourceStatus:
        """Complete a status with time and last success; log each change of it once."""
        if status.up:
            self._last_success_unix_ns = self._clock.time_ns()
        said = "" if status.up else status.detail or "no answer"
        if said != self._said:
            if said:
                logger.warning("source %s is down: %s", self.name, said)
            else:
                logger.info("source %s is up again", self.name)
            self._said = said
        took = 0 if started_mono_ns is None else self._clock.monotonic_ns() - started_mono_ns
        return replace(
            status,
            duration_ns=status.duration_ns or took,
            last_success_unix_ns=status.last_success_unix_ns or self._last_success_unix_ns,
        )
