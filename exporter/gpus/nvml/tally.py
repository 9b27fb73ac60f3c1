"""How often each driver function was called, and for how long: what the exporter itself costs."""

from collections.abc import Mapping, Sequence
from operator import itemgetter
from threading import Lock
from typing import Protocol

from exporter.model import CallCount

Call = tuple[str, int]
"""The function that was called, and for how many nanoseconds: tens are made each second."""

TOOK_NS = itemgetter(1)


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
        self._counts: dict[str, list[int]] = {}  # calls and nanoseconds

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
            counts = self._counts
            for name, took_ns in self._new:
                count = counts.get(name) or counts.setdefault(name, [0, 0])
                count[0] += 1
                count[1] += took_ns
            self._new.clear()
            return {name: CallCount(*count) for name, count in counts.items()}
