"""HAMi: slots of its annotation, containers of all kinds, what stays when pods and processes go."""

from pathlib import Path

import pytest

from tests.agent.sources.node.messages import holding
from tests.fakenvml.scenario import GIB, Gpu, Instance
from tests.field.nodes import field_node
from tests.field.pods import FieldPod, by, core, gpus, memory_limits
from tests.field.report import report

MIB = 1 << 20
ALLOCATED = "hami.io/vgpu-devices-allocated"
NODE = {
    "hami.io/node-nvidia-register": (
        "GPU-0,10,81920,100,NVIDIA-NVIDIA H100,0,true,0,hami-core:"
        "GPU-1,10,81920,100,NVIDIA-NVIDIA H100,0,true,1,hami-core:"
    )
}
NONE: dict[str, str] = {}


def asks(mib: int, cores: int = 0) -> dict[str, str]:
    """One card's part, as a container asks for it."""
    found = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": str(mib)}
    return found | ({"nvidia.com/gpucores": str(cores)} if cores else {})


@report(
    source="HAMi#2899",
    seen="The slot of an init container without a GPU is left out, so all are shifted by one.",
    first="right",
    group="kubernetes",
)
def test_slots_that_begin_with_the_app_containers_are_theirs(tmp_path: Path) -> None:
    shifted = FieldPod(
        "shifted",
        {"a": asks(2500, 25), "b": asks(2500, 25)},
        init={"prepare": NONE},
        annotations={ALLOCATED: "GPU-0,NVIDIA,2500,25:;GPU-1,NVIDIA,2500,25:;"},
    )
    with field_node(tmp_path, Gpu(0), Gpu(1), annotations=NODE) as node:
        node.pod(shifted.document())
        page = node.run(5)
    assert set(gpus(page)) == {("shifted", "a", "GPU-0"), ("shifted", "b", "GPU-1")}
    assert set(memory_limits(page).values()) == {2500 * MIB}


@report(
    source="HAMi#3079",
    seen="The device is written into the slot of an init container that asks for none.",
    first="right",
    group="kubernetes",
)
def test_a_device_in_the_slot_of_a_container_that_asks_for_none_is_the_askers(
    tmp_path: Path,
) -> None:
    wrong = FieldPod(
        "wrong",
        {"gpu-main": asks(4000, 30)},
        init={"dummy-init": NONE},
        annotations={ALLOCATED: "GPU-1,NVIDIA,4000,30:;;"},
    )
    with field_node(tmp_path, Gpu(0), Gpu(1), annotations=NODE) as node:
        node.pod(wrong.document())
        node.start(wrong.cgroup("gpu-main"), 1, duty=0.5, period=0.4)
        page = node.run(5)
    assert memory_limits(page) == {("wrong", "gpu-main", "GPU-1"): 4000 * MIB}
    ratio = by(page, "container_core_limit_ratio", "container")
    assert ratio == {("gpu-main",): pytest.approx(0.3)}


@report(
    source="HAMi#991",
    seen="Empty slots are written in two ways in one annotation, and the device is in the first.",
    first="wrong",
    group="kubernetes",
    kind="identity by what others may change",
)
def test_of_slots_of_both_kinds_the_device_is_the_only_askers(tmp_path: Path) -> None:
    five = FieldPod(
        "five",
        {"c-1": NONE, "c-2": asks(1000), "c-3": NONE, "c-4": NONE, "c-5": NONE},
        annotations={ALLOCATED: "GPU-0,NVIDIA,1000,0:;;,,0,0:;,,0,0:;,,0,0:;"},
    )
    with field_node(tmp_path, Gpu(0), Gpu(1), annotations=NODE) as node:
        node.pod(five.document())
        page = node.run(5)
    assert memory_limits(page) == {("five", "c-2", "GPU-0"): 1000 * MIB}


