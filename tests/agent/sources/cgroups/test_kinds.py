"""Which kinds of groups a node can have."""

from pathlib import Path

import pytest

from exporter.agent.attribution.ownership import owner_of
from exporter.agent.sources.cgroups.cgrouptree import ContainerTree
from exporter.agent.sources.cgroups.layout import kind_of, kinds_of, parse_path
from exporter.agent.sources.cgroups.processsource import ProcessSource, SimulatedProcesses
from exporter.model import (
    CgroupIdentity,
    GroupKey,
    PodTable,
    ProcessInfo,
    Unattributed,
    Unit,
)
from tests.agent.simulation.clock import ManualClock

ID = "0123456789abcdef" * 4
POD = "3c1a5e64-1a75-4a39-8d02-6a3c5b5a6d1e"
PATHS = {
    f"/kubepods.slice/kubepods-pod{POD.replace('-', '_')}.slice/cri-containerd-{ID}.scope": "pod",
    f"/system.slice/docker-{ID}.scope": "docker",
    f"/docker/{ID}": "docker",
    f"/machine.slice/libpod-{ID}.scope": "podman",
    "/system.slice/slurmstepd.scope/job_7/step_0/user/task_0": "slurm",
    "/slurm/uid_1000/job_7/step_batch": "slurm",
    "/system.slice/ollama.service": "systemd",
    "/user.slice/user-1000.slice/session-3.scope": "user",
    "/lxc.payload.box": "lxc",
    "/machine.slice/machine-qemu-1-box.scope": "libvirt",
}


@pytest.mark.parametrize(("path", "kind"), PATHS.items())
def test_a_directory_is_of_the_kind_that_its_processes_are_accounted_to(
    path: str, kind: str
) -> None:
    owner = owner_of(parse_path(path), PodTable())

    assert isinstance(owner, GroupKey)
    assert owner.kind == kind
    assert kind_of(parse_path(path)) == kind
    assert kind in kinds_of([parse_path(path)])


@pytest.mark.parametrize(
    ("paths", "kinds"),
    [
        ((), {"host"}),
        (("/docker",), {"host"}),
        (("/system.slice/cron.service",), {"systemd", "user"}),
        (("/system.slice/slurmd.service",), {"systemd", "user", "slurm"}),
        (("/system.slice/slurmd@gpu1.service",), {"systemd", "user", "slurm"}),
        (("/system.slice/n1_slurmstepd.scope",), {"systemd", "user", "slurm"}),
        (("/system.slice/docker.service",), {"systemd", "user", "docker"}),
        (("/system.slice/snap.docker.dockerd.service",), {"systemd", "user", "docker"}),
        (("/system.slice/docker.service.evil.service",), {"systemd", "user"}),
        (("/user.slice/user-1000.slice",), {"systemd", "user"}),
    ],
)
def test_services_and_systemd_announce_kinds(paths: tuple[str, ...], kinds: set[str]) -> None:
    assert kinds_of(map(parse_path, paths)) == kinds


def test_the_kinds_of_a_real_tree_stay_when_their_directories_are_gone(tmp_path: Path) -> None:
    root = tmp_path / "cgroup"
    for path in ("system.slice/slurmd.service", f"system.slice/docker-{ID}.scope"):
        (root / path).mkdir(parents=True)
        (root / path / "cgroup.procs").write_text("")
    (root / "cgroup.controllers").write_text("")
    (root / "cgroup.procs").write_text("")
    clock = ManualClock()
    tree = ContainerTree(str(root), clock)
    tree.review()
    assert tree.group_kinds == {"systemd", "user", "slurm", "docker"}
    (root / f"system.slice/docker-{ID}.scope/cgroup.procs").unlink()
    (root / f"system.slice/docker-{ID}.scope").rmdir()
    clock.move(2)
    assert tree.since(clock.monotonic_ns())
    assert tree.group_kinds == {"systemd", "user", "slurm", "docker"}


def test_a_described_node_has_the_kinds_of_its_places_from_the_start() -> None:
    job = "/system.slice/slurmstepd.scope/job_7/step_0/user/task_0"

    assert SimulatedProcesses(dict, places=[job]).group_kinds() == {"slurm", "systemd", "user"}
    assert SimulatedProcesses(dict, places=PATHS).group_kinds() == {*PATHS.values()}


def test_a_described_node_answers_from_the_paths_of_the_moment() -> None:
    paths = {1: "/system.slice/sshd.service", 10: f"/docker/{ID}", 11: f"/docker/{ID}"}
    infos = {10: ProcessInfo("server", 5), 11: ProcessInfo("worker")}
    source: ProcessSource = SimulatedProcesses(lambda: paths, lambda: infos)
    assert source.resolve([1, 10, 99]) == {
        1: CgroupIdentity(unit=Unit("systemd", "sshd.service")),
        10: CgroupIdentity(None, ID, "docker"),
        99: Unattributed.EXITED,
    }
    del paths[10]
    assert source.resolve([10])[10] is Unattributed.EXITED
    assert source.describe([10, 99]) == {10: ProcessInfo("server", 5)}
    assert source.status().up
