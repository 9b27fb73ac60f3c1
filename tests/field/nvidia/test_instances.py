"""Instances of boards since Blackwell: their names, a layout that changes, rights, sensors."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.agent.sources.node.messages import container, devices, holding
from tests.agent.sources.node.messages import pod as pod_of
from tests.fakenvml.scenario import GIB, Fault, Gpu, Instance
from tests.field.nodes import field_node
from tests.field.pods import FieldPod, by, core, gpus, memory_limits
from tests.field.report import report

MIB = 1 << 20
NO_PERMISSION = 4
B200 = Gpu(0, name="NVIDIA B200", memory=183_359 * MIB, mig=True)
GB200 = Gpu(0, name="NVIDIA GB200", memory=189_471 * MIB, mig=True)
B300 = Gpu(0, name="NVIDIA B300 SXM6 AC", memory=275_040 * MIB, mig=True)
H100_NVL = Gpu(0, name="NVIDIA H100 NVL", memory=95_830 * MIB, mig=True)
A100 = Gpu(0, name="NVIDIA A100 80GB PCIe", memory=81_920 * MIB, mig=True)
RTX_6000 = Gpu(0, name="NVIDIA RTX PRO 6000", memory=97_887 * MIB, mig=True, slices=4)


@pytest.mark.parametrize(
    ("board", "slices", "memory", "profile", "resource"),
    [
        pytest.param(
            GB200,
            *(3, 93 * GIB - GIB // 2, "3g.93gb", "3g.93gb"),
            marks=report(
                source="NVIDIA/mig-parted#227",
                seen="Boards of GB200 call their parts 23, 47 and 93 GB, and not 24, 47 and 95.",
                first="right",
                group="nvidia",
                round=3,
            ),
        ),
        pytest.param(
            B200,
            *(1, 22 * GIB, "1g.23gb", "1g.23gb"),
            marks=report(
                source="NVIDIA/gpu-operator#1351",
                seen="A B200's smallest part has 20.5 or 22 GiB and is called 1g.23gb.",
                first="right",
                group="nvidia",
                round=3,
            ),
        ),
        pytest.param(
            B300,
            *(2, 66 * GIB, "2g.67gb", "2g.67gb"),
            marks=report(
                source="NVIDIA/gpu-operator#1759",
                seen="Profiles of a B300 are missing in a table of them.",
                first="right",
                group="nvidia",
                round=3,
            ),
        ),
        pytest.param(
            H100_NVL,
            *(1, 11_008 * MIB, "1g.12gb", "1g.12gb"),
            marks=report(
                source="dcgm-exporter#544",
                seen="Parts of an H100 NVL that are 1g.12gb are exported as 1g.11gb.",
                first="right",
                group="nvidia",
                round=3,
            ),
        ),
        pytest.param(
            A100,
            *(7, 81_221 * MIB, "7g.80gb", "7g.80gb"),
            marks=report(
                source="gpu-operator#687",
                seen="The whole of an A100 as one part is 7g.79gb, which no dashboard knows.",
                first="right",
                group="nvidia",
                round=3,
            ),
        ),
        pytest.param(
            RTX_6000,
            *(1, 24_187 * MIB, "1g.24gb", "1g.24gb.gfx"),
            marks=report(
                source="container-engine-accelerators#564",
                seen="Parts of an RTX PRO 6000 for graphics are called 1g.24gb+gfx.",
                first="wrong",
                group="nvidia",
                kind="one platform's name is taken for all",
                round=3,
            ),
        ),
    ],
)
def test_an_instance_is_called_as_its_resource(
    tmp_path: Path, board: Gpu, slices: int, memory: int, profile: str, resource: str
) -> None:
    pod = FieldPod("part", {"main": {f"nvidia.com/mig-{resource}": "1"}})
    with field_node(tmp_path, board) as node:
        node.document["status"] = {"allocatable": {f"nvidia.com/mig-{resource}": "1"}}
        node.driver.instances = [
            Instance(0, 0, slices=slices, memory=memory, profile=profile),
            *([Instance(0, 1, slices=1, memory=2 * GIB, profile="1g")] if slices < 4 else []),
        ]
        node.pod(pod.document())
        before = node.run(3)
        node.start(pod.cgroup(), 0, instance=0, duty=0.5, period=0.4)
        page = node.run(10)
    names = {own["profile"] for own, _ in page.all("mgpu_device_info", uuid="MIG-0-0")}
    assert names == {profile}
    assert {own["pod"] for own, _ in before.all("mgpu_pod_allocated_gpus")} == {"part"}
    assert set(gpus(page)) == {("part", "main", "MIG-0-0")}
    assert memory_limits(page) == {("part", "main", "MIG-0-0"): memory // MIB * MIB}


@pytest.mark.parametrize("extras", ["", ".gfx"])
def test_a_slice_of_an_instance_is_its_part_whatever_the_resources_extras(
    tmp_path: Path, extras: str
) -> None:
    resource = f"nvidia.com/mig-1g.24gb{extras}"
    pod = FieldPod("part", {"main": {resource: "1"}})
    labels = {
        f"{resource}.replicas": "4",
        f"{resource}.count": "2",
        "nvidia.com/gpu.sharing-strategy": "time-slicing",
    }
    with field_node(tmp_path, RTX_6000, labels=labels) as node:
        node.document["status"] = {"allocatable": {resource: "8"}}
        node.driver.instances = [
            Instance(0, n, memory=24_187 * MIB, profile="1g.24gb") for n in range(2)
        ]
        node.pod(pod.document())
        node.kubelet.answer = holding("part", "MIG-0-1::2", resource=resource)
        page = node.run(5)
    assert gpus(page) == {("part", "main", "MIG-0-1"): pytest.approx(1 / 16, rel=0.05)}


@report(
    source="k8s-device-plugin#992",
    seen="Beside a part that works, another is destroyed and two smaller ones are made.",
    first="right",
    group="nvidia",
    round=3,
)
def test_a_part_that_stays_goes_on_while_others_are_made_anew(tmp_path: Path) -> None:
    stays, new = (
        FieldPod(name, {"main": {f"nvidia.com/mig-{profile}": "1"}})
        for name, profile in (("stays", "4g.40gb"), ("new", "1g.10gb"))
    )
    big = Instance(0, 1, "MIG-big", 1, slices=4, memory=40 * GIB, profile="4g.40gb", start=4)
    with field_node(tmp_path, Gpu(0, mig=True)) as node:
        node.driver.instances = [
            Instance(0, 0, slices=2, memory=20 * GIB, profile="2g.20gb", start=0, gi=3),
            big,
        ]
        node.pod(stays.document())
        node.kubelet.answer = pod_of(
            "stays", container("main", devices("nvidia.com/mig-4g.40gb", "MIG-big"))
        )
        pid = node.start(stays.cgroup(), 0, instance=1, duty=0.5, period=0.4)
        before = node.run(10)
        node.end(pid)
        node.driver.instances = [
            replace(big, index=0),
            *(Instance(0, n, uuid=f"MIG-new-{n}", gi=n + 6, start=n - 1) for n in (1, 2)),
        ]
        node.start(stays.cgroup(), 0, pid=pid, instance=0, duty=0.5, period=0.4)
        node.pod(new.document())
        node.kubelet.answer += pod_of(
            "new", container("main", devices("nvidia.com/mig-1g.10gb", "MIG-new-2"))
        )
        page = node.run(20)
    assert set(gpus(before)) == {("stays", "main", "MIG-big")}
    assert set(gpus(page)) == {("stays", "main", "MIG-big"), ("new", "main", "MIG-new-2")}
    grown = core(page)["stays", "main", "MIG-big"] - core(before)["stays", "main", "MIG-big"]
    assert grown == pytest.approx(20 * 0.5 * 4 / 7, rel=0.2)
    assert {own["uuid"] for own, _ in page.all("mgpu_device_info")} == {
        *("GPU-0", "MIG-big", "MIG-new-1", "MIG-new-2")
    }


@report(
    source="HAMi#1950",
    seen="A node's parts are found and cannot be opened, for want of a right that nothing names.",
    first="right",
    group="nvidia",
    round=3,
)
def test_parts_that_may_not_be_opened_are_said_and_make_no_whole_board(tmp_path: Path) -> None:
    pod = FieldPod("part", {"main": {"nvidia.com/mig-1g.10gb": "1"}})
    with field_node(tmp_path, Gpu(0, mig=True), Gpu(1)) as node:
        node.driver.instances = [Instance(0, 0), Instance(0, 1)]
        node.driver.faults = [
            Fault("error", "nvmlDeviceGetMigDeviceHandleByIndex", code=NO_PERMISSION)
        ]
        node.pod(pod.document())
        node.kubelet.answer = holding("part", "MIG-0-1", resource="nvidia.com/mig-1g.10gb")
        page = node.run(5)
        assert (page.value("mgpu_exporter_unreadable_devices", source="nvml") or 0) > 0
        assert {uuid for _, _, uuid in gpus(page)} <= {""}
        assert page.all("mgpu_container_core_limit_ratio") == []
        node.driver.faults = []
        page = node.run(70)
    assert set(gpus(page)) == {("part", "main", "MIG-0-1")}


@report(
    source="guilbaults/slurm-job-exporter#55",
    seen="The power of a part is that of its whole board, so that the sum is many times too high.",
    first="right",
    group="nvidia",
    round=3,
)
def test_power_and_energy_are_the_boards_once(tmp_path: Path) -> None:
    with field_node(tmp_path, Gpu(0, mig=True)) as node:
        node.driver.instances = [Instance(0, n) for n in range(4)]
        for job in range(4):
            path = f"system.slice/slurmstepd.scope/job_{job}/step_0/user/task_0"
            node.start(path, 0, instance=job, duty=0.5, period=0.4)
        page = node.run(20)
    watts = by(page, "device_power_watts", "uuid")
    assert set(watts) == {("GPU-0",)}
    joules = by(page, "device_energy_joules_total", "uuid")
    assert set(joules) == {("GPU-0",)}
    of_jobs = sum(value for _, value in page.all("mgpu_group_energy_joules_total"))
    assert of_jobs <= joules["GPU-0",] * 1.01
