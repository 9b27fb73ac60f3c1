"""Pods whose processes are where no status says: gVisor, Kata, CRI-O's other layouts."""

from pathlib import Path

import pytest

from tests.agent.sources.cgroups.names import pod_path
from tests.agent.sources.node.messages import container, devices, holding
from tests.agent.sources.node.messages import pod as pod_of
from tests.agent.sources.pods.devices import result, slice_document
from tests.fakenvml.scenario import GIB, Gpu
from tests.field.kubernetes.claims import claim
from tests.field.nodes import field_node
from tests.field.pods import FieldPod, by, core, gpus
from tests.field.report import report

WHOLE = {"nvidia.com/gpu": "1"}
SANDBOX, OTHER = "5a" * 32, "b2" * 32
BUSY = "mgpu_device_busy_seconds_total"
POD_CORE = "mgpu_pod_core_seconds_total"
GROUPS = "mgpu_group_core_seconds_total"
USED = "container_memory_used_bytes"


def below_pod(pod: FieldPod, *names: str) -> str:
    """A cgroup in the pod's slice."""
    return "/".join((pod_path("systemd", pod.uid), *names))


@report(
    source="google/gvisor#13067",
    seen="All of a pod runs in the scope of its sandbox, and its containers have no figures.",
    first="right",
    group="runtimes",
    round=3,
)
def test_what_runs_in_the_sandbox_is_the_container_with_the_card(tmp_path: Path) -> None:
    pod = FieldPod("model", {"proxy": {}, "main": WHOLE})
    with field_node(tmp_path, Gpu(0)) as node:
        node.pod(pod.document())
        node.kubelet.answer = holding("model", "GPU-0")
        node.start(below_pod(pod, f"cri-containerd-{SANDBOX}.scope"), 0, memory=2 * GIB)
        page = node.run(10)
    assert core(page)["model", "main", "GPU-0"] == pytest.approx(9, abs=0.2)
    assert by(page, USED, "pod", "container") == {("model", "main"): 2 * GIB}
    assert page.all(GROUPS) == []


@report(
    source="datadog-agent#44084",
    seen="The one process of a pod is in the cgroup of the pod itself, and of no container.",
    first="right",
    group="runtimes",
    round=3,
)
def test_of_two_containers_with_cards_in_one_sandbox_the_pod_has_the_use(tmp_path: Path) -> None:
    pod = FieldPod("two", {"a": WHOLE, "b": WHOLE})
    with field_node(tmp_path, Gpu(0), Gpu(1)) as node:
        node.pod(pod.document())
        node.kubelet.answer = pod_of(
            "two",
            *(
                container(name, devices("nvidia.com/gpu", f"GPU-{number}"))
                for number, name in enumerate("ab")
            ),
        )
        node.start(below_pod(pod), 0, 1, memory=2 * GIB)
        page = node.run(90)
    assert page.value(POD_CORE, pod="two", namespace="ml") == pytest.approx(178, abs=2)
    assert not any(core(page).get(("two", name, f"GPU-{n}"), 0) for n, name in enumerate("ab"))
    assert page.value("mgpu_pod_memory_used_bytes", pod="two", namespace="ml") == 4 * GIB
    assert page.all(GROUPS) == []


@report(
    source="google/gvisor#13621",
    seen="A sandbox whose pod has claimed one card sees them all, and may use another's.",
    first="right",
    group="runtimes",
    round=3,
)
def test_a_card_that_a_sandbox_uses_without_a_claim_is_used_and_not_allocated(
    tmp_path: Path,
) -> None:
    pod = FieldPod("boxed", {"main": {}}, claims={"main": ["one"]})
    owner = FieldPod("owner", {"main": {}}, claims={"main": ["other"]})
    with field_node(tmp_path, Gpu(0), Gpu(1)) as node:
        node.slices = [slice_document({"gpu-0": "GPU-0", "gpu-1": "GPU-1"})]
        claim(node, "one", result("gpu-0"))
        claim(node, "other", result("gpu-1"))
        for each in (pod, owner):
            node.pod(each.document())
        node.start(below_pod(pod, f"cri-containerd-{SANDBOX}.scope"), 1)
        page = node.run(10)
    assert gpus(page) == {("boxed", "main", "GPU-0"): 1, ("owner", "main", "GPU-1"): 1}
    assert core(page)["boxed", "main", "GPU-1"] == pytest.approx(9, abs=0.2)
    idle = by(page, "container_allocated_idle_core_seconds_total", "pod", "uuid")
    assert idle["owner", "GPU-1"] == pytest.approx(10, abs=1.1)
    assert idle["boxed", "GPU-0"] == pytest.approx(10, abs=1.1)