@report(
    source="HAMi#2281",
    seen="All slots of a cache are added up, those of no process too.",
    first="right",
    group="kubernetes",
)
def test_a_container_without_a_process_uses_no_memory(tmp_path: Path) -> None:
    idle = FieldPod("idle", {"main": asks(8000)}, annotations={ALLOCATED: "GPU-0,NVIDIA,8000,0:;"})
    with field_node(tmp_path, Gpu(0), annotations=NODE) as node:
        node.pod(idle.document())
        pid = node.start(idle.cgroup(), 0, memory=6 * GIB, duty=0)
        node.run(5)
        node.end(pid)
        page = node.run(10)
    assert by(page, "container_memory_used_bytes", "pod") == {("idle",): 0}
    assert memory_limits(page) == {("idle", "main", "GPU-0"): 8000 * MIB}


@report(
    source="HAMi#1181",
    seen="The memory of a process is 2 to the 64th less some, and all of it counts.",
    first="right",
    group="kubernetes",
)
def test_memory_of_a_process_that_no_card_has_is_unmeasured(tmp_path: Path) -> None:
    embed = FieldPod(
        "embed", {"main": asks(24000)}, annotations={ALLOCATED: "GPU-0,NVIDIA,24000,0:;"}
    )
    with field_node(tmp_path, Gpu(0), annotations=NODE) as node:
        node.pod(embed.document())
        node.start(embed.cgroup(), 0, memory=2**64 - 1_844_000, duty=0.25, period=0.4)
        page = node.run(5)
    assert page.all("mgpu_container_memory_used_bytes") == []
    unmeasured = by(page, "container_unmeasured", "quantity", "reason")
    assert {quantity for quantity, _ in unmeasured} >= {"memory"}
    assert core(page)["embed", "main", "GPU-0"] > 0


@report(
    source="HAMi#1814",
    seen="A container has no series until something in it has called the driver.",
    first="right",
    group="kubernetes",
)
def test_a_container_that_never_touched_its_card_has_its_limits_and_zero(tmp_path: Path) -> None:
    quiet = FieldPod(
        "quiet", {"main": asks(4000, 50)}, annotations={ALLOCATED: "GPU-0,NVIDIA,4000,50:;"}
    )
    with field_node(tmp_path, Gpu(0), annotations=NODE) as node:
        node.pod(quiet.document())
        page = node.run(10)
    assert memory_limits(page) == {("quiet", "main", "GPU-0"): 4000 * MIB}
    assert core(page) == {("quiet", "main", "GPU-0"): 0}
    idle = by(page, "container_allocated_idle_core_seconds_total", "pod")
    assert idle["quiet",] == pytest.approx(4.5, abs=0.6)


@report(
    source="HAMi#2563",
    seen="A sidecar's share is dropped with that of the init containers.",
    first="right",
    group="kubernetes",
)
def test_a_sidecar_keeps_its_share_and_an_init_container_does_not(tmp_path: Path) -> None:
    mixed = FieldPod(
        "mixed",
        {"main": asks(10240)},
        init={"warm": asks(20480)},
        sidecars={"side": asks(2048)},
        annotations={
            ALLOCATED: "GPU-0,NVIDIA,20480,0:;GPU-0,NVIDIA,2048,0:;GPU-0,NVIDIA,10240,0:;"
        },
    )
    with field_node(tmp_path, Gpu(0), annotations=NODE) as node:
        node.pod(mixed.document())
        page = node.run(5)
    assert memory_limits(page) == {
        ("mixed", "side", "GPU-0"): 2048 * MIB,
        ("mixed", "main", "GPU-0"): 10240 * MIB,
    }


@report(
    source="HAMi#1458",
    seen="A card stays allocated in the metrics after its pod was deleted.",
    first="right",
    group="kubernetes",
)
def test_a_deleted_pods_part_is_given_back_at_once(tmp_path: Path) -> None:
    gone = FieldPod(
        "gone", {"main": asks(81920, 100)}, annotations={ALLOCATED: "GPU-0,NVIDIA,81920,100:;"}
    )
    with field_node(tmp_path, Gpu(0), annotations=NODE) as node:
        node.pod(gone.document())
        node.run(5)
        node.delete(gone.document())
        page = node.run(5)
    assert gpus(page) == {}
    assert by(page, "device_unallocated_gpu_seconds_total", "uuid")["GPU-0",] == pytest.approx(
        5, abs=1.1
    )


