"""Boards and drivers that fail, and what is said of it."""

from dataclasses import replace
from pathlib import Path

import pytest

from exporter.model.alerts import HARDWARE, codes
from tests.agent.sources.node.messages import holding
from tests.e2e.programs import Page
from tests.e2e.tenant import Tenant
from tests.fakenvml.scenario import Fault, Field, Gpu, Instance, Xid
from tests.field.nodes import FieldNode, field_node
from tests.field.report import report

WHOLE = {"nvidia.com/gpu": "1"}
CORE = "mgpu_container_core_seconds_total"
XIDS = "mgpu_device_xid_errors_total"


def two(node: FieldNode) -> Tenant:
    """A pod at work on the first of two boards."""
    tenant = Tenant("train")
    node.pod(tenant.document(limits=WHOLE))
    node.kubelet.answer = holding("train", "GPU-0")
    node.start(tenant.cgroup, 0)
    return tenant


@report(
    source="nvitop#139",
    seen="One board of eight was lost from the bus, and a monitor that started then ended.",
    first="wrong",
    group="nvidia",
    kind="a silence",
)
def test_a_board_that_is_lost_before_the_start_is_said(tmp_path: Path) -> None:
    with field_node(tmp_path, Gpu(0), Gpu(1, lost=True)) as node:
        tenant = two(node)
        page = node.run(5)
        assert page.value("mgpu_exporter_unreadable_devices", source="nvml") == 1
        assert page.value(CORE, **tenant.labels) == pytest.approx(4)
        node.driver.gpus[1] = Gpu(1)
        page = node.run(70)
    assert page.value("mgpu_exporter_unreadable_devices", source="nvml") == 0
    assert page.value("mgpu_device_up", uuid="GPU-1") == 1


def test_a_driver_that_is_loaded_anew_counts_nothing_anew(tmp_path: Path) -> None:
    """Its boards go for ten seconds, and its counters begin at 0.

    Beside it runs a node whose driver stays.
    """
    pages: dict[str, tuple[Page, Page, Page, Page]] = {}
    for name in ("stays", "anew"):
        (tmp_path / name).mkdir()
        with field_node(tmp_path / name, Gpu(0), Gpu(1)) as node:
            tenant = two(node)
            before = node.run(20)
            node.driver.faults = [Fault("error", "nvml*", code=9)] if name == "anew" else []
            during = node.run(10)
            if name == "anew":
                node.driver.faults = []
                node.driver.loaded = node.clock.time_ns() / 10**9
            back = node.run(20)
            pages[name] = before, during, back, node.run(20)
    labels = {CORE: tenant.labels, "mgpu_device_energy_joules_total": {"uuid": "GPU-0"}}
    for family, of in labels.items():
        stays, anew = (
            [page.value(family, **of) or 0 for page in pages[name]] for name in ("stays", "anew")
        )
        assert 0 < anew[0] == pytest.approx(stays[0])
        assert anew[0] < anew[2] <= stays[2] * 1.01
        assert anew[3] - anew[2] == pytest.approx(stays[3] - stays[2], rel=0.1)
    assert not pages["anew"][1].value("mgpu_device_up", uuid="GPU-0")


@report(
    source="nvtrust#30",
    seen="With confidential computing on and no enclave, a board's handle is an unknown error.",
    first="wrong",
    group="nvidia",
    kind="a silence",
)
def test_a_board_whose_handle_is_an_error_is_said(tmp_path: Path) -> None:
    with field_node(tmp_path, Gpu(0), Gpu(1)) as node:
        node.driver.faults = [Fault("error", "nvmlDeviceGetHandleByIndex*", gpu=1, code=999)]
        tenant = two(node)
        page = node.run(5)
    assert page.value("mgpu_exporter_unreadable_devices", source="nvml") == 1
    assert page.value(CORE, **tenant.labels) == pytest.approx(4)


