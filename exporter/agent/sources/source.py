"""What sources have in common: their interface, rejected items, a thread of their own or none."""

import logging
import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar

from exporter.agent.fairness import Held
from exporter.model import Clock, SourceStatus

logger = logging.getLogger(__name__)

G_contra = TypeVar("G_contra", contravariant=True)
F_co = TypeVar("F_co", covariant=True)

CLOSE_TIMEOUT_S = 0.9
MAX_LINES = 4096  # about rejected items, of one source
MAX_OF_OWNER = 16  # of them about one namespace: who makes many bad items hides nobody else's
MAX_OF_NOBODY = 256  # about what is no tenant's


class Source(Protocol):
    """Something that is read from outside."""

    @property
    def name(self) -> str:
        """The label value of ``mgpu_exporter_source_up``."""
        ...

    def status(self) -> SourceStatus:
        """Whether it was answered when it last asked; the detail says what to do if not."""
        ...

    def rejected(self) -> Mapping[str, int]:
        """Items that could not be used since the start, by reason."""
        ...

    def close(self) -> None:
        """Stop reading. Returns within a second."""
        ...


class FactSource(Source, Protocol[G_contra, F_co]):
    """A source of facts about what it is given."""

    def start(self) -> None:
        """Begin to look, in a thread of its own if it takes time. Returns at once."""
        ...

    def facts(self, given: G_contra, /) -> F_co:
        """What is known; never blocks. The last that was known while the source is down."""
        ...


class AlwaysUp:
    """A source that has nothing to begin, reject or end. By ``clock`` it succeeds each time."""

    def __init__(self, name: str, clock: Clock | None = None, detail: str = "") -> None:
        self.name = name
        self._clock, self._detail = clock, detail

    def start(self) -> None: ...

    def status(self) -> SourceStatus:
        now_ns = self._clock.time_ns() if self._clock else None
        return SourceStatus(self.name, True, self._detail, last_success_unix_ns=now_ns)

    def rejected(self) -> Mapping[str, int]:
        return {}

    def close(self) -> None: ...


class Rejections:
    """Counts items that cannot be used, by reason, and logs each line once. For any thread.

    ``owner`` is the namespace that an item is of, "" if of none: each has lines of its own.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._logged = Held[str](MAX_LINES)

    def reject(
        self, reason: str, item: str, count: int = 1, remedy: str = "", owner: str = ""
    ) -> None:
        """Count an unusable item, and log it, with what to do."""
        self.count(reason, count)
        line = f"{item} is left out: {reason}{remedy and f'; {remedy}'}"
        self.once(logging.WARNING, line, owner)

    def count(self, reason: str, count: int = 1) -> None:
        """Count an unusable item that is logged elsewhere."""
        with self._lock:
            self._counts[reason] += count

    def once(self, level: int, line: str, owner: str = "") -> None:
        """Log a line unless it was logged before, or its owner has had all its lines."""
        with self._lock:
            left = (MAX_OF_OWNER if owner else MAX_OF_NOBODY) - self._logged.of(owner)
            if line in self._logged or left <= 0:
                return
            self._logged.add(line, owner)
        # The last line that an owner gets says that it is the last one.
        more = "" if left > 1 else "; more like this are counted and not logged"
        logger.log(level, "%s%s", line, more)

    def counts(self) -> Mapping[str, int]:
        """Unusable items since the start, by reason."""
        with self._lock:
            return dict(self._counts)


class Threaded(ABC):
    """A source that asks in a thread of its own, which waits on ``_news``.

    ``_news`` guards what other threads read or change; who changes what is waited for notifies it.
    ``changed`` is called in the thread after each step that may have changed anything.
    """

    def __init__(
        self,
        status: SourceStatus,
        clock: Clock,
        jitter: Callable[[], float],
        changed: Callable[[], None],
    ) -> None:
        self._status = status
        self._clock, self._jitter, self._changed = clock, jitter, changed
        self._news = threading.Condition()
        self._stopped = False
        self._failures = 0  # one after another
        self._thread = threading.Thread(target=self._run, name=status.name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """End the thread. If a disk or a server that does not answer blocks it, it is left."""
        with self._news:
            self._stopped = True
            self._news.notify_all()
        self._interrupt()
        if self._thread.is_alive():
            self._thread.join(CLOSE_TIMEOUT_S)

    def _interrupt(self) -> None:  # noqa: B027 - a hook
        """End the read that the thread is in. Returns at once."""

    @abstractmethod
    def _run(self) -> None:
        """Ask, wait and ask again, until it is stopped."""
