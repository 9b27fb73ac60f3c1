"""Whose a group is: a user is named only where all of it is his. The collector over a /proc.

The shapes: JupyterHub's local spawner runs each user's notebook in the hub's own unit
(jupyterhub#1205, #2120); Flux's system instance runs guests' jobs below its user's slice
(flux-core#5962).
"""

from collections.abc import Mapping
from pathlib import Path

import pytest

from exporter.agent.collector import Collector, CycleRules, Sources
from exporter.agent.ledger import Ledger
from exporter.agent.sources.cgroups.processcontainers import CgroupProcesses
from exporter.agent.sources.groups.groupowners import LOOK_AGAIN_NS, GroupUsers
from exporter.agent.sources.groups.groupsource import GroupSource, StaticGroupSource
from exporter.model import (
    DeviceMemory,
    DeviceReading,
    Engines,
    GroupFacts,
    ProcessActivity,
    ProcessMemory,
    Window,
)
from tests.agent.collector.bench import DEVICE, SECOND
from tests.agent.collector.sources import SetGpus, SetPods
from tests.agent.simulation.clock import ManualClock
from tests.agent.sources.cgroups.fakeproc import FakeProc
from tests.rows import rows_of

HUB = "/system.slice/jupyterhub.service"
SLICE = "/user.slice/user-1000.slice/session-3.scope"
OWN = "/user.slice/user-1000.slice/user@1000.service/app.slice/tool.service"
JOB = "/system.slice/slurmstepd.scope/job_211/step_0/user/task_0"
JOB_V1 = "/slurm/uid_1000/job_211/step_0"
ROOTLESS = f"{SLICE}/libpod-{'c' * 64}.scope"
NAMES = {1000: "alice", 1001: "bob", 1002: "carol"}
RETENTION_S = 30


class Machine:
    """A machine whose processes lie in a plain /proc, and a collector of it."""

    def __init__(self, folder: Path, told: Mapping[int, GroupFacts] | None = None) -> None:
        self.proc = FakeProc(folder / "proc")
        (folder / "cgroup").mkdir()
        (folder / "cgroup" / "cgroup.procs").write_text("1\n")
        self.passwd = folder / "passwd"
        self.call(NAMES)
        self.clock, self.gpus = ManualClock(), SetGpus()
        processes = CgroupProcesses(str(folder / "cgroup"), str(self.proc.root), self.clock)
        users: GroupSource = GroupUsers(str(self.passwd), str(self.proc.root), self.clock)
        if told is not None:
            users = StaticGroupSource("told", lambda: told, self.clock)
        sources = Sources((self.gpus,), processes, SetPods(), groups=(users,))
        ledger = Ledger(RETENTION_S * SECOND, 15 * SECOND)
        rules = CycleRules(retention_ns=RETENTION_S * SECOND)
        self.collector = Collector(sources, ledger, self.clock, rules)

    def call(self, names: Mapping[int, str]) -> None:
        """Write passwd."""
        self.passwd.write_text("".join(f"{n}:x:{uid}:{uid}\n" for uid, n in names.items()))

    def run(self, path: str, *uids: int, first: int = 10) -> list[GroupFacts]:
        """Processes of these users work in this cgroup, and no others; what its groups are."""
        pids = range(first, first + len(uids))
        for pid, uid in zip(pids, uids, strict=True):
            self.proc.put(pid, path, uid=uid)
        return self.work(*pids)

    def work(self, *pids: int, cycles: int = 1) -> list[GroupFacts]:
        """These processes work, and no others."""
        activities = tuple(ProcessActivity(pid, Engines(1000)) for pid in pids)
        window = Window(0, SECOND, SECOND, 0, Engines(core=1000 * len(pids)), activities)
        holders = tuple(ProcessMemory(pid, 1, frozenset({"compute"})) for pid in pids)
        memory = DeviceMemory(1000, len(pids), None, holders)
        self.gpus.devices = (DeviceReading(DEVICE, window=window, memory=memory),)
        for _ in range(cycles):
            self.clock.move(1)
            snapshot = self.collector.cycle()
        return [
            GroupFacts(*labels)
            for row in rows_of(snapshot)["group"]
            if isinstance(info := row.values.get("info"), Mapping)
            for labels in info
        ]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.mark.parametrize(("path", "name"), [(HUB, "jupyterhub.service"), (JOB, "211")])
def test_a_group_of_several_users_is_nobodys(machine: Machine, path: str, name: str) -> None:
    (facts,) = machine.run(path, 1001, 1000, 1002)
    assert (facts.name, facts.user) == (name, "")


