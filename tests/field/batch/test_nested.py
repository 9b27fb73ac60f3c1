"""Jobs in pods, processes that left their job, and programs that run in the scheduler's unit."""

from pathlib import Path

import pytest

from tests.agent.sources.cgroups.names import pod_path
from tests.fakenvml.scenario import GIB, Gpu
from tests.field.nodes import field_node
from tests.field.pods import FieldPod, core
from tests.field.report import report

USED, HELD = "mgpu_group_core_seconds_total", "mgpu_group_memory_used_bytes"
IN_POD = "mgpu_container_job_info"
STEPD = "system.slice/slurmstepd.scope"
CID = "a1" * 32


@report(
    source="stackhpc/slurm-k8s-cluster#38",
    seen="slurmd of a pod makes its scope in the slice of the pod, beside its own container.",
    first="wrong",
    group="batch",
    kind="a silence",
    round=3,
)
def test_a_job_in_a_pods_slice_is_named_as_one_in_its_container(tmp_path: Path) -> None:
    worker = FieldPod("worker", {"slurmd": {}})
    with field_node(tmp_path, Gpu(0)) as node:
        node.pod(worker.document())
        node.start(f"{pod_path('systemd', worker.uid)}/{STEPD}/job_31/step_0/user/task_0", 0)
        page = node.run(5)
    assert core(page)["worker", "slurmd", "GPU-0"] == pytest.approx(4, abs=0.2)
    ((own, _),) = page.all(IN_POD)
    assert (own["pod"], own["job_id"], own["system"]) == ("worker", "31", "slurm")


@report(
    source="SlinkyProject/slurm-operator#238",
    seen="The container's own processes are moved aside, so that slurmd has the cgroup's top.",
    first="right",
    group="batch",
    round=3,
)
def test_jobs_beside_the_moved_processes_of_a_container_are_named(tmp_path: Path) -> None:
    worker = FieldPod("worker", {"slurmd": {}, "log": {}})
    home = worker.cgroup("slurmd")
    with field_node(tmp_path, Gpu(0)) as node:
        node.pod(worker.document())
        node.start(f"{home}/init", 0, duty=0)
        for job in (7, 8):
            node.start(f"{home}/{STEPD}/job_{job}/step_0/user/task_0", 0, duty=0.4, period=0.4)
        page = node.run(5)
    assert {own["job_id"] for own, _ in page.all(IN_POD)} == {"7", "8"}
    assert {key for key, value in core(page).items() if value} == {("worker", "slurmd", "GPU-0")}


@report(
    source="sgl-project/sglang#23627",
    seen="Workers leave their job's cgroup, outlive it, and hold the cards of the next job.",
    first="right",
    group="batch",
    round=3,
)
def test_what_outlived_a_job_is_not_the_next_jobs(tmp_path: Path) -> None:
    with field_node(tmp_path, Gpu(0)) as node:
        node.start("system.slice/slurmd.service", 0, memory=40 * GIB, duty=0)
        node.start(f"{STEPD}/job_12/step_0/user/task_0", 0, memory=10 * GIB)
        page = node.run(5)
    held = {(own["kind"], own["group"]): value for own, value in page.all(HELD)}
    assert held == {("systemd", "slurmd.service"): 40 * GIB, ("slurm", "12"): 10 * GIB}
    used = {own["group"]: value for own, value in page.all(USED)}
    assert used["12"] == pytest.approx(4, abs=0.2)
    assert not used.get("slurmd.service")


@report(
    source="ROCm/spur#802",
    seen="An interactive job has no cgroup: it runs in the service of the scheduler.",
    first="right",
    group="batch",
    round=3,
)
def test_an_interactive_job_in_the_daemons_service_is_the_services(tmp_path: Path) -> None:
    with field_node(tmp_path, Gpu(0)) as node:
        node.start("system.slice/spurd.service", 0, duty=0.4, period=0.4)
        node.start("system.slice/spurd.service/job_5", 0, duty=0.4, period=0.4)
        page = node.run(5)
    used = {(own["kind"], own["group"]) for own, value in page.all(USED) if value}
    assert used == {("systemd", "spurd.service"), ("spur", "5")}


@report(
    source="NVIDIA/deepops#1102",
    seen="Each task of a job has a card, and each calls its own number 0.",
    first="right",
    group="batch",
    round=3,
)
def test_a_jobs_tasks_are_on_the_cards_that_they_work_on(tmp_path: Path) -> None:
    with field_node(tmp_path, Gpu(0), Gpu(1)) as node:
        for task in (0, 1):
            node.start(f"{STEPD}/job_6333/step_0/user/task_{task}", task, duty=0.5, period=0.4)
        page = node.run(10)
    used = {(own["group"], own["uuid"]): value for own, value in page.all(USED)}
    assert used == {
        ("6333", "GPU-0"): pytest.approx(4.5, abs=0.6),
        ("6333", "GPU-1"): pytest.approx(4.5, abs=0.6),
    }


@pytest.mark.parametrize(
    ("path", "right"),
    [
        pytest.param(
            f"{STEPD}/job_9/step_0/user/task_0/libpod-payload-{CID}",
            ("slurm", "9"),
            marks=report(
                source="podman#10039",
                seen="Somebody asks how a container of Podman stays in its job's cgroup.",
                first="right",
                group="batch",
                round=3,
            ),
        ),
        pytest.param(
            f"system.slice/docker-{CID}.scope",
            ("docker", CID),
            marks=report(
                source="codalab/codalab-worksheets#1908",
                seen="A job starts a container of Docker, which is not the job's and outlives it.",
                first="right",
                group="batch",
                round=3,
            ),
        ),
        pytest.param(
            f"{STEPD}/job_41/step_extern/user/task_special",
            ("slurm", "41"),
            marks=report(
                source="clemsonciti/jobperf#3",
                seen="With cgroup v2 a job's directory lies elsewhere, and no figure was found.",
                first="right",
                group="batch",
                round=3,
            ),
        ),
        pytest.param(
            "pbspro.service/jobid/1234.pbs01",
            ("pbs", "1234.pbs01"),
            marks=report(
                source="PrincetonUniversity/jobstats#17",
                seen="A site asks for the same figures of PBS, whose jobs lie below a service.",
                first="right",
                group="batch",
                round=3,
            ),
        ),
    ],
)
def test_whose_it_is_by_the_path(tmp_path: Path, path: str, right: tuple[str, str]) -> None:
    with field_node(tmp_path, Gpu(0)) as node:
        node.start(path, 0)
        page = node.run(3)
    ((own, seconds),) = [(own, value) for own, value in page.all(USED) if value]
    assert (own["kind"], own["group"]) == right
    assert seconds == pytest.approx(2, abs=0.2)
