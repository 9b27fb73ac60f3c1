import subprocess
from dataclasses import replace
from typing import Any

import pytest
from multidict import MultiDict
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics

from exporter.agent.settings import TABLE, load
from exporter.agent.web import Pages
from exporter.agent.web.selection import select
from exporter.metrics.compat.compatpage import PROGRAMS, CompatPage
from exporter.metrics.text import Format
from exporter.model import (
    AllocationFacts,
    Averages,
    ContainerHolding,
    ContainerKey,
    Device,
    DeviceFacts,
    DeviceMemoryFacts,
    Engines,
    Facts,
    Granted,
    HeldMemory,
    PodFacts,
    Sensors,
    Snapshot,
    Used,
    XidCount,
)
from tests.agent.simulation.clock import ManualClock

GIB = 1 << 30
SECOND = 10**9
NOW = 1_700_000_000 * SECOND


def device(index: int, pcie: int = 1000, nvlink: int = 0) -> DeviceFacts:
    return DeviceFacts(
        device=Device(
            *(f"GPU-{index}", index, "nvidia", "A100"),
            pci_bus_id="0000:17:00.0",
            driver_version="550.54",
            cuda_version="12.4",
        ),
        used=Used(energy_uj=1_500_000),
        average=Averages(0.75, 0.25, 0.125, 0.5),
        memory=DeviceMemoryFacts(40 * GIB, 10 * GIB, 1 * GIB),
        xids={"31": XidCount(1, NOW - SECOND), "79": XidCount(1, NOW)},
        sensors=Sensors.of(
            power_watts=250.5,
            clock_hertz={"sm": 1_410_000_000, "memory": 1_215_000_000},
            temperature_celsius={"gpu": 51.0, "memory": 62.0},
            remapped_rows={"uncorrected": 2, "corrected": 3},
            ecc_errors_total={"uncorrected": 4, "corrected": 5},
            throttle_seconds_total={"sw_power_cap": 7 * SECOND, "sync_boost": SECOND},
            pcie_bytes_total={"transmit": pcie, "receive": 2 * pcie},
            nvlink_bytes_total={"transmit": nvlink, "receive": 2 * nvlink},
            row_remapping={"failed": 1, "pending": 0},
            retired_pages={"uncorrected": 1, "corrected": 6},
            retired_pages_pending=1,
            nvlink_errors_total={"crc_flit": 1, "crc_data": 2, "replay": 3, "recovery": 4},
            pcie_replays_total=9,
            pcie_link_generation=4,
            pcie_link_width=8,
            fan_speed_ratio=0.5,
            performance_state=2,
            vgpu_licensed=1,
            dram_active_ratio=0.375,
            sm_active_ratio=0.5,
            sm_occupancy_ratio=0.25,
            tensor_active_ratio=0.125,
        ),
    )


def container(pod: str, index: int, core: float, memory: int) -> ContainerHolding:
    return ContainerHolding(
        owner=ContainerKey("ml", pod, "main"),
        index=index,
        uuid=f"GPU-{index}",
        average=Averages(core, core / 5, core / 10, core / 4),
        memory=HeldMemory(memory, memory, 1),
        last_active_unix_ns=NOW - 3 * SECOND,
        allocation=AllocationFacts((Granted("test"),), 0.5, 8 * GIB, gpus=0.5),
    )


POD = PodFacts(
    namespace="ml",
    name="a",
    core=0.5,
    core_limit=1.0,
    core_of_limit=0.5,
    memory_bytes=8 * GIB,
    memory_limit_bytes=16 * GIB,
    memory_of_limit=0.5,
)
FACTS = Facts(
    (device(0), device(1)),
    (
        container("a", 0, 0.25, 4 * GIB),
        container("b", 0, 0.375, 2 * GIB),
        container("a", 1, 0.25, 4 * GIB),
    ),
    pods=(POD,),
)


def node(facts: Facts = FACTS, mono_ns: int = 0) -> Snapshot:
    return Snapshot(version=1, unix_ns=NOW, mono_ns=mono_ns, measured=lambda: facts)


