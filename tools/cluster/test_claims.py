"""Claims that the real scheduler allocates and the real kubelet prepares (DRA)."""

from collections.abc import Iterator
from typing import Any

import pytest

from tools.cluster import claims
from tools.cluster.board import MEMORY, uuid
from tools.cluster.claims import claim, template
from tools.cluster.kubectl import Document
from tools.cluster.programs import Program, eventually
from tools.cluster.stage import Running, Stage
from tools.cluster.workloads import NAMESPACE, container, pod

pytestmark = pytest.mark.quick
GIB = 1 << 30
CORE, BYTES = "mgpu_container_core_limit_ratio", "mgpu_container_memory_limit_bytes"

REPLICAS = "mgpu_container_allocated_replicas"
Limits = tuple[float | None, float | None, str]


@pytest.fixture(scope="module", autouse=True)
def driver(stage: Stage) -> Iterator[Program]:
    running = claims.driver(stage.state, stage.logs, stage.plane, stage.board)
    running.start()
    try:
        stage.kubectl.apply(*claims.classes())
        eventually(lambda: offered(stage, running) == 4, "the driver's slices are published")
        yield running
    finally:
        running.stop()


@pytest.fixture(autouse=True)
def nothing_is_left(stage: Stage) -> Iterator[None]:
    """A card that one case holds is none for the next."""
    yield
    kinds = "pods,resourceclaims,resourceclaimtemplates"
    stage.kubectl("delete", kinds, "--all", "-n", NAMESPACE, "--wait=true")


@pytest.mark.parametrize(
    ("gpu", "capacity", "limits"),
    [
        pytest.param(claims.WHOLE, {}, (None, MEMORY, "enforced"), id="a whole card"),
        pytest.param(claims.MEMORY, {"memory": "1Gi"}, (None, GIB, "shared"), id="its memory"),
        pytest.param(claims.UNKNOWN, {"cores": "33"}, (0.25, MEMORY, "shared"), id="any driver"),
    ],
)
def test_what_a_claim_has_consumed_is_the_containers_limit(
    stage: Stage, gpu: int, capacity: dict[str, str], limits: Limits
) -> None:
    stage.kubectl.apply(template("one", gpu, **capacity))
    running = stage.run(claiming("claiming", resourceClaimTemplateName="one"))["main"]
    assert limits_of(stage, running, gpu) == limits
    stage.attributed({running: gpu})


def test_pods_have_parts_of_one_card_until_it_is_consumed(stage: Stage) -> None:
    """By HAMi's driver's shapes: per cent of the cores, and memory in steps of 1 MiB."""
    wanted = {"small": ("30", "1000000Ki"), "large": ("60", "2Gi"), "late": ("20", "1Gi")}
    for name, (cores, memory) in wanted.items():
        stage.kubectl.apply(claim(name, claims.PARTS, cores=cores, memory=memory))
    small = stage.run(claiming("small", resourceClaimName="small"))["main"]
    large = stage.run(claiming("large", resourceClaimName="large"))["main"]
    assert limits_of(stage, small, claims.PARTS) == (0.3, 977 << 20, "enforced")
    assert limits_of(stage, large, claims.PARTS) == (0.6, 2 * GIB, "enforced")
    assert consumed(stage, "small") == {"cores": "30", "memory": "977Mi"}
    stage.kubectl.apply(claiming("late", resourceClaimName="late"))
    stage.kubectl.wait(NAMESPACE, "pod/late", "PodScheduled=False")
    assert not stage.agent.scrape().all(BYTES, pod="late")
    stage.delete("large")
    stage.kubectl.wait(NAMESPACE, "pod/late", "Ready")
    late = stage.running("late")["main"]
    assert limits_of(stage, late, claims.PARTS) == (0.2, GIB, "enforced")


def test_containers_that_share_a_claim_are_promised_nothing_each(stage: Stage) -> None:
    stage.kubectl.apply(claim("common", claims.WHOLE))
    names = ("left", "right")
    pods = [stage.run(claiming(name, resourceClaimName="common"))["main"] for name in names]
    for running in pods:
        assert limits_of(stage, running, claims.WHOLE) == (None, None, "shared")
        assert stage.agent.scrape().value(REPLICAS, **running.labels) == 1


def test_a_claim_that_stands_for_an_extended_resource_is_the_containers_limit(
    stage: Stage,
) -> None:
    """The pod names no claim; the scheduler makes one (KEP-5004)."""
    document = pod("extended", container(resources={"limits": {claims.EXTENDED: "1"}}))
    running = stage.run(document)["main"]
    assert limits_of(stage, running, claims.WHOLE) == (None, MEMORY, "enforced")


def claiming(name: str, **source: str) -> Document:
    """A pod whose container has a claim."""
    one = container(resources={"claims": [{"name": "gpu"}]})
    return pod(name, one, resourceClaims=[{"name": "gpu", **source}])


def limits_of(stage: Stage, running: Running, gpu: int) -> Limits:
    """Share of the cores, memory and policy of a container on a card, as soon as it has them."""
    labels = {**running.labels, "uuid": uuid(gpu)}
    page = stage.agent.when(
        lambda page: page.all("mgpu_container_allocation_info", **labels, scheme="dra"),
        f"{running.pod} has an allocation on GPU {gpu}",
    )
    assert not page.all("mgpu_container_allocation_info", **running.labels, uuid="")
    ((info, _),) = page.all("mgpu_container_allocation_info", **running.labels)
    return page.value(CORE, **labels), page.value(BYTES, **labels), info["policy"]


def consumed(stage: Stage, name: str) -> dict[str, Any]:
    """What a claim consumes, as the scheduler wrote it."""
    status = stage.kubectl.get("resourceclaim", name, "-n", NAMESPACE)["status"]
    (result,) = status["allocation"]["devices"]["results"]
    return dict(result["consumedCapacity"])


def offered(stage: Stage, running: Program) -> int:
    """How many devices the driver has published."""
    running.check()
    slices = stage.kubectl.get("resourceslices")["items"]
    return sum(len(one["spec"].get("devices", ())) for one in slices)
