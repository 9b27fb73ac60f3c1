"""The cycle: polls the sources, joins their answers, updates the ledger, publishes a Snapshot.

It runs in its own thread at a steady cadence. Readers take the newest Snapshot and never reach in
here. Each source is guarded and timed, and its status is published. If one fails, only its own data
is missing, never the cycle.
"""

from exporter.agent.collector.cycle import FIRST_LIST_S, Collector, Pulse
from exporter.agent.collector.cyclerules import CycleRules, IdlePolicy
from exporter.agent.collector.polling import Sources

__all__ = [
    "FIRST_LIST_S",
    "Collector",
    "CycleRules",
    "IdlePolicy",
    "Pulse",
    "Sources",
]