NODE = node()
BEFORE = node(
    replace(FACTS, devices=(device(0, 600, -20_480_000), device(1, 600, -20_480_000))),
    -20 * SECOND,
)
"""The node 20 s before."""


def page(snapshot: Snapshot = NODE, *programs: str, form: Format = Format.OPENMETRICS) -> str:
    compat = CompatPage(programs or tuple(PROGRAMS), "node-1")
    compat.render(BEFORE, form)
    return compat.render(snapshot, form).decode()


def samples(text: str) -> dict[str, list[tuple[dict[str, str], float]]]:
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in read_openmetrics(text + "# EOF\n"):  # type: ignore[no-untyped-call] # its own
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def one(name: str, **labels: str) -> float:
    found = [value for own, value in samples(page())[name] if labels.items() <= own.items()]
    assert len(found) == 1, found
    return found[0]


A0 = {"namespace": "ml", "pod": "a", "container": "main", "gpu": "0"}
HAMI = {"namespace": "ml", "pod": "a", "container": "main", "vdevice_index": "1"}
HAMI |= {"device_uuid": "GPU-1", "zone": "vGPU"}
OLD = {"podnamespace": "ml", "podname": "a", "ctrname": "main", "vdeviceid": "1"}
OLD |= {"deviceuuid": "GPU-1", "zone": "vGPU"}
NODELESS = {"device_index": "0", "device_uuid": "GPU-0", "device_type": "NVIDIA-A100"}
HOST = {**NODELESS, "zone": "vGPU", "node": "node-1"}
OLD_HOST = {"deviceidx": "0", "deviceuuid": "GPU-0", "zone": "vGPU", "nodeid": "node-1"}
CARD = {"node": "node-1", "card": "0"}
POD_LABELS = {"node": "node-1", "namespace": "ml", "pod": "a"}
TASK = {**POD_LABELS, "container": "main"}
MANAGED = {"pod_name": "a", "namespace": "ml", "node": "node-1", "container_name": "main"}

