"""Further reports, in which the amount itself is in doubt."""

from pathlib import Path

import pytest

from tests.agent.sources.node.messages import container, pod
from tests.fakenvml.scenario import GIB, Fault, Gpu, Instance
from tests.field.nodes import field_node
from tests.field.pods import FieldPod, by, core, gpus, memory_limits
from tests.field.report import report

MIB = 1 << 20
UNALLOCATED = "device_unallocated_gpu_seconds_total"
ALLOCATED = "hami.io/vgpu-devices-allocated"
NODE = {
    "hami.io/node-nvidia-register": (
        "GPU-0,10,81920,100,NVIDIA-NVIDIA H100,0,true,0,hami-core:"
        "GPU-1,10,81920,100,NVIDIA-NVIDIA H100,0,true,1,hami-core:"
    )
}


@report(
    source="volcano#5829",
    seen="Memory that a native sidecar asks for is not added to the app container's.",
    first="right",
    group="kubernetes",
)
def test_a_sidecar_and_an_app_each_have_their_memory(tmp_path: Path) -> None:
    asks = {"volcano.sh/gpu-memory": "4096"}
    both = FieldPod(
        "both",
        {"trainer": asks},
        sidecars={"telemetry": asks},
        annotations={"volcano.sh/gpu-index": "0"},
    )
    with field_node(tmp_path, Gpu(0)) as node:
        node.pod(both.document())
        page = node.run(5)
    assert sum(memory_limits(page).values()) == 8192 * MIB
    assert sum(gpus(page).values()) == pytest.approx(0.1)


@report(
    source="KAI-Scheduler#706",
    seen="A board of unified memory reports no total, so nothing can be said of a part of it.",
    first="wrong",
    group="kubernetes",
    kind="unknown counted as whole",
)
def test_an_amount_of_a_memory_of_unknown_size_is_no_whole_card(tmp_path: Path) -> None:
    share = FieldPod(
        "share",
        {"main": {}},
        labels={"runai-gpu-group": "g"},
        annotations={"gpu-memory": "20000"},
    )
    reserves = FieldPod(
        "gpu-reservation-node-1-g",
        {"resource-reservation": {"nvidia.com/gpu": "1"}},
        namespace="kai-resource-reservation",
        labels={"app": "kai-resource-reservation", "runai-gpu-group": "g"},
        annotations={"run.ai/reserve_for_gpu_index": "GPU-0"},
    )
    with field_node(tmp_path, Gpu(0, name="NVIDIA GB10")) as node:
        node.driver.faults = [Fault("error", "nvmlDeviceGetMemoryInfo*", code=3)]
        for each in (reserves, share):
            node.pod(each.document())
        node.start(share.cgroup(), 0, memory=2 * GIB, duty=0.5, period=0.4)
        node.run(5)
        before = by(node.page(), UNALLOCATED, "uuid")
        page = node.run(10)
    assert memory_limits(page) == {("share", "main", "GPU-0"): 20000 * MIB}
    assert page.all("mgpu_container_memory_limit_utilization_ratio") != []
    assert gpus(page) == {}
    assert by(page, UNALLOCATED, "uuid") == before
    assert core(page)["share", "main", "GPU-0"] == pytest.approx(7.0, abs=0.7)


@report(
    source="KAI-Scheduler#1967",
    seen="On a board of unified memory a half of it, by a label of the node, has no limit.",
    first="wrong",
    group="kubernetes",
    kind="a part is taken for the whole",
)
def test_half_a_board_of_unified_memory_is_half_of_its_label(tmp_path: Path) -> None:
    half = FieldPod(
        "half",
        {"main": {}},
        labels={"runai-gpu-group": "g"},
        annotations={"gpu-fraction": "0.5"},
    )
    reserves = FieldPod(
        "gpu-reservation-node-1-g",
        {"resource-reservation": {"nvidia.com/gpu": "1"}},
        namespace="kai-resource-reservation",
        labels={"app": "kai-resource-reservation", "runai-gpu-group": "g"},
        annotations={"run.ai/reserve_for_gpu_index": "GPU-0"},
    )
    labels = {"nvidia.com/gpu.memory": "122880", "nvidia.com/gpu.product": "NVIDIA-GB10"}
    with field_node(tmp_path, Gpu(0, name="NVIDIA GB10"), labels=labels) as node:
        node.driver.faults = [Fault("error", "nvmlDeviceGetMemoryInfo*", code=3)]
        for each in (reserves, half):
            node.pod(each.document())
        node.start(half.cgroup(), 0, memory=2 * GIB, duty=0.5, period=0.4)
        page = node.run(5)
    assert memory_limits(page) == {("half", "main", "GPU-0"): 61_440 * MIB}
    assert gpus(page) == {("half", "main", "GPU-0"): 0.5}