@report(
    source="NVSentinel#155",
    seen="A board fell off the bus before the driver was loaded: no XID, and one board fewer.",
    first="unknown",
    group="nvidia",
    settled="how many boards the node should have: the PCI bus has no such device any more either",
)
def test_boards_that_no_driver_has_are_not_there(tmp_path: Path) -> None:
    with field_node(tmp_path, Gpu(0)) as node:
        page = node.run(3)
    assert len(page.all("mgpu_device_up")) == 1


@report(
    source="gpud#1209",
    seen="A newer driver says in words, not as an XID, that a board has fallen off the bus.",
    first="right",
    group="nvidia",
)
def test_a_board_that_falls_off_without_an_xid_is_lost(tmp_path: Path) -> None:
    with field_node(tmp_path, Gpu(0), Gpu(1)) as node:
        tenant = two(node)
        node.run(5)
        node.driver.gpus[0] = replace(node.driver.gpus[0], lost=True)
        page = node.run(5)
    told = {"quantity": "device", "reason": "gpu_lost"}
    assert page.value("mgpu_device_unmeasured", uuid="GPU-0", **told) == 1
    assert page.value("mgpu_device_up", uuid="GPU-1") == 1
    assert page.value(CORE, **tenant.labels) is None


@report(
    source="gpustat#147",
    seen="With library and kernel module of two versions nothing is printed, not even an error.",
    first="right",
    group="nvidia",
)
def test_two_versions_are_said_and_waited_for(tmp_path: Path) -> None:
    with field_node(tmp_path, Gpu(0)) as node:
        node.driver.faults = [Fault("error", "nvmlInit*", code=18)]
        page = node.run(5)
        assert page.value("mgpu_exporter_source_up", source="nvml") == 0
        assert node.collector is not None
        told = {each.name: each.detail for each in node.collector.snapshot.sources}
        assert "not of the kernel module's version" in told["nvml"]
        node.driver.faults = []
        page = node.run(70)
    assert page.value("mgpu_device_up", uuid="GPU-0") == 1


@report(
    source="system76-power#492",
    seen="Without persistence each look initialises the board anew, which takes 1.5 s and 75 W.",
    first="right",
    group="nvidia",
)
def test_the_driver_is_opened_once(tmp_path: Path) -> None:
    with field_node(tmp_path, Gpu(0)) as node:
        page = node.run(20)
    assert page.value("mgpu_exporter_nvml_calls_total", call="nvmlInit") == 1
    assert page.all("mgpu_exporter_nvml_calls_total", call="nvmlShutdown") == []


@report(
    source="dcgm-exporter#95",
    seen="After XID 43 or 45 the gauge keeps the number for ever, and so does its alert.",
    first="right",
    group="nvidia",
)
def test_an_xid_is_counted_once_and_has_a_time(tmp_path: Path) -> None:
    with field_node(tmp_path, Gpu(0)) as node:
        node.run(3)
        node.driver.xids = [Xid(0, 45)]
        first = node.heard("GPU-0", "45")
        page = node.run(30)
    assert page.value(XIDS, uuid="GPU-0", xid="45") == 1
    last = "mgpu_device_xid_last_timestamp_seconds"
    assert page.value(last, uuid="GPU-0", xid="45") == first.value(last, uuid="GPU-0", xid="45")
    assert 45 not in codes(HARDWARE)


@report(
    source="gpu-operator#1065",
    seen="XID 94, after which a program has to be restarted, took the board away for ever.",
    first="right",
    group="nvidia",
)
def test_a_contained_error_takes_nothing_away(tmp_path: Path) -> None:
    with field_node(tmp_path, Gpu(0)) as node:
        tenant = two(node)
        before = node.run(3)
        node.driver.xids = [Xid(0, 94)]
        page = node.heard("GPU-0", "94")
    assert page.value("mgpu_device_up", uuid="GPU-0") == 1
    assert (page.value(CORE, **tenant.labels) or 0) > (before.value(CORE, **tenant.labels) or 0)
    assert 94 not in codes(HARDWARE)


