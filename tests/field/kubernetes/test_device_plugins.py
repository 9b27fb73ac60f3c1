"""Device plugins: time-slicing, MPS, MIG, labels of nodes, and pods that ask for nothing."""

from pathlib import Path

import pytest

from tests.agent.sources.node.messages import container, devices, holding, pod
from tests.e2e.scraper import imbalances
from tests.fakenvml.scenario import GIB, Gpu, Instance
from tests.field.nodes import field_node
from tests.field.pods import FieldPod, by, core, gpus, memory_limits
from tests.field.report import report

WHOLE = {"nvidia.com/gpu": "1"}
GPU = "nvidia.com/gpu"
UNALLOCATED, OVER = "device_unallocated_gpu_seconds_total", "device_overcommitted_gpu_seconds_total"
FOUR = {"nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.count": "1"}


@report(
    source="gpu-operator#386",
    seen="A pod that asks for two time-sliced GPUs gets both slots on one card.",
    first="right",
    group="kubernetes",
)
def test_two_slots_on_one_card_are_one_card_in_part(tmp_path: Path) -> None:
    labels = {"nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.count": "2"}
    two = FieldPod("two", {"main": {GPU: "2"}})
    with field_node(tmp_path, Gpu(0), Gpu(1), labels=labels) as node:
        node.document["status"] = {"allocatable": {GPU: "8"}}
        node.pod(two.document())
        node.kubelet.answer = holding("two", "GPU-0::0", "GPU-0::1")
        page = node.run(10)
    assert gpus(page) == {("two", "main", "GPU-0"): 0.5}
    assert page.all("mgpu_container_core_limit_ratio") == []
    assert by(page, UNALLOCATED, "uuid")["GPU-1",] == pytest.approx(10, abs=1.1)


@report(
    source="k8s-device-plugin#1690",
    seen="Two containers of a pod cannot be told apart on a card that is time-sliced.",
    first="right",
    group="kubernetes",
)
def test_two_containers_of_a_pod_each_have_a_slice_and_their_own_use(tmp_path: Path) -> None:
    both = FieldPod("both", {"a": WHOLE, "b": WHOLE})
    with field_node(tmp_path, Gpu(0), labels=FOUR) as node:
        node.document["status"] = {"allocatable": {GPU: "4"}}
        node.pod(both.document())
        node.kubelet.answer = pod(
            "both",
            container("a", devices(GPU, "GPU-0::2")),
            container("b", devices(GPU, "GPU-0::0")),
        )
        node.start(both.cgroup("a"), 0, duty=0.5, period=0.4)
        page = node.run(10)
    assert gpus(page) == {("both", "a", "GPU-0"): 0.25, ("both", "b", "GPU-0"): 0.25}
    assert core(page)["both", "a", "GPU-0"] == pytest.approx(4.5, abs=0.6)
    assert core(page)["both", "b", "GPU-0"] == 0


@report(
    source="dcgm-exporter#185",
    seen="Ids of shared cards on GKE have a suffix, so their series have no pod.",
    first="right",
    group="kubernetes",
)
def test_containers_on_gkes_shared_card_have_core_and_memory_of_their_own(tmp_path: Path) -> None:
    labels = {
        "cloud.google.com/gke-gpu-sharing-strategy": "time-sharing",
        "cloud.google.com/gke-max-shared-clients-per-gpu": "4",
    }
    a, b = FieldPod("a", {"main": WHOLE}), FieldPod("b", {"main": WHOLE})
    with field_node(tmp_path, Gpu(0, minor=0), labels=labels) as node:
        for each, gib in ((a, 2), (b, 3)):
            node.pod(each.document())
            node.start(each.cgroup(), 0, memory=gib * GIB, duty=0.25, period=0.4)
        node.kubelet.answer = holding("a", "nvidia0/vgpu0") + holding("b", "nvidia0/vgpu3")
        node.run(10)
        page = node.page("dcgm")
    assert gpus(page) == {("a", "main", "GPU-0"): 0.25, ("b", "main", "GPU-0"): 0.25}
    assert min(core(page).values()) > 0
    used = page.all("DCGM_FI_DEV_FB_USED")
    assert {(own["pod"], value) for own, value in used if own.get("pod")} == {
        ("a", 2048),
        ("b", 3072),
    }


