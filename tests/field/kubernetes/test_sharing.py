"""KAI, Volcano, Koordinator, Aliyun and Tencent: what their annotations say, and what is seen."""

from pathlib import Path

import pytest

from tests.fakenvml.scenario import GIB, Gpu
from tests.field.nodes import FieldNode, field_node
from tests.field.pods import FieldPod, by, core, gpus, memory_limits
from tests.field.report import report

MIB = 1 << 20
OVER = "device_overcommitted_gpu_seconds_total"
UNALLOCATED = "device_unallocated_gpu_seconds_total"
WHOLE = {"nvidia.com/gpu": "1"}


def reservation(group: str, card: str) -> FieldPod:
    """The pod that reserves a card for KAI's group."""
    return FieldPod(
        f"gpu-reservation-node-1-{group}",
        {"resource-reservation": WHOLE},
        namespace="kai-resource-reservation",
        labels={"app": "kai-resource-reservation", "runai-gpu-group": group},
        annotations={"run.ai/reserve_for_gpu_index": card},
    )


def fraction(name: str, group: str, **annotations: str) -> FieldPod:
    """A pod that shares the card of a group."""
    return FieldPod(
        name,
        {"main": {}},
        labels={"kai.scheduler/queue": "test", "runai-gpu-group": group},
        annotations={key.replace("_", "-"): value for key, value in annotations.items()},
    )


def show(node: FieldNode, *pods: FieldPod) -> None:
    """Let the API server have these pods."""
    for each in pods:
        node.pod(each.document())


@report(
    source="KAI-Scheduler#416",
    seen="Pods are put on a card until they ask for more memory than it has.",
    first="right",
    group="kubernetes",
)
def test_memory_that_is_promised_beyond_the_card_is_overcommitted(tmp_path: Path) -> None:
    pods = [fraction(f"share-{n}", "g1", gpu_memory="16384") for n in range(6)]
    with field_node(tmp_path, Gpu(0), labels={"nvidia.com/gpu.memory": "81920"}) as node:
        show(node, reservation("g1", "GPU-0"), *pods)
        page = node.run(10)
    assert set(memory_limits(page).values()) == {16 * GIB}
    assert sum(gpus(page).values()) == pytest.approx(1.2)
    assert by(page, OVER, "uuid")["GPU-0",] == pytest.approx(0.2 * 9, abs=0.3)


@report(
    source="KAI-Scheduler#464",
    seen="With two cards reserved, it cannot be seen on which of them the third pod is.",
    first="right",
    group="kubernetes",
)
def test_a_fraction_is_on_the_card_of_its_own_group(tmp_path: Path) -> None:
    pods = [fraction(f"llama-{n}", g, gpu_fraction="0.5") for n, g in enumerate("aab")]
    with field_node(tmp_path, Gpu(0), Gpu(1)) as node:
        show(node, reservation("a", "GPU-1"), reservation("b", "GPU-0"), *pods)
        page = node.run(5)
    assert gpus(page) == {
        ("llama-0", "main", "GPU-1"): 0.5,
        ("llama-1", "main", "GPU-1"): 0.5,
        ("llama-2", "main", "GPU-0"): 0.5,
    }
    assert by(page, OVER, "uuid") == {("GPU-0",): 0, ("GPU-1",): 0}


@report(
    source="KAI-Scheduler#257",
    seen="Three pods of 8,000 MiB fit a card of 16,384, since their annotation is misspelt.",
    first="right",
    group="kubernetes",
)
def test_an_annotation_that_the_scheduler_does_not_read_promises_nothing(tmp_path: Path) -> None:
    pods = [
        FieldPod(
            f"misspelt-{n}",
            {"main": {}},
            labels={"runai/queue": "test"},
            annotations={"nvidia.com/gpu.memory": "8000Mi"},
        )
        for n in range(3)
    ]
    with field_node(tmp_path, Gpu(0, memory=16 * GIB)) as node:
        show(node, *pods)
        for each in pods:
            node.start(each.cgroup(), 0, memory=GIB, duty=0.2, period=0.4)
        page = node.run(5)
    assert gpus(page) == {}
    assert memory_limits(page) == {}
    assert len(core(page)) == 3
    assert by(page, UNALLOCATED, "uuid")["GPU-0",] == pytest.approx(5, abs=1.1)


