"""The simulated node under a real Prometheus: what its queries return is what happened.

With ``--long`` over five minutes; else over one, with the wider bounds that the shorter time needs.
"""

import math
import time
from collections import Counter
from collections.abc import Iterator

import pytest

from exporter.agent.simulation.load_scenario import load
from exporter.agent.simulation.node import Node
from exporter.model import ContainerKey
from tests.agent.simulation.truth import Truth, truth_of
from tests.e2e.programs import Exporter, Prometheus, eventually

SCRAPE_S = 5  # longer than most jobs of the scenario's namespace "batch" live
SAMPLES_PER_SECOND = 6

pytestmark = [pytest.mark.program("prometheus"), pytest.mark.timeout(600), pytest.mark.slow]


class Watched:
    """A node that was watched for some time: what Prometheus says of it, and the truth."""

    def __init__(self, prometheus: Prometheus, node: Node, seconds: int) -> None:
        self.prometheus = prometheus
        self.seconds = seconds
        eventually(self._is_covered, "enough scrapes", seconds + 60)
        self.end = time.time()
        end_ns = int(self.end * 1e9)
        self.truth: Truth = truth_of(node, end_ns - seconds * 10**9, end_ns)

    def _is_covered(self) -> bool:
        begin = f"mgpu_device_busy_seconds_total offset {self.seconds + 2 * SCRAPE_S}s"
        return bool(self.prometheus.query(begin))

    def increase(self, counter: str, *by: str) -> dict[tuple[str, ...], float]:
        """``increase()`` over the whole time, summed by these labels."""
        expression = f"sum by ({', '.join(by)}) (increase({counter}[{self.seconds}s]))"
        return self.prometheus.values(expression, by, self.end)

    def bound(self, busy_s: float, least: float) -> float:
        """The relative error to be allowed: ``least``, or three times the sampling noise.

        A driver's sample names one process, so that a share p of T seconds cannot be known better
        than √((1-p)/(6·T·p)) by anyone who reads the samples.
        """
        share = min(busy_s / self.seconds, 1.0)
        noise = math.sqrt((1 - share) / (SAMPLES_PER_SECOND * self.seconds * share))
        return max(least, 3 * noise)


@pytest.fixture(scope="module")
def seconds(pytestconfig: pytest.Config) -> int:
    return 300 if pytestconfig.getoption("--long") else 60


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory, seconds: int) -> Iterator[Watched]:
    start = int(time.time()) - 120  # so that everything in the scenario has begun
    node = Node(load("demo"), time, start * 10**9)
    folder = tmp_path_factory.mktemp("prometheus")
    with (
        Exporter("--simulate=demo", f"--simulate.start={start}") as exporter,
        Prometheus(exporter.ready().url, folder, f"{SCRAPE_S}s") as prometheus,
    ):
        yield Watched(prometheus, node, seconds)


def test_pods_are_there_by_name_with_their_use_and_memory(watched: Watched) -> None:
    lasting = {
        (key.namespace, key.pod)
        for key, _ in watched.truth.core_ns
        if isinstance(key, ContainerKey) and key.namespace in {"inference", "research", "media"}
    } - {("research", "debug-shell")}  # which comes and goes

    use = watched.prometheus.values("mgpu_container_core_utilization_ratio", ("namespace", "pod"))
    memory = watched.prometheus.values("mgpu_pod_memory_used_bytes", ("namespace", "pod"))

    assert lasting <= use.keys()
    assert lasting | {("research", "notebook-alice-0")} <= memory.keys()
    assert all(memory[pod] > 0 for pod in lasting - {("research", "notebook-bob-0")})


def test_device_time_is_within_two_percent_of_the_truth(watched: Watched) -> None:
    measured = watched.increase("mgpu_device_busy_seconds_total", "uuid")

    expected = {(u,): ns / 1e9 for u, ns in watched.truth.device_core_ns.items()}
    least = 0.02 if watched.seconds >= 300 else 0.05
    assert measured == pytest.approx(expected, rel=least)


def test_container_time_is_within_ten_percent_of_the_truth_or_the_sampling_noise(
    watched: Watched,
) -> None:
    measured = watched.increase(
        "mgpu_container_core_seconds_total", "namespace", "pod", "container", "uuid"
    )

    errors = {}
    for (owner, uuid), ns in watched.truth.core_ns.items():
        if isinstance(owner, ContainerKey) and owner.namespace not in {"batch", "kube-system"}:
            found = measured.get((*owner, uuid), 0.0)
            errors[owner] = (found * 1e9 / ns - 1, watched.bound(ns / 1e9, 0.10))
    assert len(errors) >= 8
    assert {o: e for o, e in errors.items() if abs(e[0]) > e[1]} == {}


def test_namespace_time_misses_nothing_of_jobs_shorter_than_the_scrape_interval(
    watched: Watched,
) -> None:
    measured = watched.increase("mgpu_namespace_core_seconds_total", "namespace", "uuid")

    expected: Counter[tuple[str, str]] = Counter()
    for key, ns in watched.truth.namespace_core_ns.items():
        expected[key] += ns
    for (namespace, uuid), ns in expected.items():
        if namespace == "batch":
            bound = watched.bound(ns / 1e9, 0.05)
            assert measured[namespace, uuid] == pytest.approx(ns / 1e9, rel=bound)