@pytest.mark.parametrize(("path", "name"), [(HUB, "jupyterhub.service"), (JOB, "211")])
def test_a_group_all_of_whose_processes_are_one_users_is_his(
    machine: Machine, path: str, name: str
) -> None:
    (facts,) = machine.run(path, 1001, 1001)
    assert (facts.name, facts.user) == (name, "bob")


@pytest.mark.parametrize("path", [SLICE, OWN])
def test_each_user_in_a_slice_is_himself_whose_slice_it_is(machine: Machine, path: str) -> None:
    """``sudo -u bob`` in a session of alice, or a hub that begins programs of others there."""
    found = machine.run(path, 1001, 1000, 1002, 0)
    assert sorted(facts.name for facts in found) == ["alice", "bob", "carol"]
    of_root_too = next(facts for facts in found if facts.name == "alice")
    assert of_root_too.user == ""


def test_users_of_a_container_in_a_slice_are_whose_slice_it_is(machine: Machine) -> None:
    machine.run(OWN, 100_999)
    (machine.proc.root / "10/uid_map").write_text("0 1000 1\n1 100000 65536\n")
    machine.clock.move(120)
    found = [machine.work(10) for _ in range(90)][-1]
    assert "alice" in {facts.name for facts in found}


@pytest.mark.parametrize("path", [JOB_V1, ROOTLESS])
def test_what_only_one_user_can_make_is_his_whoever_its_processes_run_as(
    machine: Machine, path: str
) -> None:
    """A job of cgroup v1 has its user in the path. A rootless container has users of its own."""
    (facts,) = machine.run(path, 1001, 100_999)
    assert facts.user == "alice"


def test_who_comes_later_is_seen_and_who_has_gone_is_not_forgotten(machine: Machine) -> None:
    (alone,) = machine.run(HUB, 1000)
    (both,) = machine.run(HUB, 1000, 1001)
    (left,) = machine.run(HUB, 1001, first=11)
    (again,) = machine.work(11, cycles=20)
    # its counters hold the use of both
    assert [facts.user for facts in (alone, both, left, again)] == ["alice", "", "", ""]


def test_another_user_who_comes_when_the_first_has_gone_is_not_the_only_one(
    machine: Machine,
) -> None:
    (before,) = machine.run(HUB, 1000)
    machine.proc.remove(10)
    machine.work(cycles=20)
    (after,) = machine.run(HUB, 1001, first=30)
    assert (before.user, after.user) == ("alice", "")


def test_a_group_that_begins_anew_has_its_users_anew(machine: Machine) -> None:
    machine.run(HUB, 1000, 1001)
    machine.proc.remove(10)
    machine.proc.remove(11)
    assert machine.work(cycles=RETENTION_S + 20) == []
    (anew,) = machine.run(HUB, 1002, first=30)
    assert anew.user == "carol"


def test_a_process_that_changes_its_user_is_looked_at_again(machine: Machine) -> None:
    """As a spawner does between fork and exec."""
    (before,) = machine.run(HUB, 1000)
    machine.proc.put(10, HUB, uid=1001)
    (after,) = machine.work(10, cycles=LOOK_AGAIN_NS // SECOND + 1)
    assert (before.user, after.user) == ("alice", "")


def test_a_user_who_is_renamed_stays_one(machine: Machine) -> None:
    machine.call({})
    (numbered,) = machine.run(SLICE, 1000)
    machine.call(NAMES)
    (named,) = machine.work(10, cycles=LOOK_AGAIN_NS // SECOND + 1)
    assert (numbered.user, named.user) == ("1000", "alice")
    assert (numbered.name, named.name) == ("1000", "alice")


def test_a_process_whose_user_is_hidden_may_be_anybodys(machine: Machine) -> None:
    machine.proc.put(11, HUB)  # hidepid: no status of others'
    machine.proc.put(10, HUB, uid=1000)
    (facts,) = machine.work(10, 11)
    assert facts.user == ""
    machine.proc.put(11, HUB, uid=1000)
    (facts,) = machine.work(10, 11)
    assert facts.user == "alice"


def test_facts_by_process_are_a_groups_only_where_all_agree(tmp_path: Path) -> None:
    told = {
        10: GroupFacts("hub", "alice", "climate"),
        11: GroupFacts("hub", "bob", "climate"),
        12: GroupFacts("tool", "alice", "physics"),
        13: GroupFacts("tool", "alice", "climate"),
    }
    machine = Machine(tmp_path, told)
    (hub,) = machine.run(HUB, 1, 1)
    assert hub == GroupFacts("hub", "", "climate")
    _, tool = sorted(machine.run("/system.slice/tool.service", 1, 1, first=12), key=str)
    assert tool == GroupFacts("tool", "alice", "")