@report(
    source="KAI-Scheduler#49",
    seen="A pod of 4,000 MiB sees and fills the whole card of 80 GiB.",
    first="right",
    group="kubernetes",
)
def test_a_limit_that_nothing_enforces_says_so_and_what_is_used_of_it(tmp_path: Path) -> None:
    greedy = fraction("greedy", "g1", gpu_memory="4000")
    with field_node(tmp_path, Gpu(0)) as node:
        show(node, reservation("g1", "GPU-0"), greedy)
        node.start(greedy.cgroup(), 0, memory=60 * GIB, duty=0.5, period=0.4)
        page = node.run(5)
    own = {**greedy.of(), "uuid": "GPU-0"}
    assert memory_limits(page) == {("greedy", "main", "GPU-0"): 4000 * MIB}
    assert page.value("mgpu_container_memory_limit_utilization_ratio", **own) == pytest.approx(
        60 * 1024 / 4000
    )
    [(info, _)] = page.all("mgpu_container_allocation_info", **own)
    assert info["policy"] == "unenforced"


VGPU = "volcano.sh/vgpu-ids-new"


def vgpu(mib: int, cores: int) -> dict[str, str]:
    """A part of one card, as a container asks Volcano for it."""
    return {
        "volcano.sh/vgpu-number": "1",
        "volcano.sh/vgpu-memory": str(mib),
        "volcano.sh/vgpu-cores": str(cores),
    }


@report(
    source="volcano#4633",
    seen="The scheduler ends when a pod of several containers asks for cards.",
    first="right",
    group="kubernetes",
)
def test_each_container_of_a_volcano_pod_has_its_own_part(tmp_path: Path) -> None:
    pair = FieldPod(
        "pair",
        {"a": vgpu(4096, 20), "idle": {}, "b": vgpu(8192, 30)},
        annotations={VGPU: "GPU-0,NVIDIA,4096,20:;GPU-1,NVIDIA,8192,30:"},
    )
    with field_node(tmp_path, Gpu(0), Gpu(1)) as node:
        show(node, pair)
        page = node.run(5)
    assert memory_limits(page) == {
        ("pair", "a", "GPU-0"): 4 * GIB,
        ("pair", "b", "GPU-1"): 8 * GIB,
    }


@report(
    source="volcano#4809",
    seen="Memory and cores of a pod are counted twice, at the bind and at its update.",
    first="right",
    group="kubernetes",
)
def test_a_pod_that_is_updated_often_is_counted_once(tmp_path: Path) -> None:
    job = FieldPod("job", {"main": vgpu(40960, 50)}, annotations={VGPU: "GPU-0,NVIDIA,40960,50:"})
    with field_node(tmp_path, Gpu(0)) as node:
        pages = []
        for number in range(5):
            document = job.document()
            document["metadata"]["annotations"]["volcano.sh/bind-phase"] = f"phase-{number}"
            node.pod(document)
            pages.append(node.run(2))
    assert [gpus(page) for page in pages] == [{("job", "main", "GPU-0"): 0.5}] * 5
    seconds = by(pages[-1], "device_unallocated_gpu_seconds_total", "uuid")
    assert seconds["GPU-0",] == pytest.approx(5, abs=1.1)


