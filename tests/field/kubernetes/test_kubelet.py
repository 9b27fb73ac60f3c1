"""The kubelet: what it says containers hold, and pods whose containers come, end and stay."""

from pathlib import Path

import pytest

from tests.agent.sources.node.messages import container, devices, holding, pod
from tests.agent.sources.pods.documents import container_id
from tests.e2e.scraper import imbalances
from tests.fakenvml.scenario import GIB, Gpu
from tests.field.nodes import FieldNode, field_node
from tests.field.pods import FieldPod, by, core, gpus
from tests.field.report import report

WHOLE = {"nvidia.com/gpu": "1"}
GPU = "nvidia.com/gpu"
UNALLOCATED, OVER = "device_unallocated_gpu_seconds_total", "device_overcommitted_gpu_seconds_total"


@report(
    source="kubernetes#79409",
    seen="Jobs that have succeeded still hold their devices in PodResources.",
    first="right",
    group="kubernetes",
)
def test_a_device_that_an_ended_pod_still_holds_by_the_kubelet_is_the_next_pods(
    tmp_path: Path,
) -> None:
    ended = FieldPod("ended", {"main": WHOLE}, phase="Succeeded")
    runs = FieldPod("runs", {"main": WHOLE})
    with field_node(tmp_path, Gpu(0)) as node:
        node.pod(ended.document())
        node.pod(runs.document())
        node.kubelet.answer = holding("ended", "GPU-0") + holding("runs", "GPU-0")
        node.start(runs.cgroup(), 0, duty=0.5, period=0.5)
        page = node.run(10)
    assert gpus(page) == {("runs", "main", "GPU-0"): 1}
    assert by(page, OVER, "uuid") == {("GPU-0",): 0}


@report(
    source="kubernetes#120501",
    seen="PodResources leaves out what a sidecar, an init container that stays, holds.",
    first="right",
    group="kubernetes",
)
def test_a_sidecar_that_the_kubelet_leaves_out_has_the_card_on_which_it_works(
    tmp_path: Path,
) -> None:
    both = FieldPod("both", {"main": WHOLE}, sidecars={"side": WHOLE})
    with field_node(tmp_path, Gpu(0), Gpu(1)) as node:
        node.pod(both.document())
        node.kubelet.answer = holding("both", "GPU-0")
        node.start(both.cgroup(), 0, duty=0.5, period=0.5)
        before = node.run(5)
        node.start(both.cgroup("side"), 1, duty=0.25, period=0.4)
        page = node.run(10)
    assert gpus(before) == {("both", "main", "GPU-0"): 1}
    assert gpus(page) == {("both", "main", "GPU-0"): 1, ("both", "side", "GPU-1"): 1}


@report(
    source="kubernetes#119442",
    seen="The device manager gives a sidecar's device to the app container too.",
    first="right",
    group="kubernetes",
)
def test_a_card_that_two_containers_hold_whole_is_overcommitted(tmp_path: Path) -> None:
    both = FieldPod("both", {"main": WHOLE}, sidecars={"side": WHOLE})
    with field_node(tmp_path, Gpu(0)) as node:
        node.pod(both.document())
        held = devices(GPU, "GPU-0")
        node.kubelet.answer = pod("both", container("side", held), container("main", held))
        page = node.run(10)
    assert gpus(page) == {("both", "main", "GPU-0"): 1, ("both", "side", "GPU-0"): 1}
    assert by(page, OVER, "uuid")["GPU-0",] == pytest.approx(9, abs=1.1)


@report(
    source="kubernetes#124345",
    seen="Of a pod whose ended init container had a GPU too, a second one is asked for.",
    first="right",
    group="kubernetes",
)
def test_an_init_container_that_has_ended_holds_no_card(tmp_path: Path) -> None:
    one = FieldPod("one", {"main": WHOLE}, init={"prepare": WHOLE})
    with field_node(tmp_path, Gpu(0), Gpu(1)) as node:
        node.pod(one.document())
        node.kubelet.answer = holding("one", "GPU-0")
        page = node.run(10)
    assert gpus(page) == {("one", "main", "GPU-0"): 1}
    unallocated = by(page, UNALLOCATED, "uuid")
    assert unallocated["GPU-0",] == pytest.approx(0, abs=1.1)
    assert unallocated["GPU-1",] == pytest.approx(10, abs=1.1)


@report(
    source="kubernetes#117955",
    seen="A completed pod becomes a failed one when the kubelet restarts, and asks again.",
    first="right",
    group="kubernetes",
)
def test_a_completed_pod_that_fails_later_holds_nothing(tmp_path: Path) -> None:
    with field_node(tmp_path, Gpu(0)) as node:
        job = FieldPod("job", {"main": WHOLE}, phase="Succeeded")
        node.pod(job.document())
        node.kubelet.answer = b""
        node.run(3)
        job.phase = "Failed"
        node.pod(job.document(reason="UnexpectedAdmissionError"))
        page = node.run(5)
    assert gpus(page) == {}
    assert by(page, UNALLOCATED, "uuid")["GPU-0",] == pytest.approx(8, abs=1.1)