@report(
    source="HAMi#1491",
    seen="A new pod is put on a card that another pod holds whole.",
    first="right",
    group="kubernetes",
)
def test_two_pods_that_hold_one_card_whole_are_overcommitted_by_one(tmp_path: Path) -> None:
    pods = [
        FieldPod(
            name, {"main": asks(81920, 100)}, annotations={ALLOCATED: "GPU-0,NVIDIA,81920,100:;"}
        )
        for name in ("old", "new")
    ]
    with field_node(tmp_path, Gpu(0), annotations=NODE) as node:
        for each in pods:
            node.pod(each.document())
        page = node.run(10)
    assert gpus(page) == {("old", "main", "GPU-0"): 1, ("new", "main", "GPU-0"): 1}
    over = by(page, "device_overcommitted_gpu_seconds_total", "uuid")
    assert over["GPU-0",] == pytest.approx(9, abs=1.1)


@report(
    source="HAMi#705",
    seen="With memory scaled by 2.5 a pod has 60,000 MiB of a card of 24 GiB.",
    first="right",
    group="kubernetes",
)
def test_a_scaled_memory_is_the_limit_and_no_more_than_the_card_is_kept(tmp_path: Path) -> None:
    scaled = FieldPod(
        "scaled", {"main": asks(60000)}, annotations={ALLOCATED: "GPU-0,NVIDIA,60000,0:;"}
    )
    annotations = {
        "hami.io/node-nvidia-register": (
            "GPU-0,10,61410,100,NVIDIA-NVIDIA GeForce RTX 4090,0,true,0,hami-core:"
        )
    }
    with field_node(tmp_path, Gpu(0, memory=24 * GIB), annotations=annotations) as node:
        node.pod(scaled.document())
        page = node.run(5)
    assert memory_limits(page) == {("scaled", "main", "GPU-0"): 60000 * MIB}
    assert gpus(page) == {("scaled", "main", "GPU-0"): 1}
    assert by(page, "device_overcommitted_gpu_seconds_total", "uuid")["GPU-0",] == 0


@report(
    source="HAMi#446",
    seen="nvidia-smi says 782 MiB in the pod and 1,660 MiB at the host, of a limit of 1,000.",
    first="right",
    group="kubernetes",
)
def test_the_memory_in_use_is_the_drivers_also_beyond_the_limit(tmp_path: Path) -> None:
    torch = FieldPod(
        "torch", {"main": asks(1000, 50)}, annotations={ALLOCATED: "GPU-0,NVIDIA,1000,50:;"}
    )
    with field_node(tmp_path, Gpu(0), annotations=NODE) as node:
        node.pod(torch.document())
        node.start(torch.cgroup(), 0, memory=1660 * MIB, duty=0.2, period=0.4)
        page = node.run(5)
    own = {**torch.of(), "uuid": "GPU-0"}
    assert page.value("mgpu_container_memory_used_bytes", **own) == 1660 * MIB
    ratio = page.value("mgpu_container_memory_limit_utilization_ratio", **own)
    assert ratio == pytest.approx(1.66)


@report(
    source="HAMi#1054",
    seen="Of a card in MIG mode the annotation has the place in the template, not the instance.",
    first="right",
    group="kubernetes",
)
def test_an_instance_by_its_place_is_its_containers(tmp_path: Path) -> None:
    part = FieldPod(
        "part",
        {"main": asks(8000)},
        annotations={ALLOCATED: "GPU-0[1-0],NVIDIA,10240,0:;", "nvidia.com/vgpu-mode": "mig"},
    )
    board = Gpu(0, name="NVIDIA A100-PCIE-40GB", memory=40 * GIB, mig=True)
    with field_node(tmp_path, board, annotations=NODE) as node:
        node.driver.instances = [
            Instance(0, n, slices=2, memory=10 * GIB, profile="2g.10gb", start=2 * n)
            for n in range(3)
        ]
        node.pod(part.document())
        node.start(part.cgroup(), 0, instance=0, duty=0.5, period=0.4)
        page = node.run(10)
    assert set(gpus(page)) == {("part", "main", "MIG-0-0")}
    assert memory_limits(page) == {("part", "main", "MIG-0-0"): 10 * GIB}
    assert core(page)["part", "main", "MIG-0-0"] == pytest.approx(4.5 * 2 / 7, abs=0.4)


