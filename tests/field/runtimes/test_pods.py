"""On Kubernetes: whose a process is, whatever its runtime makes of the pod's cgroup."""

from pathlib import Path

import pytest

from tests.agent.sources.cgroups.names import container_path, pod_path
from tests.agent.sources.node.messages import holding
from tests.e2e.programs import Page
from tests.e2e.tenant import Tenant
from tests.fakenvml.scenario import GIB, Gpu
from tests.field.nodes import FieldNode, field_node
from tests.field.report import report

WHOLE = {"nvidia.com/gpu": "1"}
CORE = "mgpu_container_core_seconds_total"
INNER = "b2" * 32
UUID = "0f5c3a1e-1111-4222-8333-444455556666"


def whole_card(node: FieldNode, tenant: Tenant) -> None:
    """Let the pod hold the card."""
    node.pod(tenant.document(limits=WHOLE))
    node.kubelet.answer = holding(tenant.name, "GPU-0")


def of_pod(folder: Path, tenant: Tenant, *paths: str) -> Page:
    """The page on which a process with these cgroups is the pod's, with all of its use."""
    with field_node(folder, Gpu(0)) as node:
        whole_card(node, tenant)
        node.proc.put(node.start(paths[-1], 0), *(f"/{path}" for path in paths))
        page = node.run(3)
    assert page.value(CORE, **tenant.labels) == pytest.approx(2)
    assert page.value("mgpu_container_memory_used_bytes", **tenant.labels) == GIB
    assert page.all("mgpu_group_core_seconds_total") == []
    return page


@report(
    source="kubernetes#38458",
    seen="A pod's containers lay below /docker and not below their pod, so its limits were void.",
    first="right",
    group="runtimes",
)
def test_a_pods_container_in_another_place_is_known_by_its_id(tmp_path: Path) -> None:
    tenant = Tenant("train")
    of_pod(tmp_path, tenant, f"docker/{tenant.container_id}")


@report(
    source="rke2#11274",
    seen="The kubelet of 1.37 lost the names of all containers of a newer containerd.",
    first="right",
    group="runtimes",
)
def test_names_come_from_the_pod_and_not_from_cadvisor(tmp_path: Path) -> None:
    tenant = Tenant("train")
    of_pod(tmp_path, tenant, tenant.cgroup)


@report(
    source="runc#4620",
    seen="In systemd's hierarchy a container's process is in the scope of its monitor.",
    first="right",
    group="runtimes",
)
@pytest.mark.parametrize("others", ["known", "lost"])
def test_a_process_in_its_monitors_scope_is_its_pods(tmp_path: Path, others: str) -> None:
    tenant = Tenant("train")
    pod = pod_path("systemd", tenant.uid)
    monitor = f"{pod}/crio-conmon-{tenant.container_id}.scope"
    scope = container_path("systemd", tenant.uid, tenant.container_id, runtime="crio")
    of_pod(tmp_path, tenant, *((scope, monitor) if others == "known" else (monitor,)))


@report(
    source="scf#1345",
    seen="Cells of Cloud Foundry in pods: Garden's own cgroups below the container's show 0.",
    first="right",
    group="runtimes",
)
def test_what_a_platform_makes_in_a_container_is_that_containers(tmp_path: Path) -> None:
    tenant = Tenant("cell", driver="cgroupfs")
    of_pod(tmp_path, tenant, f"{tenant.cgroup}/garden/{UUID}")


@report(
    source="pharos-cluster#440",
    seen="A container's program moves itself into a cgroup below the one of its scope.",
    first="right",
    group="runtimes",
)
def test_what_a_program_makes_in_its_container_is_that_containers(tmp_path: Path) -> None:
    tenant = Tenant("proxy")
    of_pod(tmp_path, tenant, f"{tenant.cgroup}/kube-proxy")


@report(
    source="datadog-go#304",
    seen="kind on an ECS host: the pods' containers share the cgroup namespace of a container.",
    first="right",
    group="runtimes",
)
def test_a_pod_of_a_node_that_is_a_task_is_that_pod(tmp_path: Path) -> None:
    tenant = Tenant("train", driver="cgroupfs")
    of_pod(tmp_path, tenant, f"ecs/{'c' * 32}/{INNER}/kubelet/{tenant.cgroup}")