@report(
    source="kubernetes#130145",
    seen="Devices of a pod that was deleted by force stay allocated in the kubelet.",
    first="right",
    group="kubernetes",
)
def test_what_the_kubelet_keeps_for_a_pod_that_is_gone_is_nobodys(tmp_path: Path) -> None:
    gone = FieldPod("gone", {"main": WHOLE})
    with field_node(tmp_path, Gpu(0)) as node:
        node.pod(gone.document())
        node.kubelet.answer = holding("gone", "GPU-0")
        pid = node.start(gone.cgroup(), 0)
        node.run(5)
        node.delete(gone.document())
        node.end(pid)
        page = node.run(5)
        later = node.run(70, step_s=5)
    assert gpus(page) == {}
    assert gpus(later) == {}
    assert by(later, UNALLOCATED, "uuid")["GPU-0",] == pytest.approx(75, abs=6)


@report(
    source="kubernetes#134049",
    seen="After a container's process is killed the pod's memory is wrong for minutes.",
    first="right",
    group="kubernetes",
)
def test_a_restarted_containers_memory_is_that_of_its_new_processes(tmp_path: Path) -> None:
    server = FieldPod("server", {"main": WHOLE})
    with field_node(tmp_path, Gpu(0)) as node:
        node.pod(server.document())
        node.kubelet.answer = holding("server", "GPU-0")
        old = node.start(server.cgroup(), 0, memory=6 * GIB, duty=0.5, period=0.4)
        before = node.run(10)
        node.end(old)
        server.ids["main"] = container_id("the next")
        node.pod(server.document())
        node.start(server.cgroup(), 0, memory=2 * GIB, duty=0.5, period=0.4)
        page = node.run(2)
        after = node.run(8)
        assert list(imbalances(after)) == []
    labels = {**server.of(), "uuid": "GPU-0"}
    assert page.value("mgpu_container_memory_used_bytes", **labels) == 2 * GIB
    assert after.value("mgpu_pod_memory_used_bytes", pod="server") == 2 * GIB
    grown = core(after)["server", "main", "GPU-0"] - core(before)["server", "main", "GPU-0"]
    assert grown == pytest.approx(5, abs=0.6)


@report(
    source="kubernetes#5730",
    seen="A static pod's figures are not found by the uid that the API server has.",
    first="right",
    group="kubernetes",
)
def test_a_static_pods_process_is_the_mirror_pods(tmp_path: Path) -> None:
    digest = "5" * 32
    static = FieldPod(
        "infer-node-1", {"main": {}}, annotations={"kubernetes.io/config.mirror": digest}
    )
    cgroup = static.cgroup().replace(static.uid.replace("-", "_"), digest)
    with field_node(tmp_path, Gpu(0)) as node:
        node.pod(static.document())
        node.start(cgroup, 0, duty=0.5, period=0.4)
        page = node.run(10)
    assert core(page)["infer-node-1", "main", "GPU-0"] == pytest.approx(4.5, abs=0.6)
    assert page.all("mgpu_group_core_seconds_total") == []


@report(
    source="datadog-agent#45408",
    seen="A static pod's process comes before its mirror pod: its hash is in no list.",
    first="right",
    group="kubernetes",
)
def test_use_before_the_mirror_pod_is_posted_is_a_pods_and_not_lost(tmp_path: Path) -> None:
    digest = "7" * 32
    static = FieldPod(
        "late-node-1", {"main": {}}, annotations={"kubernetes.io/config.mirror": digest}
    )
    cgroup = static.cgroup().replace(static.uid.replace("-", "_"), digest)
    with field_node(tmp_path, Gpu(0)) as node:
        node.start(cgroup, 0)
        before = node.run(5)
        node.pod(static.document())
        page = node.run(5)
        assert list(imbalances(page)) == []
    assert by(before, "group_core_seconds_total", "kind") == {("pod",): pytest.approx(4, abs=1)}
    assert core(page)["late-node-1", "main", "GPU-0"] == pytest.approx(5, abs=1)


