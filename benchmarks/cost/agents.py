"""The programs that are compared, and how each is started on the node."""

import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from benchmarks.cost.compiled import CACHE
from benchmarks.cost.documents import NODE
from benchmarks.cost.meter import Meter
from benchmarks.cost.node import Node

PATIENCE_S = 120.0
NVITOP = "1.7.2"


@dataclass(frozen=True, slots=True)
class Agent:
    """``cycle_s`` None: it collects at each scrape. ``command`` gives None where it cannot run."""

    name: str
    command: Callable[[Node, int], list[str] | None]
    ready: str = "/metrics"
    cycle_s: float | None = None
    watches: bool = False  # pods


def ours(node: Node, port: int, *more: str) -> list[str]:
    """This exporter as it is by default, with the pod watch."""
    return [
        sys.executable,
        *("-m", "exporter", "serve", f"--web.listen-address=127.0.0.1:{port}"),
        *(f"--nvml.library={node.nvml}", f"--kubeconfig={node.kubeconfig}", f"--node.name={NODE}"),
        *(
            f"--path.cgroup={node.crowd.mount}",
            "--gpus.source=nvml",
            "--pods.source=api",
            "--web.max-requests=100",
            *more,
        ),
    ]


def _without_pods(node: Node, port: int) -> list[str]:
    return ours(node, port, "--pods.source=none")


def _nvitop(_: Node, port: int) -> list[str] | None:
    """From PyPI, into an environment of its own."""
    folder = CACHE / f"nvitop-exporter-{NVITOP}"
    program = folder / "bin" / "nvitop-exporter"
    if not program.exists():
        uv = Path(sys.executable).with_name("uv")
        subprocess.run([uv, "venv", "--quiet", "--clear", "--seed", folder], check=True)
        wanted = f"nvitop-exporter=={NVITOP}"
        subprocess.run([folder / "bin" / "pip", "install", "--quiet", wanted], check=True)
    return [str(program), "--bind-address=127.0.0.1", f"--port={port}", "--interval=1"]


def _node_exporter(_: Node, port: int) -> list[str] | None:
    """Debian's prometheus-node-exporter, as it comes; it is not installed but unpacked."""
    program = shutil.which("prometheus-node-exporter") or _unpacked("prometheus-node-exporter")
    return [program, f"--web.listen-address=127.0.0.1:{port}", "--log.level=error"]


def _unpacked(package: str) -> str:
    folder = CACHE / package
    if not folder.exists():
        folder.mkdir(parents=True)
        subprocess.run(["apt-get", "download", "-qq", package], cwd=folder, check=True)
        (archive,) = folder.glob("*.deb")
        subprocess.run(["dpkg", "-x", archive, folder], check=True)
    return str(folder / "usr/bin" / package)


OURS = Agent("this exporter", ours, "/-/ready", 1.0, watches=True)
WITHOUT_PODS = Agent("this exporter, no pod watch", _without_pods, "/-/ready", 1.0)
AGENTS = (
    OURS,
    WITHOUT_PODS,
    Agent("nvitop-exporter", _nvitop, cycle_s=1.0),
    Agent("node_exporter", _node_exporter),
)


class Running:
    """An agent that runs: ``with Running(agent, node) as running:``."""

    def __init__(self, agent: Agent, node: Node, *more: str) -> None:
        self.agent = agent
        self.port = free_port()
        command = agent.command(node, self.port)
        if command is None:
            raise FileNotFoundError(agent.name)
        driver = node.folder / f"driver-{self.port}"
        self._log = (node.folder / f"log-{self.port}").open("w+")
        environment = node.environment({"FAKENVML_CPU": str(driver)})
        begun = time.monotonic()
        self.process = subprocess.Popen(
            [*command, *more], stdout=self._log, stderr=subprocess.STDOUT, env=environment
        )
        self.meter = Meter(self.process.pid, driver)
        try:
            self._wait()
        except BaseException:
            self.__exit__()
            raise
        self.start_s = time.monotonic() - begun
        self.start_cpu_ms = self.meter.used().own / 1e6

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> bytes:
        """The body of an answer, as it came; OSError if it is not a good one."""
        url = f"http://127.0.0.1:{self.port}{path}"
        request = urllib.request.Request(url, headers=dict(headers or {}))
        with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310 - loopback
            return bytes(answer.read())

    def wait_for(self, words: bytes) -> None:
        """Wait until these stand on its page."""
        deadline = time.monotonic() + PATIENCE_S
        while words not in self.get("/metrics"):
            if time.monotonic() > deadline:
                raise SystemExit(f"{self.agent.name} never showed {words!r}:\n{self._said()}")
            time.sleep(0.2)

    def _wait(self) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                self.get(self.agent.ready)
            except (urllib.error.URLError, OSError):
                if self.process.poll() is not None or time.monotonic() > deadline:
                    raise SystemExit(f"{self.agent.name} did not start:\n{self._said()}") from None
                time.sleep(0.005)
            else:
                return

    def _said(self) -> str:
        self._log.seek(0)
        return self._log.read()[-4000:]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        self._log.close()


def free_port() -> int:
    """A port of the loopback interface that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