@report(
    source="k8s-device-plugin#732",
    seen="The label of replicas says 1 while a card is shared by 50.",
    first="wrong",
    group="kubernetes",
    kind="believed because it is there",
)
def test_replicas_are_counted_by_what_the_node_offers_where_the_label_is_wrong(
    tmp_path: Path,
) -> None:
    labels = {"nvidia.com/gpu.replicas": "1", "nvidia.com/gpu.count": "1"}
    shared = FieldPod("shared", {"main": {"nvidia.com/gpu.shared": "1"}})
    with field_node(tmp_path, Gpu(0), labels=labels) as node:
        node.document["status"] = {"allocatable": {"nvidia.com/gpu.shared": "50"}}
        node.pod(shared.document())
        node.kubelet.answer = holding("shared", "GPU-0::7", resource="nvidia.com/gpu.shared")
        page = node.run(5)
    assert gpus(page) == {("shared", "main", "GPU-0"): pytest.approx(1 / 50)}
    assert page.all("mgpu_container_core_limit_ratio") == []


@report(
    source="k8s-device-plugin#738",
    seen="The label of the number of GPUs counts those that MIG has divided.",
    first="right",
    group="kubernetes",
)
def test_a_whole_card_beside_one_in_mig_mode_is_no_slice(tmp_path: Path) -> None:
    labels = {
        "nvidia.com/gpu.replicas": "1",
        "nvidia.com/gpu.count": "2",
        "nvidia.com/mig.strategy": "mixed",
    }
    whole = FieldPod("whole", {"main": WHOLE})
    with field_node(tmp_path, Gpu(0, mig=True), Gpu(1, mig=False), labels=labels) as node:
        node.document["status"] = {
            "allocatable": {GPU: "1", "nvidia.com/mig-1g.10gb": "7"},
        }
        node.driver.instances = [Instance(0, 0)]
        node.pod(whole.document())
        node.start(whole.cgroup(), 1, duty=0.5, period=0.4)
        page = node.run(5)
    assert gpus(page) == {("whole", "main", "GPU-1"): 1}
    assert page.value("mgpu_container_core_limit_ratio", **whole.of(), uuid="GPU-1") == 1


@report(
    source="gpu-feature-discovery#7",
    seen="Labels call instances 3g.21gb, and the node's resource 3g.20gb.",
    first="right",
    group="kubernetes",
)
def test_an_instance_is_the_one_that_was_granted_whatever_labels_call_it(tmp_path: Path) -> None:
    resource = "nvidia.com/mig-3g.20gb"
    labels = {"nvidia.com/mig-3g.21gb.count": "2", "nvidia.com/mig.strategy": "mixed"}
    part = FieldPod("part", {"main": {resource: "1"}})
    board = Gpu(0, name="NVIDIA A100-SXM4-40GB", memory=40 * GIB, mig=True)
    with field_node(tmp_path, board, labels=labels) as node:
        node.driver.instances = [
            Instance(0, n, slices=3, memory=20 * GIB, profile="3g.20gb", start=4 * n)
            for n in (0, 1)
        ]
        node.pod(part.document())
        node.kubelet.answer = holding("part", "MIG-0-1", resource=resource)
        node.start(part.cgroup(), 0, instance=1, duty=0.5, period=0.4)
        page = node.run(10)
    assert gpus(page) == {("part", "main", "MIG-0-1"): pytest.approx(0.5)}
    assert memory_limits(page) == {("part", "main", "MIG-0-1"): 20 * GIB}
    assert core(page)["part", "main", "MIG-0-1"] == pytest.approx(4.5 * 3 / 7, abs=0.4)


@report(
    source="k8s-device-plugin#192",
    seen="Compute instances that share a GPU instance are offered as if each had its memory.",
    first="wrong",
    group="kubernetes",
    kind="one member's property stated of the whole",
)
def test_compute_instances_of_one_gpu_instance_are_no_more_of_the_card_than_it(
    tmp_path: Path,
) -> None:
    resource = "nvidia.com/mig-1c.3g.20gb"
    pods = [FieldPod(f"ci-{n}", {"main": {resource: "1"}}) for n in range(3)]
    board = Gpu(0, name="NVIDIA A100-SXM4-40GB", memory=40 * GIB, mig=True)
    with field_node(tmp_path, board) as node:
        node.driver.instances = [
            Instance(
                *(0, n, f"MIG-ci-{n}", 1, n),
                slices=3,
                compute=1,
                memory=20 * GIB,
                profile="1c.3g.20gb",
                start=0,
            )
            for n in range(3)
        ]
        node.kubelet.answer = b"".join(
            holding(f"ci-{n}", f"MIG-ci-{n}", resource=resource) for n in range(3)
        )
        for each in pods:
            node.pod(each.document())
        page = node.run(10)
    assert sum(gpus(page).values()) == pytest.approx(0.5)
    assert by(page, OVER, "uuid").get(("GPU-0",), 0) == 0


