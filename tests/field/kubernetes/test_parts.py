"""Further reports of parts of cards: several for a container, and pods that come and go."""

from pathlib import Path

import pytest

from tests.agent.sources.node.messages import container, devices, holding, pod
from tests.fakenvml.scenario import GIB, Gpu, Instance
from tests.field.nodes import field_node
from tests.field.pods import FieldPod, by, core, gpus, memory_limits
from tests.field.report import report

MIB = 1 << 20
WHOLE = {"nvidia.com/gpu": "1"}
ALLOCATED = "hami.io/vgpu-devices-allocated"
GROUP = "runai-gpu-group"
NO_STATUS = dict[str, list[None]](
    containerStatuses=[], initContainerStatuses=[], ephemeralContainerStatuses=[]
)


def registered(mib: int) -> dict[str, str]:
    """Two cards as HAMi's plugin registers them."""
    cards = (f"GPU-{n},10,{mib},100,NVIDIA-NVIDIA H100,0,true,{n},hami-core:" for n in range(2))
    return {"hami.io/node-nvidia-register": "".join(cards)}


def asks(count: int, mib: int, cores: int) -> dict[str, str]:
    """Parts of so many cards, as a container asks HAMi for them."""
    return {
        "nvidia.com/gpu": str(count),
        "nvidia.com/gpumem": str(mib),
        "nvidia.com/gpucores": str(cores),
    }


def reservation(group: str, uuid: str, phase: str = "Running") -> FieldPod:
    """The pod by which KAI holds a card for a group."""
    return FieldPod(
        f"gpu-reservation-{group}-{phase.lower()}",
        {"resource-reservation": WHOLE},
        namespace="kai-resource-reservation",
        labels={"app": "kai-resource-reservation", GROUP: group},
        annotations={"run.ai/reserve_for_gpu_index": uuid},
        phase=phase,
    )


@report(
    source="HAMi#863",
    seen="Of a pod with two containers, one of them with two cards, the monitor has no figures.",
    first="right",
    group="kubernetes",
)
def test_two_containers_share_one_of_two_cards(tmp_path: Path) -> None:
    both = FieldPod(
        "both",
        {"x": asks(2, 1000, 10), "y": asks(1, 2000, 20)},
        annotations={
            ALLOCATED: "GPU-0,NVIDIA,1000,10:GPU-1,NVIDIA,1000,10:;GPU-0,NVIDIA,2000,20:;"
        },
    )
    with field_node(tmp_path, Gpu(0), Gpu(1), annotations=registered(81920)) as node:
        node.pod(both.document())
        node.start(both.cgroup("x"), 1, duty=0.5, period=0.53)
        node.start(both.cgroup("y"), 0, duty=0.5, period=0.53)
        page = node.run(8)
    assert memory_limits(page) == {
        ("both", "x", "GPU-0"): 1000 * MIB,
        ("both", "x", "GPU-1"): 1000 * MIB,
        ("both", "y", "GPU-0"): 2000 * MIB,
    }
    used = {key: value for key, value in core(page).items() if value}
    assert used.keys() == {("both", "x", "GPU-1"), ("both", "y", "GPU-0")}


@report(
    source="HAMi#1422",
    seen="With its memory scaled by 1.8 a card is registered with more than it has.",
    first="right",
    group="kubernetes",
)
def test_a_percentage_is_of_the_memory_that_is_registered(tmp_path: Path) -> None:
    half = FieldPod(
        "half",
        {"main": {"nvidia.com/gpu": "1", "nvidia.com/gpumem-percentage": "50"}},
        annotations={ALLOCATED: "GPU-0,NVIDIA,73728,0:;"},
    )
    with field_node(tmp_path, Gpu(0), Gpu(1), annotations=registered(147456)) as node:
        node.pod(half.document())
        page = node.run(5)
    assert memory_limits(page) == {("half", "main", "GPU-0"): 73728 * MIB}
    assert gpus(page) == {("half", "main", "GPU-0"): pytest.approx(0.9)}


