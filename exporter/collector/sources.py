"""The sources of the cycle, and the rules that may change while it runs."""

from collections.abc import Callable
from dataclasses import dataclass, field

from exporter.allocations.rules import Rules
from exporter.model import SourceStatus
from exporter.sources.cgroups.source import ProcessSource
from exporter.sources.gpus.source import Demand, GpuSource
from exporter.sources.groups.source import GroupSource
from exporter.sources.node.source import NodeSource
from exporter.sources.pods.decode import KEEP_NOTHING, KeyPrefixes
from exporter.sources.pods.labels import ALLOW_NOTHING, LabelAllowList
from exporter.sources.pods.source import PodSource

Listening = PodSource | NodeSource | GroupSource
Reporting = ProcessSource | PodSource | NodeSource | GroupSource


@dataclass(frozen=True, slots=True)
class Sources:
    """All sources. If two ``nodes`` or ``groups`` have the same fact, the later one wins.

    ``others`` returns the statuses of sources that replace one of these now.
    """

    gpus: tuple[GpuSource, ...]
    processes: ProcessSource
    pods: PodSource
    nodes: tuple[NodeSource, ...] = ()
    others: Callable[[], tuple[SourceStatus, ...]] = tuple
    groups: tuple[GroupSource, ...] = ()

    @property
    def listening(self) -> tuple[Listening, ...]:
        """The sources that must be started."""
        return (self.pods, *self.nodes, *self.groups)

    @property
    def reporting(self) -> tuple[Reporting, ...]:
        """The sources with a status of their own."""
        return (self.processes, self.pods, *self.nodes, *self.groups)

    @property
    def all(self) -> tuple[GpuSource | Reporting, ...]:
        """The sources in the order in which to close them: a driver may have to be waited for."""
        return (*self.reporting, *self.gpus)


MOST_SERIES = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleRules:
    """The rules of the cycle. Frozen, so that they are applied as a whole between two cycles.

    ``window_ns`` and ``retention_ns`` are the ledger's; ``allocations`` are the rules of decoding.
    ``demand`` is what GPU sources read, ``keep`` what the source of pods keeps, ``allowed`` what is
    shown of that. ``budget`` is the share of one CPU that the exporter may use, 0 for any.
    ``by_step``: each step of a Slurm job is a group of its own.
    """

    interval_ns: int = 10**9
    window_ns: int = 15 * 10**9
    retention_ns: int = 300 * 10**9
    most_series: int = MOST_SERIES
    allocations: Rules = field(default_factory=Rules)
    allowed: LabelAllowList = ALLOW_NOTHING
    keep: KeyPrefixes = KEEP_NOTHING
    demand: Demand = field(default_factory=Demand)
    budget: float = 0.0
    by_step: bool = False
