"""Groups off Kubernetes: what check says of sockets, users and what the kernel hides."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from exporter.agent.doctor import CheckResult, CheckVerdict, privileges
from exporter.agent.doctor.groupchecks import groups
from exporter.model import CgroupIdentity, Unit
from tests.agent.doctor.looking import by_subject, check, evidence, settings
from tests.agent.sources.cgroups.fakeproc import FakeProc
from tests.agent.sources.groups.engines import serving, short_folder

NAMES = "containers' names"


@pytest.fixture
def root() -> Iterator[Path]:
    with short_folder() as made:
        yield made


def found(root: Path, **flags: str) -> dict[str, CheckResult]:
    return by_subject(groups(evidence(settings(**flags)), str(root)))


def test_without_an_engine_there_is_a_note(root: Path) -> None:
    assert found(root)[NAMES].verdict is CheckVerdict.NOTE
    assert NAMES not in found(root, groups_sockets="none")


def test_sockets_of_the_machine_and_of_users_are_found(root: Path) -> None:
    with (
        serving(root / "run/docker.sock") as docker,
        serving(root / "run/user/1000/podman/podman.sock") as podman,
    ):
        told = found(root)
        assert told[f"socket {docker.path}"].verdict is CheckVerdict.OK
        assert told[f"socket {podman.path}"].verdict is CheckVerdict.OK
        assert NAMES not in told


def test_a_socket_that_was_named_and_is_none_is_a_problem(root: Path) -> None:
    path = root / "none.sock"
    assert found(root, groups_sockets=str(path))[f"socket {path}"].verdict is CheckVerdict.PROBLEM


@pytest.mark.root
@pytest.mark.program("setpriv")
def test_a_socket_that_this_user_may_not_use_is_a_note_with_the_right_it_takes(root: Path) -> None:
    with serving(root / "s") as docker:
        docker.path.chmod(0o600)
        root.chmod(0o755)
        told = check(
            *(f"--groups.sockets={docker.path}", "--groups.slurm-account=true"),
            wrap="setpriv --reuid=65534 --clear-groups",
        )
        socket = told.of("groups", f"socket {docker.path}")
        assert socket["verdict"] == "problem"
        assert socket["privilege"] == f"write access to {docker.path}"
        accounts = told.of("groups", "jobs' accounts")
        assert accounts["privilege"] == privileges.PTRACE
        assert told.of("groups", "others' processes")["verdict"] == "ok"


def test_a_file_of_users_that_cannot_be_read_is_a_note(root: Path) -> None:
    assert found(root)["users' names"].verdict is CheckVerdict.OK
    told = found(root, path_passwd=str(root / "none"))["users' names"]
    assert told.verdict is CheckVerdict.NOTE
    assert "--path.passwd" in told.remedy


def test_processes_that_are_hidden_are_told_with_what_shows_them(tmp_path: Path) -> None:
    proc = FakeProc(tmp_path / "proc")
    hidden = found(tmp_path, path_procfs=str(proc.root))["others' processes"]
    assert (hidden.verdict, hidden.privilege) == (CheckVerdict.NOTE, privileges.SEE_PROCESSES)
    proc.put(1, "/init.scope", uid=0)
    assert (
        found(tmp_path, path_procfs=str(proc.root))["others' processes"].verdict is CheckVerdict.OK
    )


def test_accounts_are_examined_where_they_are_asked_for_by_the_jobs_that_are_there() -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        job = CgroupIdentity(unit=Unit("slurm", "7"))
        given = evidence(settings(groups_slurm__account="true"), identities={process.pid: job})
        assert by_subject(groups(given))["jobs' accounts"].verdict is CheckVerdict.OK
        process.kill()
    gone = by_subject(groups(given))["jobs' accounts"]
    assert gone.verdict is CheckVerdict.PROBLEM
    assert "jobs' accounts" not in by_subject(groups(evidence(settings())))


def test_of_a_simulated_node_nothing_is_asked() -> None:
    assert not list(groups(evidence(settings(simulate="hpc"))))
