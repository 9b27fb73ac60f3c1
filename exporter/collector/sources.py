"""Everything that the cycle asks."""

from collections.abc import Callable
from dataclasses import dataclass

from exporter.cgroups.source import ProcessSource
from exporter.gpus.source import GpuSource
from exporter.groups.source import GroupSource
from exporter.model import SourceStatus
from exporter.node.source import NodeSource
from exporter.pods.source import PodSource

Listening = PodSource | NodeSource | GroupSource
Reporting = ProcessSource | PodSource | NodeSource | GroupSource


@dataclass(frozen=True, slots=True)
class Sources:
    """All sources. Of two ``nodes`` or ``groups`` that know the same, the later one counts.

    ``others`` says how those fare that stand in for one of these now.
    """

    gpus: tuple[GpuSource, ...]
    processes: ProcessSource
    pods: PodSource
    nodes: tuple[NodeSource, ...] = ()
    others: Callable[[], tuple[SourceStatus, ...]] = tuple
    groups: tuple[GroupSource, ...] = ()

    @property
    def listening(self) -> tuple[Listening, ...]:
        """Those that are to be started."""
        return (self.pods, *self.nodes, *self.groups)

    @property
    def reporting(self) -> tuple[Reporting, ...]:
        """Those that say for themselves how they fare."""
        return (self.processes, self.pods, *self.nodes, *self.groups)

    @property
    def all(self) -> tuple[GpuSource | Reporting, ...]:
        """Those that are to be closed, in this order: a driver may have to be waited for."""
        return (*self.reporting, *self.gpus)
