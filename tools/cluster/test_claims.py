"""Claims that the real scheduler allocates and the real kubelet prepares (DRA)."""

import json
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from tests.e2e.programs import Page
from tools.cluster import claims
from tools.cluster.agent import NAME, Agent
from tools.cluster.board import CLAIMED, INSTANCE, MEMORY, uuid
from tools.cluster.claims import claim, template
from tools.cluster.kubectl import Document, KubectlError
from tools.cluster.programs import Program, eventually
from tools.cluster.stage import Running, Stage
from tools.cluster.workloads import NAMESPACE, container, pod

pytestmark = pytest.mark.quick
GIB = 1 << 30
CORE, BYTES = "mgpu_container_core_limit_ratio", "mgpu_container_memory_limit_bytes"

REPLICAS = "mgpu_container_allocated_replicas"
ALLOCATED = "mgpu_container_allocated_gpus"
ALLOCATED_S = "mgpu_namespace_allocated_gpu_seconds_total"
UNHEALTHY = "mgpu_pod_unhealthy_devices"
ADMIN = "resource.kubernetes.io/admin-access"
Limits = tuple[float | None, float | None, str]


@pytest.fixture(scope="module", autouse=True)
def driver(stage: Stage) -> Iterator[Program]:
    running = claims.driver(stage.state, stage.logs, stage.plane, stage.board)
    running.start()
    try:
        stage.kubectl.apply(*claims.classes())
        eventually(
            lambda: offered(stage, running) == len(CLAIMED), "the driver's slices are published"
        )
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
        pytest.param(claims.WHOLE, {}, (1.0, MEMORY, "enforced"), id="a whole card"),
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
    shares = [allocated(stage, name) for name in ("small", "large")]
    assert shares[0]["consumedCapacity"] == {"cores": "30", "memory": "977Mi"}
    assert len({share["shareID"] for share in shares}) == len(shares)
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
    assert limits_of(stage, running, claims.WHOLE) == (1.0, MEMORY, "enforced")


FOUND_S = 20.0  # devices are looked for every 30 s otherwise


def test_an_instance_that_is_made_for_a_claim_is_its_pods_and_never_its_whole_board(
    stage: Stage,
) -> None:
    stage.kubectl.apply(template("part", claims.DIVIDED))
    running = stage.run(claiming("part", resourceClaimTemplateName="part"))["main"]
    stage.board.open(running.pid, claims.DIVIDED)  # as the board lists it before it is read as one
    board = {"namespace": NAMESPACE, "uuid": uuid(claims.DIVIDED)}
    seen = {**running.labels, "uuid": board["uuid"]}
    stage.agent.when(
        lambda page: page.all("mgpu_container_memory_used_bytes", **seen), "its process is seen"
    )
    assert not stage.agent.scrape().value(ALLOCATED_S, **board)
    stage.board.divide(claims.DIVIDED)
    begun = time.monotonic()
    own = {**running.labels, "uuid": INSTANCE}
    page = stage.agent.when(lambda page: page.value(ALLOCATED, **own), "the instance is its pod's")
    took_s = time.monotonic() - begun
    stage.notes.append(f"the instance was its pod's after {took_s:.1f} s")
    try:
        assert took_s < FOUND_S
        assert page.value(ALLOCATED, **own) == pytest.approx(1 / 7)
        assert not page.value(ALLOCATED_S, **board)
    finally:
        stage.board.unite(claims.DIVIDED)


def test_how_the_driver_says_that_a_device_is_stands_at_its_pod(
    stage: Stage, driver: Program
) -> None:
    """By the kubelet's status of the container (KEP-4680)."""
    stage.kubectl.apply(claim("sick", claims.WHOLE))
    stage.run(claiming("sick", resourceClaimName="sick"))
    for health, count in (("Healthy", 0), ("Unhealthy", 1), ("Healthy", 0)):
        said = {claims.NVIDIA: {f"gpu-{claims.WHOLE}": health}}
        (stage.state / claims.HEALTH).write_text(json.dumps(said))
        driver.reload()
        stage.agent.when(partial(says_unhealthy, count), f"{count} devices are unhealthy")