@report(
    source="kubernetes#97974",
    seen="Nothing counts what ephemeral containers use.",
    first="right",
    group="kubernetes",
)
def test_what_a_debugger_uses_is_the_debuggers_and_counts_for_the_pod(tmp_path: Path) -> None:
    debugged = FieldPod("debugged", {"main": WHOLE}, ephemeral=["debugger-x7k2"])
    with field_node(tmp_path, Gpu(0)) as node:
        node.pod(debugged.document())
        node.kubelet.answer = holding("debugged", "GPU-0")
        node.start(debugged.cgroup(), 0, duty=0.25, period=0.4)
        node.start(debugged.cgroup("debugger-x7k2"), 0, duty=0.25, period=0.4)
        page = node.run(20)
    used = core(page)
    assert set(used) == {("debugged", each, "GPU-0") for each in ("main", "debugger-x7k2")}
    whole = page.value("mgpu_pod_core_seconds_total", pod="debugged")
    assert whole == pytest.approx(sum(used.values()), rel=1e-6)
    assert gpus(page) == {("debugged", "main", "GPU-0"): 1}


@report(
    source="kubernetes#128993",
    seen="While a pod is resized in place, the status goes back and forth between two amounts.",
    first="right",
    group="kubernetes",
)
def test_a_resize_of_cpu_and_memory_leaves_the_gpus_allocation(tmp_path: Path) -> None:
    resized = FieldPod("resized", {"main": {**WHOLE, "cpu": "2"}})
    with field_node(tmp_path, Gpu(0)) as node:
        node.kubelet.answer = holding("resized", "GPU-0")
        node.start(resized.cgroup(), 0, duty=0.5, period=0.4)
        pages = []
        for number in range(6):
            document = resized.document(resize="InProgress" if number % 2 else "")
            cpu = {"cpu": str(1 + number % 2)}
            document["spec"]["containers"][0]["resources"]["requests"] |= cpu
            document["status"]["containerStatuses"][0]["resources"] = {"requests": cpu}
            node.pod(document)
            pages.append(node.run(2))
    assert [gpus(page) for page in pages] == [{("resized", "main", "GPU-0"): 1}] * 6
    allocated = "mgpu_container_allocated_gpu_seconds_total"
    total = pages[-1].value(allocated, **resized.of(), uuid="GPU-0")
    assert total == pytest.approx(11, abs=1.1)


def _work(node: FieldNode, held: FieldPod) -> None:
    node.pod(held.document())
    node.start(held.cgroup(), 0, duty=0.5, period=0.5)


@report(
    source="kubectl-view-allocations#82",
    seen="Pods that have completed are still counted as if they held a GPU.",
    first="right",
    group="kubernetes",
)
def test_gauges_of_a_pod_that_has_ended_go_at_once(tmp_path: Path) -> None:
    job = FieldPod("job", {"main": WHOLE})
    with field_node(tmp_path, Gpu(0)) as node:
        node.kubelet.answer = holding("job", "GPU-0")
        node.pod(job.document())
        pid = node.start(job.cgroup(), 0, memory=2 * GIB)
        node.run(5)
        node.end(pid)
        job.phase = "Succeeded"
        node.pod(job.document())
        page = node.run(2)
        later = node.run(600, step_s=10)
    assert page.all("mgpu_container_memory_used_bytes") == []
    assert page.all("mgpu_container_core_utilization_ratio") == []
    assert gpus(page) == {}
    assert later.all("mgpu_container_core_seconds_total") == []


@report(
    source="k8s-device-plugin#162",
    seen="A process of a deleted pod runs on at the host and keeps its GPU.",
    first="right",
    group="kubernetes",
)
def test_a_process_that_outlives_its_pod_is_named_and_then_a_group(tmp_path: Path) -> None:
    plugin = FieldPod("plugin", {"main": {}})
    with field_node(tmp_path, Gpu(0)) as node:
        _work(node, plugin)
        node.run(5)
        node.delete(plugin.document())
        page = node.run(10)
        later = node.run(100, step_s=2)
        assert list(imbalances(later)) == []
    assert core(page)["plugin", "main", "GPU-0"] == pytest.approx(7, abs=1)
    kinds = by(later, "group_core_seconds_total", "kind")
    assert kinds["pod",] == pytest.approx(26, abs=4)


@report(
    source="gpu-operator#2880",
    seen="Inference processes of one container end one by one, and their memory stays.",
    first="right",
    group="kubernetes",
)
def test_the_memory_of_a_container_is_that_of_all_its_processes(tmp_path: Path) -> None:
    edge = FieldPod("edge", {"main": WHOLE})
    with field_node(tmp_path, Gpu(0)) as node:
        node.pod(edge.document())
        node.kubelet.answer = holding("edge", "GPU-0")
        for gib in (5, 2, 1, 5):
            node.start(edge.cgroup(), 0, memory=gib * GIB, duty=0)
        page = node.run(10)
    labels = {**edge.of(), "uuid": "GPU-0"}
    assert page.value("mgpu_container_memory_used_bytes", **labels) == 13 * GIB
    assert page.value("mgpu_container_processes", **labels) == 4
    assert page.value("mgpu_container_core_seconds_total", **labels) == 0
