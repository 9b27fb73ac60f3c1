"""What is counted how often: slots, replicas, fractions and quantities of 2025 and 2026."""

from pathlib import Path

import pytest

from tests.agent.sources.node.messages import holding
from tests.fakenvml.scenario import GIB, Gpu
from tests.field.nodes import field_node
from tests.field.pods import FieldPod, by, core, gpus, memory_limits
from tests.field.report import report

MIB = 1 << 20
GPU = "nvidia.com/gpu"
WHOLE = {GPU: "1"}
OVER = "device_overcommitted_gpu_seconds_total"
UNALLOCATED = "device_unallocated_gpu_seconds_total"
IDLE = "container_allocated_idle_core_seconds_total"
ALLOCATED = "hami.io/vgpu-devices-allocated"
HAMI = {"hami.io/node-nvidia-register": "GPU-0,10,40000,100,NVIDIA-NVIDIA A100,0,true,0,hami-core:"}


@report(
    source="dcgm-exporter#725",
    seen="A pod with several slots of a card has its memory once for each of them.",
    first="right",
    group="kubernetes",
    round=3,
)
def test_a_pods_memory_counts_once_whatever_the_number_of_its_slots(tmp_path: Path) -> None:
    labels = {f"{GPU}.replicas": "48", f"{GPU}.sharing-strategy": "mps", f"{GPU}.count": "2"}
    pod = FieldPod("seven", {"main": {GPU: "7"}})
    slots = [f"GPU-0::{n}" for n in (5, 19, 20, 21, 22, 40)] + ["GPU-1::3"]
    with field_node(tmp_path, Gpu(0), Gpu(1), labels=labels) as node:
        node.document["status"] = {"allocatable": {GPU: "96"}}
        node.pod(pod.document())
        node.kubelet.answer = holding("seven", *slots)
        node.start(pod.cgroup(), 0, memory=10_056 * MIB, duty=0.5, period=0.4)
        node.run(5)
        page = node.page("dcgm")
    assert by(page, "container_memory_used_bytes", "pod", "uuid") == {
        ("seven", "GPU-0"): 10_056 * MIB,
        ("seven", "GPU-1"): 0,
    }
    used = [value for own, value in page.all("DCGM_FI_DEV_FB_USED") if own.get("pod") and value]
    assert used == [10_056]
    assert gpus(page) == {
        ("seven", "main", "GPU-0"): pytest.approx(6 / 48),
        ("seven", "main", "GPU-1"): pytest.approx(1 / 48),
    }


@report(
    source="k8s-device-plugin#764",
    seen="MPS on an L40S with ten replicas limits each client to 4,606 MB.",
    first="right",
    group="kubernetes",
    round=3,
)
def test_a_client_of_mps_has_its_part_of_all_of_the_cards_memory(tmp_path: Path) -> None:
    labels = {f"{GPU}.replicas": "10", f"{GPU}.sharing-strategy": "mps", f"{GPU}.count": "1"}
    pod = FieldPod("client", {"main": WHOLE})
    with field_node(tmp_path, Gpu(0, memory=46_068 * MIB), labels=labels) as node:
        node.document["status"] = {"allocatable": {GPU: "10"}}
        node.pod(pod.document())
        node.kubelet.answer = holding("client", "GPU-0::4")
        page = node.run(5)
    assert memory_limits(page)["client", "main", "GPU-0"] // MIB == 4606


@report(
    source="HAMi#1704",
    seen="An amount of memory is written as 4k, and pods are resized while they run.",
    first="right",
    group="kubernetes",
    round=3,
)
def test_an_amount_with_a_suffix_is_that_many_mebibytes(tmp_path: Path) -> None:
    asks = {GPU: "1", "nvidia.com/gpumem": "4k"}
    pod = FieldPod("stress", {"main": asks}, annotations={ALLOCATED: "GPU-0,NVIDIA,4000,0:;"})
    with field_node(tmp_path, Gpu(0, memory=40_000 * MIB), annotations=HAMI) as node:
        node.pod(pod.document())
        node.run(3)
        node.pod(pod.document(resize="InProgress", conditions=[{"type": "PodResizeInProgress"}]))
        page = node.run(3)
    assert memory_limits(page) == {("stress", "main", "GPU-0"): 4000 * MIB}
    assert gpus(page) == {("stress", "main", "GPU-0"): pytest.approx(0.1)}


@report(
    source="HAMi#3052",
    seen="With an init container that asks for no card, the first app container is not counted.",
    first="right",
    group="kubernetes",
    round=3,
)
def test_both_app_containers_count_behind_an_init_container(tmp_path: Path) -> None:
    asks = {GPU: "1", "nvidia.com/gpumem-percentage": "40"}
    pod = FieldPod(
        "both",
        {"a": asks, "b": asks},
        init={"prepare": {}},
        annotations={ALLOCATED: ";GPU-0,NVIDIA,16000,0:;GPU-0,NVIDIA,16000,0:;"},
    )
    with field_node(tmp_path, Gpu(0, memory=40_000 * MIB), annotations=HAMI) as node:
        node.pod(pod.document())
        page = node.run(5)
    assert memory_limits(page) == {("both", name, "GPU-0"): 16_000 * MIB for name in "ab"}
    assert page.value("mgpu_pod_allocated_gpus", pod="both") == pytest.approx(0.8)


