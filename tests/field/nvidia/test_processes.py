"""Processes as the driver lists them: gone, dying, hidden, of another layout, under MPS."""

from pathlib import Path

import pytest

from tests.agent.sources.node.messages import holding
from tests.e2e.tenant import Tenant
from tests.fakenvml.build import library
from tests.fakenvml.scenario import GIB, Fault, Gpu, Process, Work
from tests.field.nodes import field_node
from tests.field.report import report

WHOLE = {"nvidia.com/gpu": "1"}
CORE = "mgpu_container_core_seconds_total"
MEMORY = "mgpu_container_memory_used_bytes"
NOBODYS_CORE = "mgpu_device_unattributed_core_seconds_total"
NOBODYS_MEMORY = "mgpu_device_unattributed_memory_bytes"
ROWS = ("nvmlDeviceGetProcessUtilization", "nvmlDeviceGetProcessesUtilizationInfo")
ZOMBIE = {"state": "Z", "flags": 0x40000C}


@report(
    source="VisEdit#5",
    seen="After a process was killed its GPU stays at 100 %, and its pid is listed for ever.",
    first="right",
    group="nvidia",
)
def test_a_dead_process_that_is_still_listed_is_soon_nobody(tmp_path: Path) -> None:
    tenant = Tenant("train")
    with field_node(tmp_path, Gpu(0)) as node:
        node.pod(tenant.document(limits=WHOLE))
        pid = node.start(tenant.cgroup, 0, memory=10 * GIB)
        node.run(5)
        processes, works = node.driver.processes, node.driver.works
        node.end(pid)
        node.driver.processes, node.driver.works = processes, works
        soon = node.run(20)
        page = node.run(10)
    assert page.value(CORE, **tenant.labels) == soon.value(CORE, **tenant.labels)
    assert page.value(NOBODYS_MEMORY, uuid="GPU-0", reason="exited") == 10 * GIB
    more = [each.value(NOBODYS_CORE, uuid="GPU-0", reason="exited") or 0 for each in (soon, page)]
    assert more[1] - more[0] == pytest.approx(10)


@report(
    source="nvitop#152",
    seen="A monitor ended because the driver listed a pid of which /proc had nothing.",
    first="right",
    group="nvidia",
)
def test_a_pid_that_was_never_there_is_nobodys(tmp_path: Path) -> None:
    with field_node(tmp_path, Gpu(0)) as node:
        node.driver.processes = [Process(0, 4242, memory=10 * GIB)]
        node.driver.works = [Work(0, 4242, start=0)]
        page = node.run(10)
    assert page.value(NOBODYS_MEMORY, uuid="GPU-0", reason="exited") == 10 * GIB
    assert page.value(NOBODYS_CORE, uuid="GPU-0", reason="exited") == pytest.approx(9)


@report(
    source="PaddleOCR#2074",
    seen="Children of a killed program keep its memory, and no process is listed.",
    first="right",
    group="nvidia",
)
def test_memory_of_no_listed_process_is_nobodys(tmp_path: Path) -> None:
    with field_node(tmp_path, Gpu(0, used=10 * GIB)) as node:
        page = node.run(5)
    assert page.value("mgpu_device_memory_used_bytes", uuid="GPU-0") == 10 * GIB
    assert page.value(NOBODYS_MEMORY, uuid="GPU-0", reason="no_pid") == 10 * GIB


@report(
    source="mxnet#4242",
    seen="A program whose first thread is a zombie works on, and nvidia-smi has no name for it.",
    first="right",
    group="nvidia",
)
@pytest.mark.parametrize("shown", ["cgroup", "/"], ids=["v2", "v1"])
def test_a_zombie_whose_threads_work_on_is_its_containers(tmp_path: Path, shown: str) -> None:
    """Cgroup v1 shows the path of a zombie as ``/``."""
    tenant = Tenant("train")
    with field_node(tmp_path, Gpu(0)) as node:
        node.pod(tenant.document(limits=WHOLE))
        pid = node.start(tenant.cgroup, 0)
        path = f"/{tenant.cgroup}" if shown == "cgroup" else shown
        node.proc.put(pid, path, **ZOMBIE)  # type: ignore[arg-type] # names of its arguments
        page = node.run(30)
    assert page.value(CORE, **tenant.labels) == pytest.approx(29)
    assert page.value(MEMORY, **tenant.labels) == GIB


@report(
    source="nvtop#177",
    seen="Every process is shown with 0 % while the board is at 13 %.",
    first="right",
    group="nvidia",
)
def test_without_rows_the_use_of_processes_is_unmeasured(tmp_path: Path) -> None:
    tenant = Tenant("train")
    with field_node(tmp_path, Gpu(0)) as node:
        node.driver.faults = [Fault("error", each, code=6) for each in ROWS]
        node.pod(tenant.document(limits=WHOLE))
        node.start(tenant.cgroup, 0, duty=0.13, period=0.53)
        page = node.run(30)
    busy = page.value("mgpu_device_busy_seconds_total", uuid="GPU-0")
    assert page.value(NOBODYS_CORE, uuid="GPU-0", reason="no_pid") == busy
    assert page.all(CORE) == []
    told = {"quantity": "core", "reason": "not_named"}
    assert page.value("mgpu_container_unmeasured", **tenant.labels, **told) == 1


