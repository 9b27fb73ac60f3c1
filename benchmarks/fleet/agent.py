"""One node of the fleet: the exporter's own sources, collector and pages over a scenario."""

from collections.abc import Callable, Collection, Mapping

from benchmarks.fleet.nodes import Mapped
from exporter.agent.collector import Collector, Pulse, Sources
from exporter.agent.collector.wiring import make_collector
from exporter.agent.settings import Settings, load
from exporter.agent.simulation.load_scenario import describe
from exporter.agent.simulation.node import Node
from exporter.agent.sources.cgroups.processsource import SimulatedProcesses
from exporter.agent.sources.gpus.simulated import SimulatedGpus
from exporter.agent.sources.node.nodesource import StaticNodeSource
from exporter.agent.sources.pods.podsource import SimulatedPods
from exporter.agent.web import Pages
from exporter.model import (
    CgroupIdentity,
    Clock,
    Snapshot,
    SourceStatus,
    Unattributed,
    Unmeasured,
)

CYCLE_S = 5  # the counters are right at any cadence; this one keeps a hundred nodes in one process


def settings() -> Settings:
    """The exporter's defaults, but for the cadence; the page is for everybody on this machine."""
    return load({"collection.interval": [f"{CYCLE_S}s"], "web.open-page": ["true"]}, {})


class Agent:
    """The exporter of one node. Its cycles are the caller's to run."""

    def __init__(
        self,
        scenario: Mapped,
        settings: Settings,
        clock: Clock,
        blind: Callable[[], bool] = lambda: False,
    ) -> None:
        self._settings, self._clock, self._blind = settings, clock, blind
        self._node = Node(describe(scenario, "a node of the fleet"), clock)
        self._collector = self._begin()
        self.pages = Pages(lambda: self.snapshot, clock)

    def _begin(self) -> Collector:
        node, clock = self._node, self._clock
        sources = Sources(
            gpus=(SimulatedGpus(node, clock),),
            processes=_Processes(node, self._blind),
            pods=SimulatedPods(node.pod_table, clock=clock),
            nodes=(StaticNodeSource("node_simulated", node.facts, clock),),
        )
        return make_collector(self._settings, sources, clock)

    def restart(self) -> None:
        """A new exporter on the same node: its accounts begin again."""
        self._collector = self._begin()

    def cycle(self) -> None:
        """Do one cycle."""
        self._collector.cycle()

    @property
    def snapshot(self) -> Snapshot:
        """The newest."""
        return self._collector.snapshot

    @property
    def pulse(self) -> Pulse:
        """When the cycle's clock last moved."""
        return self._collector.pulse


KUBELET = "/system.slice/kubelet.service"  # so that the node has the kinds of groups of a real one


class _Processes(SimulatedProcesses):
    """Those of a node, which at times nobody can tell apart."""

    def __init__(self, node: Node, blind: Callable[[], bool]) -> None:
        super().__init__(node.cgroup_paths, node.process_infos, (*node.places(), KUBELET))
        self._is_blind = blind

    def resolve(self, pids: Collection[int]) -> Mapping[int, CgroupIdentity | Unattributed]:
        return {} if self._is_blind() else super().resolve(pids)

    def status(self) -> SourceStatus:
        if not self._is_blind():
            return super().status()
        return SourceStatus(
            self.name, up=False, detail="without hostPID", reason=Unmeasured.NO_HOSTPID
        )
