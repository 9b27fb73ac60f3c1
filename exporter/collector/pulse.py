"""The cycle's clock, for those who ask whether it still moves."""

from typing import NamedTuple


class Pulse(NamedTuple):
    """The cycle's clock, for the health check. ``done`` counts finished cycles."""

    moved_mono_ns: int
    done: int
    interval_ns: int = 10**9
