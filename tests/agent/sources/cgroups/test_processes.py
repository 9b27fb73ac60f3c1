"""``CgroupProcesses`` on plain directories: every case, with the time in the test's hands."""

import itertools
import logging
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from exporter.agent.sources.cgroups.processcontainers import CgroupProcesses
from exporter.model import CgroupIdentity, ProcessInfo, Unattributed, Unit, Unmeasured
from tests.agent.simulation.clock import ManualClock
from tests.agent.sources.cgroups.fakeproc import PF_EXITING, FakeProc
from tests.agent.sources.cgroups.names import container_path, new_container_id, new_uid, pod_path

UID, OTHER_UID = new_uid(), new_uid()
ID, OTHER_ID = new_container_id(), new_container_id()
CONTAINER = "/" + container_path("systemd", UID, ID)
OTHER_CONTAINER = "/" + container_path("systemd", OTHER_UID, OTHER_ID)
IDENTITY = CgroupIdentity(UID, ID, "containerd", "burstable")
OTHER_IDENTITY = CgroupIdentity(OTHER_UID, OTHER_ID, "containerd", "burstable")
HOST = CgroupIdentity()
SERVICE = "/system.slice/sshd.service"
SSHD = CgroupIdentity(unit=Unit("systemd", "sshd.service"))


@dataclass
class Node:
    """A node made of files."""

    cgroups: Path
    proc: FakeProc
    clock: ManualClock
    processes: CgroupProcesses

    def list_in_cgroup(self, path: str, *pids: int) -> None:
        """Make a cgroup that lists these processes."""
        directory = self.cgroups / path.lstrip("/")
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "cgroup.procs").write_text("".join(f"{pid}\n" for pid in pids))

    def resolve(self, pid: int) -> CgroupIdentity | Unattributed:
        """The answer for one pid."""
        return self.processes.resolve([pid])[pid]


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    cgroups = tmp_path / "cgroup"
    cgroups.mkdir()
    (cgroups / "cgroup.controllers").touch()
    proc, clock = FakeProc(tmp_path / "proc"), ManualClock()
    processes = CgroupProcesses(str(cgroups), str(proc.root), clock)
    yield Node(cgroups, proc, clock, processes)
    processes.close()


def hide_cgroup(node: Node, pid: int) -> None:
    (node.proc.root / str(pid) / "cgroup").unlink()
    (node.proc.root / str(pid) / "cgroup").mkdir()  # EISDIR


JOB = "/system.slice/slurmstepd.scope/job_7/step_0/user/task_0"
SIBLING = f"/../cri-containerd-{ID}.scope"
UNREADABLE = None
# What /proc says of process 7, what the tree lists it in ("": nothing), and what it is.
LOOKS = {
    "a container": (f"0::{CONTAINER}", "", IDENTITY),
    "a service": (f"0::{SERVICE}", "", SSHD),
    "a pod's own": (
        f"0::/{pod_path('systemd', UID)}/crio-conmon-{ID}.scope",
        "",
        CgroupIdentity(UID, None, None, "burstable"),
    ),
    "no unit": ("0::/", "", CgroupIdentity(unit=Unit("host", "1000", uid=1000))),
    "hidden, a unit in the tree": (UNREADABLE, JOB, CgroupIdentity(unit=Unit("slurm", "7", "0"))),
    "hidden, a container in the tree": (UNREADABLE, CONTAINER, IDENTITY),
    "hidden everywhere": (UNREADABLE, "", Unattributed.UNKNOWN_CGROUP),
    **{f"garbled: {text!r}": (text, CONTAINER, IDENTITY) for text in ("", "x", "1:2", "\0", "\n")},
    **{f"nameless: {p}": (f"0::{p}", CONTAINER, IDENTITY) for p in ("/", "/..", "/../..")},
    "a sibling": (f"0::{SIBLING}", "", CgroupIdentity(None, ID, "containerd")),
    "a sibling in the tree": (f"0::{SIBLING}", CONTAINER, IDENTITY),
}


@pytest.mark.parametrize("look", LOOKS)
def test_a_process_is_what_proc_says_and_else_what_the_tree_says(node: Node, look: str) -> None:
    text, listed_in, expected = LOOKS[look]
    node.proc.put(7, "/", uid=1000)
    if listed_in:
        node.list_in_cgroup(listed_in, 7)
    if text is UNREADABLE:
        hide_cgroup(node, 7)
    else:
        node.proc.put_text(7, f"{text}\n" if text else "")
    assert node.resolve(7) == expected