@report(
    source="envbox#168",
    seen="An engine in a pod makes its containers at the host's top, outside of the pod.",
    first="unknown",
    group="runtimes",
    settled="the process's parents up to the pod's own, which a cgroup does not tell and any "
    "program can lose",
)
def test_a_container_at_the_top_is_a_group_beside_an_idle_pod(tmp_path: Path) -> None:
    tenant = Tenant("workspace")
    with field_node(tmp_path, Gpu(0)) as node:
        whole_card(node, tenant)
        node.start(f"docker/{INNER}", 0)
        page = node.run(5)
    ((labels, seconds),) = page.all("mgpu_group_core_seconds_total")
    assert (labels["kind"], labels["group"]) == ("docker", INNER)
    assert seconds == pytest.approx(4)
    assert page.value(CORE, **tenant.labels) == 0


@report(
    source="containerd#5630",
    seen="A pid comes back within seconds where pods come and go, with what was its last owner's.",
    first="right",
    group="runtimes",
)
def test_a_pid_that_comes_back_in_another_pod_is_that_pods(tmp_path: Path) -> None:
    first, second = Tenant("first"), Tenant("second")
    with field_node(tmp_path, Gpu(0)) as node:
        for tenant in (first, second):
            node.pod(tenant.document())
        # By the uptime it is known when processes began: this one moved nowhere.
        (node.proc.root / "uptime").write_text(f"{node.clock.monotonic_ns() / 1e9:.2f} 0.00\n")
        pid = node.start(first.cgroup, 0)
        node.run(6)
        node.end(pid)
        node.clock.move(0.5)
        node.start(second.cgroup, 0, pid=pid)
        page = node.run(10)
    assert page.value(CORE, **first.labels) == pytest.approx(5)
    assert page.value(CORE, **second.labels) == pytest.approx(10, abs=0.2)


@report(
    source="opentelemetry-ebpf-instrumentation#1990",
    seen="What was known of a pid is dropped with its container alone, and not with the process.",
    first="right",
    group="runtimes",
)
def test_a_pid_that_comes_back_while_its_first_container_lives_is_the_second_ones(
    tmp_path: Path,
) -> None:
    first, second = Tenant("first"), Tenant("second")
    with field_node(tmp_path, Gpu(0)) as node:
        for tenant in (first, second):
            node.pod(tenant.document())
        node.start(first.cgroup, 0, duty=0)
        pid = node.start(first.cgroup, 0)
        node.run(6)
        node.end(pid)
        node.run(30)
        node.start(second.cgroup, 0, pid=pid)
        page = node.run(10)
    assert page.value(CORE, **first.labels) == pytest.approx(5, abs=0.2)
    assert page.value(CORE, **second.labels) == pytest.approx(10, abs=0.2)
    assert page.value("mgpu_container_processes", **first.labels) == 1


@report(
    source="conmon#260",
    seen="A helper that is run in a container each minute leaves pids that others have later.",
    first="right",
    group="runtimes",
)
def test_a_helper_each_minute_is_its_containers_each_time(tmp_path: Path) -> None:
    tenant, other = Tenant("train"), Tenant("other")
    with field_node(tmp_path, Gpu(0)) as node:
        node.pod(tenant.document())
        node.pod(other.document())
        node.run(2)
        for _ in range(3):
            helper = node.start(tenant.cgroup, 0)
            node.run(3)
            node.end(helper)
            node.run(20)
            node.start(other.cgroup, 0, pid=helper, duty=0)
            page = node.run(5)
            node.end(helper)
    assert page.value(CORE, **tenant.labels) == pytest.approx(9, abs=0.1)
    assert page.value(CORE, **other.labels) == 0


@report(
    source="microsoft/pai#2335",
    seen="Whatever does not run below /docker is an external process, a guaranteed pod too.",
    first="right",
    group="runtimes",
)
def test_a_guaranteed_pods_process_is_known_where_some_hierarchies_have_no_path(
    tmp_path: Path,
) -> None:
    tenant = Tenant("train")
    with field_node(tmp_path, Gpu(0)) as node:
        whole_card(node, tenant)
        own = container_path("cgroupfs", tenant.uid, tenant.container_id, "guaranteed")
        pid = node.start(own, 0)
        text = f"12:cpuset:/{own}\n11:rdma:/\n10:pids:/{own}\n0::/system.slice/containerd.service\n"
        (node.proc.root / str(pid) / "cgroup").write_text(text)
        page = node.run(3)
    assert page.value(CORE, **tenant.labels) == pytest.approx(2)
    assert page.all("mgpu_group_core_seconds_total") == []
