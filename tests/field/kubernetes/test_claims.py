"""Claims since Kubernetes 1.34: parts of devices, extended resources, health, many users."""

from pathlib import Path

import pytest

from tests.agent.sources.node.messages import holding
from tests.agent.sources.pods.devices import result, slice_document
from tests.fakenvml.scenario import GIB, Gpu, Instance
from tests.field.kubernetes.claims import claim, claimed, device, extended, offers
from tests.field.nodes import field_node
from tests.field.pods import FieldPod, by, core, gpus, memory_limits
from tests.field.report import report

OVER, UNALLOCATED = "device_overcommitted_gpu_seconds_total", "device_unallocated_gpu_seconds_total"
LIMIT = "container_core_limit_ratio"
ABSTRACT = {"type": "mig", "parentUUID": "GPU-0", "profile": "1g.10gb"}


@report(
    source="dcgm-exporter#714",
    seen="An instance that is made for a claim has no UUID in its slice, and its series no pod.",
    first="right",
    group="kubernetes",
    round=3,
)
def test_an_instance_that_is_made_for_a_claim_is_its_pods(tmp_path: Path) -> None:
    names = {start: f"gpu-0-mig-1g10gb-19-{start}" for start in (2, 5)}
    pods = {start: claimed(f"at-{start}", f"c{start}") for start in names}
    with field_node(tmp_path, Gpu(0, mig=True)) as node:
        node.slices = [
            offers(*(device(name, {"memory": "9984Mi"}, **ABSTRACT) for name in names.values()))
        ]
        for start, pod in pods.items():
            claim(node, f"c{start}", result(names[start]))
            node.pod(pod.document())
        before = node.run(3)
        node.driver.instances = [Instance(0, 0, start=5), Instance(0, 1, start=2)]
        for start, number in ((5, 0), (2, 1)):
            node.start(pods[start].cgroup(), 0, instance=number, duty=0.5, period=0.4)
        page = node.run(20)
    assert set(gpus(before)) <= {("at-2", "main", ""), ("at-5", "main", "")}
    assert set(gpus(page)) == {("at-2", "main", "MIG-0-1"), ("at-5", "main", "MIG-0-0")}
    assert core(page)["at-2", "main", "MIG-0-1"] > 0


@report(
    source="dra-driver-nvidia-gpu#1456",
    seen="Only the claim's status is to say which instance was made; slices have no identity.",
    first="unknown",
    group="kubernetes",
    settled="the form of that data, which is not decided: until then the placement has to do",
    round=3,
)
def test_an_instance_whose_place_the_driver_does_not_say_is_on_no_wrong_one(tmp_path: Path) -> None:
    pod, name = claimed("part", "mig"), "gpu-0-mig-1g10gb-19-3"
    with field_node(tmp_path, Gpu(0, mig=True)) as node:
        node.slices = [offers(device(name, {"memory": "9984Mi"}, **ABSTRACT))]
        claim(node, "mig", result(name))
        node.pod(pod.document())
        node.driver.instances = [Instance(0, 0, start=0), Instance(0, 1, start=4)]
        page = node.run(5)
    assert {uuid for _, _, uuid in gpus(page)} <= {""}


@report(
    source="KAI-Scheduler#1930",
    seen="A card that two pods share by one claim is counted once for each, and idle is -1.",
    first="right",
    group="kubernetes",
    round=3,
)
def test_a_claim_of_many_pods_is_one_card_of_those_that_still_run(tmp_path: Path) -> None:
    a, b, c = (claimed(name, "shared") for name in "abc")
    with field_node(tmp_path, Gpu(0)) as node:
        node.slices = [slice_document({"gpu-0": "GPU-0"})]
        claim(node, "shared", result("gpu-0"))
        for each in (a, b, c):
            node.pod(each.document())
        three = node.run(5)
        node.pod(b.document(phase="Succeeded"))
        node.delete(c.document())
        page = node.run(5)
    assert sum(gpus(three).values()) == pytest.approx(1)
    assert gpus(page) == {("a", "main", "GPU-0"): 1}
    assert by(page, OVER, "uuid") == {("GPU-0",): 0}
    assert by(page, UNALLOCATED, "uuid")["GPU-0",] == pytest.approx(0, abs=1.1)