@report(
    source="nvtop#448",
    seen="Read five times a second, the use of all processes is now and then not available.",
    first="right",
    group="nvidia",
)
def test_between_two_samples_the_use_of_a_process_is_known(tmp_path: Path) -> None:
    tenant = Tenant("train")
    with field_node(tmp_path, Gpu(0), collection_interval="100ms") as node:
        node.pod(tenant.document(limits=WHOLE))
        node.kubelet.answer = holding("train", "GPU-0")
        node.start(tenant.cgroup, 0, duty=0.5, period=0.53)
        node.run(5)
        for _ in range(20):
            page = node.run(0.1, 0.1)
            assert page.value("mgpu_container_core_utilization_ratio", **tenant.labels)
            assert page.all("mgpu_container_unmeasured") == []


@report(
    source="go-nvml#21",
    seen="Of two processes the second had a wrong pid, by the layout of a newer driver.",
    first="right",
    group="nvidia",
)
def test_the_lists_of_an_old_driver_are_read_by_their_own_layout(tmp_path: Path) -> None:
    kinds = ("Compute", "Graphics", "MPSCompute")
    newer = {f"nvmlDeviceGet{k}RunningProcesses_{v}" for k in kinds for v in ("v2", "v3")}
    one, other = Tenant("one"), Tenant("other")
    with field_node(tmp_path, Gpu(0), library=library(omit=newer)) as node:
        for tenant, memory in ((one, 6_498_025_472), (other, 6_521_094_144)):
            node.pod(tenant.document())
            node.start(tenant.cgroup, 0, memory=memory)
        page = node.run(5)
    assert page.value(MEMORY, **one.labels) == 6_498_025_472
    assert page.value(MEMORY, **other.labels) == 6_521_094_144


@report(
    source="gpustat#141",
    seen="Since driver 510 an idle board seems to have 308 MiB in use, which are the driver's own.",
    first="right",
    group="nvidia",
)
def test_what_the_driver_reserves_is_not_in_use(tmp_path: Path) -> None:
    with field_node(tmp_path, Gpu(0, reserved=308 << 20)) as node:
        page = node.run(3)
    assert page.value("mgpu_device_memory_used_bytes", uuid="GPU-0") == 0
    assert page.value("mgpu_device_memory_reserved_bytes", uuid="GPU-0") == 308 << 20
    assert {value for _, value in page.all(NOBODYS_MEMORY)} == {0}


@report(
    source="nvtop#436",
    seen="The total of a board of 24 GiB is shown with its BAR1 added.",
    first="right",
    group="nvidia",
)
def test_bar1_is_no_part_of_the_total(tmp_path: Path) -> None:
    with field_node(tmp_path, Gpu(0, memory=24 * GIB)) as node:
        page = node.run(3)
    assert page.value("mgpu_device_memory_total_bytes", uuid="GPU-0") == 24 * GIB
    assert page.value("mgpu_device_bar1_total_bytes", uuid="GPU-0") == 256 << 20


MPS = {
    "nvidia.com/gpu.sharing-strategy": "mps",
    "nvidia.com/gpu.replicas": "10",
    "nvidia.com/gpu.product": "NVIDIA-L40S-SHARED",
}


@report(
    source="k8s-device-plugin#1299",
    seen="Under MPS a pod with one replica of one board works on both boards of the node.",
    first="right",
    group="nvidia",
)
def test_use_on_a_board_that_was_not_allocated_is_seen_there(tmp_path: Path) -> None:
    """It is not borrowed: MPS promises no part of the time, which is what is counted."""
    tenant = Tenant("triton")
    with field_node(tmp_path, Gpu(0), Gpu(1), labels=MPS) as node:
        node.pod(tenant.document(limits=WHOLE))
        node.kubelet.answer = holding("triton", "GPU-0::3")
        node.start(tenant.cgroup, 0, 1, duty=0.4, period=0.53, kind="mps")
        node.start("system.slice/nvidia-mps.service", 0, 1, duty=0, name="nvidia-cuda-mps-server")
        page = node.run(20)
    there = {**tenant.labels, "uuid": "GPU-1"}
    assert page.value("mgpu_container_placement_mismatch", **there) == 1
    used = page.value(CORE, **there)
    assert used == pytest.approx(0.4 * 19, rel=0.05)
    assert page.value("mgpu_container_borrowed_core_seconds_total", **there) is None
    assert page.value("mgpu_container_allocated_gpus", **tenant.labels) == 0.1


@report(
    source="nos#39",
    seen="The MPS server holds 27 MiB of each board, so the last of equal parts does not fit.",
    first="right",
    group="nvidia",
)
def test_the_memory_of_the_mps_server_is_its_own(tmp_path: Path) -> None:
    tenant = Tenant("client")
    server = {"name": "nvidia-cuda-mps-server", "memory": 27 << 20, "duty": 0.0}
    with field_node(tmp_path, Gpu(0)) as node:
        node.pod(tenant.document())
        node.start(tenant.cgroup, 0, kind="mps")
        node.start("system.slice/nvidia-mps.service", 0, **server)  # type: ignore[arg-type]
        page = node.run(5)
    held = page.value("mgpu_group_memory_used_bytes", kind="systemd", group="nvidia-mps.service")
    assert held == 27 << 20
    assert page.value(MEMORY, **tenant.labels) == GIB
    assert page.value(CORE, **tenant.labels) == pytest.approx(4)