@pytest.mark.parametrize("pid", [0, -1, 2**22 + 1, 2**32 - 1, 2**70])
def test_a_number_that_is_no_pid_is_unknown(node: Node, pid: int) -> None:
    node.proc.put(8, "/")  # its user cannot be read
    answers = node.processes.resolve([pid, 8, 9])
    assert answers == {pid: Unattributed.UNKNOWN_CGROUP, 8: HOST, 9: Unattributed.EXITED}


def test_a_living_process_that_cannot_be_read_for_now_keeps_its_identity(tmp_path: Path) -> None:
    proc, clock = FakeProc(tmp_path / "proc"), ManualClock()
    proc.put_self(str(os.getpid()))  # so that its pids are held
    processes = CgroupProcesses(str(tmp_path), str(proc.root), clock)
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as child:
        pid = child.pid
        proc.put(pid, CONTAINER)
        assert processes.resolve([pid]) == {pid: IDENTITY}
        for name in ("stat", "cgroup"):
            (proc.root / str(pid) / name).unlink()
            (proc.root / str(pid) / name).mkdir()  # EISDIR, as EMFILE might be
        clock.move(60)
        assert processes.resolve([pid]) == {pid: IDENTITY}
        proc.remove(pid)
        proc.put(pid, OTHER_CONTAINER)
        assert processes.resolve([pid]) == {pid: OTHER_IDENTITY}
    processes.close()


def test_a_known_process_that_ended_is_remembered_for_15_seconds(node: Node) -> None:
    node.proc.put(7, CONTAINER)
    node.resolve(7)
    node.proc.remove(7)
    assert node.resolve(7) == IDENTITY
    node.clock.move(14.9)
    assert node.resolve(7) == IDENTITY
    node.clock.move(0.1)
    assert node.resolve(7) is Unattributed.EXITED


def test_a_new_process_under_a_remembered_pid_has_its_own_identity(node: Node) -> None:
    node.proc.put(7, CONTAINER, start=1000)
    node.resolve(7)
    node.proc.remove(7)
    node.resolve(7)
    node.clock.move(2)
    node.proc.put(7, OTHER_CONTAINER, start=1001)
    assert node.resolve(7) == OTHER_IDENTITY
    node.clock.move(20)
    assert node.resolve(7) == OTHER_IDENTITY


@pytest.mark.parametrize(("state", "flags"), [("Z", 0), ("D", PF_EXITING)])
def test_a_known_process_keeps_its_identity_while_it_exits(
    node: Node, state: str, flags: int
) -> None:
    node.proc.put(7, CONTAINER)
    node.resolve(7)
    node.proc.put(7, "/", state=state, flags=flags)  # what cgroup v1 then prints
    for _ in range(5):
        node.clock.move(31)
        assert node.resolve(7) == IDENTITY


def test_a_process_first_seen_while_it_exits_is_looked_up_in_the_tree(node: Node) -> None:
    node.list_in_cgroup(CONTAINER, 7)  # a dead leader whose threads live on is listed
    node.proc.put(7, "/", state="Z")
    node.proc.put(8, "/", state="Z")
    assert node.resolve(7) == IDENTITY
    assert node.resolve(8) is Unattributed.EXITED


def test_the_unified_line_of_an_exiting_process_is_no_answer_on_hybrid_nodes(node: Node) -> None:
    node.list_in_cgroup(CONTAINER, 7)
    for pid in (7, 8):
        node.proc.put(pid, "/", "/reserved.slice/containerd.service", state="Z")
    assert node.resolve(7) == IDENTITY
    assert node.resolve(8) is Unattributed.EXITED


def test_a_container_is_read_again_after_a_minute_at_the_latest(node: Node) -> None:
    node.proc.put(7, CONTAINER)
    node.resolve(7)
    node.proc.put(7, OTHER_CONTAINER)
    node.clock.move(1)
    assert node.resolve(7) == IDENTITY
    node.clock.move(59)
    assert node.resolve(7) == OTHER_IDENTITY


