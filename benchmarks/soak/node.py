"""The node that is soaked: pods that come and go, devices and sources that fail, and come back."""

from collections.abc import Collection, Mapping
from typing import Any

from exporter.agent.collector import Sources
from exporter.agent.simulation.load_scenario import describe
from exporter.agent.simulation.node import Node
from exporter.agent.sources.cgroups.processsource import SimulatedProcesses
from exporter.agent.sources.gpus.simulated import SimulatedGpus
from exporter.agent.sources.node.nodesource import StaticNodeSource
from exporter.agent.sources.pods.podsource import SimulatedPods
from exporter.model import CgroupIdentity, Clock, PodTable, Unattributed
from tests.agent.simulation.pods import gpu_uuid, shared

SECOND = 10**9
DEVICES = 4
JOBS = 12
SCHEMES = ("mgpu", "qgpu", "hami", "nvidia")
HOURS = 24  # for which there are faults


def job(number: int) -> dict[str, Any]:
    """A pod that comes again every quarter of a minute or so, with two containers."""
    device = number % DEVICES
    work = {"device": device, "duty": 0.3, "memory": "1GiB", "memory_active": 0.4}
    pod = {
        "name": f"job-{number}",
        "namespace": f"team-{number % 3}",
        "for": ["2s", "40s"],
        "every": f"{11_000 + 700 * number}ms",
        "start": f"{170 * number}ms",
        "containers": [
            {"name": "main", "processes": [{**work, "jitter": 0.5}]},
            {"name": "side", "processes": [{**work, "duty": 0.1}]},
        ],
    }
    return shared(pod, SCHEMES[number % len(SCHEMES)], [device], 10, 2)


def scenario() -> dict[str, Any]:
    """As a scenario file has it (docs/scenarios.md)."""
    process = {"device": [0, 1], "duty": 0.5, "memory": "3GiB", "jitter": 1}
    faults = [
        {"device": 1, "state": state, "from": f"{at}s", "to": f"{at + 9}s"}
        for turn in range(HOURS * 10)
        for state in [("lost", "stuck", "failing")[turn % 3]]
        for at in [60 + 360 * turn]
    ]
    return {
        "devices": [
            {"model": "NVIDIA A10", "memory": "24GiB", "uuid": gpu_uuid(card)}
            for card in range(DEVICES)
        ],
        "status_delay": "700ms",
        "pods": [
            *map(job, range(JOBS)),
            {
                "name": "server",
                "namespace": "team-0",
                "containers": [{"name": "main", "processes": [process]}],
            },
        ],
        "processes": [{"device": 2, "duty": 0.4, "for": "2s", "every": "5s", "memory": "1GiB"}],
        "faults": faults,
    }


class Failing:
    """Fails for some seconds every so often."""

    def __init__(self, clock: Clock, every_s: int, for_s: int) -> None:
        self._clock = clock
        self._every_ns, self._for_ns = every_s * SECOND, for_s * SECOND

    def try_it(self) -> None:
        """Raise OSError while it fails."""
        if self._clock.monotonic_ns() % self._every_ns < self._for_ns:
            raise OSError("away for a while")


class FailingPods(SimulatedPods):
    """An API server that is away now and then."""

    def __init__(self, node: Node, clock: Clock) -> None:
        super().__init__(node.pod_table, clock=clock)
        self._failing = Failing(clock, 240, 12)

    def table(self) -> PodTable:
        """See ``PodSource``."""
        self._failing.try_it()
        return super().table()


class FailingProcesses(SimulatedProcesses):
    """A cgroup file system that cannot be read now and then."""

    def __init__(self, node: Node, clock: Clock) -> None:
        super().__init__(node.cgroup_paths, node.process_infos)
        self._failing = Failing(clock, 420, 5)

    def resolve(self, pids: Collection[int]) -> Mapping[int, CgroupIdentity | Unattributed]:
        """See ``ProcessSource``."""
        self._failing.try_it()
        return super().resolve(pids)


def sources(clock: Clock) -> Sources:
    """All of the node's sources."""
    node = Node(describe(scenario(), "soak"), clock)
    return Sources(
        gpus=(SimulatedGpus(node, clock),),
        processes=FailingProcesses(node, clock),
        pods=FailingPods(node, clock),
        nodes=(StaticNodeSource("node_simulated", node.facts, clock),),
    )
