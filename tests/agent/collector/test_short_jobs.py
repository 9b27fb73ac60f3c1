"""Jobs of a second and a half are named, although rings are read each few seconds."""

from collections.abc import Collection, Mapping

import pytest

from exporter.agent.collector import Collector, Sources
from exporter.agent.collector.cyclerules import cycle_rules
from exporter.agent.ledger import Ledger
from exporter.agent.settings import load
from exporter.agent.simulation.load_scenario import describe
from exporter.agent.simulation.node import Node
from exporter.agent.sources.cgroups.processsource import SimulatedProcesses
from exporter.agent.sources.gpus.simulated import SimulatedGpus
from exporter.agent.sources.pods.podsource import SimulatedPods
from exporter.model import CgroupIdentity, Unattributed
from tests.agent.simulation.clock import ManualClock

SECOND = 10**9
NAMED = 0.97


class Processes(SimulatedProcesses):
    """As on a real node: a process that nobody asked about while it lived has exited."""

    def __init__(self, node: Node) -> None:
        super().__init__(node.cgroup_paths)
        self._node = node
        self._known: set[int] = set()

    def resolve(self, pids: Collection[int]) -> Mapping[int, CgroupIdentity | Unattributed]:
        self._known.update(self._node.process_infos().keys() & set(pids))
        found = super().resolve(pids)
        return {
            pid: one if pid in self._known else Unattributed.EXITED for pid, one in found.items()
        }


@pytest.mark.parametrize("watched", [True, False])
@pytest.mark.parametrize("rule", ["last", "random"])
def test_jobs_of_a_second_and_a_half_are_named(rule: str, *, watched: bool) -> None:
    job = {"device": 0, "duty": 0.9, "period": "100ms"}
    pods = [
        {
            "name": f"job-{number}",
            "namespace": "batch",
            "start": f"{3000 + 700 * number}ms",
            "for": "1500ms",
            "every": every,
            "containers": [{"name": "main", "processes": [job]}],
        }
        for number, every in enumerate(("4300ms", "7900ms", "11300ms"))
    ]
    device = {"model": "NVIDIA A10", "memory": "24GiB"}
    clock = ManualClock()
    file = {"devices": [device], "sample_rule": rule, "seed": 1, "pods": pods}
    node = Node(describe(file, "jobs"), clock)
    pods_source = SimulatedPods(node.pod_table, clock=clock)
    ledger = Ledger(300 * SECOND, 15 * SECOND)
    sources = Sources((SimulatedGpus(node, clock),), Processes(node), pods_source)
    collector = Collector(sources, ledger, clock, cycle_rules(load({}, {})))
    collector.is_watched = lambda: watched
    for _ in range(200):
        clock.move(1)
        collector.cycle()
    (card,) = ledger.devices.values()
    busy_ns = card.total.counters.core
    without_owner = sum(account.counters.core for account in card.unattributed.values())
    assert busy_ns > 30 * SECOND
    assert without_owner <= (1 - NAMED) * busy_ns