def test_the_second_readings_of_many_processes_are_spread(node: Node) -> None:
    pids = range(1, 17)
    for pid in pids:
        node.proc.put(pid, CONTAINER)
    node.processes.resolve(pids)
    for pid in pids:
        node.proc.put(pid, OTHER_CONTAINER)
    moved = []
    for _ in range(60):
        node.clock.move(1)
        moved.append(list(node.processes.resolve(pids).values()).count(OTHER_IDENTITY))
    steps = [later - earlier for earlier, later in itertools.pairwise(moved)]
    assert moved[-1] == len(pids)
    assert max(steps) <= 2


def test_a_young_process_outside_containers_is_read_again_each_time(node: Node) -> None:
    node.proc.put(7, SERVICE)
    assert node.resolve(7) == SSHD
    node.proc.put(7, CONTAINER)  # the runtime has moved the entrypoint into its cgroup
    assert node.resolve(7) == IDENTITY


def test_a_host_process_of_some_age_is_read_again_at_leisure(node: Node) -> None:
    node.proc.put(7, SERVICE)
    node.resolve(7)
    node.clock.move(40)
    node.resolve(7)
    node.proc.put(7, CONTAINER)
    assert node.resolve(7) == SSHD
    node.clock.move(60)
    assert node.resolve(7) == IDENTITY


# --- where /proc does not tell --------------------------------------------------------------------


def test_a_sibling_container_too_young_for_the_newest_walk_gets_its_pod_from_the_next(
    node: Node,
) -> None:
    node.processes.status()
    node.clock.move(0.5)
    node.list_in_cgroup(CONTAINER)
    node.proc.put(7, f"/../cri-containerd-{ID}.scope")
    assert node.resolve(7) == CgroupIdentity(None, ID, "containerd")
    node.clock.move(0.5)
    assert node.resolve(7) == IDENTITY


def test_unknown_processes_cost_one_walk_in_ten_seconds_and_new_ones_one_a_second(
    node: Node,
) -> None:
    for pid in range(1, 50):
        node.proc.put(pid, SERVICE)
        hide_cgroup(node, pid)
    for _ in range(30):
        node.processes.resolve(range(1, 50))
        node.clock.move(1)
    assert node.processes.walks <= 4
    for pid in range(50, 80):
        node.proc.put(pid, SERVICE)
        hide_cgroup(node, pid)
        node.resolve(pid)
        node.clock.move(0.1)
    assert node.processes.walks <= 8


def test_a_pid_in_a_walk_older_than_its_process_is_not_believed(node: Node) -> None:
    node.list_in_cgroup(CONTAINER, 7)
    node.processes.status()
    node.list_in_cgroup(CONTAINER)  # that process ended; another has its pid now
    node.proc.put(7, SERVICE)
    hide_cgroup(node, 7)
    node.clock.move(0.5)
    assert node.resolve(7) is Unattributed.UNKNOWN_CGROUP
    node.clock.move(0.6)
    assert node.resolve(7) is Unattributed.UNKNOWN_CGROUP


def test_a_process_too_young_for_the_newest_walk_is_found_by_the_next(node: Node) -> None:
    node.list_in_cgroup(CONTAINER)
    node.processes.status()
    node.clock.move(0.5)
    node.list_in_cgroup(CONTAINER, 7)
    node.proc.put(7, SERVICE)
    hide_cgroup(node, 7)
    assert node.resolve(7) is Unattributed.UNKNOWN_CGROUP
    node.clock.move(0.5)
    assert node.resolve(7) == IDENTITY


# --- the tree -------------------------------------------------------------------------------------


def test_the_tree_is_walked_once_while_it_can_be_read(node: Node) -> None:
    node.list_in_cgroup(CONTAINER, 7)
    for number in range(100):
        node.list_in_cgroup(f"/{number}.slice", number + 8)
        assert node.processes.status().up
        node.clock.move(1)
    assert node.processes.walks == 1


def test_a_hierarchy_that_appears_later_is_found(node: Node, tmp_path: Path) -> None:
    root = tmp_path / "later"
    processes = CgroupProcesses(str(root), str(node.proc.root), node.clock)
    assert not processes.status().up
    (root / CONTAINER.lstrip("/")).mkdir(parents=True)
    node.clock.move(10)
    assert processes.status().up
    processes.close()