@report(
    source="k8s-device-plugin#594",
    seen="Each process of a container has the limit of MPS, so two hold twice of it.",
    first="right",
    group="kubernetes",
)
def test_several_clients_of_mps_in_a_container_are_over_its_limit(tmp_path: Path) -> None:
    labels = {
        "nvidia.com/gpu.replicas": "10",
        "nvidia.com/gpu.count": "1",
        "nvidia.com/gpu.sharing-strategy": "mps",
        "nvidia.com/mps.capable": "true",
    }
    client = FieldPod("client", {"main": {"nvidia.com/gpu.shared": "1"}})
    with field_node(tmp_path, Gpu(0, memory=40 * GIB), labels=labels) as node:
        node.document["status"] = {"allocatable": {"nvidia.com/gpu.shared": "10"}}
        node.pod(client.document())
        node.kubelet.answer = holding("client", "GPU-0::3", resource="nvidia.com/gpu.shared")
        for _ in range(2):
            node.start(client.cgroup(), 0, memory=4 * GIB, duty=0)
        page = node.run(5)
    own = {**client.of(), "uuid": "GPU-0"}
    assert page.value("mgpu_container_memory_used_bytes", **own) == 8 * GIB
    ratio = page.value("mgpu_container_memory_limit_utilization_ratio", **own)
    assert ratio == pytest.approx(2, rel=0.01)


@report(
    source="k8s-device-plugin#1494",
    seen="A client of a tenth of the threads is busy most of the time, far above a tenth.",
    first="wrong",
    group="kubernetes",
    kind="time and threads under one name",
)
def test_a_client_of_mps_borrows_nothing_and_waits_for_nobody(tmp_path: Path) -> None:
    labels = {
        "nvidia.com/gpu.replicas": "10",
        "nvidia.com/gpu.count": "1",
        "nvidia.com/gpu.sharing-strategy": "mps",
    }
    clients = [FieldPod(f"client-{n}", {"main": WHOLE}) for n in range(2)]
    with field_node(tmp_path, Gpu(0, memory=40 * GIB), labels=labels) as node:
        node.document["status"] = {"allocatable": {GPU: "10"}}
        node.kubelet.answer = b"".join(holding(f"client-{n}", f"GPU-0::{n}") for n in range(2))
        for each, duty in zip(clients, (0.6, 0.3), strict=True):
            node.pod(each.document())
            node.start(each.cgroup(), 0, duty=duty, period=0.4)
        page = node.run(20)
    used = core(page)
    assert used["client-0", "main", "GPU-0"] == pytest.approx(12, abs=3)
    assert by(page, "container_allocation_info", "policy", "pod")["mps", "client-0"] == 1
    assert gpus(page) == {(each.name, "main", "GPU-0"): 0.1 for each in clients}
    assert set(memory_limits(page).values()) == {4 * GIB}
    for family in (
        "core_limit_ratio",
        "core_limit_utilization_ratio",
        "allocated_core_seconds_total",
        "allocated_idle_core_seconds_total",
        "borrowed_core_seconds_total",
        "core_waiting_seconds_total",
        "core_pressure_ratio",
    ):
        assert page.all(f"mgpu_container_{family}") == page.all(f"mgpu_pod_{family}") == [], family
    assert not list(imbalances(page))


@report(
    source="k8s-device-plugin#1596",
    seen="No figures are exported for a container that asks for no GPU and uses all.",
    first="right",
    group="kubernetes",
)
def test_a_pod_that_asks_for_nothing_and_uses_a_card_has_its_use(tmp_path: Path) -> None:
    free = FieldPod("free", {"main": {"cpu": "1"}})
    with field_node(tmp_path, Gpu(0), Gpu(1)) as node:
        node.pod(free.document())
        node.kubelet.answer = b""
        node.start(free.cgroup(), 0, 1, duty=0.5, period=0.4)
        node.run(10)
        page = node.page("dcgm")
    assert set(core(page)) == {("free", "main", "GPU-0"), ("free", "main", "GPU-1")}
    assert gpus(page) == {}
    assert by(page, UNALLOCATED, "uuid")["GPU-0",] == pytest.approx(10, abs=1.1)
    named = [own for own, _ in page.all("DCGM_FI_DEV_GPU_UTIL") if own.get("pod") == "free"]
    assert len(named) == 2


