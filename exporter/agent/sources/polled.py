"""A source that asks slowly in its own thread, and at once when what it asks about changes."""

import logging
import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from exporter.agent.sources.source import Rejections, Threaded
from exporter.model import Clock, SourceStatus

logger = logging.getLogger(__name__)

G = TypeVar("G")  # what facts are asked for, such as the pods
A = TypeVar("A")  # an answer
F = TypeVar("F")  # facts

LONGEST_DETAIL = 500


class Inquiry(ABC, Generic[G, A, F]):
    """What a ``Polled`` source asks, and what follows from the answer.

    ``first`` stands for the answer until the first ask has ended; ``nothing`` are the facts without
    an answer. ``problem`` is what was wrong at the last ask although there was an answer;
    ``is_down``: so wrong that the source is down.
    """

    name: str
    nothing: F
    first: A | None = None
    problem: str = ""
    is_down: bool = False

    def __init__(self) -> None:
        self._rejections = Rejections()

    @abstractmethod
    def subject(self, given: G) -> Hashable:
        """What would be asked about this; None: nothing. When it changes, it matters."""

    @abstractmethod
    def ask(self, given: G) -> A:
        """Ask; may take seconds, within a limit of its own. Called by one thread.

        Raises:
            Exception: no answer; its text says why and what to do.

        """

    @abstractmethod
    def facts(self, answer: A, given: G) -> F:
        """What the answer means for what is given now. Pure."""

    def rejected(self) -> Mapping[str, int]:
        """Parts of answers that could not be used since the start, by reason."""
        return self._rejections.counts()

    def interrupt(self) -> None:
        """End the ask that another thread is in. Returns at once."""


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
        # The bound of the shift is one of the number: a float takes no more than 1,023 bits of it.
        longest = min(self.most_s, self.least_s * float(1 << min(failures, 16)))
        return longest * (1 + jitter / 2) if failures else self.least_s


DEFAULT_TIMINGS = PollTimings()


class Polled(Threaded, Generic[G, A, F]):
    """Implements ``FactSource`` over an inquiry."""

    def __init__(
        self,
        inquiry: Inquiry[G, A, F],
        timings: PollTimings = DEFAULT_TIMINGS,
        *,
        clock: Clock = time,
        jitter: Callable[[], float] = random.random,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(SourceStatus(inquiry.name, up=True), clock, jitter, changed)
        self.name, self.rejected = inquiry.name, inquiry.rejected
        self._inquiry, self._timings = inquiry, timings
        self._given: list[G] = []  # the last, if any
        self._subject: Hashable = None
        self._asked: Hashable = None
        self._answer = inquiry.first
        self._answers = 0  # how often it changed
        self._made, self._made_of = inquiry.nothing, (list[G](), -1)  # facts, and of what

    # --- for other threads ---

    def facts(self, given: G) -> F:
        """The facts of the last answer. Wakes the thread if it must ask again.

        They are worked out again when what is given or the answer changes: what tenants write into
        pods is not paid for in each cycle.
        """
        with self._news:
            answer, made_of = self._answer, ([given], self._answers)
        if made_of != self._made_of:
            subject = self._inquiry.subject(given)
            with self._news:
                if subject != self._subject:
                    self._news.notify_all()
                self._given, self._subject = [given], subject
            nothing = self._inquiry.nothing
            self._made = nothing if answer is None else self._inquiry.facts(answer, given)
            self._made_of = made_of
        return self._made

    def status(self) -> SourceStatus:
        """Up unless the last ask failed and there is still reason to ask."""
        status = self._status
        if self._subject is None and not status.up:
            return status._replace(up=True, detail="there is nothing to ask about now")
        return status

    def _interrupt(self) -> None:
        self._inquiry.interrupt()

    # --- in its own thread ---

    def _run(self) -> None:
        least_s = 0.0
        while given := self._next(least_s):
            self._ask(given[0])
            self._changed()
            least_s = self._timings.delay(self._failures, self._jitter())

    def _ask(self, given: G) -> None:
        """Ask once. Without an answer the last one stays."""
        started_ns = self._clock.monotonic_ns()
        try:
            answer = self._inquiry.ask(given)
        except Exception as error:  # noqa: BLE001 - it is said in the status, and asked again
            self._failed(error, started_ns)
            return
        problem = self._inquiry.problem
        with self._news:
            self._answer, self._failures = answer, 0
            self._answers += 1
            is_up = not self._inquiry.is_down
            self._report(is_up, problem, started_ns, succeeded=not problem)

    def _next(self, least_s: float) -> list[G]:
        """Wait for the next time to ask; what to ask about, nothing at the end."""
        period_s = max(least_s, self._timings.period_s * (1 - self._jitter() / 10))
        with self._news:
            self._news.wait_for(lambda: self._stopped, least_s)
            self._news.wait_for(
                lambda: self._stopped or self._subject not in {None, self._asked},
                period_s - least_s,
            )
            # While there is nothing to ask about, nobody is asked, also after the period.
            self._news.wait_for(lambda: self._stopped or self._subject is not None)
            self._asked = self._subject
            return [] if self._stopped else self._given

    def _failed(self, error: Exception, started_ns: int) -> None:
        logger.debug("source %s was not answered", self.name, exc_info=error)
        detail = " ".join(str(error).split()) or type(error).__name__
        with self._news:
            if self._answer is self._inquiry.first:
                self._answer = None
                self._answers += 1
            self._asked = None  # what was asked about is still to be asked
            self._failures += 1
            self._report(False, detail, started_ns, succeeded=False)

    def _report(self, up: bool, detail: str, started_ns: int, *, succeeded: bool) -> None:  # noqa: FBT001 - as in SourceStatus
        self._status = SourceStatus(
            self.name,
            up,
            detail[:LONGEST_DETAIL],
            self._clock.monotonic_ns() - started_ns,
            self._clock.time_ns() if succeeded else self._status.last_success_unix_ns,
        )
