import errno
import itertools
import os
import resource
import threading
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from exporter.agent.sources.cgroups.heldprocess import ProcessState, look_at
from exporter.agent.sources.door import Failed, Whole
from exporter.agent.sources.proc import (
    PidNamespaces,
    pid_namespaces,
    start_time,
    uptime_ns,
)
from tests.agent.sources.cgroups.fakeproc import PF_EXITING, FakeProc
from tests.agent.sources.cgroups.names import container_path, new_container_id, new_uid
from tests.agent.sources.cgroups.real import real_cgroups


@pytest.fixture
def proc(tmp_path: Path) -> FakeProc:
    return FakeProc(tmp_path / "proc")


def test_a_process_is_seen_with_its_start_its_name_and_its_cgroups(proc: FakeProc) -> None:
    proc.put(7, "/a", "/b", start=4711)
    seen = ProcessState(4711, exiting=False, paths=("/a", "/b"), name="python")
    assert look_at(str(proc.root), 7) == seen


@pytest.mark.parametrize("command", [") R 1 1 1", "a b", "((", ")))", "\n", "x) Z 0 (y"])
def test_a_command_may_hold_anything(proc: FakeProc, command: str) -> None:
    proc.put(7, "/a", start=4711, command=command)
    assert look_at(str(proc.root), 7) == ProcessState(
        4711, exiting=False, paths=("/a",), name=command
    )


def test_a_name_is_bounded_and_always_text(proc: FakeProc) -> None:
    proc.put(7, "/a")
    stat = proc.root / "7" / "stat"
    stat.write_bytes(stat.read_bytes().replace(b"python", b"\xff" + b"x" * 100))
    seen = look_at(str(proc.root), 7)
    assert seen is not None
    assert seen.name == "\ufffd" + "x" * 63


@pytest.mark.parametrize(
    ("text", "ns"),
    [("12.34 99.00\n", 12_340_000_000), ("", None), ("soon 1\n", None), ("inf 1\n", None)],
)
def test_the_uptime_is_read_or_not_known(proc: FakeProc, text: str, ns: int | None) -> None:
    (proc.root / "uptime").write_text(text)
    assert uptime_ns(str(proc.root)) == ns


