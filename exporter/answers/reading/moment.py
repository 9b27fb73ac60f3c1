"""What a node said at one time, whoever asks."""

from collections.abc import Collection
from dataclasses import dataclass

from exporter.model import Facts


@dataclass(frozen=True, slots=True)
class NodeMoment:
    """What was known at a time: a Snapshot's facts. Moments are compared by ``at_ns`` of one clock.

    ``hidden``: the UUIDs of devices that are also used by owners that the reader may not see.
    ``window_s``: the time of the averages. ``is_stale``: nothing is measured now.
    """

    facts: Facts
    unix_ns: int
    at_ns: int
    hidden: Collection[str] = ()
    window_s: float = 0.0
    is_stale: bool = False