@report(
    source="kubernetes#140212",
    seen="A pod that never began is deleted, and takes the devices of one that shares its claim.",
    first="right",
    group="kubernetes",
    round=3,
)
def test_the_user_of_a_claim_keeps_it_when_a_pod_that_never_began_goes(tmp_path: Path) -> None:
    runs, waits = claimed("runs", "shared"), claimed("waits", "shared", phase="Pending")
    with field_node(tmp_path, Gpu(0)) as node:
        node.slices = [slice_document({"gpu-0": "GPU-0"})]
        claim(node, "shared", result("gpu-0"))
        node.pod(runs.document())
        node.start(runs.cgroup(), 0, duty=0.5, period=0.4)
        begun = node.run(5)
        node.pod(waits.document(containerStatuses=[]))
        node.run(5)
        node.delete(waits.document())
        page = node.run(5)
    assert by(page, LIMIT, "pod") == by(begun, LIMIT, "pod") == {("runs",): 1}
    assert gpus(page) == {("runs", "main", "GPU-0"): 1}
    assert core(page)["runs", "main", "GPU-0"] == pytest.approx(7, abs=1)


@report(
    source="dra-driver-nvidia-gpu#1257",
    seen="Claims take shares of one card, and a daemon of MPS of its own holds each to its part.",
    first="right",
    group="kubernetes",
    round=3,
)
def test_shares_of_a_card_are_parts_of_it(tmp_path: Path) -> None:
    pods = {"three": ("3", "24Gi"), "two": ("2", "16Gi")}
    with field_node(tmp_path, Gpu(0)) as node:
        gpu = device("gpu-0", {"memory": "80Gi", "shares": "10"}, type="gpu", uuid="GPU-0")
        node.slices = [offers({**gpu, "allowMultipleAllocations": True})]
        for name, (shares, memory) in pods.items():
            consumed = {"shares": shares, "memory": memory}
            claim(node, name, result("gpu-0", shareID=f"id-{name}", consumedCapacity=consumed))
            node.pod(claimed(name, name).document())
        page = node.run(10)
    assert gpus(page) == {
        ("three", "main", "GPU-0"): pytest.approx(0.3),
        ("two", "main", "GPU-0"): pytest.approx(0.2),
    }
    assert memory_limits(page)["three", "main", "GPU-0"] == 24 * GIB
    assert by(page, UNALLOCATED, "uuid")["GPU-0",] == pytest.approx(5, abs=0.6)
    assert by(page, OVER, "uuid") == {("GPU-0",): 0}


@report(
    source="kueue#15983",
    seen="The card of a sidecar that is claimed as an extended resource is not in the quota.",
    first="right",
    group="kubernetes",
    round=3,
)
def test_a_sidecars_claimed_card_counts_beside_its_containers(tmp_path: Path) -> None:
    gpu = {"nvidia.com/gpu": "1"}
    pod = FieldPod("both", {"main": gpu}, sidecars={"cache": gpu})
    requests = [("cache", "container-0-request-0"), ("main", "container-1-request-0")]
    with field_node(tmp_path, Gpu(0), Gpu(1)) as node:
        node.slices = [slice_document({"gpu-0": "GPU-0", "gpu-1": "GPU-1"})]
        claim(node, "extended", *(result(f"gpu-{n}", r) for n, (_, r) in enumerate(requests)))
        node.pod(pod.document(**extended(*requests)))
        page = node.run(5)
    assert gpus(page) == {("both", "cache", "GPU-0"): 1, ("both", "main", "GPU-1"): 1}
    assert page.value("mgpu_pod_allocated_gpus", pod="both") == 2


