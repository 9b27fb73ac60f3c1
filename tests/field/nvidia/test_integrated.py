"""Boards that are a part of their host: Jetson, DGX Spark, WSL."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.agent.sources.node.messages import holding
from tests.e2e.programs import Page
from tests.e2e.tenant import Tenant
from tests.fakenvml.scenario import GIB, Fault, Gpu, Process
from tests.field.nodes import FieldNode, field_node
from tests.field.report import report

NOT_SUPPORTED = 3
BUSY = "mgpu_device_busy_seconds_total"
RING = ("nvmlDeviceGetSamples", "nvmlDeviceGetProcess*")
RATES = (
    "nvmlDeviceGetUtilizationRates",
    "nvmlDeviceGetEncoderUtilization",
    "nvmlDeviceGetDecoderUtilization",
)
POWER = (
    "nvmlDeviceGetPowerUsage",
    "nvmlDeviceGetEnforcedPowerLimit",
    "nvmlDeviceGetTotalEnergyConsumption",
)
MEMORY = ("nvmlDeviceGetMemoryInfo*",)


def refuse(node: FieldNode, *functions: str) -> None:
    """Let the driver answer NOT_SUPPORTED to these."""
    node.driver.faults = [Fault("error", each, code=NOT_SUPPORTED) for each in functions]


def whole_card(node: FieldNode) -> Tenant:
    """A pod that holds the card."""
    tenant = Tenant("train")
    node.pod(tenant.document(limits={"nvidia.com/gpu": "1"}))
    node.kubelet.answer = holding("train", "GPU-0")
    return tenant


def unmeasured(page: Page, quantity: str) -> set[str]:
    """Why a quantity of the device is not known."""
    found = page.all("mgpu_device_unmeasured", uuid="GPU-0", quantity=quantity)
    return {labels["reason"] for labels, _ in found}


@report(
    source="nv-monitor#17",
    seen="On Jetson NVML succeeds with a utilisation of 0 for ever, and lists processes 0 and -1.",
    first="wrong",
    group="nvidia",
    kind="believed because it is there",
)
def test_a_board_of_which_the_driver_knows_nothing_is_not_idle(tmp_path: Path) -> None:
    with field_node(tmp_path, Gpu(0, name="Orin (nvgpu)", rates=0, gpm=False)) as node:
        refuse(node, *RING, *POWER, *MEMORY)
        node.driver.processes = [Process(0, 0), Process(0, 2**32 - 1, memory=None)]
        whole_card(node)
        page = node.run(10)
        assert page.all(BUSY) == page.all("mgpu_device_utilization_ratio") == []
        assert unmeasured(page, "core") == {"not_supported"}
        node.driver.gpus[0] = Gpu(0, name="Orin (nvgpu)", rates=30, gpm=False)
        page = node.run(30)
    assert page.value("mgpu_device_utilization_ratio", uuid="GPU-0") == pytest.approx(0.3)


@report(
    source="intelligence-per-watt#40",
    seen="On a Jetson Orin every figure is refused, and a run ended without energy and a word.",
    first="right",
    group="nvidia",
)
def test_what_a_board_refuses_is_absent_and_said(tmp_path: Path) -> None:
    with field_node(tmp_path, Gpu(0, name="Orin (nvgpu)", gpm=False)) as node:
        refuse(node, *RING, *RATES, *POWER, *MEMORY)
        tenant = whole_card(node)
        node.start(tenant.cgroup, 0)
        page = node.run(10)
    assert page.value("mgpu_device_up", uuid="GPU-0") == 1
    for quantity in ("core", "energy", "power", "device_memory"):
        assert unmeasured(page, quantity) == {"not_supported"}
    assert page.all(BUSY) == page.all("mgpu_container_core_seconds_total") == []


@report(
    source="llama-swap#782",
    seen="DGX Spark refuses its memory and lists each process's; a chart showed 0 % in use.",
    first="right",
    group="nvidia",
)
def test_memory_of_processes_is_known_without_the_boards(tmp_path: Path) -> None:
    with field_node(tmp_path, Gpu(0, name="NVIDIA GB10")) as node:
        refuse(node, *MEMORY)
        tenant = whole_card(node)
        node.start(tenant.cgroup, 0, memory=19 * GIB)
        page = node.run(5)
    assert page.value("mgpu_container_memory_used_bytes", **tenant.labels) == 19 * GIB
    for name in ("used", "total"):
        assert page.all(f"mgpu_device_memory_{name}_bytes") == []
    assert page.all("mgpu_device_unattributed_memory_bytes") == []
    assert unmeasured(page, "device_memory") == {"not_supported"}


@report(
    source="nvtop#449",
    seen="DGX Spark's total is all of the host's memory, of which its other programs hold half.",
    first="right",
    group="nvidia",
)
def test_memory_of_the_hosts_own_programs_is_nobodys(tmp_path: Path) -> None:
    with field_node(tmp_path, Gpu(0, name="NVIDIA GB10", memory=121 * GIB, used=70 * GIB)) as node:
        tenant = whole_card(node)
        node.start(tenant.cgroup, 0, memory=10 * GIB)
        page = node.run(5)
    assert page.value("mgpu_container_memory_used_bytes", **tenant.labels) == 10 * GIB
    nobodys = "mgpu_device_unattributed_memory_bytes"
    assert page.value(nobodys, uuid="GPU-0", reason="no_pid") == 60 * GIB


@report(
    source="nvtop#426",
    seen="DGX Spark, whose GPU is on no bus, is shown with one lane of the first generation.",
    first="unknown",
    group="nvidia",
    settled="what nvmlDeviceGetMaxPcieLinkWidth returns there: above one, an alert would be false",
)
def test_the_lanes_of_a_board_are_the_drivers(tmp_path: Path) -> None:
    with field_node(tmp_path, Gpu(0, name="NVIDIA GB10")) as node:
        page = node.run(3)
    assert page.value("mgpu_device_pcie_link_width", uuid="GPU-0") == 8


@report(
    source="home-ops#13238",
    seen="The utilisation of a DGX Spark stood at 0 under load, while its power and clocks rose.",
    first="unknown",
    group="nvidia",
    settled="a recording of NVML on a DGX Spark under load: whether the ring is 0 or dcgm was",
)
def test_a_ring_that_says_idle_is_idle(tmp_path: Path) -> None:
    board = Gpu(0, name="NVIDIA GB10", power_mw=80_000, idle_mw=80_000, gpm=False)
    with field_node(tmp_path, board) as node:
        tenant = whole_card(node)
        node.start(tenant.cgroup, 0, duty=0)
        page = node.run(10)
    assert page.value(BUSY, uuid="GPU-0") == 0


@report(
    source="distributed#5342",
    seen="On WSL the utilisation is refused and the memory is not; a monitor ended.",
    first="right",
    group="nvidia",
)
def test_without_utilisation_the_memory_is_known(tmp_path: Path) -> None:
    with field_node(tmp_path, Gpu(0, used=14 * GIB)) as node:
        refuse(node, *RING, *RATES)
        tenant = whole_card(node)
        node.start(tenant.cgroup, 0, memory=2 * GIB)
        page = node.run(5)
    assert unmeasured(page, "core") == {"not_supported"}
    assert page.value("mgpu_container_memory_used_bytes", **tenant.labels) == 2 * GIB
    assert page.value("mgpu_device_memory_used_bytes", uuid="GPU-0") == 14 * GIB
    assert page.all("mgpu_container_core_seconds_total") == []


@report(
    source="nvtop#432",
    seen="On WSL a process's memory is not available, which was shown as 17 billion GiB.",
    first="right",
    group="nvidia",
)
def test_memory_that_is_not_available_is_no_number(tmp_path: Path) -> None:
    with field_node(tmp_path, Gpu(0, used=14 * GIB)) as node:
        tenant = whole_card(node)
        node.start(tenant.cgroup, 0, memory=None)
        page = node.run(5)
    assert page.all("mgpu_container_memory_used_bytes") == []
    told = {"quantity": "memory", "reason": "not_supported"}
    assert page.value("mgpu_container_unmeasured", **tenant.labels, **told) == 1
    assert page.value("mgpu_container_core_seconds_total", **tenant.labels) == pytest.approx(4)


@report(
    source="nvtop#109",
    seen="On WSL the utilisation stood at 0 while memory, clocks and power were right.",
    first="unknown",
    group="nvidia",
    settled="a recording on WSL under load; newer drivers are said to report it",
)
def test_a_rate_of_0_beside_power_is_the_devices_and_no_containers(tmp_path: Path) -> None:
    with field_node(tmp_path, Gpu(0, rates=0)) as node:
        refuse(node, *RING)
        tenant = whole_card(node)
        node.start(tenant.cgroup, 0)
        page = node.run(5)
    told = {"quantity": "core", "reason": "not_supported"}
    assert page.value("mgpu_container_unmeasured", **tenant.labels, **told) == 1
    assert page.all("mgpu_container_core_seconds_total") == []


@report(
    source="iopsystems/rezolus#1196",
    seen="On a board that shares its host's memory the traffic of memory is 0 at full load.",
    first="wrong",
    group="nvidia",
    kind="believed because it is there",
)
def test_without_a_memory_of_its_own_a_traffic_of_0_is_no_figure(tmp_path: Path) -> None:
    traffic = "mgpu_device_memory_active_seconds_total"
    with field_node(tmp_path, Gpu(0, name="NVIDIA Thor", gpm=False)) as node:
        refuse(node, *MEMORY)
        tenant = whole_card(node)
        node.start(tenant.cgroup, 0)
        page = node.run(10)
        assert page.value(BUSY, uuid="GPU-0") == pytest.approx(9)
        assert page.all(traffic) == page.all(traffic.replace("device", "container")) == []
        assert unmeasured(page, "memory_active") == {"not_supported"}
        node.start(tenant.cgroup, 0)
        node.driver.works[-1] = replace(node.driver.works[-1], memory=0.5)
        page = node.run(10)
    assert (page.value(traffic, uuid="GPU-0") or 0) > 0
    assert unmeasured(page, "memory_active") == set()