@report(
    source="KAI-Scheduler#1369",
    seen="An amount of memory of each of two cards is counted as that of one.",
    first="right",
    group="kubernetes",
)
def test_an_amount_of_two_cards_is_of_each(tmp_path: Path) -> None:
    share = FieldPod(
        "share",
        {"main": {}},
        labels={f"{GROUP}/g1": "g1", f"{GROUP}/g2": "g2"},
        annotations={"gpu-memory": "49152", "gpu-fraction-num-devices": "2"},
    )
    with field_node(tmp_path, Gpu(0), Gpu(1)) as node:
        for each in (reservation("g1", "GPU-0"), reservation("g2", "GPU-1"), share):
            node.pod(each.document())
        page = node.run(5)
    assert gpus(page) == {("share", "main", f"GPU-{n}"): pytest.approx(0.6) for n in range(2)}
    assert page.value("mgpu_pod_memory_limit_bytes", pod="share") == 2 * 49152 * MIB


@report(
    source="KAI-Scheduler#65",
    seen="A card is reserved again and again, and the pods that failed to do it stay.",
    first="right",
    group="kubernetes",
)
def test_a_reservation_that_failed_places_nothing(tmp_path: Path) -> None:
    share = FieldPod(
        "share", {"main": {}}, labels={GROUP: "g"}, annotations={"gpu-fraction": "0.1"}
    )
    with field_node(tmp_path, Gpu(0), Gpu(1)) as node:
        for each in (reservation("g", "GPU-1", "Failed"), share):
            node.pod(each.document())
        before = node.run(3)
        node.pod(reservation("g", "GPU-0").document())
        after = node.run(3)
    assert {uuid for *_, uuid in gpus(before)} <= {""}
    assert gpus(after) == {("share", "main", "GPU-0"): pytest.approx(0.1)}


@report(
    source="k8s-device-plugin#728",
    seen="A container holds instances of two profiles, and sees those of one.",
    first="right",
    group="kubernetes",
)
def test_instances_of_two_profiles_are_all_a_containers(tmp_path: Path) -> None:
    small, large = "nvidia.com/mig-1g.10gb", "nvidia.com/mig-1g.20gb"
    many = FieldPod("many", {"main": {small: "1", large: "2"}})
    with field_node(tmp_path, Gpu(0, mig=True)) as node:
        node.driver.instances = [
            Instance(0, 0),
            *(Instance(0, n, memory=20 * GIB, profile="1g.20gb") for n in (1, 2)),
        ]
        node.pod(many.document())
        node.kubelet.answer = pod(
            "many",
            container("main", devices(small, "MIG-0-0"), devices(large, "MIG-0-1", "MIG-0-2")),
        )
        node.start(many.cgroup(), 0, instance=0)
        page = node.run(8)
    assert gpus(page) == {
        ("many", "main", "MIG-0-0"): pytest.approx(1 / 7),
        ("many", "main", "MIG-0-1"): 0.25,
        ("many", "main", "MIG-0-2"): 0.25,
    }
    assert page.value("mgpu_pod_memory_limit_bytes", pod="many") == 50 * GIB


@report(
    source="skypilot-org/skypilot#9877, #9855",
    seen="More than all GPUs are allocated: by pods that are not placed, end, or were refused.",
    first="right",
    group="kubernetes",
)
def test_a_card_is_not_allocated_twice_while_a_pod_is_replaced(tmp_path: Path) -> None:
    ends, refused = (
        FieldPod("ends", {"main": WHOLE}),
        FieldPod("no", {"main": WHOLE}, phase="Failed"),
    )
    ending = ends.document()
    ending["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:30Z"
    with field_node(tmp_path, Gpu(0), Gpu(1)) as node:
        node.pod(ends.document())
        node.kubelet.answer = holding("ends", "GPU-0")
        node.start(ends.cgroup(), 0)
        node.run(3)
        node.pod(ending)
        node.pod(refused.document(reason="UnexpectedAdmissionError", **NO_STATUS))
        page = node.run(5)
    assert gpus(page) == {("ends", "main", "GPU-0"): 1}
    assert set(by(page, "device_overcommitted_gpu_seconds_total", "uuid").values()) == {0}
    assert by(page, "device_unallocated_gpu_seconds_total", "uuid")["GPU-1",] >= 6
