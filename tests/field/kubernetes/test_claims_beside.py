"""Claims beside device plugins and virtual machines, and what their configurations say."""

from pathlib import Path

import pytest

from tests.agent.sources.node.messages import holding
from tests.agent.sources.pods.devices import result, slice_document
from tests.fakenvml.scenario import GIB, Gpu
from tests.field.kubernetes.claims import claim, claimed, device, offers
from tests.field.nodes import field_node
from tests.field.pods import FieldPod, by, core, gpus, memory_limits
from tests.field.report import report

OVER, UNALLOCATED = "device_overcommitted_gpu_seconds_total", "device_unallocated_gpu_seconds_total"
LIMIT = "container_core_limit_ratio"


@report(
    source="NVIDIA/aicr#332",
    seen="A node has both the device plugin and the driver for claims: a card is given twice.",
    first="right",
    group="kubernetes",
    round=3,
)
def test_a_card_that_was_given_twice_is_overcommitted(tmp_path: Path) -> None:
    one, other = claimed("claimed", "one"), FieldPod("plugged", {"main": {"nvidia.com/gpu": "1"}})
    with field_node(tmp_path, Gpu(0), Gpu(1), labels={"nvidia.com/gpu.replicas": "1"}) as node:
        node.slices = [slice_document({"gpu-0": "GPU-0", "gpu-1": "GPU-1"})]
        claim(node, "one", result("gpu-0"))
        node.kubelet.answer = holding("plugged", "GPU-0")
        for each in (one, other):
            node.pod(each.document())
        page = node.run(10)
    assert gpus(page) == {(name, "main", "GPU-0"): 1 for name in ("claimed", "plugged")}
    over, free = by(page, OVER, "uuid"), by(page, UNALLOCATED, "uuid")
    assert over == {("GPU-0",): pytest.approx(10, abs=1.1), ("GPU-1",): 0}
    assert free["GPU-1",] == pytest.approx(10, abs=1.1)


@report(
    source="kubevirt/user-guide#1008",
    seen="Virtual machines have their GPUs by claims, and nothing of it is in the host's driver.",
    first="right",
    group="kubernetes",
    round=3,
)
def test_a_card_that_a_machine_has_by_a_claim_is_no_card_of_the_hosts_driver(
    tmp_path: Path,
) -> None:
    vm, job = claimed("virt-launcher", "vfio"), claimed("job", "one")
    with field_node(tmp_path, Gpu(0)) as node:
        card = device("gpu-0", {"memory": "80Gi"}, type="gpu", uuid="GPU-0")
        node.slices = [offers(card, device("gpu-vfio-1", {}, type="vfio", uuid="GPU-1"))]
        claim(node, "vfio", result("gpu-vfio-1"))
        claim(node, "one", result("gpu-0"))
        for each in (vm, job):
            node.pod(each.document())
        page = node.run(5)
    assert gpus(page)["job", "main", "GPU-0"] == 1
    assert by(page, OVER, "uuid") == {("GPU-0",): 0}
    assert {uuid for pod, _, uuid in gpus(page) if pod == "virt-launcher"} <= {""}


@report(
    source="dcgm-exporter#706",
    seen="A card is unbound for a machine by a claim, and the exporter goes on with it.",
    first="right",
    group="kubernetes",
    round=3,
)
def test_a_card_that_is_unbound_for_a_claim_goes_and_comes_back(tmp_path: Path) -> None:
    job = claimed("job", "one")
    with field_node(tmp_path, Gpu(0), Gpu(1)) as node:
        node.slices = [slice_document({"gpu-0": "GPU-0", "gpu-1": "GPU-1"})]
        claim(node, "one", result("gpu-0"))
        node.pod(job.document())
        node.start(job.cgroup(), 0, duty=0.5, period=0.4)
        node.run(5)
        second = node.driver.gpus.pop()
        gone = node.run(60)
        node.driver.gpus.append(second)
        page = node.run(70)
    assert {own["uuid"] for own, _ in gone.all("mgpu_device_up")} == {"GPU-0"}
    assert gpus(gone) == {("job", "main", "GPU-0"): 1}
    assert by(page, "device_up", "uuid") == {("GPU-0",): 1, ("GPU-1",): 1}
    assert core(page)["job", "main", "GPU-0"] == pytest.approx(67, abs=2)