UNITS = [
    ("DCGM_FI_DEV_SM_CLOCK", {"gpu": "0", "UUID": "GPU-0", "modelName": "A100"}, 1410),
    ("DCGM_FI_DEV_MEM_CLOCK", {"gpu": "0", "pci_bus_id": "0000:17:00.0"}, 1215),
    ("DCGM_FI_DEV_GPU_TEMP", {"gpu": "0", "device": "nvidia0"}, 51),
    ("DCGM_FI_DEV_MEMORY_TEMP", {"gpu": "0", "Hostname": "node-1"}, 62),
    ("DCGM_FI_DEV_POWER_USAGE", {"gpu": "0", "DCGM_FI_DRIVER_VERSION": "550.54"}, 250.5),
    ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", {"gpu": "0"}, 1500),
    ("DCGM_FI_DEV_GPU_UTIL", A0, 25),
    ("DCGM_FI_DEV_MEM_COPY_UTIL", A0, 5),
    ("DCGM_FI_DEV_ENC_UTIL", A0, 2.5),
    ("DCGM_FI_DEV_DEC_UTIL", A0, 6.25),
    ("DCGM_FI_DEV_POWER_VIOLATION", {"gpu": "0"}, 7 * SECOND),
    ("DCGM_FI_DEV_SYNC_BOOST_VIOLATION", {"gpu": "0"}, SECOND),
    ("DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", {"gpu": "0"}, 5),
    ("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", {"gpu": "0"}, 4),
    ("DCGM_FI_DEV_RETIRED_SBE", {"gpu": "0"}, 6),
    ("DCGM_FI_DEV_RETIRED_DBE", {"gpu": "0"}, 1),
    ("DCGM_FI_DEV_RETIRED_PENDING", {"gpu": "0"}, 1),
    ("DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL", {"gpu": "0"}, 1),
    ("DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL", {"gpu": "0"}, 2),
    ("DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL", {"gpu": "0"}, 3),
    ("DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL", {"gpu": "0"}, 4),
    ("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", {"gpu": "0"}, 9),
    ("DCGM_FI_DEV_PCIE_LINK_GEN", {"gpu": "0"}, 4),
    ("DCGM_FI_DEV_PCIE_LINK_WIDTH", {"gpu": "0"}, 8),
    ("DCGM_FI_DEV_FAN_SPEED", {"gpu": "0"}, 50),
    ("DCGM_FI_DEV_PSTATE", {"gpu": "0"}, 2),
    ("DCGM_FI_DEV_VGPU_LICENSE_STATUS", {"gpu": "0"}, 1),
    ("DCGM_FI_PROF_DRAM_ACTIVE", {"gpu": "0"}, 0.375),
    ("DCGM_FI_DEV_FB_TOTAL", {"gpu": "0"}, 40 * 1024),
    ("DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", {"gpu": "0"}, 3),
    ("DCGM_FI_PROF_PCIE_TX_BYTES", {"gpu": "0"}, 20),
    ("DCGM_FI_PROF_PCIE_RX_BYTES", {"gpu": "0"}, 40),
    ("DCGM_FI_DEV_XID_ERRORS", {"gpu": "0"}, 79),
    ("DCGM_FI_DEV_FB_FREE", {"gpu": "0"}, 29 * 1024),
    ("DCGM_FI_DEV_FB_USED", A0, 4096),
    ("DCGM_FI_DEV_FB_RESERVED", {"gpu": "0"}, 1024),
    ("DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", {"gpu": "0"}, 2),
    ("DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", {"gpu": "0"}, 3),
    ("DCGM_FI_DEV_ROW_REMAP_FAILURE", {"gpu": "0"}, 1),
    ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", A0, 0.25),
    ("DCGM_FI_PROF_SM_ACTIVE", {"gpu": "0"}, 0.5),
    ("DCGM_FI_PROF_SM_OCCUPANCY", {"gpu": "0"}, 0.25),
    ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", {"gpu": "0"}, 0.125),
    ("DCGM_FI_DEV_SM_CLOCK_HERTZ", {"gpu": "0"}, 1.41e9),
    ("DCGM_FI_DEV_MEMORY_CLOCK_HERTZ", {"gpu": "0"}, 1.215e9),
    ("DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL", {"gpu": "0"}, 1),
    ("DCGM_FI_DEV_GPU_UTIL_RATIO", A0, 0.25),
    ("DCGM_FI_DEV_MEMORY_UTIL_RATIO", A0, 0.05),
    ("DCGM_FI_DEV_ENC_UTIL_RATIO", A0, 0.025),
    ("DCGM_FI_DEV_DEC_UTIL_RATIO", A0, 0.0625),
    ("DCGM_FI_DEV_FB_CAPACITY_BYTES", {"gpu": "0"}, 40 * GIB),
    ("DCGM_FI_DEV_FB_FREE_BYTES", {"gpu": "0"}, 29 * GIB),
    ("DCGM_FI_DEV_FB_USED_BYTES", A0, 4 * GIB),
    ("DCGM_FI_DEV_FB_RESERVED_BYTES", {"gpu": "0"}, GIB),
    ("DCGM_FI_DEV_NVLINK_THROUGHPUT_BYTES_PER_SECOND", {"gpu": "0"}, 3 * 1_024_000),
    ("DCGM_FI_DEV_FAN_SPEED_RATIO", {"gpu": "0"}, 0.5),
    ("DCGM_FI_DEV_GPU_POWER_THROTTLE_SECONDS_TOTAL", {"gpu": "0"}, 7),
    ("DCGM_FI_DEV_GPU_SYNC_BOOST_THROTTLE_SECONDS_TOTAL", {"gpu": "0"}, 1),
    ("DCGM_FI_DEV_GPU_TEMP_CELSIUS", {"gpu": "0", "hostname": "node-1"}, 51),
    ("DCGM_FI_DEV_MEMORY_TEMP_CELSIUS", {"gpu": "0"}, 62),
    (
        "DCGM_FI_DEV_BOARD_POWER_WATTS",
        {"DCGM_FI_SYSTEM_DRIVER_VERSION": "550.54", "gpu": "0"},
        250.5,
    ),
    ("DCGM_FI_DEV_PCIE_REPLAY_TOTAL", {"gpu": "0"}, 9),
    ("DCGM_FI_DEV_XID_ERROR", {"gpu": "0"}, 79),
    ("DCGM_FI_DEV_ROW_REMAP_UNCORRECTABLE_TOTAL", {"gpu": "0"}, 2),
    ("DCGM_FI_DEV_ROW_REMAP_CORRECTABLE_TOTAL", {"gpu": "0"}, 3),
    ("DCGM_FI_DEV_ROW_REMAP_FAILED", {"gpu": "0"}, 1),
    ("DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO", A0, 0.25),
    ("DCGM_FI_PROF_SM_UTIL_RATIO", {"gpu": "0"}, 0.5),
    ("DCGM_FI_PROF_SM_OCCUPANCY_RATIO", {"gpu": "0"}, 0.25),
    ("DCGM_FI_PROF_TENSOR_UTIL_RATIO", {"gpu": "0"}, 0.125),
    ("DCGM_FI_PROF_DRAM_UTIL_RATIO", {"gpu": "0"}, 0.375),
    ("container_gpu_allocation", TASK, 1.0),
    ("hami_host_gpu_memory_used_bytes", HOST, 11 * GIB),
    ("hami_host_gpu_utilization_ratio", HOST, 75),
    ("hami_host_gpu_memory_controller_utilization_ratio", NODELESS, 25),
    ("hami_host_gpu_temperature_celsius", HOST, 51),
    ("hami_host_gpu_power_usage_watts", HOST, 250.5),
    ("hami_vgpu_memory_used_bytes", HAMI, 4 * GIB),
    ("hami_vgpu_memory_limit_bytes", HAMI, 8 * GIB),
    ("hami_container_device_memory_bytes", HAMI, 4 * GIB),
    ("hami_container_device_utilization_ratio", HAMI, 25),
    ("hami_container_last_kernel_elapsed_seconds", HAMI, 3),
    ("HostGPUMemoryUsage", OLD_HOST, 11 * GIB),
    ("HostCoreUtilization", OLD_HOST, 75),
    ("vGPU_device_memory_usage_in_bytes", OLD, 4 * GIB),
    ("vGPU_device_memory_limit_in_bytes", OLD, 8 * GIB),
    ("Device_memory_desc_of_container", OLD, 4 * GIB),
    ("Device_utilization_desc_of_container", OLD, 25),
    ("Device_last_kernel_of_container", OLD, 3),
    ("gpu_core_usage", CARD, 75),
    ("gpu_core_utilization", CARD, 75),
    ("gpu_core_utilization_percentage", CARD, 75),
    ("gpu_mem_usage", CARD, 10 * 1024),
    ("gpu_mem_utilization", CARD, 25),
    ("gpu_mem_utilization_percentage", CARD, 25),
    ("pod_core_usage", POD_LABELS, 50),
    ("pod_core_utilization", POD_LABELS, 50),
    ("pod_core_utilization_percentage", POD_LABELS, 50),
    ("pod_core_occupy_node", POD_LABELS, 25),
    ("pod_core_occupy_node_percentage", POD_LABELS, 25),
    ("pod_mem_usage", POD_LABELS, 8 * 1024),
    ("pod_mem_utilization", POD_LABELS, 50),
    ("pod_mem_utilization_percentage", POD_LABELS, 50),
    ("pod_mem_occupy_node", POD_LABELS, 10),
    ("pod_mem_occupy_node_percentage", POD_LABELS, 10),
    ("pod_core_request", POD_LABELS, 100),
    ("pod_mem_request", POD_LABELS, 16 * 1024),
    ("container_core_usage", TASK, 50),
    ("container_core_utilization", TASK, 50),
    ("container_core_utilization_percentage", TASK, 50),
    ("container_mem_usage", TASK, 8 * 1024),
    ("container_mem_utilization", TASK, 50),
    ("container_mem_utilization_percentage", TASK, 50),
    ("container_gpu_utilization", {**MANAGED, "gpu": "gpu1"}, 25),
    ("container_gpu_utilization", {**MANAGED, "gpu": "total"}, 50),
    ("container_request_gpu_utilization", {**MANAGED, "req_of_gpu": "total"}, 1.0),
    ("container_gpu_memory_total", {**MANAGED, "gpu_memory": "gpu1"}, 4 * 1024),
    ("container_gpu_memory_total", {**MANAGED, "gpu_memory": "total"}, 8 * 1024),
    ("container_request_gpu_memory", {**MANAGED, "req_of_gpu_memory": "total"}, 16 * 1024),
]


