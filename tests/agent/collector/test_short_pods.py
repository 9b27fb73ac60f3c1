"""Pods that live for some seconds on a simulated node: what they are billed, against the truth."""

import random
from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest

from exporter.agent.collector import Collector, Sources
from exporter.agent.collector.wiring import make_collector
from exporter.agent.settings import load
from exporter.agent.simulation.load_scenario import describe
from exporter.agent.simulation.node import Node
from exporter.agent.simulation.population import pod_key
from exporter.agent.sources.cgroups.processsource import SimulatedProcesses
from exporter.agent.sources.gpus.simulated import SimulatedGpus
from exporter.agent.sources.node.nodesource import StaticNodeSource
from exporter.agent.sources.pods.podsource import SimulatedPods
from exporter.answers.bill.parts import NOBODY, USE, CardStep, Had, Payer, divide
from exporter.model import ContainerHolding
from tests.agent.simulation.clock import SECOND, START, ManualClock
from tests.agent.simulation.pods import gpu_uuid, shared
from tests.agent.simulation.truth import truth_of

PODS, SECONDS = 42, 172
SHARE = 0.25
SAMPLE_S = 0.17
BOUND_BEFORE_NS = 2 * SECOND  # a pod has its allocation so long before its containers start


def job(number: int) -> dict[str, Any]:
    """A pod of 4 to 10 seconds that comes again, and uses less than its share."""
    pod = {
        "name": f"job-{number}",
        "namespace": "batch",
        "for": ["4s", "10s"],
        "every": "12300ms",
        "start": f"{5000 + 1700 * number}ms",
        "containers": [
            {"name": "main", "processes": [{"device": 0, "duty": 0.1, "period": "20ms"}]}
        ],
    }
    return shared(pod, "mgpu", [0], round(100 * SHARE), 2)


class Watched(NamedTuple):
    """A node after some minutes in which pods came and went, at cycles that were not even."""

    node: Node
    collector: Collector
    end_ns: int
    ended: Mapping[str, ContainerHolding]
    worst_s: float  # what of any container was allocated and neither used nor idle, at any cycle


def lost_s(held: ContainerHolding) -> float:
    """What was allocated to a container, less what it used or left idle of that."""
    time = held.allocated
    within_ns = (held.used.busy.core or 0) - (time.borrowed_ns or 0)
    return ((time.core_ns or 0) - (time.idle_ns or 0) - within_ns) / SECOND


@pytest.fixture(scope="module", params=["0s", "700ms"], ids=["known at once", "known late"])
def watched(request: pytest.FixtureRequest) -> Watched:
    scenario = {
        "devices": [{"model": "NVIDIA A10", "memory": "24GiB", "uuid": gpu_uuid(0)}],
        "pods": [job(number) for number in range(3)],
        "status_delay": request.param,
    }
    clock, uneven = ManualClock(), random.Random(3)  # noqa: S311 - no secret
    node = Node(describe(scenario, "short"), clock)
    sources = Sources(
        gpus=(SimulatedGpus(node, clock),),
        processes=SimulatedProcesses(node.cgroup_paths),
        pods=SimulatedPods(node.pod_table, clock=clock),
        nodes=(StaticNodeSource("node", node.facts, clock),),
    )
    collector, worst_s = make_collector(load({}, {}), sources, clock), 0.0
    ended: dict[str, ContainerHolding] = {}
    while clock.now_ns < START + SECONDS * SECOND:
        clock.move(1 + uneven.uniform(-0.4, 0.4))
        collector.cycle()
        for held in collector.snapshot.facts.containers:
            if held.uuid and held.allocated.idle_ns is not None:
                worst_s = max(worst_s, abs(lost_s(held)))
                if held.ended:
                    ended[held.owner.pod] = held
    return Watched(node, collector, clock.now_ns, ended, worst_s)


def allocated_s(watched: Watched) -> tuple[int, float]:
    """How many pods there were, and the truth: their share times the time from binding to end."""
    pods, spent_ns, end_ns = 0, 0, watched.end_ns - START
    for spec in watched.node.scenario.pods:
        key = pod_key(watched.node.scenario.seed, spec)
        for life in spec.span.occurrences(key, 0, end_ns + BOUND_BEFORE_NS):
            there_ns = min(life.end_ns, end_ns) - max(life.start_ns - BOUND_BEFORE_NS, 0)
            if there_ns > 0:
                pods, spent_ns = pods + 1, spent_ns + there_ns
    return pods, SHARE * spent_ns / SECOND


def test_what_a_pod_was_allocated_it_used_or_left_idle_at_any_cycle(watched: Watched) -> None:
    assert len(watched.ended) > PODS // 2
    assert watched.worst_s <= 2 * SHARE * SAMPLE_S
    last = [pod for pod, held in watched.ended.items() if abs(lost_s(held)) > 1e-6]
    assert len(last) <= 1  # its last window is not over


def test_short_pods_are_billed_by_use_what_they_were_allocated(watched: Watched) -> None:
    facts = watched.collector.snapshot.facts
    [device] = facts.devices
    [batch] = [one for one in facts.namespaces if one.uuid]
    time = batch.allocated
    had = Had(_seconds(time.gpu_ns), _seconds(batch.used.busy.core), _seconds(time.borrowed_ns))
    step = CardStep(
        {Payer("batch"): had},
        _seconds(device.allocated.free_ns),
        _seconds(device.allocated.overcommitted_ns),
        _seconds(sum(one.busy.core or 0 for one in device.unattributed.values())),
        _seconds(device.unobserved_ns),
    )
    billed = sum(s for (payer, _), s in divide(step, USE).items() if payer != NOBODY)
    pods, truth = allocated_s(watched)

    assert pods == PODS
    assert billed == pytest.approx(truth, rel=0.015)
    used = sum(truth_of(watched.node, START, watched.end_ns).core_ns.values()) / SECOND
    assert _seconds(batch.used.busy.core) == pytest.approx(used, rel=0.03)


def _seconds(ns: int | None) -> float:
    assert ns is not None
    return ns / SECOND
