"""The sources of the cycle."""

from collections.abc import Callable
from dataclasses import dataclass

from exporter.model import SourceStatus
from exporter.sources.cgroups.source import ProcessSource
from exporter.sources.gpus.source import GpuSource
from exporter.sources.groups.source import GroupSource
from exporter.sources.node.source import NodeSource
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
