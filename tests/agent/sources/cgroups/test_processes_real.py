"""``CgroupProcesses`` on real cgroups and real processes."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from exporter.agent.sources.cgroups.processcontainers import CgroupProcesses
from exporter.model import CgroupIdentity, Unattributed
from tests.agent.simulation.clock import ManualClock
from tests.agent.sources.cgroups.names import container_path, new_container_id, new_uid
from tests.agent.sources.cgroups.real import RealCgroups, real_cgroups

pytestmark = pytest.mark.root

UID, ID, OTHER_ID = new_uid(), new_container_id(), new_container_id()
DRIVERS = ["systemd", "cgroupfs"]
HERE = Path(__file__)


def identity(driver: str, container_id: str = ID) -> CgroupIdentity:
    runtime = "containerd" if driver == "systemd" else None
    return CgroupIdentity(UID, container_id, runtime, "burstable")


@pytest.fixture(params=["v1", "v2"])
def cgroups(request: pytest.FixtureRequest) -> Iterator[RealCgroups]:
    with real_cgroups(request.param) as made:
        yield made


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def processes(cgroups: RealCgroups, clock: ManualClock) -> Iterator[CgroupProcesses]:
    made = CgroupProcesses(str(cgroups.root), "/proc", clock)
    yield made
    made.close()


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_process_and_its_children_have_their_container(
    cgroups: RealCgroups, processes: CgroupProcesses, driver: str
) -> None:
    path = container_path(driver, UID, ID)
    pids = [cgroups.spawn(path), cgroups.spawn(f"{path}/deeper")]
    assert processes.resolve(pids) == dict.fromkeys(pids, identity(driver))


def test_a_living_process_keeps_its_identity_without_a_look_at_it(
    cgroups: RealCgroups, processes: CgroupProcesses, clock: ManualClock
) -> None:
    pid = cgroups.spawn(container_path("systemd", UID, ID))
    processes.resolve([pid])
    cgroups.move(pid, container_path("systemd", UID, OTHER_ID))
    clock.move(1)
    assert processes.resolve([pid])[pid] == identity("systemd")
    clock.move(59)
    assert processes.resolve([pid])[pid] == identity("systemd", OTHER_ID)


def test_a_process_that_ended_is_remembered_for_15_seconds(
    cgroups: RealCgroups, processes: CgroupProcesses, clock: ManualClock
) -> None:
    pid = cgroups.spawn(container_path("systemd", UID, ID))
    processes.resolve([pid])
    cgroups.end(pid)
    assert processes.resolve([pid])[pid] == identity("systemd")
    clock.move(14.9)
    assert processes.resolve([pid])[pid] == identity("systemd")
    clock.move(0.1)
    assert processes.resolve([pid])[pid] is Unattributed.EXITED


def test_the_15_seconds_run_from_the_end_whoever_is_asked_for(
    cgroups: RealCgroups, processes: CgroupProcesses, clock: ManualClock
) -> None:
    pid = cgroups.spawn(container_path("systemd", UID, ID))
    processes.resolve([pid])
    cgroups.end(pid)
    processes.resolve([])
    clock.move(15)
    processes.resolve([])
    assert processes.resolve([pid])[pid] is Unattributed.EXITED


def test_a_zombie_keeps_its_identity_when_its_container_is_gone(
    cgroups: RealCgroups, processes: CgroupProcesses, clock: ManualClock
) -> None:
    path = container_path("systemd", UID, ID)
    pid = cgroups.spawn(path)
    processes.resolve([pid])
    cgroups.leave_zombie(pid)
    cgroups.remove(path)
    for _ in range(5):
        assert processes.resolve([pid])[pid] == identity("systemd")
        clock.move(14)


def test_a_new_process_under_a_pid_remembered_as_ended_has_its_own_identity(
    cgroups: RealCgroups, processes: CgroupProcesses, clock: ManualClock
) -> None:
    for _ in range(20):  # a pid that another test's process has taken is not free again for long
        pid = cgroups.spawn(container_path("systemd", UID, ID))
        processes.resolve([pid])
        cgroups.end(pid)
        assert processes.resolve([pid])[pid] == identity("systemd")
        clock.move(3)
        if cgroups.spawn_as(pid, container_path("systemd", UID, OTHER_ID)):
            break
    else:
        pytest.skip("others took the pid each time")
    assert processes.resolve([pid])[pid] == identity("systemd", OTHER_ID)
    clock.move(15)
    assert processes.resolve([pid])[pid] == identity("systemd", OTHER_ID)


def test_the_descriptors_of_ended_processes_are_given_back(
    cgroups: RealCgroups, processes: CgroupProcesses
) -> None:
    path = container_path("systemd", UID, ID)
    processes.resolve([os.getpid()])
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - counted, not used
    for _ in range(30):
        pid = cgroups.spawn(path)
        processes.resolve([pid])
        cgroups.end(pid)
    processes.resolve([])
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208 - counted, not used
    processes.close()
    assert len(os.listdir("/proc/self/fd")) < before  # noqa: PTH208 - counted, not used


IN_A_PID_NAMESPACE = """
import sys
from exporter.agent.sources.cgroups.processcontainers import CgroupProcesses
processes = CgroupProcesses(sys.argv[1], sys.argv[2])
status = processes.status()
print(status.up, "hostPID: true" in status.detail, processes.resolve([int(sys.argv[3])]))
"""


def run_in_a_pid_namespace(root: Path, proc: str, pid: int) -> str:
    own_proc = ["--mount-proc"] if proc == "/proc" else []
    command = ["unshare", "--pid", "--fork", *own_proc, sys.executable, "-c", IN_A_PID_NAMESPACE]
    done = subprocess.run(
        [*command, str(root), proc, str(pid)],
        cwd=HERE.parents[4],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


@pytest.mark.program("unshare")
def test_without_the_nodes_pid_namespace_hostpid_is_asked_for(cgroups: RealCgroups) -> None:
    pid = cgroups.spawn(container_path("systemd", UID, ID))
    cgroups.spawn(container_path("systemd", UID, OTHER_ID))
    said = run_in_a_pid_namespace(cgroups.root, "/proc", pid)
    assert said.startswith("False True")
    assert "UNKNOWN_CGROUP" in said


@pytest.mark.program("unshare")
def test_with_the_nodes_proc_a_process_is_found_from_another_pid_namespace(
    cgroups: RealCgroups, tmp_path: Path
) -> None:
    pid = cgroups.spawn(container_path("systemd", UID, ID))
    host_proc = tmp_path / "proc"
    host_proc.symlink_to("/proc")  # of the namespace outside, since it is not mounted anew
    said = run_in_a_pid_namespace(cgroups.root, str(host_proc), pid)
    assert said.startswith("True True")
    assert ID in said


IN_A_CGROUP_NAMESPACE = """
import sys
from exporter.agent.sources.cgroups.processcontainers import CgroupProcesses
processes = CgroupProcesses(sys.argv[1], "/proc")
print(*map(processes.resolve([int(pid) for pid in sys.argv[2:]]).get, map(int, sys.argv[2:])))
"""


@pytest.mark.program("unshare")
def test_from_a_cgroup_namespace_of_its_own_siblings_and_others_are_found() -> None:
    with real_cgroups("v2") as cgroups:
        mine = container_path("systemd", UID, ID)
        pids = [
            cgroups.spawn(container_path("systemd", UID, OTHER_ID)),
            cgroups.spawn(container_path("cgroupfs", new_uid(), OTHER_ID[::-1])),
            cgroups.spawn(mine),
        ]
        procs = cgroups.root / mine / "cgroup.procs"
        arguments = [str(cgroups.root), *map(str, pids)]
        join = f'echo $$ > {procs} && exec unshare --cgroup "$@"'
        done = subprocess.run(
            ["sh", "-c", join, "sh", sys.executable, "-c", IN_A_CGROUP_NAMESPACE, *arguments],
            cwd=HERE.parents[4],
            capture_output=True,
            text=True,
            check=True,
        )
        said = done.stdout.split("CgroupIdentity")[1:]
        assert all(wanted in text for wanted, text in zip([UID, "", UID], said, strict=True))
        assert all(
            wanted in text
            for wanted, text in zip([OTHER_ID, OTHER_ID[::-1], ID], said, strict=True)
        )
