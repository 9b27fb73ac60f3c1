"""Batch systems' groups: one a job, by the paths that their sources and reports have."""

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.agent.attribution.ownership import owner_of
from exporter.agent.sources.cgroups.batchpatterns import (
    NO_SITE,
    SHIPPED,
    GroupPatterns,
    ShippedPattern,
)
from exporter.agent.sources.cgroups.layout import best_identity, cgroup_paths, kinds_of, parse_path
from exporter.agent.sources.cgroups.processcontainers import CgroupProcesses
from exporter.model import GroupKey, GroupPattern, Owner, PodTable, Unattributed, Unit
from exporter.shown.kinds import NOUNS
from tests.agent.simulation.clock import ManualClock
from tests.agent.sources.cgroups.fakeproc import FakeProc

ID = "cde6dfaf5007ed65aad2d6aed72af91b0f3d95813492f773286e29ae145d20f4"
SLOT = "condor_var_lib_condor_execute_slot1_3@node7.example.org"
ALLOC = "0b8f4f6c-5d3e-4f1a-9d86-0c5a4f0f2a11"
OF_FLUX = "/user.slice/user-500.slice/user@500.service"

JOBS = {  # path → kind, group
    "/pbs_jobs.service/jobid/1234.pbs01": ("pbs", "1234.pbs01"),
    "/pbspro.service/jobid/174849168.gadi-pbs": ("pbs", "174849168.gadi-pbs"),
    "/../../pbs_jobs.service/jobid/12[3].pbs01": ("pbs", "12[3].pbs01"),
    "/pbs_jobs.service/jobs/1234.pbs01": ("pbs", "1234.pbs01"),
    "/pbspro.service/jobs/12[3].pbs01": ("pbs", "12[3].pbs01"),
    "/pbspro.slice/pbspro-12\\x5b3\\x5d.gadi\\x2dpbs.slice": ("pbs", "12[3].gadi-pbs"),
    "/pbspro/1234.pbs01": ("pbs", "1234.pbs01"),
    "/torque/88.head.example.org": ("torque", "88.head.example.org"),
    "/htcondor/condor_var_lib_condor_execute_slot1": ("htcondor", "slot1"),
    f"/system.slice/condor.service/{SLOT}": ("htcondor", "slot1_3@node7.example.org"),
    "/docker/buildkit/n4eu0udvbz9vfzjy71jkvgkwh": ("buildkit", "n4eu0udvbz9vfzjy71jkvgkwh"),
    "/buildkit/n4eu0udvbz9vfzjy71jkvgkwh": ("buildkit", "n4eu0udvbz9vfzjy71jkvgkwh"),
    "/system.slice:docker:n4eu0udvbz9v": ("buildkit", "n4eu0udvbz9v"),
    f"/htcondor/{SLOT}": ("htcondor", "slot1_3@node7.example.org"),
    f"/system.slice/htcondor/{SLOT}": ("htcondor", "slot1_3@node7.example.org"),
    f"{OF_FLUX}/app.slice/imp-shell-0-fTE9HHdZvi3.service": ("flux", "500/fTE9HHdZvi3"),
    f"{OF_FLUX}/app.slice/imp-shell-17-fTE9HHdZvi3.service": ("flux", "500/fTE9HHdZvi3"),
    f"{OF_FLUX}/app.slice/shell-0-fTE9HHdZvi3.service": ("flux", "500/fTE9HHdZvi3"),
    f"{OF_FLUX}/imp-shell-0-fTE9HHdZvi3.service": ("flux", "500/fTE9HHdZvi3"),
    "/lsf/euler/job.77.1234.1700000000": ("lsf", "77"),
    "/lsf/euler/job.77[5].1234.1700000000": ("lsf", "77[5]"),
    "/oar/alice_1234": ("oar", "alice_1234"),
    "/oar.slice/oar-u1000.slice/oar-u1000-j45670.slice": ("oar", "45670"),
    "/spur/job_7": ("spur", "7"),
    "/system.slice/spurd.service/job_7": ("spur", "7"),
    f"/nomad.slice/share.slice/{ALLOC}.train.scope": ("nomad", f"{ALLOC}.train"),
    f"/nomad.slice/reserve.slice/{ALLOC}.a.b.scope": ("nomad", f"{ALLOC}.a.b"),
    f"/nomad.slice/{ALLOC}.train.scope": ("nomad", f"{ALLOC}.train"),
    f"/nomad/{ALLOC}.train": ("nomad", f"{ALLOC}.train"),
    f"/nomad/share/{ALLOC}.train": ("nomad", f"{ALLOC}.train"),
    "/hadoop-yarn/container_e02_1722_0001_01_000003": ("yarn", "container_e02_1722_0001_01_000003"),
    "/mesos/5f1c2b7e": ("mesos", "5f1c2b7e"),
}
OTHERS: dict[str, Owner] = {  # what only resembles one
    "/pbs_jobs.service": GroupKey("systemd", "pbs_jobs.service"),
    "/pbs_jobs.service/jobid": GroupKey("systemd", "pbs_jobs.service"),
    "/pbspro.slice": Unattributed.HOST_PROCESS,
    "/oar.slice/oar-u1000.slice/x.scope": GroupKey("systemd", "x.scope"),
    "/system.slice/spurd.service/spurd": GroupKey("systemd", "spurd.service"),
    "/system.slice/pbs.service": GroupKey("systemd", "pbs.service"),
    "/somewhere/htcondor/condor_x_slot1": Unattributed.HOST_PROCESS,
    "/htcondor/x": Unattributed.HOST_PROCESS,
    "/htcondor": Unattributed.HOST_PROCESS,
    f"{OF_FLUX}/app.slice/flux-broker.service": GroupKey("user", "500"),
    "/system.slice/imp-shell-0-f1.service": GroupKey("systemd", "imp-shell-0-f1.service"),
    f"/nomad.slice/docker-{ID}.scope": GroupKey("docker", ID),
    f"/nomad.slice/libpod-{ID}.scope/container": GroupKey("podman", ID),
}