@report(
    source="dra-driver-nvidia-gpu#1183",
    seen="Time slices are written into each claim's configuration, also where nobody shares.",
    first="right",
    group="kubernetes",
    round=3,
)
def test_a_configuration_of_time_slices_does_not_make_a_card_shared(tmp_path: Path) -> None:
    pod = claimed("train", "one")
    slicing = {"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "Default"}}
    with field_node(tmp_path, Gpu(0)) as node:
        node.slices = [slice_document({"gpu-0": "GPU-0"})]
        claim(node, "one", result("gpu-0"))
        allocated = node.claims["ml", "one"]["status"]["allocation"]["devices"]
        opaque = {"driver": "gpu.nvidia.com", "parameters": {"sharing": slicing}}
        allocated["config"] = [{"source": "FromClass", "opaque": opaque}]
        node.pod(pod.document())
        page = node.run(5)
    assert gpus(page) == {("train", "main", "GPU-0"): 1}
    assert by(page, LIMIT, "pod") == {("train",): 1}
    assert memory_limits(page) == {("train", "main", "GPU-0"): 80 * GIB}


@report(
    source="dra-driver-nvidia-gpu#1026",
    seen="Two containers share a claim's card by MPS, with half of the threads and 10 GiB each.",
    first="right",
    group="kubernetes",
    round=3,
)
def test_mps_by_a_claim_limits_memory_and_promises_no_time(tmp_path: Path) -> None:
    pod = FieldPod("pair", {"a": {}, "b": {}}, claims={"a": ["mps"], "b": ["mps"]})
    limits = {"defaultActiveThreadPercentage": 50, "defaultPinnedDeviceMemoryLimit": "10Gi"}
    with field_node(tmp_path, Gpu(0)) as node:
        node.slices = [slice_document({"gpu-0": "GPU-0"})]
        claim(node, "mps", result("gpu-0"))
        allocated = node.claims["ml", "mps"]["status"]["allocation"]["devices"]
        sharing = {"strategy": "MPS", "mpsConfig": limits}
        opaque = {"driver": "gpu.nvidia.com", "parameters": {"sharing": sharing}}
        allocated["config"] = [{"source": "FromClaim", "requests": ["gpu"], "opaque": opaque}]
        node.pod(pod.document())
        page = node.run(5)
    assert memory_limits(page) == {("pair", name, "GPU-0"): 10 * GIB for name in "ab"}
    assert page.all("mgpu_container_core_limit_ratio") == []
    assert gpus(page) == {("pair", name, "GPU-0"): 0.5 for name in "ab"}
    policies = {own["policy"] for own, _ in page.all("mgpu_container_allocation_info")}
    assert policies == {"mps"}


@report(
    source="gpu-operator#2697",
    seen="The exporter may not read slices, so series of claimed cards have no pod.",
    first="right",
    group="kubernetes",
    round=3,
)
def test_without_slices_a_claims_card_is_known_by_its_name(tmp_path: Path) -> None:
    pod = claimed("train", "one")
    boards = (Gpu(0, minor=1), Gpu(1, minor=0))
    with field_node(tmp_path, *boards) as node:
        claim(node, "one", result("gpu-0"))
        node.pod(pod.document())
        page = node.run(5)
    assert gpus(page) == {("train", "main", "GPU-1"): 1}


@report(
    source="HAMi-core#153",
    seen="A claim of 2 GiB is held to less than its process has on the card by the host's count.",
    first="right",
    group="kubernetes",
    round=3,
)
def test_a_claims_memory_is_its_limit_and_what_it_has_is_more(tmp_path: Path) -> None:
    driver, pod = "hami-core-gpu.project-hami.io", claimed("train", "two")
    with field_node(tmp_path, Gpu(0, memory=32 * GIB)) as node:
        card = device(
            "hami-gpu-0", {"memory": "32Gi", "cores": "100"}, type="hami-gpu", uuid="GPU-0"
        )
        node.slices = [offers({**card, "allowMultipleAllocations": True}, driver=driver)]
        consumed = {"memory": "2Gi", "cores": "30"}
        own = result("hami-gpu-0", shareID="a", consumedCapacity=consumed)
        claim(node, "two", {**own, "driver": driver})
        node.pod(pod.document())
        node.start(pod.cgroup(), 0, memory=2588 << 20, duty=0)
        page = node.run(5)
    assert memory_limits(page) == {("train", "main", "GPU-0"): 2 * GIB}
    ratio = page.value("mgpu_container_memory_limit_utilization_ratio", **pod.of(), uuid="GPU-0")
    assert ratio == pytest.approx(2588 / 2048)
    assert gpus(page) == {("train", "main", "GPU-0"): pytest.approx(0.3)}