@pytest.mark.parametrize(("name", "labels", "value"), UNITS)
def test_a_figure_has_the_other_exporters_unit_and_labels(
    name: str, labels: dict[str, str], value: float
) -> None:
    assert one(name, **labels) == pytest.approx(value)


def test_the_devices_of_a_container_are_numbered_by_index() -> None:
    facts = replace(
        FACTS,
        devices=(device(2), device(10)),
        containers=(container("a", 10, 0.25, GIB), container("a", 2, 0.25, GIB)),
    )

    series = samples(page(node(facts), "hami"))["hami_vgpu_memory_used_bytes"]

    numbered = {labels["device_uuid"]: labels["vdevice_index"] for labels, _ in series}
    assert numbered == {"GPU-2": "0", "GPU-10": "1"}


def test_a_board_of_another_vendor_is_no_nvidia() -> None:
    one = device(100)
    facts = replace(FACTS, devices=(replace(one, device=replace(one.device, vendor="amd")),))

    [(labels, _)] = samples(page(node(facts), "dcgm"))["DCGM_FI_DEV_POWER_USAGE"]

    assert labels["device"] == "amd100"


def test_every_row_of_every_table_is_held_to_its_unit() -> None:
    rows = {alias.name for aliases in PROGRAMS.values() for alias in aliases}
    assert {name for name, _, _ in UNITS} == rows == samples(page()).keys()


