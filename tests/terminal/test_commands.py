import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from exporter.model import Process, Unattributed
from exporter.terminal.feeds.local import LONGEST_COMMAND, ProcessCommands

ARGUMENT = "--model=seven"


@pytest.fixture
def running() -> Iterator[subprocess.Popen[bytes]]:
    program = "print(flush=True); input()"
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, "-c", program, ARGUMENT], stdin=pipe, stdout=pipe
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.kill()


def name_of(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text().rstrip("\n")


def process(pid: int, name: str) -> Process:
    return Process(pid, "GPU-1", Unattributed.HOST_PROCESS, name=name)


def test_a_process_gets_its_user_and_command(
    running: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    passwd = tmp_path / "passwd"
    passwd.write_text(f"alice:x:{os.getuid()}:0::/:/bin/sh\n")
    shown = process(running.pid, name_of(running.pid))

    found = ProcessCommands("/proc", str(passwd)).of([shown])

    assert found[running.pid].user == "alice"
    assert found[running.pid].command.endswith(ARGUMENT)


def test_a_user_without_a_name_is_a_number(running: subprocess.Popen[bytes]) -> None:
    shown = process(running.pid, name_of(running.pid))

    found = ProcessCommands("/proc", "/nonexistent").of([shown])

    assert found[running.pid].user == str(os.getuid())


def test_another_process_with_the_pid_is_not_mistaken_for_it(
    running: subprocess.Popen[bytes],
) -> None:
    shown = process(running.pid, "trainer")

    found = ProcessCommands("/proc", "/nonexistent").of([shown])

    assert found == {}


def test_a_process_that_is_gone_has_none(tmp_path: Path) -> None:
    shown = process(7, "x")

    found = ProcessCommands(str(tmp_path), "/nonexistent").of([shown])

    assert found == {}


def test_a_long_command_is_cut(tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "comm").write_text("x\n")
    (tmp_path / "7" / "cmdline").write_text("y" * 10 * LONGEST_COMMAND)
    shown = process(7, "x")

    found = ProcessCommands(str(tmp_path), "/nonexistent").of([shown])

    assert len(found[7].command) == LONGEST_COMMAND
