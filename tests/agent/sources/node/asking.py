"""A Polled source under test whose asks can be awaited; ``facts`` is what a cycle does."""

import threading
from collections.abc import Callable
from typing import Any, Self

from exporter.agent.sources.polled import Inquiry, Polled, PollTimings
from exporter.model import PodTable, SourceStatus

PATIENCE_S = 60.0
QUICK = PollTimings(period_s=0.02, least_s=0.002, most_s=0.01)
PATIENT = PollTimings(period_s=3600, least_s=0.002, most_s=0.01)  # asks only when it matters
NO_PODS = PodTable()


class Asking:
    """``with Asking(inquiry) as source: source.wait_for(…)``. ``nobody`` is what it begins with."""

    def __init__(
        self, inquiry: Inquiry[Any, Any, Any], rhythm: PollTimings = QUICK, nobody: object = NO_PODS
    ) -> None:
        self._condition = threading.Condition()
        self.asks = 0
        self.source: Polled[Any, Any, Any] = Polled(inquiry, rhythm, changed=self._changed)
        self.given = nobody

    def __enter__(self) -> Self:
        self.source.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.source.close()

    def facts(self, given: object = None) -> Any:
        """One cycle's question, about this from now on."""
        self.given = self.given if given is None else given
        return self.source.facts(self.given)

    def asked(self, more: int = 1) -> Any:
        """What is known once so many further asks have ended."""
        with self._condition:
            until = self.asks + more
            assert self._condition.wait_for(lambda: self.asks >= until, PATIENCE_S), "not asked"
        return self.facts()

    def when(self, true: Callable[[Any], object], what: str = "condition") -> Any:
        """The first facts, looked at after each ask, of which this is true."""
        with self._condition:
            found = self._condition.wait_for(lambda: true(self.facts()), PATIENCE_S)
        assert found, f"never came: {what}; {self.source.status()}"
        return self.facts()

    def status_when(self, words: str) -> SourceStatus:
        """The first status of a source that is down whose detail has these words."""
        self.when(lambda _: self._says(words), f"down, {words!r}")
        return self.source.status()

    def until_up(self) -> SourceStatus:
        """The status once an ask has succeeded."""
        self.when(lambda _: self._is_up(), "up")
        return self.source.status()

    def _says(self, words: str) -> bool:
        status = self.source.status()
        return not status.up and words in status.detail

    def _is_up(self) -> bool:
        status = self.source.status()
        return status.up and status.last_success_unix_ns is not None

    def _changed(self) -> None:
        with self._condition:
            self.asks += 1
            self._condition.notify_all()
