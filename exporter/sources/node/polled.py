"""A node source that polls slowly in its own thread, and at once when its subject changes."""

import logging
import random
import threading
import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from exporter.model import Clock, NodeFacts, PodTable, SourceStatus
from exporter.sources.node.kubelet import SOCKET, Kubelet
from exporter.sources.node.podresources import PodResources
from exporter.sources.node.source import NodeSource

logger = logging.getLogger(__name__)

A = TypeVar("A")

SECOND_NS = 10**9
NOTHING = NodeFacts()
CLOSE_TIMEOUT_S = 0.9
LONGEST_DETAIL = 500


class Inquiry(Protocol[A]):
    """What a ``Polled`` source asks, and what follows from the answer."""

    @property
    def name(self) -> str:
        """The label value of ``mgpu_exporter_source_up``."""
        ...

    def subject(self, table: PodTable) -> Hashable:
        """What would be asked about these pods; None: nothing. When it changes, it matters."""
        ...

    def ask(self, table: PodTable) -> A:
        """Ask; may take seconds, within a limit of its own. Called by one thread.

        Raises:
            Exception: no answer; its text says why and what to do.

        """
        ...

    def facts(self, answer: A, table: PodTable) -> NodeFacts:
        """What the answer means for the pods of now. Pure."""
        ...

    def rejected(self) -> Mapping[str, int]:
        """Parts of answers that could not be used since the start, by reason."""
        ...

    def interrupt(self) -> None:
        """End the ask that another thread is in. Returns at once."""
        ...


@dataclass(frozen=True, slots=True)
class PollTimings:
    """Waiting times in seconds, spread at random so that nodes do not act at the same moment.

    Asked again after ``period_s``, or once the subject has changed, but not within ``least_s`` of
    the last time; after failures that grows up to ``most_s``.
    """

    period_s: float = 30
    least_s: float = 1
    most_s: float = 60

    def delay(self, failures: int, jitter: float) -> float:
        """Least seconds before the next poll. ``jitter`` is from 0 to 1."""
        longest = min(self.most_s, self.least_s * float(1 << min(failures, 16)))
        return longest * (1 + jitter / 2) if failures else self.least_s


class Polled(Generic[A]):
    """Implements ``NodeSource`` over an inquiry.

    ``changed`` is called, in its thread, after each ask. ``first`` stands for the answer until the
    first ask has ended.
    """

    def __init__(
        self,
        inquiry: Inquiry[A],
        timings: PollTimings | None = None,
        *,
        clock: Clock = time,
        jitter: Callable[[], float] = random.random,
        changed: Callable[[], None] = lambda: None,
        first: A | None = None,
    ) -> None:
        self.name = inquiry.name
        self._inquiry, self._timings = inquiry, timings or PollTimings()
        self._clock, self._jitter, self._changed = clock, jitter, changed
        self._news = threading.Condition()  # for who changes what is below, or looks at all of it
        self._stopped = False
        self._table: PodTable | None = None
        self._subject: Hashable = None
        self._asked: Hashable = None
        self._first: list[A] = [] if first is None else [first]
        self._answers = self._first  # the last one, if any
        self._status = SourceStatus(self.name, up=True)
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)

    # --- for other threads ---

    def start(self) -> None:
        """Begin to ask once the pods are known."""
        self._thread.start()

    def facts(self, table: PodTable) -> NodeFacts:
        """The facts of the last answer for these pods. Wakes the thread if it must ask again."""
        subject = self._inquiry.subject(table)
        with self._news:
            is_same, self._table, self._subject = subject == self._subject, table, subject
            if not is_same:
                self._news.notify_all()
            answers = self._answers
        return self._inquiry.facts(answers[0], table) if answers else NOTHING

    def status(self) -> SourceStatus:
        """Up unless the last ask failed and there is still reason to ask."""
        status = self._status
        if self._subject is None and not status.up:
            return status._replace(up=True, detail="there is nothing to ask about now")
        return status

    def rejected(self) -> Mapping[str, int]:
        """Parts of the answers that could not be used, by reason."""
        return self._inquiry.rejected()

    def close(self) -> None:
        """End the thread, and the ask that it is in."""
        with self._news:
            self._stopped = True
            self._news.notify_all()
        self._inquiry.interrupt()
        if self._thread.is_alive():
            self._thread.join(CLOSE_TIMEOUT_S)

    # --- in its own thread ---

    def _run(self) -> None:
        failures, least_s = 0, 0.0
        while (table := self._next(least_s)) is not None:
            started_ns = self._clock.monotonic_ns()
            try:
                answer = self._inquiry.ask(table)
            except Exception as error:  # noqa: BLE001 - it is said in the status, and asked again
                failures += 1
                self._failed(error, started_ns)
            else:
                failures = 0
                self._answered(answer, started_ns)
            self._changed()
            least_s = self._timings.delay(failures, self._jitter())

    def _next(self, least_s: float) -> PodTable | None:
        """Wait for the next time to ask; the pods to ask about, None at the end."""
        period_s = max(least_s, self._timings.period_s * (1 - self._jitter() / 10))
        with self._news:
            self._news.wait_for(lambda: self._stopped, least_s)
            self._news.wait_for(lambda: self._stopped or self._matters(), period_s - least_s)
            self._news.wait_for(lambda: self._stopped or self._subject is not None)
            self._asked = self._subject
            return None if self._stopped else self._table

    def _matters(self) -> bool:
        return self._subject is not None and self._subject != self._asked

    def _answered(self, answer: A, started_ns: int) -> None:
        took_ns = self._clock.monotonic_ns() - started_ns
        with self._news:
            self._answers = [answer]
            self._status = SourceStatus(
                self.name, up=True, duration_ns=took_ns, last_success_unix_ns=self._clock.time_ns()
            )

    def _failed(self, error: Exception, started_ns: int) -> None:
        logger.debug("source %s was not answered", self.name, exc_info=error)
        detail = " ".join(str(error).split()) or type(error).__name__
        with self._news:
            if self._answers is self._first:
                self._answers = []
            self._asked = None  # what was asked about is still to be asked
            self._status = SourceStatus(
                self.name,
                up=False,
                detail=detail[:LONGEST_DETAIL],
                duration_ns=self._clock.monotonic_ns() - started_ns,
                last_success_unix_ns=self._status.last_success_unix_ns,
            )


AUTO, NONE = "auto", "none"


def open_pod_resources(setting: str, socket: str = SOCKET) -> tuple[NodeSource, ...]:
    """Make the source for ``--kubelet.pod-resources-socket``; not started, imports nothing heavy.

    "auto" is the usual ``socket`` if the kubelet's folder for it is there, else none. A socket
    that was named and is not there is a source that is down and looks again.
    """
    if setting == AUTO:
        setting = socket if Path(socket).parent.is_dir() else NONE
    return () if setting == NONE else (Polled(PodResources(Kubelet(setting))),)
