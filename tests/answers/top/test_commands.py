import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from exporter.answers.reading.feeds.details import ProcessCommand
from exporter.localfeed import LONGEST_COMMAND, ProcessCommands
from exporter.model import Process, Unattributed

ARGUMENT = "--model=seven"


class Steps:
    """A clock that goes on where it is moved."""

    now_ns = 10**9

    def monotonic_ns(self) -> int:
        return self.now_ns

    def time_ns(self) -> int:
        return self.now_ns


@pytest.fixture
def running() -> Iterator[int]:
    program = "print(flush=True); input()"
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", program, ARGUMENT]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid
        process.kill()


def of(pid: int, name: str, passwd: str, proc: str = "/proc") -> ProcessCommand | None:
    shown = Process(pid, "GPU-1", Unattributed.HOST_PROCESS, name=name)
    return ProcessCommands(proc, passwd).of([shown]).get(pid)


def test_a_process_gets_its_user_and_command(running: int, tmp_path: Path) -> None:
    passwd = tmp_path / "passwd"
    passwd.write_text(f"alice:x:{os.getuid()}:0::/:/bin/sh\n")
    name = Path(f"/proc/{running}/comm").read_text().rstrip("\n")

    named, nameless = of(running, name, str(passwd)), of(running, name, "/nonexistent")

    assert named is not None
    assert nameless is not None
    assert (named.user, nameless.user) == ("alice", str(os.getuid()))
    assert named.command.endswith(ARGUMENT)


def test_a_process_has_its_use_of_the_host_from_the_second_reading_on() -> None:
    name = Path("/proc/self/comm").read_text().rstrip("\n")
    clock = Steps()
    commands = ProcessCommands("/proc", "/nonexistent", clock)
    mine = [Process(os.getpid(), "GPU-1", Unattributed.HOST_PROCESS, name=name)]

    first = commands.of(mine)[os.getpid()]
    spent = time.process_time()
    while time.process_time() < spent + 0.1:
        pass
    clock.now_ns += 10**9
    second = commands.of(mine)[os.getpid()]

    assert first.host_cpus is None
    assert second.host_cpus is not None
    assert 0.08 <= second.host_cpus < 1  # a tenth of the second that the clock says has passed
    assert second.host_bytes is not None
    assert second.host_bytes > 1 << 20


def test_another_process_with_the_pid_or_none_is_not_mistaken_for_it(
    running: int, tmp_path: Path
) -> None:
    assert of(running, "trainer", "/nonexistent") is None
    assert of(7, "x", "/nonexistent", str(tmp_path)) is None


def test_a_long_command_is_cut(tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "comm").write_text("x\n")
    (tmp_path / "7" / "cmdline").write_text("y" * 10 * LONGEST_COMMAND)

    found = of(7, "x", "/nonexistent", str(tmp_path))

    assert found is not None
    assert len(found.command) == LONGEST_COMMAND
