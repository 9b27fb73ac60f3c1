import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

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


def document(*processes: dict[str, Any]) -> dict[str, Any]:
    part = {"process_list": list(processes)}
    return {
        "devices": [{"unattributed": []}],
        "pods": [{"containers": [{"devices": [part]}]}],
        "groups": [],
    }


def test_a_process_gets_its_user_and_command(
    running: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    passwd = tmp_path / "passwd"
    passwd.write_text(f"alice:x:{os.getuid()}:0::/:/bin/sh\n")
    process = {"pid": running.pid, "name": name_of(running.pid)}

    ProcessCommands("/proc", str(passwd)).add_to(document(process))

    assert process["user"] == "alice"
    assert str(process["command"]).endswith(ARGUMENT)


def test_a_user_without_a_name_is_a_number(running: subprocess.Popen[bytes]) -> None:
    process = {"pid": running.pid, "name": name_of(running.pid)}

    ProcessCommands("/proc", "/nonexistent").add_to(document(process))

    assert process["user"] == str(os.getuid())


def test_another_process_with_the_pid_is_not_mistaken_for_it(
    running: subprocess.Popen[bytes],
) -> None:
    process = {"pid": running.pid, "name": "trainer"}

    ProcessCommands("/proc", "/nonexistent").add_to(document(process))

    assert process == {"pid": running.pid, "name": "trainer"}


def test_a_process_that_is_gone_has_none(tmp_path: Path) -> None:
    process = {"pid": 7, "name": "x"}

    ProcessCommands(str(tmp_path), "/nonexistent").add_to(document(process))

    assert process == {"pid": 7, "name": "x"}


def test_a_long_command_is_cut(tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "comm").write_text("x\n")
    (tmp_path / "7" / "cmdline").write_text("y" * 10 * LONGEST_COMMAND)
    process = {"pid": 7, "name": "x"}

    ProcessCommands(str(tmp_path), "/nonexistent").add_to(document(process))

    assert len(str(process["command"])) == LONGEST_COMMAND