def test_an_uptime_that_lxcfs_mounts_over_the_kernels_is_not_that_of_the_starts(
    proc: FakeProc, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is the container's; the starts in ``/proc/PID/stat`` count from the machine's boot."""
    mounted = proc.root / "uptime"
    mounted.write_text("61.00 12.00\n")
    monkeypatch.setattr("os.path.ismount", lambda path: path == str(mounted))
    monkeypatch.setattr("time.clock_gettime_ns", lambda clock: {time.CLOCK_BOOTTIME: 86_400}[clock])
    assert uptime_ns(str(proc.root)) == 86_400


@pytest.mark.parametrize(("state", "flags"), [("Z", 0), ("X", 0), ("R", PF_EXITING)])
def test_a_process_on_its_way_out_is_told(proc: FakeProc, state: str, flags: int) -> None:
    proc.put(7, "/", state=state, flags=flags)
    seen = look_at(str(proc.root), 7)
    assert seen is not None
    assert seen.exiting


def test_a_pid_without_process_is_none(proc: FakeProc) -> None:
    assert look_at(str(proc.root), 7) is None
    assert start_time(str(proc.root), 7) is None


def test_a_process_whose_cgroups_cannot_be_read_is_seen_without(proc: FakeProc) -> None:
    proc.put(7, "/a")
    (proc.root / "7" / "cgroup").unlink()
    seen = ProcessState(1000, exiting=False, paths=(), name="python")
    assert look_at(str(proc.root), 7) == seen
    (proc.root / "7" / "cgroup").mkdir()  # EISDIR
    assert look_at(str(proc.root), 7) == seen


def test_a_copy_of_the_cgroup_files_alone_is_enough(proc: FakeProc) -> None:
    proc.put_text(7, "0::/a\n")
    assert look_at(str(proc.root), 7) == ProcessState(None, exiting=False, paths=("/a",))


def test_what_is_seen_is_never_of_two_processes(proc: FakeProc) -> None:
    seen = set()
    stop = threading.Event()

    def take_turns() -> None:
        for number in itertools.count(1000):
            proc.put(number, f"/{number}", start=number)
            (proc.root / "next").symlink_to(str(number))
            (proc.root / "next").replace(proc.root / "7")  # pid 7 is another process from now on
            if stop.is_set():
                return

    thread = threading.Thread(target=take_turns)
    thread.start()
    for _ in range(2000):
        seen.add(look_at(str(proc.root), 7))
    stop.set()
    thread.join()
    some = [process for process in seen if process is not None and process.start is not None]
    assert some
    assert all(process.paths == (f"/{process.start}",) for process in some)


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    max_examples=settings().max_examples // 2,
)
@given(content=st.binary(max_size=200))
def test_garbled_files_are_not_known_and_never_an_error(proc: FakeProc, content: bytes) -> None:
    directory = proc.root / "7"
    directory.mkdir(exist_ok=True)
    (directory / "stat").write_bytes(content)
    (directory / "cgroup").write_bytes(content)
    (proc.root / "self").unlink(missing_ok=True)
    (proc.root / "self").symlink_to("7")
    (directory / "status").write_bytes(content)
    seen = look_at(str(proc.root), 7)
    assert seen is not None
    assert seen.start is None or content.count(b" ") > 18
    assert isinstance(pid_namespaces(str(proc.root)), Whole)


@pytest.mark.parametrize(
    ("status", "depth"),
    [
        ("Name:\tx\nNSpid:\t4711\nNSpgid:\t1\n", 1),
        ("Name:\tx\nNSpid:\t4711\t7\nNSpgid:\t1\n", 2),
        ("Name:\tNSpid: 1 2 3\n", 0),
        ("", 0),
    ],
)
def test_the_depth_of_pid_namespaces_is_read_from_own_status(
    proc: FakeProc, status: str, depth: int
) -> None:
    proc.put_self("4711", status)
    assert pid_namespaces(str(proc.root)) == Whole(PidNamespaces(depth))


def test_only_the_live_procfs_of_own_pids_shows_own_pids(proc: FakeProc) -> None:
    proc.put_self(str(os.getpid() + 1))
    assert pid_namespaces(str(proc.root)) == Whole(PidNamespaces())
    assert pid_namespaces(str(proc.root / "none")) == Whole(PidNamespaces())
    live = pid_namespaces("/proc")
    assert isinstance(live, Whole)
    assert live.value.has_own_pids


@pytest.mark.parametrize(("inode", "is_nested"), [(4026531836, 0), (4026532700, 1)])
def test_the_machines_first_pid_namespace_is_told_from_others(
    proc: FakeProc, inode: int, is_nested: int
) -> None:
    proc.put_self("7", pid_namespace=f"pid:[{inode}]")
    known = PidNamespaces(is_nested=bool(is_nested))
    assert pid_namespaces(str(proc.root)) == Whole(known)


def test_without_a_descriptor_the_namespace_is_not_known(proc: FakeProc) -> None:
    proc.put_self("7", "NSpid:\t7\n", pid_namespace="pid:[7]")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        seen = pid_namespaces(str(proc.root))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert seen == Failed(errno.EMFILE)


@pytest.mark.root
@pytest.mark.parametrize("version", ["v1", "v2"])
def test_a_real_process_is_seen_in_its_cgroup_and_as_a_zombie(version: str) -> None:
    container = container_path("systemd", new_uid(), new_container_id())
    with real_cgroups(version) as cgroups:
        pid = cgroups.spawn(container)
        alive = look_at("/proc", pid)
        cgroups.leave_zombie(pid)
        dead = look_at("/proc", pid)
        cgroups.reap(pid)
        assert alive is not None
        assert any(path.endswith(container) for path in alive.paths)
        assert dead is not None
        assert (dead.start, dead.exiting) == (alive.start, True)
        assert look_at("/proc", pid) is None