@report(
    source="volcano#4595",
    seen="The allocated memory of a card drifts away from the sum of its pods.",
    first="right",
    group="kubernetes",
)
def test_after_many_pods_came_and_went_nothing_is_left_over(tmp_path: Path) -> None:
    with field_node(tmp_path, Gpu(0)) as node:
        for number in range(12):
            job = FieldPod(
                f"job-{number}",
                {"main": vgpu(20480, 25)},
                annotations={VGPU: "GPU-0,NVIDIA,20480,25:"},
            )
            show(node, job)
            node.run(2)
            node.delete(job.document())
        page = node.run(2)
    assert gpus(page) == {}
    unallocated = by(page, UNALLOCATED, "uuid")["GPU-0",]
    assert unallocated == pytest.approx(12 * 2 * 0.75 + 2, abs=1.1)
    allocated = by(page, "namespace_allocated_gpu_seconds_total", "namespace")
    assert allocated["ml",] + unallocated == pytest.approx(26, abs=1.1)


@report(
    source="volcano-vgpu-device-plugin#130",
    seen="Figures of a completed pod are exported as long as its object is there.",
    first="right",
    group="kubernetes",
)
def test_a_completed_pod_whose_object_stays_has_no_gauges(tmp_path: Path) -> None:
    task = FieldPod("task-0", {"main": vgpu(8192, 30)}, annotations={VGPU: "GPU-0,NVIDIA,8192,30:"})
    with field_node(tmp_path, Gpu(0)) as node:
        show(node, task)
        pid = node.start(task.cgroup(), 0)
        node.run(5)
        node.end(pid)
        task.phase = "Succeeded"
        show(node, task)
        page = node.run(3)
    assert gpus(page) == {}
    assert memory_limits(page) == {}
    assert page.all("mgpu_container_memory_used_bytes") == []
    assert page.all("mgpu_pod_memory_limit_bytes") == []


@report(
    source="volcano-vgpu-device-plugin#40",
    seen="Without a number of cards one is in the annotation, and the container sees all.",
    first="right",
    group="kubernetes",
)
def test_use_of_a_card_that_the_annotation_does_not_name_is_counted_where_it_is(
    tmp_path: Path,
) -> None:
    limits = {"volcano.sh/vgpu-memory": "1024"}
    free = FieldPod("free", {"main": limits}, annotations={VGPU: "GPU-0,NVIDIA,1024,0:"})
    with field_node(tmp_path, Gpu(0), Gpu(1)) as node:
        show(node, free)
        node.start(free.cgroup(), 1, memory=30 * GIB, duty=0.5, period=0.4)
        page = node.run(10)
    assert core(page)["free", "main", "GPU-1"] == pytest.approx(4.5, abs=0.6)
    used = by(page, "container_memory_used_bytes", "uuid")
    assert used["GPU-1",] == 30 * GIB
    assert ("free", "main", "GPU-1") not in memory_limits(page)


@report(
    source="koordinator#2097",
    seen="A pod that asks for a part of each of four cards is not placed.",
    first="right",
    group="kubernetes",
)
def test_a_part_of_each_of_four_cards_is_four_parts(tmp_path: Path) -> None:
    devices = ",".join(
        f'{{"minor":{n},"resources":{{"koordinator.sh/gpu-core":"50",'
        f'"koordinator.sh/gpu-memory":"40Gi","koordinator.sh/gpu-memory-ratio":"50"}}}}'
        for n in range(4)
    )
    four = FieldPod(
        "four",
        {
            "main": {
                "koordinator.sh/gpu.shared": "4",
                "koordinator.sh/gpu-memory": "160Gi",
                "koordinator.sh/gpu-core": "200",
            }
        },
        annotations={"scheduling.koordinator.sh/device-allocated": f'{{"gpu":[{devices}]}}'},
    )
    with field_node(tmp_path, *(Gpu(n, minor=n) for n in range(4))) as node:
        show(node, four)
        page = node.run(5)
    cards = [("four", "main", f"GPU-{n}") for n in range(4)]
    assert memory_limits(page) == dict.fromkeys(cards, 40 * GIB)
    assert gpus(page) == dict.fromkeys(cards, 0.5)


