"""How often each driver function was called, and for how long: what the exporter itself costs."""

from collections.abc import Mapping
from threading import Lock
from typing import Protocol

from exporter.model import CallCount


class Tally(Protocol):
    """Whoever counts calls."""

    def add(self, name: str, duration_ns: int, calls: int = 1) -> None:
        """Count calls that together took ``duration_ns``."""
        ...


class CallTally:
    """Counts calls by function name. Thread-safe: devices are read side by side."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._counts: dict[str, CallCount] = {}

    def add(self, name: str, duration_ns: int, calls: int = 1) -> None:
        """See ``Tally``."""
        with self._lock:
            before, before_ns = self._counts.get(name, (0, 0))
            self._counts[name] = CallCount(before + calls, before_ns + duration_ns)

    def snapshot(self) -> Mapping[str, CallCount]:
        """Counts since the start, by function name."""
        with self._lock:
            return dict(self._counts)