def test_pods_that_appear_in_another_controller_are_found_within_a_minute(tmp_path: Path) -> None:
    clock, proc = ManualClock(), FakeProc(tmp_path / "proc")
    for controller in ("pids", "memory"):
        (tmp_path / controller).mkdir()
    processes = CgroupProcesses(str(tmp_path), str(proc.root), clock)
    assert processes.status().up
    (tmp_path / "memory" / CONTAINER.lstrip("/")).mkdir(parents=True)
    (tmp_path / "memory" / CONTAINER.lstrip("/") / "cgroup.procs").write_text("7\n")
    proc.put(7, f"/../cri-containerd-{ID}.scope")
    clock.move(60)
    processes.status()
    assert processes.resolve([7]) == {7: IDENTITY}
    processes.close()


# --- bounds and counts ----------------------------------------------------------------------------


def test_the_memory_of_processes_is_bounded(tmp_path: Path) -> None:
    proc, clock = FakeProc(tmp_path / "proc"), ManualClock()
    processes = CgroupProcesses(str(tmp_path), str(proc.root), clock, most_processes=10)
    for pid in range(1, 26):
        proc.put(pid, CONTAINER)
    assert set(processes.resolve(range(1, 26)).values()) == {IDENTITY}
    for pid in range(1, 26):
        proc.remove(pid)
    kept = list(processes.resolve(range(1, 26)).values())
    assert kept.count(IDENTITY) == 10
    assert processes.rejected()["cache_full"] == 15
    processes.close()


def test_one_container_of_many_processes_pushes_out_no_other_that_has_ended(tmp_path: Path) -> None:
    """The driver's ring has samples of the other's, and only here it is known whose they were."""
    proc, clock = FakeProc(tmp_path / "proc"), ManualClock()
    processes = CgroupProcesses(str(tmp_path), str(proc.root), clock, most_processes=10)
    proc.put(1, CONTAINER)
    assert processes.resolve([1]) == {1: IDENTITY}
    proc.remove(1)
    hostile = CONTAINER.replace(UID, OTHER_UID).replace(ID, OTHER_ID)
    for pid in range(2, 42):
        proc.put(pid, hostile)
    for _ in range(3):
        clock.move(1)
        others = processes.resolve(range(2, 42))
        assert len(set(others.values())) == 1  # each is still answered, at the price of a look
        assert processes.resolve([1]) == {1: IDENTITY}
    assert len(processes._known) == 10
    assert processes.rejected()["cache_full"] >= 31
    processes.close()


# --- status ---------------------------------------------------------------------------------------


def test_a_missing_root_is_down_and_names_the_cure_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = ManualClock()
    processes = CgroupProcesses(str(tmp_path / "missing"), str(tmp_path), clock)
    with caplog.at_level(logging.WARNING):
        for _ in range(5):
            processes.status()
            clock.move(2)
    status = processes.status()
    assert not status.up
    assert "--path.cgroup" in status.detail
    assert "hostPath" in status.detail
    assert status.last_success_unix_ns is None
    assert len(caplog.records) == 1
    processes.close()
    (tmp_path / "empty").mkdir()
    assert "no cgroup hierarchy" in CgroupProcesses(str(tmp_path / "empty")).status().detail