@report(
    source="k8s-device-plugin#231",
    seen="One card that fell off the bus makes the other three unavailable.",
    first="right",
    group="kubernetes",
)
def test_one_lost_card_costs_no_other_its_figures(tmp_path: Path) -> None:
    pods = [FieldPod(f"job-{n}", {"main": WHOLE}) for n in range(3)]
    with field_node(tmp_path, *(Gpu(n) for n in range(3))) as node:
        for n, each in enumerate(pods):
            node.pod(each.document())
            node.start(each.cgroup(), n, duty=0.5, period=0.4)
        node.kubelet.answer = b"".join(holding(f"job-{n}", f"GPU-{n}") for n in range(3))
        before = node.run(10)
        node.driver.gpus[1] = Gpu(1, lost=True)
        page = node.run(10)
    grown = {key: value - core(before)[key] for key, value in core(page).items()}
    assert grown["job-0", "main", "GPU-0"] == pytest.approx(5, abs=0.6)
    assert grown["job-2", "main", "GPU-2"] == pytest.approx(5, abs=0.6)
    assert ("job-1", "main", "GPU-1") not in grown
    assert page.value("mgpu_device_up", uuid="GPU-1") == 0


@report(
    source="dcgm-exporter#314",
    seen="A virtual machine's pod that has a card passed through is not found.",
    first="right",
    group="kubernetes",
)
def test_a_card_that_a_virtual_machine_has_is_no_allocation_of_those_that_are_read(
    tmp_path: Path,
) -> None:
    resource = "nvidia.com/TU104GL_Tesla_T4"
    machine = FieldPod("virt-launcher-vm-x", {"compute": {resource: "1"}})
    with field_node(tmp_path, Gpu(0)) as node:
        node.document["status"] = {"allocatable": {resource: "1", GPU: "1"}}
        node.pod(machine.document())
        node.kubelet.answer = pod(
            "virt-launcher-vm-x", container("compute", devices(resource, "42"))
        )
        page = node.run(5)
    assert gpus(page) == {}
    assert by(page, UNALLOCATED, "uuid")["GPU-0",] == pytest.approx(5, abs=1.1)


@report(
    source="ollama-helm#93",
    seen="A pod that was given a 1g.10gb instance loads its model into a 3g.40gb one.",
    first="right",
    group="kubernetes",
)
def test_a_process_on_another_instance_than_the_granted_one_is_a_mismatch(tmp_path: Path) -> None:
    resource = "nvidia.com/mig-1g.10gb"
    ollama = FieldPod("ollama", {"main": {resource: "1"}})
    with field_node(tmp_path, Gpu(0, mig=True)) as node:
        node.driver.instances = [
            Instance(0, 0, slices=3, memory=40 * GIB, profile="3g.40gb", start=0),
            Instance(0, 1, slices=1, memory=10 * GIB, profile="1g.10gb", start=4),
        ]
        node.pod(ollama.document())
        node.kubelet.answer = holding("ollama", "MIG-0-1", resource=resource)
        node.start(ollama.cgroup(), 0, instance=0, memory=20 * GIB, duty=0.5, period=0.4)
        page = node.run(10)
    assert core(page)["ollama", "main", "MIG-0-0"] == pytest.approx(4.5 * 3 / 7, abs=0.4)
    assert gpus(page) == {("ollama", "main", "MIG-0-1"): pytest.approx(1 / 7)}
    assert by(page, "container_placement_mismatch", "uuid")["MIG-0-0",] == 1


@report(
    source="nos#47",
    seen="Of a card with slices of 20 GB only one is scheduled: totals do not fit.",
    first="right",
    group="kubernetes",
)
def test_slices_by_memory_are_that_much_of_the_card(tmp_path: Path) -> None:
    resource = "nvidia.com/gpu-20gb"
    pods = [FieldPod(f"slice-{n}", {"main": {resource: "1"}}) for n in range(2)]
    with field_node(tmp_path, Gpu(0, memory=40 * GIB)) as node:
        for each in pods:
            node.pod(each.document())
            node.start(each.cgroup(), 0, duty=0)
        page = node.run(5)
    limits = memory_limits(page)
    assert set(limits) == {(f"slice-{n}", "main", "GPU-0") for n in range(2)}
    assert sum(gpus(page).values()) == pytest.approx(1, abs=0.07)


@report(
    source="k8s-device-plugin#1228",
    seen="The node offers 0 GPUs while the plugin runs and pods hold theirs.",
    first="right",
    group="kubernetes",
)
def test_a_card_that_a_pod_holds_is_whole_while_the_node_offers_none(tmp_path: Path) -> None:
    labels = {"nvidia.com/gpu.replicas": "1", "nvidia.com/gpu.count": "2"}
    job = FieldPod("job", {"main": WHOLE})
    with field_node(tmp_path, Gpu(0), Gpu(1), labels=labels) as node:
        node.document["status"] = {"allocatable": {GPU: "0"}}
        node.pod(job.document())
        node.kubelet.answer = holding("job", "GPU-1")
        page = node.run(5)
    assert gpus(page) == {("job", "main", "GPU-1"): 1}
    assert page.value("mgpu_container_core_limit_ratio", **job.of(), uuid="GPU-1") == 1


