"""Boards of which some figures are missing, impossible, or not of the whole: one figure each."""

from pathlib import Path

import pytest

from tests.agent.sources.node.messages import holding
from tests.e2e.programs import Page
from tests.fakenvml.scenario import GIB, Fault, Field, Gpu, Instance, Work
from tests.field.nodes import field_node
from tests.field.pods import FieldPod, by, core, gpus, memory_limits
from tests.field.report import report

WHOLE = {"nvidia.com/gpu": "1"}
MIB = 1 << 20
NOBODY = 2**32 - 1  # the driver's pid of it
POWER = (
    "nvmlDeviceGetPowerUsage",
    "nvmlDeviceGetPowerManagementLimit*",
    "nvmlDeviceGetEnforcedPowerLimit",
)


def refused(*functions: str, gpu: int | None = None, code: int = 3) -> list[Fault]:
    """The driver's refusals of these."""
    return [Fault("error", each, gpu=gpu, code=code) for each in functions]


def why(page: Page, uuid: str) -> dict[str, str]:
    """What is not known of a device, and why."""
    found = page.all("mgpu_device_unmeasured", uuid=uuid)
    return {own["quantity"]: own["reason"] for own, value in found if value}


@report(
    source="open-gpu-kernel-modules#1193",
    seen="Of two boards one has an error in place of its fan, and no power and no cap.",
    first="right",
    group="nvidia",
)
def test_a_board_without_power_costs_the_other_nothing(tmp_path: Path) -> None:
    train = FieldPod("train", {"main": WHOLE})
    with field_node(tmp_path, Gpu(0, energy=False), Gpu(1)) as node:
        node.driver.faults = [
            *refused("nvmlDeviceGetFanSpeed*", gpu=0, code=999),
            *refused(*POWER, gpu=0),
        ]
        node.pod(train.document())
        node.kubelet.answer = holding("train", "GPU-0")
        node.start(train.cgroup(), 0)
        page = node.run(10)
    assert core(page) == {("train", "main", "GPU-0"): pytest.approx(9)}
    assert why(page, "GPU-0").keys() >= {"power", "energy", "power_limit"}
    assert by(page, "device_power_watts", "uuid") == {("GPU-1",): 70}
    assert by(page, "device_energy_joules_total", "uuid").keys() == {("GPU-1",)}


@report(
    source="dcgm-exporter#507",
    seen="On some boards of a node with MIG an instance has no profiling figures.",
    first="right",
    group="nvidia",
)
def test_an_instance_without_activity_is_not_idle(tmp_path: Path) -> None:
    resource = "nvidia.com/mig-1g.10gb"
    pods = [FieldPod(each, {"main": {resource: "1"}}) for each in "ab"]
    with field_node(tmp_path, Gpu(0, mig=True), Gpu(1, mig=True)) as node:
        node.driver.instances = [Instance(0, 0), Instance(1, 0)]
        node.driver.faults = refused("nvmlGpm*", gpu=1)
        for gpu, each in enumerate(pods):
            node.pod(each.document())
            node.start(each.cgroup(), gpu, instance=0)
        node.kubelet.answer = b"".join(
            holding(each.name, f"MIG-{gpu}-0", resource=resource) for gpu, each in enumerate(pods)
        )
        page = node.run(8)
    assert core(page) == {("a", "main", "MIG-0-0"): pytest.approx(1)}  # a seventh of 7 s
    assert why(page, "MIG-1-0")["core"] == "mig"
    assert by(page, "container_allocated_idle_core_seconds_total", "pod").keys() == {("a",)}
    assert gpus(page)["b", "main", "MIG-1-0"] == pytest.approx(1 / 7)


