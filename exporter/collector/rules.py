"""What may change of the cycle while it runs."""

from dataclasses import dataclass, field

from exporter.allocations.rules import Rules
from exporter.gpus.source import Demand
from exporter.pods.decode import KEEP_NOTHING, Keep
from exporter.pods.labels import ALLOW_NOTHING, Allowed

MOST_SERIES = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleRules:
    """Frozen, so that they are taken up whole: between two cycles.

    ``window_ns`` and ``retention_ns`` are the ledger's; ``demand`` is what GPU sources are to read,
    ``keep`` what the source of pods is to keep of them, ``allowed`` what is shown of that;
    ``budget`` is the share of one CPU that the exporter may use, 0 for any; ``by_step``: each step
    of a Slurm job is a group of its own.
    """

    interval_ns: int = 10**9
    window_ns: int = 15 * 10**9
    retention_ns: int = 300 * 10**9
    most_series: int = MOST_SERIES
    allotments: Rules = field(default_factory=Rules)
    allowed: Allowed = ALLOW_NOTHING
    keep: Keep = KEEP_NOTHING
    demand: Demand = field(default_factory=Demand)
    budget: float = 0.0
    by_step: bool = False