@report(
    source="google/gvisor#9389",
    seen="The proxy takes a card's index for its minor, so a sandbox works on a neighbour's card.",
    first="right",
    group="runtimes",
    round=3,
)
def test_where_index_and_minor_differ_each_is_on_the_card_that_it_works_on(tmp_path: Path) -> None:
    pod = FieldPod("boxed", {"main": WHOLE})
    boards = [Gpu(n, minor=3 - n) for n in range(4)]
    with field_node(tmp_path, *boards, labels={"nvidia.com/gpu.replicas": "1"}) as node:
        node.pod(pod.document())
        node.kubelet.answer = holding("boxed", "GPU-0")
        node.start(below_pod(pod, f"cri-containerd-{SANDBOX}.scope"), 3, memory=GIB)
        page = node.run(5)
    assert gpus(page) == {("boxed", "main", "GPU-0"): 1}
    assert {key: v for key, v in core(page).items() if v} == {
        ("boxed", "main", "GPU-3"): pytest.approx(4, abs=0.2)
    }


@report(
    source="kata-containers#11325",
    seen="On cgroup v2 the runtime makes systemd's name a directory at the top.",
    first="right",
    group="runtimes",
    round=3,
)
def test_a_systemd_name_that_is_a_directory_is_its_pods(tmp_path: Path) -> None:
    pod = FieldPod("vm", {"main": WHOLE})
    slice_ = pod_path("systemd", pod.uid).rpartition("/")[2]
    with field_node(tmp_path, Gpu(0)) as node:
        node.pod(pod.document())
        node.start(f"{slice_}:cri-containerd:{SANDBOX}", 0)
        page = node.run(5)
    assert core(page)["vm", "main", "GPU-0"] == pytest.approx(4, abs=0.2)
    assert page.all(GROUPS) == []


@report(
    source="kata-containers#11598",
    seen="What a sandbox costs beside its containers is below the top, by the sandbox's id.",
    first="right",
    group="runtimes",
    round=3,
)
def test_a_sandboxs_overhead_is_a_group_of_its_own_and_no_pods(tmp_path: Path) -> None:
    pod = FieldPod("vm", {"main": WHOLE})
    with field_node(tmp_path, Gpu(0)) as node:
        node.pod(pod.document())
        node.start(f"kata_overhead/{SANDBOX}", 0, duty=0.5, period=0.4)
        node.start(f"kata_overhead/{OTHER}", 0, duty=0)
        page = node.run(5)
    used = {own["group"]: value for own, value in page.all(GROUPS)}
    assert len(used) == 2
    assert max(used.values()) == pytest.approx(page.value(BUSY, uuid="GPU-0"))


@report(
    source="kata-containers/documentation#428",
    seen="The machine of a pod runs in the service of its runtime, beside all others.",
    first="right",
    group="runtimes",
    round=3,
)
def test_a_machine_in_its_runtimes_service_is_the_services_and_no_pods(tmp_path: Path) -> None:
    pod = FieldPod("vm", {"main": WHOLE})
    with field_node(tmp_path, Gpu(0)) as node:
        node.pod(pod.document())
        node.start("system.slice/containerd.service", 0)
        page = node.run(5)
    ((own, seconds),) = page.all(GROUPS)
    assert (own["kind"], own["group"]) == ("systemd", "containerd.service")
    assert seconds == pytest.approx(4, abs=0.2)
    assert not any(core(page).values())


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(
            ("kubepods", "burstable", "pod{uid}", "crio-{cid}"),
            marks=report(
                source="cadvisor#3538",
                seen="CRI-O without systemd: what does not end in .scope is no container.",
                first="right",
                group="runtimes",
                round=3,
            ),
        ),
        pytest.param(
            ("{slice}", "crio-{cid}.scope", "container"),
            marks=report(
                source="machine-config-operator#4765",
                seen="With crun each container has a directory more, which costs and has figures.",
                first="right",
                group="runtimes",
                round=3,
            ),
        ),
        pytest.param(
            ("{slice}", "crio-{cid}.scope"),
            marks=report(
                source="crun#1766",
                seen="The directory within a container's scope is there no more.",
                first="right",
                group="runtimes",
                round=3,
            ),
        ),
        pytest.param(
            (
                "system.slice",
                "docker-{node}.scope",
                "kubelet.slice",
                "kubelet-{leaf}",
                "crio-{cid}.scope",
            ),
            marks=report(
                source="kubernetes-sigs/kind#3947",
                seen="The nodes' kubelets have a slice of their own above that of the pods.",
                first="right",
                group="runtimes",
                round=3,
            ),
        ),
    ],
)
def test_a_container_is_its_pods_in_each_layout(tmp_path: Path, names: tuple[str, ...]) -> None:
    pod = FieldPod("train", {"side": {}, "main": WHOLE})
    slice_ = pod_path("systemd", pod.uid)
    known = {
        "uid": pod.uid,
        "cid": pod.ids["main"],
        "node": OTHER,
        "slice": slice_,
        "leaf": slice_.rpartition("/")[2],
    }
    with field_node(tmp_path, Gpu(0)) as node:
        node.pod(pod.document())
        node.start("/".join(names).format(**known), 0)
        page = node.run(5)
    assert core(page)["train", "main", "GPU-0"] == pytest.approx(4, abs=0.2)
    assert page.all(GROUPS) == []