def test_where_containers_are_looked_for_is_said_once(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    node.proc.put(7, SERVICE)
    hide_cgroup(node, 7)
    with caplog.at_level(logging.INFO):
        for _ in range(3):
            node.clock.move(60)
            node.resolve(7)
    (said,) = [record.getMessage() for record in caplog.records]
    assert said.startswith("cgroup v2: containers are looked for in /")
    assert node.processes.walks > 1


def test_a_root_that_goes_away_is_down_within_a_minute_until_it_is_there_again(node: Node) -> None:
    node.list_in_cgroup(CONTAINER, 7)
    assert node.processes.status().up
    away = node.cgroups.rename(node.cgroups.with_name("away"))
    node.clock.move(60)
    assert node.processes.status().reason is Unmeasured.NO_CGROUPS
    away.rename(node.cgroups)
    node.clock.move(10)
    assert node.processes.status().up


@pytest.mark.parametrize(
    ("listed", "other", "foreign", "up"),
    [
        ([7], [], 0, True),
        ([7], [0], 1, True),
        ([0, 0], [], 2, False),
        ([os.getpid()], [0], 1, False),  # our own container
    ],
)
def test_containers_that_list_only_zeros_mean_that_hostpid_is_missing(
    node: Node, listed: list[int], other: list[int], foreign: int, *, up: bool
) -> None:
    node.list_in_cgroup(CONTAINER, *listed)
    node.list_in_cgroup(OTHER_CONTAINER, *other)
    status = node.processes.status()
    assert status.up == up
    assert ("hostPID: true" in status.detail) is not up
    assert status.last_success_unix_ns == (node.clock.now_ns if up else None)
    assert node.processes.rejected().get("foreign_pid", 0) == foreign


def test_without_hostpid_no_pid_of_the_node_is_looked_up_among_ours(node: Node) -> None:
    node.list_in_cgroup(CONTAINER, 0)
    node.proc.put(7, OTHER_CONTAINER)  # another process than the one the driver means
    answers = node.processes.resolve([7, 8])
    assert answers == {7: Unattributed.UNKNOWN_CGROUP, 8: Unattributed.UNKNOWN_CGROUP}


def test_containers_that_list_nothing_in_a_nested_pid_namespace_mean_the_same(
    tmp_path: Path,
) -> None:
    proc = FakeProc(tmp_path / "proc")
    proc.put_self("7", "NSpid:\t7\n", "pid:[4026532700]")
    root = tmp_path / "cgroup"
    for path in (CONTAINER, OTHER_CONTAINER):
        (root / path.lstrip("/")).mkdir(parents=True)
        (root / path.lstrip("/") / "cgroup.procs").touch()
    processes = CgroupProcesses(str(root), str(proc.root), ManualClock())
    assert "hostPID: true" in processes.status().detail
    assert not processes.status().up
    processes.close()


def test_with_the_nodes_proc_mounted_identities_are_found_without_hostpid(tmp_path: Path) -> None:
    proc = FakeProc(tmp_path / "proc")
    proc.put_self("4711", "NSpid:\t4711\t7\n", "pid:[4026532700]")
    proc.put(7, OTHER_CONTAINER)
    root = tmp_path / "cgroup"
    (root / CONTAINER.lstrip("/")).mkdir(parents=True)
    (root / CONTAINER.lstrip("/") / "cgroup.procs").write_text("0\n")
    processes = CgroupProcesses(str(root), str(proc.root), ManualClock())
    status = processes.status()
    assert (status.up, "hostPID: true" in status.detail) == (True, True)
    assert processes.resolve([7]) == {7: OTHER_IDENTITY}
    processes.close()


def test_a_process_is_described_by_its_name_and_its_own_start(node: Node) -> None:
    node.proc.put(7, CONTAINER, start=250, command="python3")
    assert node.resolve(7) == IDENTITY
    assert node.processes.describe([7, 8]) == {7: ProcessInfo("python3")}  # there is no uptime
    uptime = node.proc.root / "uptime"
    uptime.write_text("100.00 1.00\n")
    booted = node.clock.time_ns() - 100 * 10**9
    started = booted + 250 * 10**9 // os.sysconf("SC_CLK_TCK")
    assert node.processes.describe([7]) == {7: ProcessInfo("python3", started)}
    node.clock.move(1)
    uptime.write_text("101.30 1.00\n")  # uptime and clock drift
    assert node.processes.describe([7]) == {7: ProcessInfo("python3", started)}
    node.proc.put(7, OTHER_CONTAINER, start=350, command="python3")  # another process
    assert node.resolve(7) == OTHER_IDENTITY
    later = booted + 350 * 10**9 // os.sysconf("SC_CLK_TCK")
    assert node.processes.describe([7]) == {7: ProcessInfo("python3", later)}


def test_a_process_that_takes_another_name_is_described_by_it(node: Node) -> None:
    node.proc.put(7, CONTAINER, command="sh")
    node.resolve(7)
    assert node.processes.describe([7]) == {7: ProcessInfo("sh")}
    node.proc.put(7, CONTAINER, command="train")
    node.clock.move(60)
    node.resolve(7)
    assert node.processes.describe([7]) == {7: ProcessInfo("train")}


def test_a_process_without_a_stat_file_is_not_described(node: Node) -> None:
    node.proc.put_text(7, f"0::{CONTAINER}\n")
    node.resolve(7)
    assert node.processes.describe([7]) == {}
