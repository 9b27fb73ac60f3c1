"""How often each driver function was called, and for how long: what the exporter itself costs."""

from collections import Counter
from collections.abc import Mapping, Sequence
from operator import itemgetter
from threading import Lock
from typing import Protocol

from exporter.model import CallCount

Call = tuple[str, int]
"""The function that was called, and for how many nanoseconds: tens are made each second."""

NAME, TOOK_NS = itemgetter(0), itemgetter(1)


class Tally(Protocol):
    """Whoever counts calls."""

    def add(self, call: Call, /) -> None:
        """Count a call."""
        ...

    def add_all(self, calls: Sequence[Call], /) -> None:
        """Count many at once."""
        ...


class CallTally:
    """Counts calls by function name, when asked. Thread-safe: devices are read side by side."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._new: list[Call] = []  # not counted yet
        self._calls: Counter[str] = Counter()
        self._took_ns: Counter[str] = Counter()

    def add(self, call: Call, /) -> None:
        """See ``Tally``."""
        self.add_all([call])

    def add_all(self, calls: Sequence[Call], /) -> None:
        """See ``Tally``."""
        with self._lock:
            self._new.extend(calls)

    def snapshot(self) -> Mapping[str, CallCount]:
        """Counts since the start, by function name."""
        with self._lock:
            took_ns = self._took_ns
            self._calls.update(map(NAME, self._new))
            for name, duration_ns in self._new:
                took_ns[name] += duration_ns
            self._new.clear()
            return {name: CallCount(calls, took_ns[name]) for name, calls in self._calls.items()}
