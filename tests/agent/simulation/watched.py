"""A described node, watched for some time, as fast as the cycle can: its page, and the truth."""

from collections.abc import Sequence

from exporter.agent.collector import Sources
from exporter.agent.collector.wiring import make_collector
from exporter.agent.settings import load
from exporter.agent.simulation.description import Scenario
from exporter.agent.simulation.node import Node
from exporter.agent.sources.cgroups.processsource import SimulatedProcesses
from exporter.agent.sources.gpus.simulated import SimulatedGpus
from exporter.agent.sources.node.nodesource import StaticNodeSource
from exporter.agent.sources.pods.podsource import SimulatedPods
from exporter.metrics.text import Format, Renderer
from tests.agent.simulation.clock import SECOND, START, ManualClock
from tests.agent.simulation.truth import Truth, truth_of
from tests.e2e.programs import Page

BEGUN_S = 20  # before the watch: samples are there, and who was to come has come


class Watched:
    """The gauges of the page are averages over the time that the truth is about."""

    def __init__(self, scenario: Scenario, seconds: int) -> None:
        clock = ManualClock(START)
        self.node = Node(scenario, clock, START)
        sources = Sources(
            gpus=(SimulatedGpus(self.node, clock),),
            processes=SimulatedProcesses(self.node.cgroup_paths),
            pods=SimulatedPods(self.node.pod_table, clock=clock),
            nodes=(StaticNodeSource("node", self.node.facts, clock),),
        )
        settings = load({"collection.window": [f"{seconds}s"]}, {})
        collector = make_collector(settings, sources, clock)
        for _ in range(BEGUN_S + seconds):
            clock.move(1)
            collector.cycle()
        self.page = Page(Renderer().render(collector.snapshot, Format.TEXT).decode())
        end_ns = clock.now_ns
        self.truth: Truth = truth_of(self.node, end_ns - seconds * SECOND, end_ns)

    def read(self, name: str, by: Sequence[str]) -> dict[tuple[str, ...], float]:
        """A family of the page by these labels."""
        return {
            tuple(labels[label] for label in by): value for labels, value in self.page.all(name)
        }