@pytest.mark.parametrize("program", PROGRAMS)
def test_only_the_programs_asked_for_are_served(program: str) -> None:
    assert samples(page(NODE, program)).keys() == {alias.name for alias in PROGRAMS[program]}


def test_the_setting_allows_these_programs_and_no_other() -> None:
    assert load({"compat": ["dcgm,hami"]}, {}).compat == ("dcgm", "hami")
    assert all(program in TABLE["compat"].kind.allowed for program in PROGRAMS)


def test_nothing_is_served_unasked() -> None:
    assert CompatPage((), "node-1").render(NODE, Format.TEXT) == b""


WHOLES = [
    ("DEV_GPU_UTIL", 75),
    ("DEV_FB_USED", 10 * 1024),
    ("DEV_MEM_COPY_UTIL", 25),
    ("DEV_ENC_UTIL", 12.5),
    ("DEV_DEC_UTIL", 50),
    ("PROF_GR_ENGINE_ACTIVE", 0.75),
]


@pytest.mark.parametrize(("name", "whole"), WHOLES)
def test_the_parts_of_a_shared_device_add_up_to_it(name: str, whole: float) -> None:
    parts = [(own, v) for own, v in samples(page())[f"DCGM_FI_{name}"] if own["gpu"] == "0"]
    assert sum(value for _, value in parts) == pytest.approx(whole)
    assert sorted(own.get("pod", "") for own, _ in parts) == ["", "a", "b"]


def test_a_device_with_one_container_is_all_that_containers() -> None:
    found = [(own, v) for own, v in samples(page())["DCGM_FI_DEV_GPU_UTIL"] if own["gpu"] == "1"]
    assert [(own["pod"], value) for own, value in found] == [("a", 75)]
    assert one("DCGM_FI_DEV_POWER_USAGE", gpu="1", pod="a", container="main") == 250.5


