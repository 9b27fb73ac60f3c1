"""Asks what may never reply, each question in a thread that can be left behind.

A tenant can make a path whose file system he serves himself: behind a descriptor, below a mount of
his own, in the memory that ``environ`` shows. Whoever asks it may wait for ever, and cannot be
ended. So such a question costs a thread at most, one of a few, and of these a tenant has fewer.
"""

import logging
from collections.abc import Callable, Collection, Hashable
from threading import Thread
from typing import Generic, TypeVar

logger = logging.getLogger(__name__)

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")

MAX_AT_ONCE = 32
MAX_OF_ONE = 2  # so that one whose replies never come holds up nobody else's


class Aside(Generic[K, T]):
    """Questions by key, each asked once until it is dropped. One caller at a time.

    ``what`` is asked for, in the plural, as the log says it.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._asked: dict[K, _Question[T]] = {}
        self._slow: tuple[_Question[T], ...] = ()  # had not replied when this cycle began
        self._is_said = False

    def keep(self, keys: Collection[K]) -> None:
        """Begin a cycle with these questions: drop the others, as soon as they have replied."""
        # One without a reply stays, though nobody wants it any more: its thread is there, and
        # counts.
        self._asked = {k: q for k, q in self._asked.items() if k in keys or q.is_open}
        self._slow = tuple(q for q in self._asked.values() if q.is_open)
        self._is_said = self._is_said and bool(self._slow)

    def ask(
        self, key: K, tenant: Hashable, question: Callable[[], T], wait_s: float = 0.0
    ) -> T | None:
        """The reply; None while there is none. ``tenant``: who may have made what is asked.

        ``wait_s``: so long a new question is waited for.
        While too many are open, of this tenant or at all, it waits for its turn: ask again in the
        next cycle. That is said once, and only if one of them is slow.
        """
        asked = self._asked.get(key)
        if asked is None and not self._waits(key, tenant):
            asked = self._asked[key] = _Question(self._what, tenant, question, wait_s)
        return asked.reply if asked else None

    def drop(self, key: K) -> None:
        """Forget a question that has replied, so that it can be asked again."""
        if key in self._asked and not self._asked[key].is_open:
            del self._asked[key]

    def _waits(self, key: K, tenant: Hashable) -> bool:
        tenants = [q.tenant for q in self._asked.values() if q.is_open]
        is_full = len(tenants) >= MAX_AT_ONCE
        waits = is_full or tenants.count(tenant) >= MAX_OF_ONE
        if waits and not self._is_said:
            slow = {q.tenant for q in self._slow if q.is_open}
            self._is_said = bool(slow) if is_full else tenant in slow
            if self._is_said:
                logger.warning("%s are slow to be read: that of %s waits", self._what, key)
        return waits


class _Question(Generic[T]):
    def __init__(
        self, what: str, tenant: Hashable, question: Callable[[], T], wait_s: float
    ) -> None:
        self.tenant = tenant
        self.reply: T | None = None
        self._question = question
        self._thread = Thread(target=self._run, name=what, daemon=True)
        self._thread.start()
        if wait_s:
            self._thread.join(wait_s)

    @property
    def is_open(self) -> bool:
        """Whether it has not replied."""
        return self._thread.is_alive()

    def _run(self) -> None:
        self.reply = self._question()