@report(
    source="k8s-device-plugin#202",
    seen="The next pod is given a card on which processes of the last one still hold memory.",
    first="right",
    group="kubernetes",
)
def test_what_a_gone_pod_left_on_a_card_is_not_the_next_pods(tmp_path: Path) -> None:
    last, following = FieldPod("last", {"main": WHOLE}), FieldPod("next", {"main": WHOLE})
    with field_node(tmp_path, Gpu(0)) as node:
        node.pod(last.document())
        node.kubelet.answer = holding("last", "GPU-0")
        node.start(last.cgroup(), 0, memory=40 * GIB, duty=0.5, period=0.4)
        node.run(5)
        node.delete(last.document())
        node.pod(following.document())
        node.kubelet.answer = holding("next", "GPU-0")
        node.start(following.cgroup(), 0, memory=2 * GIB, duty=0.25, period=0.4)
        page = node.run(10)
        later = node.run(100, step_s=5)
        assert list(imbalances(later)) == []
    used = by(page, "container_memory_used_bytes", "pod")
    assert used["next",] == 2 * GIB
    assert gpus(page) == {("next", "main", "GPU-0"): 1}
    assert by(later, "group_memory_used_bytes", "kind") == {("pod",): 40 * GIB}


@report(
    source="k8s-device-plugin#1078",
    seen="A pod that asks for ten instances sees seven of them.",
    first="right",
    group="kubernetes",
)
def test_all_instances_that_a_container_was_given_are_its_allocation(tmp_path: Path) -> None:
    resource = "nvidia.com/mig-1g.10gb"
    many = FieldPod("many", {"main": {resource: "10"}})
    with field_node(tmp_path, Gpu(0, mig=True), Gpu(1, mig=True)) as node:
        node.driver.instances = [Instance(gpu, n) for gpu in range(2) for n in range(7)]
        held = [f"MIG-{n // 7}-{n % 7}" for n in range(10)]
        node.pod(many.document())
        node.kubelet.answer = holding("many", *held, resource=resource)
        page = node.run(5)
    assert {uuid for *_, uuid in gpus(page)} == set(held)
    assert page.value("mgpu_pod_allocated_gpus", pod="many") == pytest.approx(10 / 7, rel=0.02)


@report(
    source="k8s-device-plugin#61",
    seen="A limit of 0 GPUs gives a container all of them.",
    first="right",
    group="kubernetes",
)
def test_a_limit_of_zero_is_no_allocation_and_hides_no_use(tmp_path: Path) -> None:
    zero = FieldPod("zero", {"main": {GPU: "0"}})
    with field_node(tmp_path, Gpu(0)) as node:
        node.pod(zero.document())
        node.kubelet.answer = b""
        node.start(zero.cgroup(), 0, duty=0.5, period=0.4)
        page = node.run(10)
    assert gpus(page) == {}
    assert core(page)["zero", "main", "GPU-0"] == pytest.approx(4.5, abs=0.6)
    assert page.all("mgpu_container_core_limit_ratio") == []


@report(
    source="nvidia-container-toolkit#30",
    seen="A pod whose init container has the GPU stays in PodInitializing after it was killed.",
    first="right",
    group="kubernetes",
)
def test_while_an_init_container_has_the_card_its_pod_holds_one(tmp_path: Path) -> None:
    pending = FieldPod("pending", {"main": WHOLE}, init={"prepare": WHOLE}, phase="Pending")
    document = pending.document()
    status = document["status"]
    status["initContainerStatuses"][0]["state"] = {"running": {}}
    status["containerStatuses"] = [
        {"name": "main", "containerID": "", "state": {"waiting": {"reason": "PodInitializing"}}}
    ]
    with field_node(tmp_path, Gpu(0), Gpu(1)) as node:
        node.pod(document)
        node.kubelet.answer = holding("pending", "GPU-0")
        node.start(pending.cgroup("prepare"), 0, duty=0.5, period=0.4)
        page = node.run(10)
    assert page.value("mgpu_pod_allocated_gpus", pod="pending") == 1
    assert core(page)["pending", "prepare", "GPU-0"] == pytest.approx(4.5, abs=0.6)
    assert by(page, UNALLOCATED, "uuid")["GPU-1",] == pytest.approx(10, abs=1.1)
