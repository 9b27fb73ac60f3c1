"""The scenario ``eight-schemes`` under a real Prometheus: use, shares, and who is over one."""

import math
import re
import time
from collections.abc import Iterator

import pytest

from exporter.agent.simulation.load_scenario import load
from exporter.agent.simulation.node import Node
from exporter.model import ContainerKey
from tests.agent.simulation.truth import truth_of
from tests.e2e.programs import Exporter, Prometheus, eventually
from tests.rules.run import documented

NAME = "eight-schemes"
WINDOW_S = 16
BEGUN_S = 60  # what is measured began so long ago
PART = ("namespace", "pod", "container", "uuid")

pytestmark = [pytest.mark.program("prometheus"), pytest.mark.timeout(300), pytest.mark.slow]


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    folder = tmp_path_factory.mktemp("schemes")
    flags = (f"--simulate={NAME}", f"--simulate.start={_start()}")
    with (
        Exporter(*flags, f"--collection.window={WINDOW_S}s") as exporter,
        Prometheus(exporter.ready().url, folder, "2s") as running,
    ):
        covered = f"mgpu_device_utilization_ratio offset {WINDOW_S + 2}s"
        eventually(lambda: bool(running.query(covered)), "enough scrapes", WINDOW_S + 60)
        yield running


def _start(at: int = int(time.time()) - BEGUN_S) -> int:
    return at


def test_core_use_and_its_ratio_to_the_limit_are_what_happened(prometheus: Prometheus) -> None:
    at = time.time()
    [(_, moment)] = prometheus.values("mgpu_exporter_snapshot_timestamp_seconds", (), at).items()
    end_ns = int(moment * 1e9)
    node = Node(load(NAME), time, _start() * 10**9)
    truth = truth_of(node, end_ns - WINDOW_S * 10**9, end_ns)
    use, limit, ratio = (
        prometheus.values(f"mgpu_container_core_{family}", PART, at)
        for family in ("utilization_ratio", "limit_ratio", "limit_utilization_ratio")
    )
    shares = {
        (*owner, uuid): ns / truth.length_ns
        for (owner, uuid), ns in truth.core_ns.items()
        if isinstance(owner, ContainerKey)
    }
    # A sample names one process: a share p of T seconds is known to √(p(1-p)/(6·T)), no better.
    noise = {
        key: 3 * math.sqrt(share * (1 - share) / (6 * WINDOW_S)) + 0.01
        for key, share in shares.items()
    }
    assert len(shares) > 12
    assert {key: share for key, share in shares.items() if abs(use[key] - share) > noise[key]} == {}
    assert ratio == pytest.approx({key: use[key] / limit[key] for key in limit if key in use})


def test_a_reservation_is_nobody_s_use_and_nobody_s_allocation(prometheus: Prometheus) -> None:
    found = prometheus.query('{namespace="kai-resource-reservation"}')
    assert {one["metric"]["__name__"] for one in found} <= {"mgpu_pod_info"}


@pytest.mark.parametrize(
    ("title", "pod"),
    [
        ("offline, and paused by others on the card", "scoring-0"),
        ("the cause: over its share while a neighbour waits for its own", "crawl-0"),
    ],
)
def test_a_documented_expression_finds_the_pod(
    prometheus: Prometheus, title: str, pod: str
) -> None:
    expression = re.sub(r"\[\d+m\]", f"[{WINDOW_S}s]", documented("questions.md")[title])
    # Who is over its share, and who waits, changes with the time: on a busy machine it is asked in
    # another moment. It is found at some time, and nobody else ever.
    found = eventually(lambda: set(prometheus.values(expression, ("pod",))), pod, 180)
    assert found == {(pod,)}