@report(
    source="k8s-device-plugin#1929",
    seen="An XID on a board with MIG is reported of one of its instances, or of none.",
    first="right",
    group="nvidia",
)
def test_an_xid_of_a_divided_board_is_the_boards(tmp_path: Path) -> None:
    with field_node(tmp_path, Gpu(0, mig=True)) as node:
        node.driver.instances = [Instance(0, 0), Instance(0, 1)]
        node.run(3)
        node.driver.xids = [Xid(0, 94)]
        node.heard("GPU-0", "94")


@report(
    source="wandb#9347",
    seen="The lifetime's memory errors make a board seem broken whose rows were remapped.",
    first="right",
    group="nvidia",
)
def test_memory_errors_are_those_since_the_driver_was_loaded(tmp_path: Path) -> None:
    volatile, lifetime = 4, 6  # NVML_FI_DEV_ECC_DBE_VOL_TOTAL, NVML_FI_DEV_ECC_DBE_AGG_TOTAL
    with field_node(tmp_path, Gpu(0)) as node:
        node.driver.fields = [Field(0, volatile, 0), Field(0, lifetime, 7)]
        page = node.run(3)
    assert page.value("mgpu_device_ecc_errors_total", uuid="GPU-0", kind="uncorrected") == 0


@report(
    source="nvidia_gpu_exporter#384",
    seen="In a vGPU guest each query of remapped rows makes the kernel log a warning.",
    first="unknown",
    group="nvidia",
    settled="the kernel log of a vGPU guest while the fields 142 to 145 are asked",
)
def test_remapped_rows_are_asked_for_in_guests_too(tmp_path: Path) -> None:
    """``--metrics.disable=ecc`` ends that."""
    with field_node(tmp_path, Gpu(0, name="NVIDIA L40-16Q", license=True)) as node:
        node.driver.fields = [Field(0, number, 0) for number in range(142, 146)]
        page = node.run(3)
    assert page.value("mgpu_device_row_remapping", uuid="GPU-0", state="pending") == 0


@report(
    source="DCGM#303",
    seen="After XID 31 every profiling figure of a board is 0, while it is at 100 %.",
    first="wrong",
    group="nvidia",
    kind="believed because it is there",
)
def test_a_profile_that_says_idle_of_a_busy_core_is_none(tmp_path: Path) -> None:
    shown = ("sm_active_ratio", "sm_occupancy_ratio", "tensor_active_ratio", "dram_active_ratio")
    with field_node(tmp_path, Gpu(0, gpm_still=True)) as node:
        two(node)
        page = node.run(20)
        assert [name for name in shown if page.all(f"mgpu_device_{name}")] == []
        told = {"quantity": "profiling", "reason": "rejected_samples"}
        assert page.value("mgpu_device_unmeasured", uuid="GPU-0", **told) == 1
        node.driver.gpus[0] = Gpu(0)
        page = node.run(10)
    assert page.value("mgpu_device_sm_active_ratio", uuid="GPU-0") == pytest.approx(1, abs=0.01)


@report(
    source="SwanLab#773",
    seen="The power is an error on some boards, and all other figures were lost with it.",
    first="wrong",
    group="nvidia",
    kind="a silence",
)
def test_what_fails_says_so_from_the_moment_when_it_is_absent(tmp_path: Path) -> None:
    about = {"uuid": "GPU-0", "quantity": "power"}
    with field_node(tmp_path, Gpu(0)) as node:
        two(node)
        node.run(6)
        node.driver.faults = [Fault("error", "nvmlDeviceGetPowerUsage", code=999)]
        for _ in range(20):
            page = node.run(1)
            is_there = page.value("mgpu_device_power_watts", uuid="GPU-0") is not None
            reasons = page.all("mgpu_device_unmeasured", **about)
            assert [own["reason"] for own, _ in reasons] == ([] if is_there else ["read_failed"])
        assert not is_there
        assert page.all("mgpu_container_memory_used_bytes", uuid="GPU-0") != []
        node.driver.faults = []
        page = node.run(40)
    assert page.value("mgpu_device_power_watts", uuid="GPU-0") is not None
    assert page.all("mgpu_device_unmeasured", **about) == []