def owner(path: str, patterns: GroupPatterns = NO_SITE) -> Owner:
    """The owner of a process in a cgroup."""
    return owner_of(parse_path(path, patterns), PodTable())


@pytest.mark.parametrize("path", JOBS)
def test_each_job_is_a_group(path: str) -> None:
    assert owner(path) == GroupKey(*JOBS[path])


@pytest.mark.parametrize("path", OTHERS)
def test_what_only_resembles_a_job_is_what_it_was(path: str) -> None:
    assert owner(path) == OTHERS[path]


@pytest.mark.parametrize(
    "inside", ["task", "x.service", f"docker/{ID}", f"libpod-{ID}.scope", "jobid/7"]
)
@pytest.mark.parametrize("path", JOBS)
def test_all_that_is_below_a_job_is_its_own(path: str, inside: str) -> None:
    pod = "kubepods/pod11111111-2222-3333-4444-555555555555"
    assert owner(f"{path}/{inside}") == owner(f"{path}/{pod}/{ID}") == GroupKey(*JOBS[path])


def test_each_shipped_kind_has_a_noun() -> None:
    assert {each.pattern.kind for each in SHIPPED} - NOUNS.keys() == set()


def test_a_user_makes_no_job_but_of_his_own() -> None:
    """Neither of the system's nor of another's instance."""
    home = "/user.slice/user-1000.slice"
    forged = [
        owner(f"{home}/user@1000.service/app.slice/imp-shell-0-fTE9HHdZvi3.service"),
        owner(f"{home}/user@500.service/app.slice/imp-shell-0-fTE9HHdZvi3.service"),
        owner(
            f"{home}/user@1000.service/user.slice/user-500.slice/user@500.service/shell-0-f.service"
        ),
        owner(f"{home}/session-3.scope/app.slice/imp-shell-0-fTE9HHdZvi3.service"),
        owner(f"{home}/user@1000.service/pbs_jobs.service/jobid/1234.pbs01"),
        owner(f"{home}/user@1000.service/app.slice/htcondor/{SLOT}"),
    ]
    assert forged == [GroupKey("flux", "1000/fTE9HHdZvi3"), *[GroupKey("user", "1000")] * 5]


