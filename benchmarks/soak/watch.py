"""The process under the soak: started, asked, disturbed, and looked at from outside."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Self

from benchmarks.soak.judge import Look
from tests.e2e.programs import Page, eventually

ADDRESS = re.compile(r"listening on http://([0-9.:]+)")
SETTINGS = ("metrics.disable: [pcie]\n", "metrics.disable: []\n", "collection.window: 20s\n")
PATHS = ("/", "/api/v1/snapshot", "/api/v1/history", "/-/healthy", "/metrics?name[]=mgpu_pod_info")


class Exporter:
    """``serve`` on the node of ``benchmarks.soak.node``, at some speed."""

    def __init__(self, speed: float, folder: Path, *flags: str) -> None:
        self._settings = folder / "settings.yaml"
        self._log = folder / "log"
        self.turn(0)
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "benchmarks.soak.child", str(speed)),
                    "--web.listen-address=127.0.0.1:0",
                    "--web.open-page=true",
                    "--ledger.retention=1m",
                    f"--config.file={self._settings}",
                    *flags,
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        said = eventually(lambda: ADDRESS.search(self.log), "listening")
        self.address = said[1]
        eventually(lambda: self.get("/-/ready")[0] == 200, "ready")

    @property
    def log(self) -> str:
        """What it has logged."""
        return self._log.read_text(encoding="utf-8")

    def get(self, path: str, **headers: str) -> tuple[int, bytes]:
        """One request; 0 where it was not answered."""
        request = urllib.request.Request(f"http://{self.address}{path}", headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:  # noqa: S310 - loopback
                return answer.status, answer.read()
        except OSError:
            return 0, b""

    def page(self) -> Page:
        """A scrape."""
        status, body = self.get("/metrics")
        assert status == 200, self.log[-2000:]
        return Page(body.decode())

    def disturb(self, turn: int) -> None:
        """Ask for other pages, hang up in the middle of one, and change the settings."""
        self.get(PATHS[turn % len(PATHS)], **{"Accept-Encoding": "gzip"})
        host, _, port = self.address.partition(":")
        with socket.create_connection((host, int(port)), 5) as caller:
            caller.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"[: None if turn % 2 else 9])
        if turn % 20 == 0:
            self.turn(turn // 20)
            self.process.send_signal(signal.SIGHUP)

    def turn(self, turn: int) -> None:
        """Write the next settings."""
        self._settings.write_text(SETTINGS[turn % len(SETTINGS)])

    def look(self, minute: float, page: Page) -> Look:
        """Its figures now."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("look\n")
        self.process.stdin.flush()
        told = json.loads(self.process.stdout.readline())
        proc = Path("/proc", str(self.process.pid))
        pages = int(proc.joinpath("statm").read_text().split()[1])
        lines = page.text.splitlines()
        return Look(
            minute,
            rss=pages * os.sysconf("SC_PAGE_SIZE"),
            fds=len(list(proc.joinpath("fd").iterdir())),
            threads=len(list(proc.joinpath("task").iterdir())),
            blocks=told["blocks"],
            objects=told["objects"],
            series=sum(not line.startswith("#") for line in lines),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.communicate(timeout=20)
