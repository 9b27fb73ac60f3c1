"""What every source has: the clock that it reads, its status, and the cost of its calls."""

from typing import NamedTuple, Protocol

from exporter.model.reasons import Unmeasured


class Clock(Protocol):
    """Reads the time. The module ``time`` is one; tests and scenarios have others."""

    def monotonic_ns(self) -> int:
        """Nanoseconds that only move forward."""
        ...

    def time_ns(self) -> int:
        """Wall-clock nanoseconds since the epoch."""
        ...


class SourceStatus(NamedTuple):
    """The status of a source. ``detail`` says what to do when it is not up.

    ``reason`` is why nothing from it is known; None: reading it failed. ``absent``: this node does
    not have it, and nobody asked for it; it is not shown. ``unreadable``: how many devices the
    driver counts and cannot open, so that nothing else is known of them; None of other sources.
    """

    name: str
    up: bool
    detail: str = ""
    duration_ns: int = 0
    last_success_unix_ns: int | None = None
    reason: Unmeasured | None = None
    absent: bool = False
    unreadable: int | None = None


class CallCount(NamedTuple):
    """Calls of one driver function since the start and the time they took."""

    calls: int
    duration_ns: int