@pytest.mark.parametrize(
    "above", ["/lxc/box", "/lxc.payload.box", "/slurm/uid_1/job_5", f"/docker/{ID}"]
)
def test_a_machine_and_a_container_have_no_jobs_inside(above: str) -> None:
    inside = f"{above}/pbs_jobs.service/jobid/1234.pbs01"
    assert owner(inside) == owner(above)


def test_of_the_lines_of_a_process_the_jobs_tells_most() -> None:
    """As on a node of cgroup v1, where PBS has no directory for pids."""
    text = (
        "12:pids:/system.slice/pbs.service\n9:cpu:/pbspro.service/jobid/7.gadi-pbs\n0::/x.slice\n"
    )
    assert best_identity(cgroup_paths(text)).unit == Unit("pbs", "7.gadi-pbs")


def test_a_batch_systems_service_announces_its_kind() -> None:
    paths = ("/system.slice/condor.service", "/pbs_jobs.service", "/system.slice/nomad.service")
    assert kinds_of(map(parse_path, paths)) == {"systemd", "user", "htcondor", "pbs", "nomad"}


UGE = GroupPattern("gridengine", "/UGE/{cell}/{job}.*", "{cell}:{job}")


def test_a_site_describes_its_own_and_goes_first() -> None:
    site = GroupPatterns([UGE, GroupPattern("grid", "/torque/{job}.head", "{job}")])
    assert owner("/UGE/east/77.1", site) == GroupKey("gridengine", "east:77")
    assert owner("/UGE/east/77.1") is Unattributed.HOST_PROCESS
    assert owner("/torque/88.head", site) == GroupKey("grid", "88")
    assert owner("/torque/88.tail", site) == GroupKey("torque", "88.tail")
    assert kinds_of([], site) == {"host", "gridengine", "grid"}


def test_processes_of_a_real_tree_are_found_by_a_sites_pattern(tmp_path: Path) -> None:
    proc = FakeProc(tmp_path / "proc")
    proc.put(7, "/UGE/east/77.1/task", uid=1000)
    source = CgroupProcesses(
        str(tmp_path), str(proc.root), ManualClock(), patterns=GroupPatterns([UGE])
    )
    (found,) = source.resolve([7]).values()
    assert owner_of(found, PodTable()) == GroupKey("gridengine", "east:77")


@pytest.mark.parametrize("each", SHIPPED, ids=str)
def test_a_shipped_pattern_is_well_formed(each: ShippedPattern) -> None:
    assert each.pattern.complaints() == []


WRONG = {
    "lsf/{job}": "a path begins with / or ~/",
    "/" + "x" * 300: "at most 256 characters",
    "/a/b/c/d/e/f/g/h/{group}": "at most 8 names",
    "/a//{group}": "no empty name",
    "/a/../{group}": "no empty name",
    "/": "no empty name",
    "/{group}*": "two wildcards side by side",
    "/a/{Job}": "{ and } stand around a name of small letters",
    "/a/{group": "{ and } stand around a name of small letters",
    "/{group}/{group}": "stands in a path once",
    "/a/{job}": "the path has no group for group",
}


@pytest.mark.parametrize("path", WRONG)
def test_what_is_wrong_with_a_pattern_is_said(path: str) -> None:
    assert WRONG[path] in "; ".join(GroupPattern("x", path).complaints())


@given(st.text(max_size=40), st.text(max_size=40))
def test_any_path_is_refused_or_read_and_any_name_is_compared(path: str, name: str) -> None:
    pattern = GroupPattern("x", f"/{path}", "g")
    if not pattern.complaints():
        for part in pattern.names:
            found = part.match(name)
            assert found is None or all(found)
            literals = part.literals
            rebuilt = "".join(
                literal + text
                for literal, text in zip(literals, (*(found or ()), ""), strict=False)
            )
            assert found is None or rebuilt == name


def test_no_name_takes_long() -> None:
    """A regular expression of as many wildcards would not end."""
    pattern = GroupPattern("x", "/" + "*a" * 100, "g")
    assert pattern.complaints() == []
    began = time.process_time()  # another process may have the core meanwhile
    assert pattern.names[0].match("a" * 255 + "b") is None
    assert pattern.names[0].match("b" * 4096) is None
    assert time.process_time() - began < 0.1