@report(
    source="nvidia_gpu_exporter#466",
    seen="An instance that is made anew under the same number has the figures of the one before.",
    first="right",
    group="nvidia",
)
def test_an_instance_with_the_number_of_one_that_is_gone_is_another(tmp_path: Path) -> None:
    large, small = "nvidia.com/mig-3g.40gb", "nvidia.com/mig-1g.10gb"
    before, after = (
        FieldPod("before", {"main": {large: "1"}}),
        FieldPod("after", {"main": {small: "1"}}),
    )
    whole = Instance(0, 0, gi=1, slices=3, memory=40 * GIB, profile="3g.40gb")
    with field_node(tmp_path, Gpu(0, mig=True)) as node:
        node.driver.instances = [whole]
        node.pod(before.document())
        node.kubelet.answer = holding("before", whole.uuid, resource=large)
        pid = node.start(before.cgroup(), 0, instance=0)
        node.run(10)
        node.end(pid)
        node.delete(before.document())
        node.driver.instances = [Instance(0, 0, uuid="MIG-new", gi=1)]
        node.driver.works = []
        node.pod(after.document())
        node.kubelet.answer = holding("after", "MIG-new", resource=small)
        node.start(after.cgroup(), 0, instance=0)
        page = node.run(10)
    assert gpus(page) == {("after", "main", "MIG-new"): pytest.approx(1 / 7)}
    assert memory_limits(page) == {("after", "main", "MIG-new"): 10 * GIB}
    assert 1 < core(page)["after", "main", "MIG-new"] <= 10 / 7


@report(
    source="dcgm-exporter#312",
    seen="Now and then the temperature of a board is 644,245,923 °C.",
    first="right",
    group="nvidia",
)
def test_a_temperature_that_no_board_has_is_left_out_and_counted(tmp_path: Path) -> None:
    with field_node(tmp_path, Gpu(0, temperature=644_245_923)) as node:
        page = node.run(5)
    assert by(page, "device_temperature_celsius", "sensor") == {("memory",): 60}
    assert page.value("mgpu_exporter_rejected_samples_total", reason="sensor") == 1


@report(
    source="dcgm-exporter#460, DCGM#311",
    seen="The memory of a board without a sensor there has 0 °C; each field has a code of its own.",
    first="right",
    group="nvidia",
)
def test_a_field_that_is_refused_among_others_is_no_zero(tmp_path: Path) -> None:
    with field_node(tmp_path, Gpu(0, name="NVIDIA L4")) as node:
        node.driver.fields = [Field(0, 82, error=3)]  # NVML_FI_DEV_MEMORY_TEMP
        page = node.run(5)
    assert by(page, "device_temperature_celsius", "sensor") == {("gpu",): 50}


@report(
    source="gpu-monitoring-tools#97, slurm-job-exporter#30",
    seen="What a board does not have is exported as 9,223,372,036,854,775,794.",
    first="right",
    group="nvidia",
)
def test_what_a_board_refuses_is_no_number_under_dcgms_names_either(tmp_path: Path) -> None:
    with field_node(tmp_path, Gpu(0)) as node:
        node.driver.faults = refused("nvmlDeviceGetTemperature*", "nvmlDeviceGetFieldValues")
        node.run(5)
        page = node.page("dcgm")
    for name in ("GPU_TEMP", "MEMORY_TEMP"):
        assert page.all(f"DCGM_FI_DEV_{name}") == []
    assert page.value("DCGM_FI_DEV_POWER_USAGE", UUID="GPU-0") == 70


@report(
    source="dcgm-exporter#271, #380",
    seen="What is used and what is free are not always the total, and with MIG both are missing.",
    first="right",
    group="nvidia",
)
@pytest.mark.parametrize("mig", [False, True])
def test_used_free_and_reserved_memory_are_the_total(tmp_path: Path, mig: bool) -> None:  # noqa: FBT001 - a case
    resource, uuid = ("nvidia.com/mig-1g.10gb", "MIG-0-0") if mig else ("nvidia.com/gpu", "GPU-0")
    pods = [FieldPod(each, {"main": {resource: "1"}}) for each in "ab"]
    with field_node(tmp_path, Gpu(0, mig=True if mig else None)) as node:
        node.driver.instances = [Instance(0, 0), Instance(0, 1)] if mig else []
        shared = {"instance": 0} if mig else {}
        for gib, each in enumerate(pods, 2):
            node.pod(each.document())
            node.start(each.cgroup(), 0, memory=gib * GIB, **shared)
        node.kubelet.answer = holding("a", uuid, resource=resource)
        node.run(5)
        page = node.page("dcgm")
    own = {"GPU_I_ID": "1"} if mig else {}
    found = {
        name: sum(value for _, value in page.all(f"DCGM_FI_DEV_FB_{name}", **own))
        for name in ("TOTAL", "USED", "FREE", "RESERVED")
    }
    assert found["USED"] == 5 * 1024
    assert found["TOTAL"] == found["USED"] + found["FREE"] + found["RESERVED"]