@report(
    source="kubernetes#141433",
    seen="After a reboot a pod with a claim waits in CreateContainerError, and holds its card.",
    first="right",
    group="kubernetes",
    round=3,
)
def test_a_container_that_cannot_be_made_holds_what_it_claimed(tmp_path: Path) -> None:
    pod = claimed("stuck", "one")
    waiting = {"name": "main", "state": {"waiting": {"reason": "CreateContainerError"}}}
    with field_node(tmp_path, Gpu(0)) as node:
        node.slices = [slice_document({"gpu-0": "GPU-0"})]
        claim(node, "one", result("gpu-0"))
        node.pod(pod.document(containerStatuses=[waiting]))
        page = node.run(10)
    assert gpus(page) == {("stuck", "main", "GPU-0"): 1}
    assert by(page, UNALLOCATED, "uuid")["GPU-0",] == pytest.approx(0, abs=1.1)
    idle = by(page, "container_allocated_idle_core_seconds_total", "pod")
    assert idle["stuck",] == pytest.approx(10, abs=1.1)


@report(
    source="KAI-Scheduler#900",
    seen="Of a claim that takes the first of several kinds of card, none is counted.",
    first="right",
    group="kubernetes",
    round=3,
)
def test_the_first_available_of_a_request_is_counted_once(tmp_path: Path) -> None:
    pod = claimed("any", "any")
    document = pod.document()
    document["spec"]["containers"][0]["resources"]["claims"] = [
        {"name": "any", "request": "gpu"},
        {"name": "any", "request": "gpu/small"},
    ]
    with field_node(tmp_path, Gpu(0), Gpu(1)) as node:
        node.slices = [slice_document({"gpu-0": "GPU-0", "gpu-1": "GPU-1"})]
        claim(node, "any", result("gpu-1", "gpu/small"))
        node.pod(document)
        page = node.run(5)
    assert gpus(page) == {("any", "main", "GPU-1"): 1}
    assert by(page, LIMIT, "pod") == {("any",): 1}


@report(
    source="KAI-Scheduler#577",
    seen="Pods of a GB200 rack claim a channel of their compute domain beside their cards.",
    first="right",
    group="kubernetes",
    round=3,
)
def test_a_channel_of_a_compute_domain_is_no_card(tmp_path: Path) -> None:
    pod = FieldPod("rank", {"main": {"nvidia.com/gpu": "2"}}, claims={"main": ["channel"]})
    domain = "compute-domain.nvidia.com"
    with field_node(
        tmp_path, Gpu(0), Gpu(1), Gpu(2), labels={"nvidia.com/gpu.replicas": "1"}
    ) as node:
        channel = {"type": "channel", "id": "0"}
        node.slices = [offers(device("channel-0", {}, **channel), driver=domain)]
        node.claims["ml", "channel"] = {
            "status": {
                "allocation": {
                    "devices": {"results": [{**result("channel-0", "channel"), "driver": domain}]}
                }
            }
        }
        node.pod(pod.document())
        node.kubelet.answer = holding("rank", "GPU-0", "GPU-2")
        page = node.run(5)
    assert gpus(page) == {("rank", "main", "GPU-0"): 1, ("rank", "main", "GPU-2"): 1}
    assert by(page, LIMIT, "uuid") == {("GPU-0",): 1, ("GPU-2",): 1}
    rejected = page.all("mgpu_exporter_rejected_samples_total", reason="unknown_driver")
    assert sum(value for _, value in rejected) == 0


@report(
    source="dcgm-exporter#718",
    seen="A pod's UID is on the series of cards that a plugin gave, not of those it claimed.",
    first="right",
    group="kubernetes",
    round=3,
)
def test_a_pod_that_claims_has_all_labels_of_one_that_asks_the_plugin(tmp_path: Path) -> None:
    one, other = claimed("claimed", "one"), FieldPod("plugged", {"main": {"nvidia.com/gpu": "1"}})
    with field_node(tmp_path, Gpu(0), Gpu(1), labels={"nvidia.com/gpu.replicas": "1"}) as node:
        node.slices = [slice_document({"gpu-0": "GPU-0"})]
        claim(node, "one", result("gpu-0"))
        node.kubelet.answer = holding("plugged", "GPU-1")
        for each in (one, other):
            node.pod(each.document())
        node.run(5)
        page = node.page("opencost")
    found = {own["pod"]: own for own, value in page.all("container_gpu_allocation") if value == 1}
    assert found["claimed"].keys() == found["plugged"].keys()
    assert {own["uid"] for own in found.values()} == {one.uid, other.uid}
