"""Dynamic resource allocation: claims that are shared, named, renamed and looked through."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.agent.sources.node.messages import holding
from tests.agent.sources.pods.devices import result, slice_document
from tests.fakenvml.scenario import GIB, Gpu, Instance
from tests.field.kubernetes.claims import claim, extended
from tests.field.nodes import field_node
from tests.field.pods import FieldPod, by, core, gpus
from tests.field.report import report

OVER = "device_overcommitted_gpu_seconds_total"
UNALLOCATED = "device_unallocated_gpu_seconds_total"


@report(
    source="dra-driver-nvidia-gpu#337",
    seen="A monitoring pod needs all GPUs by a claim with admin access, and takes none.",
    first="right",
    group="kubernetes",
)
def test_admin_access_takes_no_part_of_a_card(tmp_path: Path) -> None:
    agent = FieldPod("agent", {"main": {}}, claims={"main": ["all"]})
    job = FieldPod("job", {"main": {}}, claims={"main": ["one"]})
    with field_node(tmp_path, Gpu(0), Gpu(1)) as node:
        node.slices = [slice_document({"gpu-0": "GPU-0", "gpu-1": "GPU-1"})]
        claim(node, "all", *(result(f"gpu-{n}", adminAccess=True) for n in range(2)))
        claim(node, "one", result("gpu-1"))
        for each in (agent, job):
            node.pod(each.document())
        page = node.run(5)
    assert gpus(page) == {("job", "main", "GPU-1"): 1}
    assert by(page, OVER, "uuid") == {("GPU-0",): 0, ("GPU-1",): 0}
    assert by(page, UNALLOCATED, "uuid")["GPU-0",] == pytest.approx(5, abs=1.1)


@report(
    source="dcgm-exporter#532",
    seen="Of pods that share a claim only one is on the card's series.",
    first="right",
    group="kubernetes",
)
def test_pods_that_share_a_claim_share_its_card(tmp_path: Path) -> None:
    pods = [FieldPod(f"share-{n}", {"main": {}}, claims={"main": ["shared"]}) for n in range(2)]
    with field_node(tmp_path, Gpu(0)) as node:
        node.slices = [slice_document({"gpu-0": "GPU-0"})]
        claim(node, "shared", result("gpu-0"))
        for each in pods:
            node.pod(each.document())
            node.start(each.cgroup(), 0, memory=2 * GIB, duty=0.25, period=0.4)
        node.run(10)
        page = node.page("dcgm")
    assert gpus(page) == {("share-0", "main", "GPU-0"): 0.5, ("share-1", "main", "GPU-0"): 0.5}
    assert by(page, OVER, "uuid") == {("GPU-0",): 0}
    named = {own["pod"] for own, _ in page.all("DCGM_FI_DEV_FB_USED") if own.get("pod")}
    assert named == {"share-0", "share-1"}


@report(
    source="kubernetes#140036",
    seen="The status of a pod that names its claim itself does not list it.",
    first="right",
    group="kubernetes",
)
def test_a_claim_that_the_spec_names_needs_no_status(tmp_path: Path) -> None:
    named = FieldPod("named", {"main": {}}, claims={"main": ["by-hand"]})
    with field_node(tmp_path, Gpu(0), Gpu(1)) as node:
        node.slices = [slice_document({"gpu-0": "GPU-0", "gpu-1": "GPU-1"})]
        claim(node, "by-hand", result("gpu-1"))
        document = named.document()
        assert "resourceClaimStatuses" not in document["status"]
        node.pod(document)
        page = node.run(5)
    assert gpus(page) == {("named", "main", "GPU-1"): 1}


@report(
    source="dra-driver-nvidia-gpu#427",
    seen="After the first card is drained the second has its name, so pods are on the wrong one.",
    first="wrong",
    group="kubernetes",
    kind="identity by what others may change",
)
def test_a_card_that_is_renamed_under_a_running_pod_stays_that_pods(tmp_path: Path) -> None:
    first = FieldPod("first", {"main": {}}, claims={"main": ["a"]})
    second = FieldPod("second", {"main": {}}, claims={"main": ["b"]})
    with field_node(tmp_path, Gpu(0, uuid="GPU-a"), Gpu(1, uuid="GPU-b")) as node:
        node.slices = [slice_document({"gpu-0": "GPU-a", "gpu-1": "GPU-b"})]
        claim(node, "a", result("gpu-0"))
        claim(node, "b", result("gpu-1"))
        node.pod(first.document())
        node.pod(second.document())
        node.start(second.cgroup(), 1, duty=0.5, period=0.4)
        before = node.run(5)
        node.driver.gpus = [Gpu(0, uuid="GPU-b", pci=Gpu(1).pci)]
        node.driver.works = [replace(each, gpu=0) for each in node.driver.works]
        node.driver.processes = [replace(each, gpu=0) for each in node.driver.processes]
        node.slices = [slice_document({"gpu-0": "GPU-b"}, generation=2)]
        page = node.run(700, step_s=10)
    assert gpus(before) == {("first", "main", "GPU-a"): 1, ("second", "main", "GPU-b"): 1}
    on_b = {pod for pod, _, uuid in gpus(page) if uuid == "GPU-b"}
    assert on_b == {"second"}


@report(
    source="dra-driver-nvidia-gpu#951",
    seen="After a reboot instances are made anew, and claims keep what was there before.",
    first="right",
    group="kubernetes",
)
def test_an_instance_that_is_made_anew_under_its_name_is_its_claims(tmp_path: Path) -> None:
    part = FieldPod("part", {"main": {}}, claims={"main": ["mig"]})
    name = "gpu-0-mig-1g10gb-19-0"
    with field_node(tmp_path, Gpu(0, mig=True)) as node:
        node.driver.instances = [Instance(0, 0, uuid="MIG-before")]
        node.slices = [slice_document({name: "MIG-before"})]
        claim(node, "mig", result(name))
        node.pod(part.document())
        before = node.run(5)
        node.driver.instances = [Instance(0, 0, uuid="MIG-after")]
        node.slices = [slice_document({name: "MIG-after"}, generation=2)]
        node.start(part.cgroup(), 0, instance=0, duty=0.5, period=0.4)
        page = node.run(700, step_s=10)
    assert set(gpus(before)) == {("part", "main", "MIG-before")}
    assert set(gpus(page)) == {("part", "main", "MIG-after")}
    assert core(page)["part", "main", "MIG-after"] > 0


@report(
    source="dra-driver-nvidia-gpu#738",
    seen="Pods that ask for nvidia.com/gpu have it by a class of DRA, and run unchanged.",
    first="right",
    group="kubernetes",
)
def test_a_card_by_a_class_that_stands_for_a_resource_is_counted_once(tmp_path: Path) -> None:
    old = FieldPod("old", {"main": {"nvidia.com/gpu": "1"}})
    with field_node(tmp_path, Gpu(0), Gpu(1)) as node:
        node.slices = [slice_document({"gpu-0": "GPU-0", "gpu-1": "GPU-1"})]
        claim(node, "extended", result("gpu-1", "container-0-request-0"))
        node.pod(old.document(**extended(("main", "container-0-request-0"))))
        node.kubelet.answer = b""
        page = node.run(5)
    assert gpus(page) == {("old", "main", "GPU-1"): 1}
    assert page.value("mgpu_pod_allocated_gpus", pod="old") == 1


@report(
    source="kubernetes#134880",
    seen="For each init container a card is claimed of its own, and kept until the pod ends.",
    first="wrong",
    group="kubernetes",
    kind="unknown place is nobody's",
)
def test_a_card_that_is_claimed_for_an_ended_init_container_is_not_free(tmp_path: Path) -> None:
    gpu = {"nvidia.com/gpu": "1"}
    two = FieldPod("two", {"main": gpu}, init={"prepare": gpu})
    with field_node(tmp_path, Gpu(0), Gpu(1)) as node:
        node.slices = [slice_document({"gpu-0": "GPU-0", "gpu-1": "GPU-1"})]
        requests = [("prepare", "container-0-request-0"), ("main", "container-1-request-0")]
        claim(
            node,
            "extended",
            *(result(f"gpu-{n}", request) for n, (_, request) in enumerate(requests)),
        )
        node.pod(two.document(**extended(*requests)))
        page = node.run(10)
    assert gpus(page)["two", "main", "GPU-1"] == 1
    unallocated = by(page, UNALLOCATED, "uuid")
    assert unallocated["GPU-0",] == pytest.approx(0, abs=1.1)
    assert unallocated["GPU-1",] == pytest.approx(0, abs=1.1)


IDLE = "container_allocated_idle_core_seconds_total"


@report(
    source="llm-d-workload-variant-autoscaler#1378",
    seen="A model's card by a claim is idle for hours, and no autoscaler sees a share of it.",
    first="wrong",
    group="kubernetes",
    kind="a part is taken for the whole",
)
def test_a_whole_card_by_a_claim_is_its_core_and_its_memory(tmp_path: Path) -> None:
    claimed = FieldPod("claimed", {"main": {}}, claims={"main": ["one"]})
    plugged = FieldPod("plugged", {"main": {"nvidia.com/gpu": "1"}})
    with field_node(tmp_path, Gpu(0), Gpu(1), labels={"nvidia.com/gpu.replicas": "1"}) as node:
        node.slices = [slice_document({"gpu-0": "GPU-0"})]
        claim(node, "one", result("gpu-0"))
        node.kubelet.answer = holding("plugged", "GPU-1")
        for number, each in enumerate((claimed, plugged)):
            node.pod(each.document())
            node.start(each.cgroup(), number, duty=0)
        page = node.run(20)
    for name in ("container_core_limit_ratio", "container_allocated_gpus"):
        assert by(page, name, "pod", "uuid") == {("claimed", "GPU-0"): 1, ("plugged", "GPU-1"): 1}
    idle = by(page, IDLE, "pod")
    assert idle["claimed",] == pytest.approx(idle["plugged",], abs=0.1) == pytest.approx(20, abs=2)


@report(
    source="kubernetes#141471",
    seen="A force-deleted pod's container still works when its successor has the claim's card.",
    first="wrong",
    group="kubernetes",
    kind="a part is taken for the whole",
)
def test_a_successor_has_all_of_its_claim_while_the_last_holder_ends(tmp_path: Path) -> None:
    old = FieldPod("old", {"main": {}}, claims={"main": ["first"]})
    new = FieldPod("new", {"main": {}}, claims={"main": ["second"]})
    with field_node(tmp_path, Gpu(0)) as node:
        node.slices = [slice_document({"gpu-0": "GPU-0"})]
        claim(node, "first", result("gpu-0"))
        node.pod(old.document())
        node.start(old.cgroup(), 0, duty=0.5, period=0.4)
        node.run(5)
        node.delete(old.document())
        claim(node, "second", result("gpu-0"))
        node.pod(new.document())
        node.start(new.cgroup(), 0, duty=0)
        page = node.run(10)
    assert by(page, "container_core_limit_ratio", "pod") == {("new",): 1}
    assert by(page, IDLE, "pod")["new",] == pytest.approx(10, abs=3)
    assert gpus(page)["new", "main", "GPU-0"] == 1
