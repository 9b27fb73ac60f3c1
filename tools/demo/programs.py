"""Programs that are started, watched and ended together, and the ports that they get."""

import socket
import subprocess
import threading
from collections.abc import Sequence
from typing import Self

LAST_LINES = 20
END_S = 15


class Program:
    """A program with its log. In a session of its own: Ctrl-C at the terminal is for us."""

    def __init__(self, name: str, command: Sequence[str], ready: str = "") -> None:
        self.name = name
        self.lines: list[str] = []
        self.ready = threading.Event()
        self._words = ready
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> Self:
        self._reader.start()
        return self

    def _read(self) -> None:
        assert self.process.stdout is not None  # noqa: S101 - see Popen
        with self.process.stdout as output:
            for line in output:
                self.lines = [*self.lines[1 - LAST_LINES :], line]
                if self._words and self._words in line:
                    self.ready.set()
        self.ready.set()  # it ended: nobody waits for it any longer

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        try:
            self.process.wait(END_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._reader.join()


def are_ready(programs: Sequence[Program], ended: threading.Event) -> bool:
    """Wait until each has said that it is ready, or has ended; False if the user ended it first."""
    for one in programs:
        while not one.ready.wait(0.1):
            if ended.is_set():
                return False
    return True


def free_port(wanted: int) -> int:
    """The port if nobody has it, else another."""
    for port in (wanted, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise OSError("no port of 127.0.0.1 is free")