@report(
    source="gpuopenanalytics/pynvml#63, Syllo/nvtop#213",
    seen="What a program has by cudaMallocManaged is in use on the board, and not its own.",
    first="right",
    group="nvidia",
)
def test_managed_memory_is_in_use_and_nobodys(tmp_path: Path) -> None:
    train = FieldPod("train", {"main": WHOLE})
    with field_node(tmp_path, Gpu(0, used=58 * GIB)) as node:
        node.pod(train.document())
        node.kubelet.answer = holding("train", "GPU-0")
        node.start(train.cgroup(), 0, memory=5 * GIB)
        page = node.run(5)
    assert by(page, "device_memory_used_bytes", "uuid") == {("GPU-0",): 58 * GIB}
    assert by(page, "container_memory_used_bytes", "pod") == {("train",): 5 * GIB}
    assert by(page, "device_unattributed_memory_bytes", "reason")["no_pid",] == 53 * GIB


@report(
    source="unslothai/unsloth#10283",
    seen="On an N1X the board has 8,128 MiB by its driver, and programs hold more of its host's.",
    first="unknown",
    group="nvidia",
    settled="NVML's answers on an N1X: whether a process is listed with more than the board has",
)
def test_more_memory_than_the_board_has_is_unmeasured(tmp_path: Path) -> None:
    train = FieldPod("train", {"main": WHOLE})
    board = Gpu(0, name="NVIDIA N1X", memory=8128 * MIB, reserved=0, used=199 * MIB)
    with field_node(tmp_path, board) as node:
        node.pod(train.document())
        node.kubelet.answer = holding("train", "GPU-0")
        node.start(train.cgroup(), 0, memory=20 * GIB)
        page = node.run(5)
    assert page.all("mgpu_container_memory_used_bytes") == []
    told = {"quantity": "memory", "reason": "rejected_samples"}
    assert page.value("mgpu_container_unmeasured", pod="train", **told) == 1
    assert core(page) == {("train", "main", "GPU-0"): pytest.approx(4)}


@report(
    source="open-gpu-kernel-modules#1138",
    seen="After a suspend the board is at 100 % until a reboot, and no process works.",
    first="right",
    group="nvidia",
)
def test_a_busy_board_without_a_worker_is_charged_to_nobody(tmp_path: Path) -> None:
    idle = FieldPod("idle", {"main": WHOLE})
    with field_node(tmp_path, Gpu(0, name="NVIDIA GeForce RTX 5060", gpm=False)) as node:
        node.pod(idle.document())
        node.kubelet.answer = holding("idle", "GPU-0")
        node.start(idle.cgroup(), 0, duty=0)
        node.driver.works.append(Work(0, NOBODY, 0))
        page = node.run(10)
    assert core(page) == {("idle", "main", "GPU-0"): 0}
    assert by(page, "device_unattributed_core_seconds_total", "reason")["no_pid",] == 9


@report(
    source="dcgm-exporter#236",
    seen="A virtual GPU has no temperature and no power, and its dashboard does not load.",
    first="right",
    group="nvidia",
)
def test_a_guest_without_sensors_has_its_core_and_memory(tmp_path: Path) -> None:
    train = FieldPod("train", {"main": WHOLE})
    guest = Gpu(0, name="GRID V100-4C", memory=4 * GIB, energy=False, gpm=False, license=True)
    with field_node(tmp_path, guest) as node:
        node.driver.faults = refused(*POWER, "nvmlDeviceGetTemperature*", "nvmlDeviceGetClockInfo")
        node.pod(train.document())
        node.kubelet.answer = holding("train", "GPU-0")
        node.start(train.cgroup(), 0, duty=0.5, period=0.53)
        page = node.run(10)
    assert core(page) == {("train", "main", "GPU-0"): pytest.approx(4.5, abs=0.6)}
    assert by(page, "container_memory_used_bytes", "pod") == {("train",): GIB}
    assert why(page, "GPU-0").keys() >= {"power", "energy", "temperature", "clock"}
