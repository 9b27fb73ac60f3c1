"""Allocated and used time of pods shorter than a scrape, in a real Prometheus: the truth."""

from collections import Counter, defaultdict
from collections.abc import Iterator

import pytest

from exporter.agent.simulation.load_scenario import load
from exporter.agent.simulation.node import Node
from exporter.agent.simulation.population import pod_key
from tests.agent.simulation.clock import START, ManualClock
from tests.agent.simulation.truth import truth_of
from tests.pages import pages
from tests.store import Store, Target

MINUTES = 11  # ten to look at, after the first
NS = 10**9
FROM, TO = START + 60 * NS, START + MINUTES * 60 * NS
BOUND_BEFORE_NS = 2 * NS  # a pod has its allocation so long before its containers start
CORES = {  # that the limits of the scenario's pods are, in cards
    "chat-7b-6c9f7d9c5b-x2lqz": 0.4,
    "rerank-58d4f8f7c4-9vkmt": 0.1,
    "notebook-alice-0": 0.2,
    "search-embed-7d5b9c6d8f-h4tqw": 0.5,
    "batch-scoring-5f6c7b8d9-2xk8p": 0.3,
    "speech-6b8c5d7f9d-lm4zn": 0.2,
    "transcode-0": 0.3,
    "notebook-bob-0": 0.25,
    "embed": 0.4,
    "finetune-lora-4hz7c": 1,
}
TARGET = Target({"job": "mgpu-exporter", "instance": "node-a"})

pytestmark = [pytest.mark.program("prometheus"), pytest.mark.slow]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with Store(tmp_path_factory.mktemp("prometheus")) as store:
        for at, page in pages("demo", MINUTES):
            store.scrape(TARGET, page, at)
        yield store


def hours(store: Store, family: str) -> dict[str, float]:
    """GPU-hours by namespace in the ten minutes, as documents and boards ask for them."""
    found = store.values(
        f"sum by (namespace) (increase({family}[10m])) / 3600", TO / NS, "namespace"
    )
    return {namespace: value for (namespace,), value in found.items()}


@pytest.fixture(scope="module")
def node() -> Node:
    return Node(load("demo"), ManualClock())


def allocated_hours(node: Node) -> dict[str, float]:
    """The truth: allocated cores times the time from each pod's binding to its end."""
    spent: defaultdict[str, float] = defaultdict(float)
    begin_ns, end_ns = FROM - START, TO - START
    for spec in node.scenario.pods:
        key = pod_key(node.scenario.seed, spec)
        for life in spec.span.occurrences(key, begin_ns, end_ns + BOUND_BEFORE_NS):
            there = min(life.end_ns, end_ns) - max(life.start_ns - BOUND_BEFORE_NS, begin_ns)
            spent[spec.namespace] += CORES.get(spec.name, 0) * max(there, 0)
    return {namespace: ns / NS / 3600 for namespace, ns in spent.items() if ns}


def used_hours(node: Node) -> dict[str, float]:
    spent: Counter[str] = Counter()
    for (namespace, _), ns in truth_of(node, FROM, TO).namespace_core_ns.items():
        spent[namespace] += ns
    return {namespace: ns / NS / 3600 for namespace, ns in spent.items()}


def test_allocated_gpu_hours_of_short_pods_are_the_truth(store: Store, node: Node) -> None:
    truth = allocated_hours(node)
    found = hours(store, "mgpu_namespace_allocated_core_seconds_total")

    assert "batch" in truth
    assert found == pytest.approx(truth, rel=0.03)
    by_pod = hours(store, "mgpu_pod_allocated_core_seconds_total")
    assert by_pod["batch"] < 0.5 * truth["batch"]  # what begins and ends with a pod is lost


def test_used_gpu_hours_of_short_pods_are_the_truth(store: Store, node: Node) -> None:
    """But for what the driver's samples name nobody for, which stands beside it."""
    truth = used_hours(node)["batch"]
    found = hours(store, "mgpu_namespace_core_seconds_total")["batch"]
    nobodys = "mgpu_device_unattributed_core_seconds_total{gpu='2'}"

    assert 0.9 * truth < found < 1.03 * truth
    assert found + hours(store, nobodys)[""] > 0.97 * truth
