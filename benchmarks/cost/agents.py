"""The programs that are compared, and how each is started on the node."""

import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Self

from benchmarks.cost import peers
from benchmarks.cost.documents import NODE
from benchmarks.cost.meter import Meter
from benchmarks.cost.node import Node
from exporter.agent.commands import garbage

PATIENCE_S = 120.0
FIRST = ("nice", "-n", "-10")  # so that other work on the machine is not measured
# The client of Kubernetes imports this package of the tests where it is there: 4 MiB.
AS_IN_THE_IMAGE = """
import runpy, sys
sys.modules["kubernetes_validate"] = None
runpy.run_module("exporter", run_name="__main__", alter_sys=True)
"""


@dataclass(frozen=True, slots=True)
class Agent:
    """``collects``: in cycles of a second, else at each scrape. ``watches`` the API server.

    ``settled_s``: so long after its start it has done what it does once.
    """

    name: str
    command: Callable[[Node, int], list[str]]
    ready: str = "/metrics"
    collects: bool = True
    watches: bool = False
    settled_s: float = 0.0


def _with_pods(node: Node, port: int) -> list[str]:
    return _ours(node, port, "--pods.source=api", f"--kubeconfig={node.kubeconfig}")


def _without_pods(node: Node, port: int) -> list[str]:
    return _ours(node, port, "--pods.source=none")


def _ours(node: Node, port: int, *more: str) -> list[str]:
    return [
        *(sys.executable, "-c", AS_IN_THE_IMAGE, "serve"),
        f"--web.listen-address=127.0.0.1:{port}",
        *("--gpus.source=nvml", f"--nvml.library={node.nvml}", f"--node.name={NODE}"),
        f"--path.cgroup={node.crowd.root}",  # others' cgroups come and go on this machine
        *more,
    ]


def _nvitop(_: Node, port: int) -> list[str]:
    return [
        str(peers.nvitop_exporter()),
        *("--bind-address=127.0.0.1", f"--port={port}", "--interval=1"),
    ]


def _node_exporter(_: Node, port: int) -> list[str]:
    program = str(peers.node_exporter())
    return [program, f"--web.listen-address=127.0.0.1:{port}", "--log.level=error"]


_SETTLED_S = garbage.STARTED_S + 2
OURS = Agent("this exporter", _with_pods, "/-/ready", watches=True, settled_s=_SETTLED_S)
WITHOUT_PODS = Agent("this exporter, no pod watch", _without_pods, "/-/ready", settled_s=_SETTLED_S)
AGENTS = (
    OURS,
    WITHOUT_PODS,
    Agent("nvitop-exporter", _nvitop),
    Agent("node_exporter", _node_exporter, collects=False),
)


class Running:
    """An agent that runs: ``with Running(agent, node) as running:``."""

    def __init__(self, agent: Agent, node: Node, *more: str) -> None:
        self.agent = agent
        self.port = free_port()
        command = agent.command(node, self.port)
        driver = node.folder / f"driver-{self.port}"
        self._log = (node.folder / f"log-{self.port}").open("w+")
        environment = node.environment({"FAKENVML_CPU": str(driver)})
        self.begun = time.monotonic()
        self.process = subprocess.Popen(
            [*FIRST, *command, *more], stdout=self._log, stderr=subprocess.STDOUT, env=environment
        )
        self.meter = Meter(self.process.pid, driver)
        try:
            self._wait()
        except BaseException:
            self.__exit__()
            raise
        self.start_s = time.monotonic() - self.begun
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