@report(
    source="HAMi#1393",
    seen="Of a pod with two cards the quota counts the amounts of one.",
    first="right",
    group="kubernetes",
)
def test_a_pods_limit_is_that_of_all_its_cards(tmp_path: Path) -> None:
    limits = {"nvidia.com/gpu": "2", "nvidia.com/gpucores": "20", "nvidia.com/gpumem": "2048"}
    two = FieldPod(
        "two",
        {"main": limits},
        annotations={ALLOCATED: "GPU-0,NVIDIA,2048,20:GPU-1,NVIDIA,2048,20:;"},
    )
    with field_node(tmp_path, Gpu(0), Gpu(1), annotations=NODE) as node:
        node.pod(two.document())
        page = node.run(5)
    assert page.value("mgpu_pod_memory_limit_bytes", pod="two") == 4096 * MIB
    assert page.value("mgpu_pod_core_limit_gpus", pod="two") == pytest.approx(0.4)


@report(
    source="HAMi-website#714",
    seen="A limit of 16Gi is cut off to 0 MiB, which is no limit at all.",
    first="right",
    group="kubernetes",
)
def test_an_amount_that_no_card_has_is_no_limit(tmp_path: Path) -> None:
    suffixed = FieldPod(
        "suffixed",
        {"main": {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "16Gi"}},
        annotations={ALLOCATED: "GPU-0,NVIDIA,0,0:;"},
    )
    with field_node(tmp_path, Gpu(0), annotations=NODE) as node:
        node.pod(suffixed.document())
        node.start(suffixed.cgroup(), 0, memory=30 * GIB, duty=0.5, period=0.4)
        page = node.run(5)
    assert memory_limits(page) == {}
    assert page.all("mgpu_container_memory_limit_utilization_ratio") == []
    assert {uuid for *_, uuid in core(page)} == {"GPU-0"}


@report(
    source="kubernetes#116125",
    seen="After its checkpoint was lost the kubelet runs a pod without the card it asked for.",
    first="right",
    group="kubernetes",
)
def test_a_card_that_was_asked_for_and_not_given_is_on_no_card(tmp_path: Path) -> None:
    bare = FieldPod("bare", {"main": {"nvidia.com/gpu": "1"}})
    labels = {"nvidia.com/gpu.count": "2", "nvidia.com/gpu.replicas": "1"}
    with field_node(tmp_path, Gpu(0), Gpu(1), labels=labels) as node:
        node.document["status"] = {"allocatable": {"nvidia.com/gpu": "2"}}
        node.pod(bare.document())
        node.kubelet.answer = pod("bare", container("main"))
        page = node.run(10)
    assert {uuid for *_, uuid in gpus(page)} <= {""}
    assert memory_limits(page) == {}
    assert page.all("mgpu_container_core_limit_ratio") == []


@report(
    source="instaslice-operator#100",
    seen="What is left of a card in parts is counted wrong beside slices made by hand.",
    first="right",
    group="kubernetes",
)
def test_what_is_not_in_a_slice_that_somebody_has_is_unallocated(tmp_path: Path) -> None:
    resource = "mig.das.com/1g.5gb"
    pods = [FieldPod(f"p-{n}", {"main": {resource: "1"}}) for n in range(3)]
    board = Gpu(0, name="NVIDIA A100-PCIE-40GB", memory=40 * GIB, mig=True)
    with field_node(tmp_path, board) as node:
        node.driver.instances = [
            Instance(0, 0, slices=3, memory=20 * GIB, profile="3g.20gb", start=0),
            *(Instance(0, n, memory=5 * GIB, profile="1g.5gb", start=3 + n) for n in (1, 2, 3)),
        ]
        for n, each in enumerate(pods, 1):
            node.pod(each.document())
            node.start(each.cgroup(), 0, instance=n, memory=GIB, duty=0.5, period=0.4)
        node.run(5)
        before = by(node.page(), UNALLOCATED, "uuid")
        page = node.run(10)
    assert {uuid for *_, uuid in gpus(page)} == {"MIG-0-1", "MIG-0-2", "MIG-0-3"}
    grown = {key: value - before[key] for key, value in by(page, UNALLOCATED, "uuid").items()}
    assert sum(grown.values()) == pytest.approx(10 * 4 / 7, abs=0.3)