@report(
    source="HAMi#277",
    seen="What a series calls its container is neither the name nor the number of it.",
    first="right",
    group="kubernetes",
)
def test_two_containers_with_a_card_each_have_their_series(tmp_path: Path) -> None:
    pair = FieldPod(
        "pair",
        {"a": asks(4000, 20), "b": asks(8000, 40)},
        annotations={ALLOCATED: "GPU-0,NVIDIA,4000,20:;GPU-1,NVIDIA,8000,40:;"},
    )
    with field_node(tmp_path, Gpu(0), Gpu(1), annotations=NODE) as node:
        node.pod(pair.document())
        for name, gpu in (("a", 0), ("b", 1)):
            node.start(pair.cgroup(name), gpu, duty=0.5, period=0.4)
        page = node.run(10)
    assert set(core(page)) == {("pair", "a", "GPU-0"), ("pair", "b", "GPU-1")}
    assert min(core(page).values()) == pytest.approx(4.5, abs=0.6)


@report(
    source="HAMi#2923",
    seen="After its scheduler restarted, a pod that is gone holds eight cards.",
    first="right",
    group="kubernetes",
)
def test_a_pod_that_is_recreated_under_its_name_holds_its_new_card_alone(tmp_path: Path) -> None:
    def predictor(uid: str, card: int) -> FieldPod:
        made = FieldPod(
            "predictor-0",
            {"main": asks(81920, 100)},
            annotations={ALLOCATED: f"GPU-{card},NVIDIA,81920,100:;"},
        )
        made.uid = uid
        return made

    with field_node(tmp_path, Gpu(0), Gpu(1), annotations=NODE) as node:
        node.pod(predictor("11111111-0000-4000-8000-000000000001", 0).document())
        node.run(5)
        node.pod(predictor("22222222-0000-4000-8000-000000000002", 1).document())
        page = node.run(5)
    assert gpus(page) == {("predictor-0", "main", "GPU-1"): 1}
    unallocated = by(page, "device_unallocated_gpu_seconds_total", "uuid")
    assert unallocated["GPU-0",] == pytest.approx(5, abs=1.1)


@report(
    source="HAMi#1353",
    seen="Of a card whose whole memory one pod has, none of the core counts as allocated.",
    first="right",
    group="kubernetes",
)
def test_a_card_whose_memory_is_taken_is_taken(tmp_path: Path) -> None:
    alone = FieldPod(
        "alone",
        {"main": {"nvidia.com/gpu": "1"}},
        annotations={ALLOCATED: "GPU-0,NVIDIA,81920,0:;"},
    )
    with field_node(tmp_path, Gpu(0), annotations=NODE) as node:
        node.pod(alone.document())
        page = node.run(5)
    assert gpus(page) == {("alone", "main", "GPU-0"): 1}
    unallocated = by(page, "device_unallocated_gpu_seconds_total", "uuid")
    assert unallocated["GPU-0",] == pytest.approx(0, abs=1.1)
    assert page.all("mgpu_container_core_limit_ratio") == []


@report(
    source="HAMi#1741",
    seen="The scheduler assigns four cards, and the kubelet's ids are of three.",
    first="right",
    group="kubernetes",
)
def test_the_cards_of_the_annotation_are_the_containers_not_those_of_the_ids(
    tmp_path: Path,
) -> None:
    cards = "".join(f"GPU-{n},NVIDIA,81920,0:" for n in range(4))
    four = FieldPod("four", {"main": {"nvidia.com/gpu": "4"}}, annotations={ALLOCATED: f"{cards};"})
    with field_node(tmp_path, *(Gpu(n) for n in range(4)), annotations=NODE) as node:
        node.pod(four.document())
        node.kubelet.answer = holding("four", "GPU-0-1", "GPU-0-6", "GPU-1-3", "GPU-2-0")
        for n in range(4):
            node.start(four.cgroup(), n, duty=0.5, period=0.4)
        page = node.run(10)
    assert gpus(page) == {("four", "main", f"GPU-{n}"): 1 for n in range(4)}
    assert set(by(page, "container_placement_mismatch", "uuid").values()) == {0}


