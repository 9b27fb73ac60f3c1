"""A batch system inside of a container: the use is the container's, and the job is named beside.

slurmd in a pod (slurm-operator#238, soperator#153, gcm#174): below the container's own directory
its steps lie as they do on a machine.
"""

from pathlib import Path

import pytest

from exporter.agent.attribution.ownership import owner_of
from exporter.agent.sources.cgroups.cgrouptree import ContainerTree
from exporter.agent.sources.cgroups.layout import parse_path
from exporter.agent.sources.cgroups.processcontainers import CgroupProcesses
from exporter.agent.sources.cgroups.processsource import SimulatedProcesses
from exporter.agent.sources.cgroups.walk import walk
from exporter.model import (
    Container,
    ContainerKey,
    GroupKey,
    Pod,
    PodTable,
    ProcessInfo,
    Unit,
)
from tests.agent.simulation.clock import ManualClock
from tests.agent.sources.cgroups.fakeproc import FakeProc

UID, CID = "4a163a05-439d-484b-8e53-2968bc15824f", "c" * 64
CONTAINER = f"/kubepods.slice/kubepods-pod{UID.replace('-', '_')}.slice/cri-containerd-{CID}.scope"
BESIDE = CONTAINER.rpartition("/")[
    0
]  # in the pod's slice, beside its container (slurm-k8s-cluster#38)
DOCKER = f"/system.slice/docker-{CID}.scope"
STEP = "system.slice/slurmstepd.scope/job_31/step_0/user/task_0"
POD = Pod(UID, "slurm", "worker-0", containers=(Container("slurmd", container_ids=(CID,)),))
TABLE = PodTable(1, {UID: POD}, {UID: UID}, {CID: (UID, "slurmd")})


@pytest.mark.parametrize(
    ("inside", "job"),
    [
        (STEP, Unit("slurm", "31")),
        ("system.slice/slurmstepd.scope/job_31", Unit("slurm", "31")),
        ("system.slice/node1_slurmstepd.scope/job_31/step_batch", Unit("slurm", "31")),
        ("slurm/uid_1000/job_31/step_0", Unit("slurm", "31", uid=1000)),
        ("pbs_jobs.service/jobid/7.head", Unit("pbs", "7.head")),
        ("system.slice/slurmstepd.scope/slurmd", None),
        ("system.slice/x.service", None),
        ("user.slice/user-1000.slice/session-1.scope", None),
        ("lxc.payload.box", None),
        ("deep/slurmstepd.scope/job_31", None),
        ("init.scope", None),
    ],
)
@pytest.mark.parametrize("container", [CONTAINER, DOCKER, BESIDE])
def test_the_job_inside_of_a_container_is_named(
    container: str, inside: str, job: Unit | None
) -> None:
    own, within = parse_path(container), parse_path(f"{container}/{inside}")
    assert within == own._replace(job=job)
    assert owner_of(within, TABLE) == owner_of(own, TABLE)


def test_the_use_is_the_pods() -> None:
    assert owner_of(parse_path(f"{CONTAINER}/{STEP}"), TABLE) == ContainerKey(
        "slurm", "worker-0", "slurmd"
    )
    assert owner_of(parse_path(f"{DOCKER}/{STEP}"), PodTable()) == GroupKey("docker", CID)
    assert owner_of(parse_path(f"{CONTAINER}/{STEP}"), TABLE, by_step=True) == ContainerKey(
        "slurm", "worker-0", "slurmd"
    )


def test_processes_say_their_job(tmp_path: Path) -> None:
    proc = FakeProc(tmp_path / "proc")
    proc.put(7, f"{CONTAINER}/{STEP}", command="train")
    proc.put(8, CONTAINER, command="slurmd")
    source = CgroupProcesses(str(tmp_path), str(proc.root), ManualClock())
    source.resolve([7, 8])
    assert source.describe([7, 8]) == {
        7: ProcessInfo("train", job="slurm/31"),
        8: ProcessInfo("slurmd"),
    }


def test_a_described_node_says_the_jobs_of_its_paths() -> None:
    infos = {7: ProcessInfo("train", 5)}
    source = SimulatedProcesses(lambda: {7: f"{CONTAINER}/{STEP}"}, lambda: infos)
    assert source.describe([7]) == {7: ProcessInfo("train", 5, "slurm/31")}


def test_one_jobs_name_is_no_other_process_of_the_container(tmp_path: Path) -> None:
    """What a walk knows of a container by its id is the container's own."""
    root = tmp_path / "cgroup"
    for path, pid in ((f"{CONTAINER}/{STEP}", 7), (CONTAINER, 8)):
        folder = root / path.lstrip("/")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "cgroup.procs").write_text(f"{pid}\n")
    found = walk(str(root))
    own = parse_path(CONTAINER)
    assert found.by_pid == {7: own._replace(job=Unit("slurm", "31")), 8: own}
    assert found.by_container == {CID: own}
    assert found.identities == {own}
    tree = ContainerTree(str(root), ManualClock())
    tree.review()
    assert tree.group_kinds == {"pod", "host"}


INNER = "d" * 64


@pytest.mark.parametrize(
    "path",
    [
        f"/machine.slice/libpod-{CID}.scope/container/system.slice/crio-{INNER}.scope",
        f"/machine.slice/libpod-{CID}.scope/container/k8s.io/{INNER}",
        f"/docker/{CID}/k8s.io/{INNER}/init.scope",
    ],
)
def test_a_container_of_a_pod_inside_of_a_node_in_a_container_is_the_pods(path: str) -> None:
    """A node made by Podman, whose kubelet keeps containers in no directory of their pods."""
    pod = Pod(UID, "ml", "train", containers=(Container("main", container_ids=(INNER,)),))
    table = PodTable(1, {UID: pod}, {UID: UID}, {INNER: (UID, "main")})
    identity = parse_path(path)
    assert owner_of(identity, table) == ContainerKey("ml", "train", "main")
    assert owner_of(identity, PodTable()).group == CID  # type: ignore[union-attr] # a group
    # Who is known from outside has all that is inside, and a user's container is no pod's.
    assert owner_of(parse_path(path), TABLE) == ContainerKey("slurm", "worker-0", "slurmd")
    own = parse_path(f"/user.slice/user-1000.slice/libpod-{CID}.scope/k8s.io/{INNER}")
    assert owner_of(own, table) == GroupKey("podman", f"1000/{CID}")
