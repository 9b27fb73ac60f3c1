"""Users and accounts of groups, from passwd and /proc: files, and a real process."""

import os
import stat
import subprocess
import threading
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyfakefs.fake_filesystem import FakeFilesystem
from pyfakefs.helpers import reset_ids, set_uid

from exporter.agent.sources.aside import MAX_AT_ONCE
from exporter.agent.sources.door import Absent, Cut, Whole
from exporter.agent.sources.groups.groupowners import (
    AT_ONCE,
    LARGEST_FILE,
    LONGEST_ENVIRONMENT,
    Accounts,
    GroupUsers,
    Users,
    _parsed,
    open_groups,
    slurm_account,
)
from exporter.model import CgroupIdentity, GroupFacts, GroupKey, GroupMembers, Unit
from tests.agent.simulation.clock import ManualClock
from tests.agent.sources.cgroups.fakeproc import FakeProc
from tests.agent.sources.groups.engines import until

JOB = CgroupIdentity(unit=Unit("slurm", "211", "0"))
JOB_V1 = CgroupIdentity(unit=Unit("slurm", "211", "0", 0))
KEY = GroupKey("slurm", "211")
LINES = "root:x:0:0::/root:/bin/sh\nalice:x:1000:1000:Alice:/home/alice:/bin/bash\n"


@pytest.fixture
def passwd(tmp_path: Path) -> Path:
    file = tmp_path / "passwd"
    file.write_text(LINES)
    return file


@pytest.fixture
def proc(tmp_path: Path) -> FakeProc:
    return FakeProc(tmp_path / "proc")


def owners(passwd: Path, proc: FakeProc, *, accounts: bool = False) -> GroupUsers:
    return GroupUsers(str(passwd), str(proc.root), ManualClock(), accounts=accounts)


def of(identity: CgroupIdentity, pid: int = 7) -> dict[GroupKey, GroupMembers]:
    return {KEY: GroupMembers((pid,), identity)}


@pytest.mark.parametrize(
    ("identity", "user"),
    [
        (JOB, "alice"),  # by its process
        (JOB_V1, "root"),  # by the path of cgroup v1
        (CgroupIdentity(None, "a" * 64, "podman", unit=Unit("user", "4711", uid=4711)), "4711"),
        (CgroupIdentity(unit=Unit("lxc", "a")), None),
        (CgroupIdentity(None, "a" * 64, "docker"), None),
    ],
)
def test_a_group_is_the_users_that_its_path_or_its_process_names(
    passwd: Path, proc: FakeProc, identity: CgroupIdentity, user: str | None
) -> None:
    proc.put(7, "/", uid=1000)
    facts = owners(passwd, proc).facts(of(identity)).get(KEY, GroupFacts())
    assert facts.user == (user or "")


def test_a_group_whose_process_has_gone_is_looked_at_again(passwd: Path, proc: FakeProc) -> None:
    source = owners(passwd, proc)
    assert source.facts(of(JOB)) == {}
    proc.put(8, "/", uid=0)
    assert source.facts(of(JOB, 8)) == {KEY: GroupFacts(user="root", uid=0)}
    proc.remove(8)
    assert source.facts(of(JOB, 8)) == {KEY: GroupFacts(user="root", uid=0)}
    assert source.facts({}) == {}


def environment(proc: FakeProc, content: bytes, pid: int = 7) -> None:
    proc.put(pid, "/", uid=1000)
    (proc.root / str(pid) / "environ").write_bytes(content)


def test_an_account_is_read_where_that_is_asked_for(passwd: Path, proc: FakeProc) -> None:
    environment(proc, b"PATH=/bin\0SLURM_JOB_ACCOUNT=climate\0TOKEN=secret\0")
    assert owners(passwd, proc).facts(of(JOB)) == {KEY: GroupFacts(user="alice", uid=1000)}
    source = owners(passwd, proc, accounts=True)
    until(lambda: bool(source.facts(of(JOB))[KEY].account))
    assert source.facts(of(JOB)) == {KEY: GroupFacts(user="alice", account="climate", uid=1000)}


