"""``top`` on a real terminal."""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

PATIENCE_S = 60.0
LEFT_ALTERNATE_SCREEN = b"\x1b[?1049l"


class Screen:
    """A pseudo-terminal and what was written to it."""

    def __init__(self, controller: int, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.said = b""
        self._controller = controller

    def read_until(self, words: bytes) -> None:
        """Read on until these words are there."""
        ends = time.monotonic() + PATIENCE_S
        while words not in self.said and time.monotonic() < ends:
            if select.select([self._controller], [], [], 1.0)[0]:
                try:
                    self.said += os.read(self._controller, 65536)
                except OSError:  # the other side is closed
                    break
        assert words in self.said, self.said[-2000:]

    def lines(self) -> list[str]:
        """All that it wrote until it ended, without colours and what was overwritten."""
        ends = time.monotonic() + PATIENCE_S
        while time.monotonic() < ends:
            if select.select([self._controller], [], [], 1.0)[0]:
                try:
                    self.said += os.read(self._controller, 65536)
                except OSError:  # the other side is closed
                    break
        plain = re.sub(rb"\x1b\[[0-9;]*[mK]", b"", self.said).decode()
        return [line.rpartition("\r")[2] for line in plain.split("\r\n")]

    def press(self, key: bytes) -> None:
        """Type."""
        os.write(self._controller, key)


@contextmanager
def terminal(*command: str, columns: int = 80, rows: int = 24) -> Iterator[Screen]:
    controller, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    # the size is the terminal's: a worker of pytest-xdist has another in its environment
    inherited = {k: v for k, v in os.environ.items() if k not in {"COLUMNS", "LINES"}}
    environ = {**inherited, "TERM": "xterm-256color"}
    process = subprocess.Popen(
        [sys.executable, "-m", "exporter", *command],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        env=environ,
        start_new_session=True,
    )
    os.close(terminal)
    try:
        yield Screen(controller, process)
    finally:
        process.kill()
        process.wait()
        os.close(controller)


def test_top_shows_pods_until_it_is_told_to_quit() -> None:
    with terminal("top", "--simulate=demo", "--collection.interval=200ms") as screen:
        screen.read_until(b"SIMULATED")
        screen.read_until(b"inference/")
        screen.press(b"c")
        screen.read_until(b"by core")
        screen.press(b"q")
        screen.read_until(LEFT_ALTERNATE_SCREEN)
        assert screen.process.wait(60) == 0

    assert b"Traceback" not in screen.said
    assert b"level=" not in screen.said


@pytest.mark.slow
@pytest.mark.parametrize("before", [b"", b"/"])
def test_ctrl_c_ends_top_also_while_a_filter_is_typed(before: bytes) -> None:
    with terminal("top", "--simulate=demo", "--collection.interval=200ms") as screen:
        screen.read_until(b"inference/")
        screen.press(before + b"\x03")
        screen.read_until(LEFT_ALTERNATE_SCREEN)
        assert screen.process.wait(60) == 0

    assert b"Traceback" not in screen.said


def test_snapshot_fits_the_terminal_and_is_coloured() -> None:
    with terminal("top", "--once", "--simulate=single", "--duration=1s", columns=60) as screen:
        screen.read_until(b"looking at this node")
        screen.read_until(b"\x1b[1m")
        assert screen.process.wait(60) in {0, 1}
        screen.read_until(b"\x1b[0m\r\n")

    plain = re.sub(rb"\x1b\[[0-9;]*[mK]|\r", b"", screen.said).decode()
    table = plain[plain.index("GPU / POD") :].splitlines()
    assert max(map(len, table)) <= 60


def test_top_prints_a_table_once_where_it_is_asked_for() -> None:
    with terminal("top", "--simulate=single", "--once") as screen:
        screen.read_until(b"GPU / POD")
        assert screen.process.wait(60) == 0

    assert LEFT_ALTERNATE_SCREEN not in screen.said


@pytest.mark.slow
def test_top_without_a_terminal_prints_a_table_once() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "exporter", "top", "--simulate=single"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert "SIMULATED: nothing here is measured" in done.stdout
    assert "\n▾ 0 " in done.stdout


def test_without_the_extra_one_sentence_says_what_to_install() -> None:
    hide = (
        "import sys; sys.modules['textual'] = None\n"
        "sys.stdin.isatty = sys.stdout.isatty = lambda: True\n"
        "from exporter.cli import main; sys.exit(main(['top', '--simulate=demo']))"
    )

    done = subprocess.run(
        [sys.executable, "-c", hide], capture_output=True, text=True, timeout=60, check=False
    )

    assert (done.returncode, done.stdout) == (2, "")
    assert f"{sys.executable} -m pip install textual;" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.slow
def test_no_other_command_imports_the_extra() -> None:
    look = (
        "import sys; from exporter.cli import main\n"
        "main(['snapshot', '--simulate=single', '--duration=1s'])\n"
        "sys.exit(bool({'textual', 'rich'} & sys.modules.keys()))"
    )

    subprocess.run([sys.executable, "-c", look], capture_output=True, timeout=60, check=True)
