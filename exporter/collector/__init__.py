"""The cycle: poll the sources, join what they say, enter it in the ledger, publish a Snapshot.

Runs in a thread of its own at a steady cadence. Nothing that a reader does reaches in here: readers
take the newest Snapshot. Each source is guarded and timed and its state published; one that fails
costs what it would have said, never the cycle.
"""

from exporter.collector.cycle import FIRST_LIST_S, Collector, Pulse
from exporter.collector.idle import IdlePolicy
from exporter.collector.own_rows import LastReload
from exporter.collector.sources import CycleRules, Sources

__all__ = [
    "FIRST_LIST_S",
    "Collector",
    "CycleRules",
    "IdlePolicy",
    "LastReload",
    "Pulse",
    "Sources",
]
