"""OpenCost's own query, asked of a real Prometheus that scraped simulated nodes."""

from collections import defaultdict
from collections.abc import Iterator

import pytest

from exporter.agent.collector.wiring import make_collector, open_sources
from exporter.agent.settings import load
from exporter.metrics.compat.compatpage import CompatPage
from exporter.metrics.text import Format
from exporter.model import Snapshot
from tests.agent.simulation.clock import ManualClock
from tests.store import Store, Target

# opencost/opencost, pkg/costmodel/allocation.go; newer ones group by uid as well
QUERY = (
    'avg(avg_over_time(container_gpu_allocation{container!="", container!="POD", node!=""}[5m]))'
    " by (container, pod, namespace, node, uid)"
)
BY = ("namespace", "pod", "container", "node", "uid")
Found = dict[tuple[str, ...], float]

pytestmark = pytest.mark.program("prometheus")


def allocated(snapshot: Snapshot) -> Found:
    """What each container is allocated, by the labels of the query."""
    uids = {(p.namespace, p.name): p.info.uid for p in snapshot.facts.pods if p.info}
    found: Found = defaultdict(float)
    for one in snapshot.facts.containers:
        if one.owner.container and one.allocation.gpus is not None:
            uid = uids[one.owner.namespace, one.owner.pod]
            found[*one.owner, "node-1", uid] += one.allocation.gpus
    return found


@pytest.fixture(scope="module", params=["demo", "eight-schemes", "mixed"])
def asked(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Found, Found]]:
    """What the query returns after some scrapes of a node, and what it should."""
    clock = ManualClock()
    settings = load({"simulate": [request.param]}, {})
    collector = make_collector(settings, open_sources(settings, clock), clock)
    compat = CompatPage(["opencost"], "node-1")
    target = Target({"job": "mgpu-exporter", "instance": "10.0.0.1:10045"})
    told: dict[tuple[str, ...], list[float]] = defaultdict(list)
    with Store(tmp_path_factory.mktemp("prometheus")) as store:
        at = 0.0
        for _ in range(10):
            clock.move(1)
            collector.cycle()
            snapshot = collector.snapshot
            at = snapshot.unix_ns / 1e9
            store.scrape(target, compat.render(snapshot, Format.TEXT).decode(), at)
            for key, gpus in allocated(snapshot).items():
                told[key].append(gpus)
        yield store.values(QUERY, at, *BY), {key: sum(n) / len(n) for key, n in told.items()}


def test_its_query_finds_what_every_container_is_allocated(asked: tuple[Found, Found]) -> None:
    found, expected = asked
    assert found == pytest.approx(expected)
    assert any(0 < gpus < 1 for gpus in found.values())
    assert all(uid for *_, uid in found)