def test_users_whose_accounts_never_come_hold_up_no_other_user() -> None:
    hung, hostile, other = threading.Event(), range(1000, 1015), 2000

    def read(_root: str, pid: int) -> Whole[str]:
        if pid in hostile:
            hung.wait()
        return Whole("physics")

    accounts = Accounts("/proc", read)
    for uid, number in product(hostile, range(MAX_AT_ONCE)):
        assert accounts.of(GroupKey("slurm", f"{uid}-{number}"), (uid,), uid) == ""

    until(lambda: accounts.of(GroupKey("slurm", "x"), (other,), other) == "physics")
    hung.set()


def test_only_so_many_accounts_are_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    hung, begun = threading.Event(), []

    def read(_root: str, pid: int) -> Whole[str]:
        begun.append(pid)
        hung.wait()
        return Whole("late")

    accounts = Accounts("/proc", read)
    keys = [GroupKey("slurm", str(number)) for number in range(MAX_AT_ONCE + 2)]
    for _ in range(3):
        accounts.keep(keys)
        assert {accounts.of(key, (int(key.group),), int(key.group)) for key in keys} == {""}

    assert len(begun) <= MAX_AT_ONCE
    assert caplog.text.count("slow to be read") == 1
    accounts.keep([])
    hung.set()
    until(lambda: accounts.of(keys[-1], (7,)) == "late")


def finish() -> None:
    """Wait for all accounts that are being read."""
    for thread in threading.enumerate():
        if thread.name == "accounts of jobs":
            thread.join()


def test_a_user_with_many_jobs_waits_for_his_own_and_nothing_is_slow(
    caplog: pytest.LogCaptureFixture,
) -> None:
    in_cycle = threading.Event()
    accounts = Accounts("/proc", lambda _root, _pid: Whole("physics" if in_cycle.wait() else ""))
    keys = [GroupKey("slurm", str(number)) for number in range(6)]
    for _ in range(3):
        accounts.keep(keys)
        in_cycle.clear()
        told = [accounts.of(key, (7,), 1000) for key in keys]
        in_cycle.set()
        finish()

    assert told == ["physics"] * 4 + [""] * 2
    assert [accounts.of(key, (7,), 1000) for key in keys] == ["physics"] * 6
    assert caplog.text == ""


def test_accounts_that_wait_for_slow_ones_are_said_once_while_it_lasts(
    caplog: pytest.LogCaptureFixture,
) -> None:
    hung = threading.Event()
    accounts = Accounts("/proc", lambda _root, _pid: Whole("late" if hung.wait() else ""))
    keys = [GroupKey("slurm", str(number)) for number in range(4)]
    said = []
    for _ in range(4):
        accounts.keep(keys)
        for key in keys:
            accounts.of(key, (7,), 1000)
        said.append(caplog.text.count("slow to be read"))

    hung.set()
    finish()
    assert said == [0, 1, 1, 1]


@pytest.mark.parametrize(
    ("content", "account"),
    [
        (b"", ""),
        (b"SLURM_JOB_ACCOUNT=", ""),
        (b"X=SLURM_JOB_ACCOUNT=a\0", ""),
        (b"X=\nSLURM_JOB_ACCOUNT=a\0", ""),
        (b"SLURM_JOB_ACCOUNT=a\xff\x1b\nb\0", "a??b".replace("??", "\ufffd??")),
        (b"SLURM_JOB_ACCOUNT=" + b"x" * 500, "x" * 128),
        (b"A=" + b"x" * LONGEST_ENVIRONMENT + b"\0SLURM_JOB_ACCOUNT=late\0", ""),
    ],
)
def test_an_account_is_one_variable_of_bounded_length(
    proc: FakeProc, content: bytes, account: str
) -> None:
    environment(proc, content)
    told = slurm_account(str(proc.root), 7)
    assert isinstance(told, Whole | Cut)
    assert told.value == account


def test_the_account_of_a_real_process_is_read_from_the_real_proc() -> None:
    environ = {"SLURM_JOB_ACCOUNT": "physics", "PATH": os.environ["PATH"]}
    pipe = subprocess.PIPE
    with subprocess.Popen(["cat"], env=environ, stdin=pipe, stdout=pipe) as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write(b"\n")
        process.stdin.flush()
        assert process.stdout.read(1)  # it runs: its environment is there
        assert slurm_account("/proc", process.pid) == Whole("physics")
        process.stdin.close()
    assert isinstance(slurm_account("/proc", process.pid), Absent)