def test_a_shared_devices_own_figures_stand_once_and_without_a_pod() -> None:
    found = [own for own, _ in samples(page())["DCGM_FI_DEV_POWER_USAGE"] if own["gpu"] == "0"]
    assert len(found) == 1
    assert "pod" not in found[0]


def with_containers(**fields: Any) -> Snapshot:
    containers = tuple(replace(each, **fields) for each in FACTS.containers)
    return node(replace(FACTS, containers=containers))


def test_what_is_not_known_of_a_container_is_absent_and_so_is_the_rest_of_its_device() -> None:
    found = samples(page(with_containers(average=Averages())))
    on_shared = [own for own, _ in found["DCGM_FI_DEV_GPU_UTIL"] if own["gpu"] == "0"]
    assert on_shared == []
    assert "hami_container_device_utilization_ratio" not in found
    assert "container_core_usage" not in found


def test_a_container_without_a_limit_has_no_request_and_no_share_of_it() -> None:
    found = samples(page(with_containers(allocation=AllocationFacts())))
    absent = ("container_request_gpu_utilization", "container_mem_utilization")
    assert not {*absent, "hami_vgpu_memory_limit_bytes"} & found.keys()
    assert "container_core_usage" in found


def test_a_container_that_has_gone_has_no_series() -> None:
    gone = ContainerHolding(
        owner=ContainerKey("ml", "old", "main"),
        index=0,
        uuid="GPU-0",
        ended=True,
        used=Used(Engines(1)),
    )
    assert page(node(replace(FACTS, containers=(*FACTS.containers, gone)))) == page()


def test_a_device_that_had_no_xid_says_0() -> None:
    text = page(node(Facts((replace(device(0), xids={}),))))
    assert 'DCGM_FI_DEV_XID_ERRORS{gpu="0"' in text
    assert samples(text)["DCGM_FI_DEV_XID_ERRORS"][0][1] == 0


def test_names_from_the_cluster_are_escaped() -> None:
    hostile = 'a"b\\c\nd'
    found = samples(page(node(replace(FACTS, containers=(container(hostile, 0, 0.5, GIB),)))))
    assert found["hami_vgpu_memory_used_bytes"][0][0]["pod"] == hostile


def test_both_formats_have_the_same_samples_under_the_same_names() -> None:
    written = [
        [line for line in page(form=form).splitlines() if not line.startswith("#")]
        for form in Format
    ]
    assert written[0] == written[1] != []


@pytest.mark.program("promtool")
def test_promtool_reads_the_page() -> None:
    done = subprocess.run(  # noqa: PLW1510 - it ends with 3 because of what it dislikes
        ["promtool", "check", "metrics"],
        input=page(form=Format.TEXT),
        text=True,
        capture_output=True,
    )
    # it also dislikes the names and units of others, which is their business
    assert "error while linting" not in done.stderr, done.stderr


def test_a_scrape_selects_a_programs_families_and_a_stale_page_has_none() -> None:
    clock = ManualClock(0, 0)
    compat = CompatPage(["dcgm", "hami"], "node-1")
    compat.render(BEFORE, Format.TEXT)
    pages = Pages(lambda: NODE, clock, compat=compat)
    asked = select(MultiDict({"collect[]": "dcgm"}))
    left = select(MultiDict({"exclude[]": "hami_vgpu_memory_used_bytes"}))

    whole = pages.page(Format.OPENMETRICS, zipped=False).decode()
    dcgm = pages.page(Format.OPENMETRICS, asked, zipped=False).decode()
    less = pages.page(Format.OPENMETRICS, left, zipped=False).decode()
    clock.now_ns += 11 * SECOND

    assert set(samples(dcgm.removesuffix("# EOF\n"))) == samples(page(NODE, "dcgm")).keys()
    assert "hami_vgpu_memory_used_bytes" in whole
    assert "hami_vgpu_memory_used_bytes" not in less
    assert "DCGM" not in pages.page(Format.OPENMETRICS, zipped=False).decode()