@report(
    source="koordinator#2545",
    seen="A pod whose label names HAMi-core as its isolation is not isolated at all.",
    first="unknown",
    group="kubernetes",
    settled="whether HAMi-core is loaded in the container; nothing outside of it says so",
)
def test_isolation_that_a_label_promises_is_reported_as_the_label_says(tmp_path: Path) -> None:
    claimed = FieldPod(
        "claimed",
        {"main": {"koordinator.sh/gpu-core": "50", "koordinator.sh/gpu-memory-ratio": "50"}},
        labels={"koordinator.sh/gpu-isolation-provider": "HAMi-core"},
        annotations={
            "scheduling.koordinator.sh/device-allocated": (
                '{"gpu":[{"minor":1,"resources":{"koordinator.sh/gpu-core":"50",'
                '"koordinator.sh/gpu-memory":"40Gi","koordinator.sh/gpu-memory-ratio":"50"},'
                '"id":"GPU-1"}]}'
            )
        },
    )
    with field_node(tmp_path, Gpu(0, minor=0), Gpu(1, minor=1)) as node:
        show(node, claimed)
        node.start(claimed.cgroup(), 1, memory=70 * GIB, duty=1)
        page = node.run(10)
    own = {**claimed.of(), "uuid": "GPU-1"}
    assert page.value("mgpu_container_memory_limit_utilization_ratio", **own) == 1.75
    borrowed = page.value("mgpu_container_borrowed_core_seconds_total", **own)
    assert borrowed == pytest.approx(4.5, abs=0.6)
    [(info, _)] = page.all("mgpu_container_allocation_info", **own)
    assert info["scheme"] == "koordinator"


def gpushare(index: int, gib: int) -> dict[str, str]:
    """What Aliyun's extender writes."""
    return {
        "ALIYUN_COM_GPU_MEM_ASSIGNED": "true",
        "ALIYUN_COM_GPU_MEM_DEV": "80",
        "ALIYUN_COM_GPU_MEM_IDX": str(index),
        "ALIYUN_COM_GPU_MEM_POD": str(gib),
    }


@report(
    source="gpushare-device-plugin#61",
    seen="The annotation says card 4, the container's environment says 3, and it is on 3.",
    first="right",
    group="kubernetes",
)
def test_use_on_another_card_than_the_annotations_is_there_and_a_mismatch(tmp_path: Path) -> None:
    moved = FieldPod("moved", {"main": {"aliyun.com/gpu-mem": "2"}}, annotations=gpushare(4, 2))
    with field_node(tmp_path, *(Gpu(n) for n in range(5))) as node:
        show(node, moved)
        node.start(moved.cgroup(), 3, duty=0.5, period=0.4)
        page = node.run(10)
    assert core(page)["moved", "main", "GPU-3"] == pytest.approx(4.5, abs=0.6)
    assert by(page, "container_placement_mismatch", "uuid")["GPU-3",] == 1


@report(
    source="gpushare-scheduler-extender#191",
    seen="A pod is assigned card 1 on a server that has one card.",
    first="right",
    group="kubernetes",
)
def test_an_index_that_no_card_has_is_no_other_card(tmp_path: Path) -> None:
    lost = FieldPod("lost", {"main": {"aliyun.com/gpu-mem": "9"}}, annotations=gpushare(1, 9))
    with field_node(tmp_path, Gpu(0)) as node:
        show(node, lost)
        page = node.run(5)
    assert memory_limits(page) == {}
    assert {uuid for *_, uuid in gpus(page)} <= {""}


@report(
    source="gpu-manager#173",
    seen="A pod that asks for memory and no core has no metrics.",
    first="right",
    group="kubernetes",
)
def test_a_pod_of_memory_alone_has_a_limit_and_no_share(tmp_path: Path) -> None:
    triton = FieldPod(
        "triton",
        {"main": {"tencent.com/vcuda-memory": "3"}},
        annotations={"tencent.com/predicate-gpu-idx-0": "0"},
    )
    with field_node(tmp_path, Gpu(0)) as node:
        show(node, triton)
        node.start(triton.cgroup(), 0, memory=512 * MIB, duty=0.5, period=0.4)
        page = node.run(5)
    assert core(page)["triton", "main", "GPU-0"] > 0
    assert page.all("mgpu_container_core_limit_ratio") == []