@report(
    source="KAI-Scheduler#2153",
    seen="Four halves of a card are on one of eight, and the pod that crashes is not counted.",
    first="right",
    group="kubernetes",
    round=3,
)
def test_a_crashing_pod_keeps_its_part_and_the_card_is_overcommitted(tmp_path: Path) -> None:
    group = {"runai-gpu-group": "g1", "kai.scheduler/queue": "q"}
    reserved = FieldPod(
        "gpu-reservation-node-1-g1",
        {"resource-reservation": WHOLE},
        namespace="kai-resource-reservation",
        labels={"app": "kai-resource-reservation", "runai-gpu-group": "g1"},
        annotations={"run.ai/reserve_for_gpu_index": "GPU-0"},
    )
    halves = [
        FieldPod(f"half-{n}", {"main": {}}, labels=group, annotations={"gpu-fraction": "0.5"})
        for n in range(4)
    ]
    crashing = {"waiting": {"reason": "CrashLoopBackOff"}}
    with field_node(tmp_path, Gpu(0), Gpu(1)) as node:
        node.pod(reserved.document())
        for number, each in enumerate(halves):
            more = {"containerStatuses": [{"name": "main", "state": crashing}]} if number else {}
            node.pod(each.document(**more))
        page = node.run(10)
    assert gpus(page) == {(f"half-{n}", "main", "GPU-0"): 0.5 for n in range(4)}
    assert by(page, OVER, "uuid")["GPU-0",] == pytest.approx(10, abs=1.1)
    assert by(page, UNALLOCATED, "uuid")["GPU-1",] == pytest.approx(10, abs=1.1)


@report(
    source="llm-d-fast-model-actuation#125",
    seen="One pod asks for the card, and another, which asks for none, serves with it.",
    first="right",
    group="kubernetes",
    round=3,
)
def test_who_asks_and_who_works_are_two(tmp_path: Path) -> None:
    asks, serves = FieldPod("requester", {"main": WHOLE}), FieldPod("server", {"main": {}})
    with field_node(tmp_path, Gpu(0), labels={f"{GPU}.replicas": "1"}) as node:
        for each in (asks, serves):
            node.pod(each.document())
        node.kubelet.answer = holding("requester", "GPU-0")
        node.start(serves.cgroup(), 0, memory=60 * GIB, duty=0.5, period=0.4)
        page = node.run(10)
    assert gpus(page) == {("requester", "main", "GPU-0"): 1}
    assert core(page)["server", "main", "GPU-0"] == pytest.approx(4.5, abs=0.6)
    assert by(page, IDLE, "pod")["requester",] == pytest.approx(10, abs=1.1)
    assert by(page, UNALLOCATED, "uuid") == {("GPU-0",): pytest.approx(0, abs=1.1)}


@report(
    source="llm-d-fast-model-actuation#746",
    seen="35 GiB of a card are in use, and its one process holds 1.3: models that sleep.",
    first="right",
    group="kubernetes",
    round=3,
)
def test_memory_that_no_process_is_listed_with_is_nobodys_and_said(tmp_path: Path) -> None:
    pod = FieldPod("launcher", {"main": WHOLE})
    with field_node(tmp_path, Gpu(0, used=35_511 * MIB)) as node:
        node.pod(pod.document())
        node.kubelet.answer = holding("launcher", "GPU-0")
        node.start(pod.cgroup(), 0, memory=1302 * MIB, duty=0)
        page = node.run(5)
    assert page.value("mgpu_container_memory_used_bytes", **pod.of(), uuid="GPU-0") == 1302 * MIB
    lost = page.all("mgpu_device_unattributed_memory_bytes", uuid="GPU-0")
    assert sum(value for _, value in lost) == (35_511 - 1302) * MIB


@report(
    source="KAI-Scheduler#1873",
    seen="A claim of all cards and one of more than there can be make a count overflow.",
    first="right",
    group="kubernetes",
    round=3,
)
@pytest.mark.parametrize("asked", ["4", "9223372036854775807", "99999999999999999999"])
def test_a_pod_that_asks_for_more_than_there_is_costs_no_other(tmp_path: Path, asked: str) -> None:
    greedy, job = FieldPod("greedy", {"main": {GPU: asked}}), FieldPod("job", {"main": WHOLE})
    with field_node(tmp_path, Gpu(0), Gpu(1), labels={f"{GPU}.replicas": "1"}) as node:
        node.pod(greedy.document(phase="Pending", containerStatuses=[]))
        node.pod(job.document())
        node.kubelet.answer = holding("job", "GPU-1")
        page = node.run(5)
    assert gpus(page)["job", "main", "GPU-1"] == 1
    assert by(page, OVER, "uuid") == {("GPU-0",): 0, ("GPU-1",): 0}
    assert sum(v for (pod, _, _), v in gpus(page).items() if pod == "greedy") <= 4
