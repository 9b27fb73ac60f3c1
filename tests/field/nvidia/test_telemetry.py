"""Figures of NVIDIA's driver that lie, lag or are another system's: 2025 and 2026."""

from pathlib import Path

import pytest

from tests.agent.sources.node.messages import holding
from tests.fakenvml.scenario import GIB, Fault, Gpu, Process, Work, Xid
from tests.field.nodes import field_node
from tests.field.pods import FieldPod, by, core
from tests.field.report import report

NOT_SUPPORTED, NOT_FOUND = 3, 6
WHOLE = {"nvidia.com/gpu": "1"}
BUSY = "mgpu_device_busy_seconds_total"
XIDS = "device_xid_errors_total"


@report(
    source="Datura-ai/lium-io#1140",
    seen="After a container was killed at work its board says 100 % for hours, with no process.",
    first="right",
    group="nvidia",
    round=3,
)
def test_a_load_that_nobody_makes_is_not_the_holders(tmp_path: Path) -> None:
    pod = FieldPod("next", {"main": WHOLE})
    with field_node(tmp_path, Gpu(0), labels={"nvidia.com/gpu.replicas": "1"}) as node:
        node.driver.works = [Work(0, 4_000_111, 0.0)]  # of a process that is gone
        node.pod(pod.document())
        node.kubelet.answer = holding("next", "GPU-0")
        node.start(pod.cgroup(), 0, duty=0, memory=GIB)
        page = node.run(20)
    busy = page.value(BUSY, uuid="GPU-0") or 0
    lost = page.all("mgpu_device_unattributed_core_seconds_total", uuid="GPU-0")
    assert busy == pytest.approx(19, abs=0.5)
    assert sum(value for _, value in lost) == pytest.approx(busy)
    assert core(page)["next", "main", "GPU-0"] == 0
    idle = page.value("mgpu_container_allocated_idle_core_seconds_total", **pod.of())
    assert idle == pytest.approx(20, abs=1.5)


@report(
    source="NVIDIA/nvidia-docker#1458",
    seen="On WSL the driver lists the processes of Windows, by the numbers that they have there.",
    first="right",
    group="nvidia",
    round=3,
)
def test_processes_of_windows_are_none_of_this_systems(tmp_path: Path) -> None:
    pod, bystander = FieldPod("train", {"main": WHOLE}), FieldPod("web", {"main": {}})
    names = ("TextInputHost.exe", "ShellExperienceHost.exe")
    with field_node(tmp_path, Gpu(0)) as node:
        for each in (pod, bystander):
            node.pod(each.document())
        node.kubelet.answer = holding("train", "all")
        node.driver.processes = [
            Process(0, 2936 + n, memory=None, kind="graphics", name=rf"C:\Windows\{name}")
            for n, name in enumerate(names)
        ]
        node.start(bystander.cgroup(), pid=2936)
        node.start(pod.cgroup(), 0, pid=2_000, memory=None)
        page = node.run(10)
    assert not any(value for (name, *_), value in core(page).items() if name == "web")
    assert page.all("mgpu_container_memory_used_bytes", pod="web") == []
    assert core(page)["train", "main", "GPU-0"] == pytest.approx(9, abs=0.5)


@report(
    source="tier4/autoware_universe#2376",
    seen="On an idle board no process is found, which a monitor reports as an error.",
    first="right",
    group="nvidia",
    round=3,
)
def test_that_no_process_has_worked_is_an_answer(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pod = FieldPod("idle", {"main": WHOLE})
    with field_node(tmp_path, Gpu(0)) as node:
        node.driver.faults = [Fault("error", "nvmlDeviceGetProcessUtilization", code=NOT_FOUND)]
        node.pod(pod.document())
        node.kubelet.answer = holding("idle", "GPU-0")
        node.start(pod.cgroup(), 0, duty=0)
        page = node.run(10)
    assert page.value("mgpu_container_core_seconds_total", **pod.of()) == 0
    assert page.all("mgpu_container_unmeasured") == []
    assert not [line for line in caplog.messages if "ProcessUtilization" in line]


@report(
    source="dra-driver-nvidia-gpu#1243",
    seen="A fault that a program made after a fatal one makes the board healthy again.",
    first="right",
    group="nvidia",
    round=3,
)
def test_a_lesser_fault_does_not_hide_the_fatal_one(tmp_path: Path) -> None:
    with field_node(tmp_path, Gpu(0), Gpu(1)) as node:
        node.run(2)
        node.driver.xids = [Xid(0, 79)]
        first = node.heard("GPU-0", "79")
        node.driver.xids = [Xid(0, 43)]
        page = node.heard("GPU-0", "43")
    seen = [
        {key: count for key, count in by(each, XIDS, "uuid", "xid").items() if count}
        for each in (first, page)
    ]
    assert seen == [{("GPU-0", "79"): 1}, {("GPU-0", "43"): 1, ("GPU-0", "79"): 1}]


@report(
    source="dcgm-exporter#646",
    seen="The series of faults is missing, so that its alert can never be raised.",
    first="right",
    group="nvidia",
    round=3,
)
def test_a_board_without_a_fault_has_the_series_of_faults(tmp_path: Path) -> None:
    with field_node(tmp_path, Gpu(0), Gpu(1)) as node:
        node.run(3)
        page = node.page("dcgm")
    values = {own["UUID"]: value for own, value in page.all("DCGM_FI_DEV_XID_ERRORS")}
    assert values == {"GPU-0": 0, "GPU-1": 0}


@report(
    source="gpu-operator#628",
    seen="A guest's virtual board runs unlicensed and is slowed down, which no metric says.",
    first="right",
    group="nvidia",
    round=3,
)
def test_a_guests_board_without_a_license_is_said(tmp_path: Path) -> None:
    with field_node(tmp_path, Gpu(0, name="GRID A100-40C", license=False)) as node:
        assert node.run(3).value("mgpu_device_vgpu_licensed", uuid="GPU-0") == 0
        node.driver.gpus = [Gpu(0, name="GRID A100-40C", license=True)]
        page = node.run(90)
    assert page.value("mgpu_device_vgpu_licensed", uuid="GPU-0") == 1


@report(
    source="Syllo/nvtop#511",
    seen="With nothing on the GPU of a DGX Spark 34 GiB are in use, which are its host's.",
    first="right",
    group="nvidia",
    round=3,
)
def test_what_the_host_has_in_use_is_not_on_the_gpu(tmp_path: Path) -> None:
    pod = FieldPod("llm", {"main": WHOLE})
    with field_node(tmp_path, Gpu(0, name="NVIDIA GB10", memory=121 * GIB, used=34 * GIB)) as node:
        node.driver.faults = [Fault("error", "nvmlDeviceGetMemoryInfo*", code=NOT_SUPPORTED)]
        node.document["metadata"]["labels"]["nvidia.com/gpu.memory"] = "124610"
        node.pod(pod.document())
        node.kubelet.answer = holding("llm", "GPU-0")
        idle = node.run(5)
        node.start(pod.cgroup(), 0, memory=89 * GIB, duty=0)
        page = node.run(5)
    for each in (idle, page):
        assert each.all("mgpu_device_memory_used_bytes") == []
        assert each.all("mgpu_device_unattributed_memory_bytes") == []
    assert page.value("mgpu_container_memory_used_bytes", **pod.of()) == 89 * GIB
    ratio = page.value("mgpu_container_memory_limit_utilization_ratio", **pod.of())
    assert ratio == pytest.approx(89 * 1024 / 124_610)