@report(
    source="gpu-manager#39",
    seen="With 100 of the core and 256 MiB of memory, the memory is not limited.",
    first="right",
    group="kubernetes",
)
def test_a_hundred_of_the_core_is_the_whole_card(tmp_path: Path) -> None:
    whole = FieldPod(
        "whole",
        {"main": {"tencent.com/vcuda-core": "100", "tencent.com/vcuda-memory": "1"}},
        annotations={"tencent.com/predicate-gpu-idx-0": "0"},
    )
    with field_node(tmp_path, Gpu(0)) as node:
        show(node, whole)
        node.start(whole.cgroup(), 0, memory=20 * GIB, duty=0.5, period=0.4)
        page = node.run(5)
    assert gpus(page) == {("whole", "main", "GPU-0"): 1}
    assert memory_limits(page) == {("whole", "main", "GPU-0"): 80 * GIB}


@report(
    source="gpu-manager#115",
    seen="A container of half a card uses 60 % now and then.",
    first="right",
    group="kubernetes",
)
def test_use_beyond_the_share_is_borrowed_and_not_netted_against_idle_time(tmp_path: Path) -> None:
    burst = FieldPod(
        "burst",
        {"main": {"tencent.com/vcuda-core": "50", "tencent.com/vcuda-memory": "40"}},
        annotations={"tencent.com/predicate-gpu-idx-0": "0"},
    )
    with field_node(tmp_path, Gpu(0)) as node:
        show(node, burst)
        node.start(burst.cgroup(), 0, duty=0.5, period=20.0)
        page = node.run(20)
    own = {**burst.of(), "uuid": "GPU-0"}
    borrowed, idle, used, allocated = (
        page.value(f"mgpu_container_{name}_seconds_total", **own) or 0.0
        for name in ("borrowed_core", "allocated_idle_core", "core", "allocated_core")
    )
    assert borrowed == pytest.approx(5, abs=0.6)
    assert idle == pytest.approx(5, abs=0.6)
    assert used + idle - borrowed == pytest.approx(allocated)


@report(
    source="gpu-manager#180",
    seen="A process of 1,500 MiB runs in a pod of 512 MiB.",
    first="right",
    group="kubernetes",
)
def test_vcuda_memory_counts_in_units_of_256_mib(tmp_path: Path) -> None:
    over = FieldPod(
        "over",
        {"main": {"tencent.com/vcuda-core": "20", "tencent.com/vcuda-memory": "2"}},
        annotations={"tencent.com/predicate-gpu-idx-0": "0"},
    )
    with field_node(tmp_path, Gpu(0)) as node:
        show(node, over)
        node.start(over.cgroup(), 0, memory=1500 * MIB, duty=0.1, period=0.4)
        page = node.run(5)
    assert memory_limits(page) == {("over", "main", "GPU-0"): 512 * MIB}
    ratio = page.value("mgpu_container_memory_limit_utilization_ratio", **over.of(), uuid="GPU-0")
    assert ratio == pytest.approx(1500 / 512)


@report(
    source="gpushare-scheduler-extender#76",
    seen="The first pod reserves more than it asked for, so the second runs out of memory.",
    first="right",
    group="kubernetes",
)
def test_who_holds_more_than_he_asked_for_is_seen_beside_his_victim(tmp_path: Path) -> None:
    a = FieldPod("a", {"main": {"aliyun.com/gpu-mem": "1"}}, annotations=gpushare(0, 1))
    b = FieldPod("b", {"main": {"aliyun.com/gpu-mem": "5"}}, annotations=gpushare(0, 5))
    with field_node(tmp_path, Gpu(0, memory=11 * GIB)) as node:
        show(node, a, b)
        node.start(a.cgroup(), 0, memory=10 * GIB, duty=0)
        page = node.run(5)
    ratio = by(page, "container_memory_limit_utilization_ratio", "pod")
    assert ratio == {("a",): 10, ("b",): 0}
    infos = {own["policy"] for own, _ in page.all("mgpu_container_allocation_info")}
    assert infos == {"unenforced"}


