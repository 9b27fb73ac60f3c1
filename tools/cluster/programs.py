"""Long-running programs as children: started, watched, stopped, each with a log of its own."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

PATIENCE_S = 180.0  # the machine may have other work; what is awaited takes seconds
_GRACE_S = 20.0


def eventually(ask: Callable[[], T | None], what: str, patience_s: float = PATIENCE_S) -> T:
    """Ask again and again until the answer is something true.

    Raises:
        AssertionError: it was not within the patience.

    """
    deadline = time.monotonic() + patience_s
    while True:
        answer = ask()
        if answer:
            return answer
        assert time.monotonic() < deadline, f"not within {patience_s:.0f} s: {what}"
        time.sleep(0.2)  # another process's state has no event to wait for


def tail(log: Path, lines: int = 40) -> str:
    """The end of a log."""
    text = log.read_text(errors="replace") if log.exists() else ""
    return "\n".join(text.splitlines()[-lines:])


class Program:
    """A program that runs until it is stopped; it can be started again."""

    def __init__(
        self,
        name: str,
        command: list[str],
        logs: Path,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.log = logs / f"{name}.log"
        self._command = command
        self._environment = {**os.environ, **(environment or {})}
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; its output is appended to its log."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._environment,
                start_new_session=True,
            )

    def reload(self) -> None:
        """Let it read again what it reads at SIGHUP."""
        if self._process is not None:
            self._process.send_signal(signal.SIGHUP)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """End it; after a while by force."""
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)
        try:
            self._process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def check(self) -> None:
        """Fail, with the end of its log, if it has ended by itself."""
        if self._process is not None and self._process.poll() is not None:
            raise AssertionError(
                f"{self.name} ended with {self._process.returncode}:\n{tail(self.log)}"
            )
