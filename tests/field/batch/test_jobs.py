"""Reports of batch systems that a path does not settle."""

from pathlib import Path

import pytest

from tests.agent.sources.gpus.amd.trees import MI210
from tests.fakenvml.scenario import GIB, Gpu
from tests.field.nodes import field_node
from tests.field.pods import FieldPod, core
from tests.field.report import report
from tests.field.vendors.boards import VendorNode

USED = "mgpu_group_core_seconds_total"
IN_POD = "mgpu_container_job_info"
FIRST, SECOND = "a1" * 32, "b2" * 32


@report(
    source="guilbaults/slurm-job-exporter#65",
    seen="A job that holds GPUs and runs nothing is invisible, though it wastes them whole.",
    first="unknown",
    group="batch",
    settled="slurmd's own list of a job's devices; a cgroup of v2 does not show which it may open",
)
def test_a_job_without_a_process_is_charged_nothing(tmp_path: Path) -> None:
    node = VendorNode(tmp_path)
    node.tree.add(MI210)
    (node.cgroup / "system.slice/slurmstepd.scope/job_77/step_batch").mkdir(parents=True)
    page = node.run(10)
    node.close()
    assert not any(value for _, value in page.all(USED))
    assert page.value("mgpu_device_busy_seconds_total") == 0


@pytest.mark.program("cc")
@report(
    source="NVIDIA/nvidia-container-toolkit#1599",
    seen="Docker Swarm gives two replicas two GPUs, and the runtime lets both use the first one.",
    first="right",
    group="batch",
)
def test_replicas_are_where_they_work(tmp_path: Path) -> None:
    with field_node(tmp_path, Gpu(0), Gpu(1)) as node:
        for each in (FIRST, SECOND):
            node.start(f"system.slice/docker-{each}.scope", 0, duty=0.4)
        page = node.run(10)
    uuids = {own["gpu"]: own["uuid"] for own, _ in page.all("mgpu_device_info")}
    used = {(own["group"], own["uuid"]): value for own, value in page.all(USED) if value}
    assert used.keys() == {(FIRST, uuids["0"]), (SECOND, uuids["0"])}


@pytest.mark.program("cc")
@report(
    source="guilbaults/slurm-job-exporter#63",
    seen="A job's only card has the number 0 in its cgroup, so figures are those of the first.",
    first="right",
    group="batch",
)
def test_a_job_is_on_the_card_that_it_works_on(tmp_path: Path) -> None:
    boards = Gpu(0, name="Tesla P100-PCIE-12GB"), Gpu(1, name="NVIDIA RTX A5000")
    with field_node(tmp_path, *boards) as node:
        node.start("system.slice/slurmstepd.scope/job_12/step_batch/user/task_special", 1)
        page = node.run(5)
    used = {(own["group"], own["uuid"]): value for own, value in page.all(USED) if value}
    assert used == {("12", "GPU-1"): pytest.approx(4)}


@pytest.mark.program("cc")
@report(
    source="nvidia-container-toolkit#1013",
    seen="A podman container runs systemd, and its GPU processes cannot be seen in it.",
    first="right",
    group="batch",
)
def test_a_unit_inside_a_container_is_the_containers(tmp_path: Path) -> None:
    with field_node(tmp_path, Gpu(0)) as node:
        node.start(f"machine.slice/libpod-{FIRST}.scope/container/system.slice/a.service", 0)
        page = node.run(5)
    used = {(own["kind"], own["group"]): value for own, value in page.all(USED) if value}
    assert used == {("podman", FIRST): pytest.approx(4)}


@report(
    source="systemd#27372",
    seen="Who becomes another user by su stays in the slice of the one who logged in.",
    first="wrong",
    group="batch",
    kind="one name is not one thing",
)
def test_users_below_anothers_slice_are_themselves(tmp_path: Path) -> None:
    slice_ = "user.slice/user-1000.slice/session-4.scope"
    with field_node(tmp_path, Gpu(0)) as node:
        for uid in range(1001, 1005):
            pid = node.start(slice_, 0, memory=5 * GIB + GIB // 4, duty=0.2, period=0.4)
            node.proc.put(pid, f"/{slice_}", uid=uid)
        page = node.run(5)
    held = {own["group"]: v for own, v in page.all("mgpu_group_memory_used_bytes")}
    assert held == {str(uid): 5.25 * GIB for uid in range(1001, 1005)}


@report(
    source="htcondor#3341",
    seen="Slots lie inside of the daemon's own unit, which had all of their use.",
    first="wrong",
    group="batch",
    kind="a part is taken for the whole",
)
def test_each_slot_inside_of_the_daemons_unit_is_a_job(tmp_path: Path) -> None:
    unit = "system.slice/condor.service/condor_var_lib_condor_execute_slot1"
    with field_node(tmp_path, Gpu(0)) as node:
        for slot in (1, 2):
            path = f"{unit}_{slot}@node7.example.org"
            node.proc.put(node.start(path, 0, duty=0.4, period=0.4), f"/{path}", uid=1000)
        page = node.run(5)
    groups = {(own["kind"], own["group"]) for own, _ in page.all(USED)}
    assert groups == {("htcondor", f"slot1_{slot}@node7.example.org") for slot in (1, 2)}


@report(
    source="soperator#2268",
    seen="slurmd runs in a container, and nobody knows which of its jobs holds which card.",
    first="wrong",
    group="batch",
    kind="a silence",
)
def test_the_jobs_of_a_slurmd_in_a_container_are_named(tmp_path: Path) -> None:
    worker = FieldPod("worker-0", {"slurmd": {}})
    docker = f"system.slice/docker-{FIRST}.scope"
    jobs = {31: (worker.cgroup("slurmd"), 0), 32: (worker.cgroup("slurmd"), 1), 41: (docker, 1)}
    with field_node(tmp_path, Gpu(0), Gpu(1)) as node:
        node.pod(worker.document())
        for job, (container, gpu) in jobs.items():
            path = f"{container}/system.slice/slurmstepd.scope/job_{job}/step_0/user/task_0"
            node.start(path, gpu, duty=0.3, period=0.4)
        page = node.run(5)
    named = {(own["system"], own["job_id"], own["pod"], own["uuid"]) for own, _ in page.all(IN_POD)}
    assert named == {("slurm", f"{31 + n}", "worker-0", f"GPU-{n}") for n in range(2)}
    ((own, _),) = page.all("mgpu_group_job_info")
    assert (own["kind"], own["group"], own["job_id"]) == ("docker", FIRST, "41")
    assert set(core(page)) == {("worker-0", "slurmd", f"GPU-{n}") for n in range(2)}