@report(
    source="volcano-vgpu-device-plugin#30",
    seen="Six pods that ask for half of the core each are on one card.",
    first="right",
    group="kubernetes",
)
def test_six_halves_on_one_card_are_overcommitted_by_two_cards(tmp_path: Path) -> None:
    pods = [
        FieldPod(f"cnn-{n}", {"main": vgpu(4544, 50)}, annotations={VGPU: "GPU-0,NVIDIA,4544,50:"})
        for n in range(6)
    ]
    with field_node(tmp_path, Gpu(0), Gpu(1)) as node:
        show(node, *pods)
        page = node.run(10)
    assert sum(gpus(page).values()) == pytest.approx(3)
    assert by(page, OVER, "uuid")["GPU-0",] == pytest.approx(18, abs=2.1)
    assert by(page, UNALLOCATED, "uuid")["GPU-1",] == pytest.approx(10, abs=1.1)


@report(
    source="volcano#3089",
    seen="A limit of 10 % of the memory of two cards is not what the container has.",
    first="right",
    group="kubernetes",
)
def test_a_percentage_of_memory_is_the_amount_that_was_allocated(tmp_path: Path) -> None:
    tenth = FieldPod(
        "tenth",
        {
            "main": {"volcano.sh/vgpu-number": "2", "volcano.sh/vgpu-memory-percentage": "10"},
            "beside": {},
        },
        annotations={VGPU: "GPU-0,NVIDIA,3276,0:GPU-1,NVIDIA,3276,0:"},
    )
    with field_node(tmp_path, Gpu(0, memory=32 * GIB), Gpu(1, memory=32 * GIB)) as node:
        show(node, tenth)
        page = node.run(5)
    assert memory_limits(page) == {
        ("tenth", "main", "GPU-0"): 3276 * MIB,
        ("tenth", "main", "GPU-1"): 3276 * MIB,
    }


@report(
    source="HAMi-core#104",
    seen="With a factor of 2, two cards of 42,000 MiB and 30 % of the core are each over it.",
    first="right",
    group="kubernetes",
)
def test_amounts_with_a_factor_are_right_on_each_of_two_cards(tmp_path: Path) -> None:
    pair = FieldPod(
        "pair",
        {
            "main": {
                "volcano.sh/vgpu-number": "2",
                "volcano.sh/vgpu-memory": "21000",
                "volcano.sh/vgpu-cores": "30",
            }
        },
        annotations={VGPU: "GPU-0,NVIDIA,21000,30:GPU-1,NVIDIA,21000,30:"},
    )
    registered = "".join(f"GPU-{n},10,23034,NVIDIA,true,hami-core:" for n in range(2))
    cards = (Gpu(n, name="NVIDIA L20", memory=46068 * MIB) for n in range(2))
    with field_node(
        tmp_path, *cards, annotations={"volcano.sh/node-vgpu-register": registered}
    ) as node:
        show(node, pair)
        node.start(pair.cgroup(), 1, duty=0.5, period=0.4)
        page = node.run(10)
    assert set(memory_limits(page).values()) == {42000 * MIB}
    own = {**pair.of(), "uuid": "GPU-1"}
    assert page.value("mgpu_container_core_limit_ratio", **own) == pytest.approx(0.3)
    borrowed = page.value("mgpu_container_borrowed_core_seconds_total", **own)
    assert borrowed == pytest.approx(0.2 * 9, abs=0.7)