def test_users_are_read_again_when_the_file_changes(tmp_path: Path, passwd: Path) -> None:
    clock = ManualClock()
    users = Users(str(passwd), clock)
    assert users.names().get(1000, "") == "alice"
    other = tmp_path / "other"
    other.write_text(LINES.replace("alice", "alicia"))
    other.rename(passwd)
    assert users.names().get(1000, "") == "alice"
    clock.move(11)
    assert users.names().get(1000, "") == "alicia"
    passwd.unlink()
    clock.move(11)
    assert users.names().get(1000, "") == "alicia"
    assert users.problem


@pytest.mark.slow
def test_a_long_file_is_read_aside_and_its_names_come_when_it_is(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "passwd"
    file.write_text(LINES + "x:x:7:7\n" * (LARGEST_FILE // 8) + "beyond:x:8:8\n")
    clock = ManualClock()
    users = Users(str(file), clock)

    first = users.names().get(1000, "")
    assert users._reading
    users._reading.join()
    read = users.names().get(1000, "")
    clock.move(11)
    again = users.names().get(1000, "")

    assert (first, read, again) == ("", "alice", "alice")  # nobody waited for it
    assert users.names().get(8, "") == ""
    assert caplog.text.count("only 16 MiB are read") == 1


def test_a_long_file_that_may_not_be_read_is_said_until_it_is(
    fs: FakeFilesystem, caplog: pytest.LogCaptureFixture
) -> None:
    file = Path("/host/passwd")
    fs.create_file(file, contents=LINES + "x:x:7:7\n" * AT_ONCE, st_mode=stat.S_IFREG | 0o600)
    set_uid(65532)
    clock = ManualClock()
    users = Users(str(file), clock)

    def look() -> str:
        clock.move(11)
        name = users.names().get(1000, "")
        for thread in threading.enumerate():
            if thread.name == "users":
                thread.join()
        return name

    said = [(look(), users.problem) for _ in range(4)]
    fs.get_object(str(file)).st_mode = stat.S_IFREG | 0o644
    look()
    told = look(), users.problem
    reset_ids()

    assert [name for name, _ in said] == [""] * 4
    assert [problem for _, problem in said[1:]] == [f"{file}: Permission denied"] * 3
    assert caplog.text.count("users lack names") == 1
    assert told == ("alice", "")


def test_without_a_file_there_are_no_names_and_that_is_said_once(
    tmp_path: Path, proc: FakeProc, caplog: pytest.LogCaptureFixture
) -> None:
    clock = ManualClock()
    source = GroupUsers(str(tmp_path / "none"), str(proc.root), clock)
    for _ in range(3):
        clock.move(11)
        assert source.facts(of(JOB_V1)) == {KEY: GroupFacts(user="0", uid=0)}
    assert caplog.text.count("users lack names") == 1
    assert source.status().up
    assert "No such file" in source.status().detail


@given(st.binary(max_size=200))
def test_any_file_is_read(content: bytes) -> None:
    assert all(isinstance(uid, int) for uid in _parsed(content))


def test_of_two_with_one_number_the_first_counts_and_bad_lines_nothing() -> None:
    content = b"a:x:5:5\nb:x:5:5\nbad\n:x:6:6\nc:x:-7:7\nd:x:99999999999:1\n+::::::\n#c:x:8\xff:8"
    assert _parsed(content) == {5: "a"}


def test_sockets_are_asked_unless_there_are_to_be_none() -> None:
    sources = open_groups(("none",), "/etc/passwd", "/proc", accounts=False)
    assert [source.name for source in sources] == ["users"]
    sources = open_groups(("auto",), "/etc/passwd", "/proc", accounts=False)
    assert [source.name for source in sources] == ["users", "containers"]


def test_an_account_that_one_process_does_not_have_is_another_ones(
    passwd: Path, proc: FakeProc
) -> None:
    environment(proc, b"PATH=/bin\0")
    environment(proc, b"SLURM_JOB_ACCOUNT=climate\0", 8)
    source = owners(passwd, proc, accounts=True)
    both = {KEY: GroupMembers((7, 8), JOB)}
    until(lambda: source.facts(both)[KEY].account == "climate")