def test_check_names_devices_that_their_driver_or_a_rule_has_tainted(stage: Stage) -> None:
    rule = {
        "apiVersion": "resource.k8s.io/v1beta2",
        "kind": "DeviceTaintRule",
        "metadata": {"name": "spare"},
        "spec": {
            "deviceSelector": {"driver": claims.HAMI},
            "taint": {"key": "example.com/spare", "effect": "NoSchedule"},
        },
    }
    stage.kubectl.apply(rule)
    said = check(stage)
    stage.kubectl("delete", "devicetaintrule", "spare")
    tainted = f"gpu-{claims.TAINTED} of {claims.NVIDIA} (gpu.nvidia.com/xid=79:NoSchedule)"
    assert tainted in said
    assert f"hami-gpu-{claims.PARTS} of {claims.HAMI} (example.com/spare:NoSchedule)" in said


@pytest.fixture
def by_claim(stage: Stage) -> Iterator[Agent]:
    """An exporter that has the cards by a claim; the driver comes as on other nodes."""
    file = stage.board.file
    mounts = (
        ("driver", stage.board.driver, "/usr/local/nvidia/lib64"),
        ("gpus", file.parent, str(file.parent)),
    )
    more = {
        "gpuAccess": "claim",
        "extraVolumes": [
            {"name": name, "hostPath": {"path": str(folder)}} for name, folder, _ in mounts
        ],
        "extraVolumeMounts": [
            {"name": name, "mountPath": path, "readOnly": True} for name, _, path in mounts
        ],
    }
    agent = Agent(stage.kubectl, stage.board, "minimal", f"by-claim-{NAME}", "by-claim", more)
    stage.kubectl("create", "namespace", agent.namespace)
    yield agent
    stage.kubectl("delete", "namespace", agent.namespace)  # while the driver can end its claim
    own = f"app.kubernetes.io/instance={agent.name}"
    stage.kubectl("delete", "clusterroles,clusterrolebindings", "-l", own)


def test_the_exporter_has_all_cards_by_a_claim_also_those_of_others_and_tainted_ones(
    stage: Stage, by_claim: Agent
) -> None:
    with pytest.raises(KubectlError, match=ADMIN):
        by_claim.apply()
    stage.kubectl("label", "namespace", by_claim.namespace, f"{ADMIN}=true")
    by_claim.apply()
    by_claim.wait()
    stage.kubectl.apply(claim("theirs", claims.WHOLE))
    theirs = stage.run(claiming("theirs", resourceClaimName="theirs"))["main"]
    (held,) = stage.kubectl.get("resourceclaims", "-n", by_claim.namespace)["items"]
    results = held["status"]["allocation"]["devices"]["results"]
    assert {result["device"] for result in results} == {
        f"gpu-{gpu}" for gpu in (claims.WHOLE, claims.MEMORY, claims.TAINTED)
    }
    assert all(result["adminAccess"] for result in results)
    stage.attributed({theirs: claims.WHOLE}, by_claim.address())
    page = by_claim.scrape()
    assert page.all("mgpu_container_allocation_info", **theirs.labels)
    assert not page.all("mgpu_container_allocation_info", namespace=by_claim.namespace)


def says_unhealthy(count: int, page: Page) -> bool:
    """Whether so many devices of the sick pod are unhealthy."""
    return page.value(UNHEALTHY, namespace=NAMESPACE, pod="sick") == count


def check(stage: Stage) -> str:
    """What ``mgpu-exporter check`` says in the exporter's container, as one line."""
    pod = stage.agent.pod()
    assert pod is not None
    where = (pod["metadata"]["name"], "-n", stage.agent.namespace)
    said = stage.kubectl("exec", *where, "--", "sh", "-c", "mgpu-exporter check || true")
    return " ".join(said.split())


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


def allocated(stage: Stage, name: str) -> dict[str, Any]:
    """The one device of a claim, as the scheduler wrote it."""
    status = stage.kubectl.get("resourceclaim", name, "-n", NAMESPACE)["status"]
    (result,) = status["allocation"]["devices"]["results"]
    return dict(result)


def offered(stage: Stage, running: Program) -> int:
    """How many devices the driver has published."""
    running.check()
    slices = stage.kubectl.get("resourceslices")["items"]
    return sum(len(one["spec"].get("devices", ())) for one in slices)