@report(
    source="HAMi#13",
    seen="A card whose core one pod has whole is given to a second pod.",
    first="right",
    group="kubernetes",
)
def test_a_part_beside_a_whole_core_is_overcommitted_by_its_size(tmp_path: Path) -> None:
    first = FieldPod(
        "first", {"main": asks(1000, 100)}, annotations={ALLOCATED: "GPU-0,NVIDIA,1000,100:;"}
    )
    second = FieldPod(
        "second", {"main": asks(8192)}, annotations={ALLOCATED: "GPU-0,NVIDIA,8192,0:;"}
    )
    with field_node(tmp_path, Gpu(0), annotations=NODE) as node:
        for each in (first, second):
            node.pod(each.document())
        page = node.run(10)
    assert sum(gpus(page).values()) == pytest.approx(1.1)
    over = by(page, "device_overcommitted_gpu_seconds_total", "uuid")
    assert over["GPU-0",] == pytest.approx(0.9, abs=0.15)


@report(
    source="HAMi#1106",
    seen="A pod is given a card that the node does not have.",
    first="unknown",
    group="kubernetes",
    settled="the first process of the pod, or what the kubelet says it holds",
)
def test_a_card_that_the_node_does_not_have_is_no_other_card(tmp_path: Path) -> None:
    gone = FieldPod(
        "gone", {"main": asks(4096)}, annotations={ALLOCATED: "GPU-gone,NVIDIA,4096,0:;"}
    )
    with field_node(tmp_path, Gpu(0), annotations=NODE) as node:
        node.pod(gone.document())
        page = node.run(70, step_s=2)
    assert memory_limits(page) == {}
    assert {uuid for *_, uuid in gpus(page)} <= {""}
    unallocated = by(page, "device_unallocated_gpu_seconds_total", "uuid")
    # The pod runs, so it may have the card that took the place of the one it names.
    assert unallocated["GPU-0",] == pytest.approx(69 * 0.95, abs=3)


@report(
    source="NVIDIA/k8s-device-plugin#335, kubernetes/kubernetes#104099",
    seen="The process of a pod that was deleted by force lives on beside that of its successor of "
    "the same name, whose ratio then counts both.",
    first="wrong",
    group="kubernetes",
    kind="one name is not one thing for ever",
)
def test_what_a_pod_deleted_by_force_still_uses_is_not_its_successors(tmp_path: Path) -> None:
    old, new = (
        FieldPod(
            "web-0",
            {"main": asks(15 * 1024, 50)},
            annotations={ALLOCATED: "GPU-0,NVIDIA,15360,50:;"},
        )
        for _ in range(2)
    )
    new.uid = "11111111-2222-4333-8444-555555555555"
    new.ids = {"main": "5" * 64}
    with field_node(tmp_path, Gpu(0), annotations=NODE) as node:
        node.pod(old.document())
        node.start(old.cgroup("main"), 0, duty=0.3, period=0.5, memory=10 * GIB)
        before = node.run(40)
        node.delete(old.document())
        node.pod(new.document())
        node.start(new.cgroup("main"), 0, duty=0.3, period=0.5, memory=10 * GIB)
        after = node.run(40)
    for page in (before, after):
        ratio = by(page, "pod_memory_limit_utilization_ratio", "pod")["web-0",]
        assert ratio == pytest.approx(2 / 3, abs=0.01)
        assert by(page, "pod_core_limit_utilization_ratio", "pod")["web-0",] < 0.65
    left = by(after, "group_memory_used_bytes", "kind", "group")
    assert [(kind, used) for (kind, _), used in left.items()] == [("pod", 10 * GIB)]
