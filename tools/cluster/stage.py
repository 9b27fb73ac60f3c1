"""All of it together: the cluster, with the exporter on it, and questions to it."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.e2e.programs import Page
from tools.cluster import board as boards
from tools.cluster.agent import NAMESPACE as AGENTS
from tools.cluster.agent import Agent
from tools.cluster.board import Board
from tools.cluster.controlplane import ControlPlane
from tools.cluster.images import busybox, pause
from tools.cluster.kubectl import Document, Kubectl
from tools.cluster.node import Node
from tools.cluster.programs import Program, eventually
from tools.cluster.workloads import NAMESPACE

EXPORTER = "exporter.tar"
PROTO = "api.proto"
DRIVER = "driver"
KINDS = "kinds"  # of the Prometheus Operator
BURST_S = 3.0
_SLACK_S = 0.5  # a sample is 1/6 s long, and a window's ends fall into one each; whole percents


@dataclass(frozen=True, slots=True)
class Running:
    """A container that runs, and its first process."""

    pod: str
    container: str
    pid: int
    namespace: str = NAMESPACE

    @property
    def labels(self) -> dict[str, str]:
        """The labels of its series."""
        return {"namespace": self.namespace, "pod": self.pod, "container": self.container}


class Stage:
    """A cluster of one node."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self.notes: list[str] = []  # printed below the table of the cases
        self.logs = state / "logs"
        self.logs.mkdir()
        self.plane = ControlPlane(state, self.logs)
        self.kubectl = Kubectl(self.plane.admin)
        self.node = Node(state, self.logs, self.plane, self.kubectl)
        self.board = Board(state / "gpus", state / DRIVER)
        self.agent = Agent(self.kubectl, self.board, "podresources")
        self.plugin = Program("device-plugin", self._plugin(), self.logs)

    def start(self) -> None:
        """Bring it up, to the point where the exporter is ready."""
        self.plane.start()
        self.node.start([pause(self.state), busybox(self.state), self.state / EXPORTER])
        self.kubectl("label", "node", self.node.name, "nvidia.com/gpu.present=true")
        self.plugin.start()
        self.kubectl("create", "namespace", NAMESPACE)
        eventually(self._has_account, "the namespace has its service account")
        self.agent.install()

    def stop(self) -> None:
        """End the programs in order. Pods end with the namespaces."""
        programs = (
            self.plugin,
            self.node.kubelet,
            self.node.containerd,
            *self.plane.programs[::-1],
        )
        for program in programs:
            program.stop()

    def log_files(self) -> list[Path]:
        """The logs of the node's programs, and of the containers that are not mere sleepers."""
        pods = self.state / "var/log/pods"
        return [*sorted(self.logs.glob("*.log")), *sorted(pods.glob(f"{AGENTS}_*/*/*.log"))]

    def run(self, document: Document) -> dict[str, Running]:
        """Apply a pod and wait until its containers run; they by name, init containers too."""
        self.kubectl.apply(document)
        name = document["metadata"]["name"]
        self.kubectl.wait(NAMESPACE, f"pod/{name}", "Ready")
        return self.running(name)

    def running(self, pod: str, namespace: str = NAMESPACE) -> dict[str, Running]:
        """The containers of a pod that run now, by name."""
        status = self.kubectl.get("pod", pod, "-n", namespace)["status"]
        kinds = ("initContainerStatuses", "containerStatuses")
        found = {}
        for each in (one for kind in kinds for one in status.get(kind, [])):
            pid = self.node.pid(each.get("containerID", "").removeprefix("containerd://"))
            if "running" in each["state"] and pid is not None:
                found[each["name"]] = Running(pod, each["name"], pid, namespace)
        return found

    def delete(self, pod: str) -> None:
        """Delete a pod and wait until it is gone."""
        self.kubectl("delete", "pod", pod, "-n", NAMESPACE, "--wait=true")

    def attributed(self, uses: Mapping[Running, int], address: str | None = None) -> None:
        """Let each container keep a GPU of its own busy for a while; see it land there, whole.

        Raises:
            AssertionError: a container's counter did not rise by its use, or more than that, or
                some of it went to nobody.

        """
        address = address or self.agent.address()
        before = self.agent.scrape(address)
        for one, gpu in uses.items():
            self.board.burst(one.pid, gpu, BURST_S)
        for one, gpu in uses.items():
            eventually(
                partial(self._has_risen, address, before, one, gpu),
                f"{one} is credited with {BURST_S} s on GPU {gpu}",
            )
        after = self.agent.scrape(address)
        for one, gpu in uses.items():
            rise = _rise(before, after, one, gpu)
            assert rise < BURST_S + _SLACK_S, (one, gpu, rise)
            lost = _lost(after, gpu) - _lost(before, gpu)
            assert lost < _SLACK_S, (one, gpu, lost)

    def allocatable(self, resource: str) -> int:
        """How much of a resource the node offers."""
        node = self.kubectl.get("node", self.node.name)
        return int(node["status"]["allocatable"].get(resource, "0"))

    def core(self, one: Running, address: str | None = None) -> float:
        """The core seconds that a container is credited with, on all GPUs."""
        name = "mgpu_container_core_seconds_total"
        return sum(value for _, value in self.agent.scrape(address).all(name, **one.labels))

    def _has_risen(self, address: str, before: Page, one: Running, gpu: int) -> bool:
        return _rise(before, self.agent.scrape(address), one, gpu) > BURST_S - _SLACK_S

    def _has_account(self) -> bool:
        found = self.kubectl.get("serviceaccounts", "-n", NAMESPACE)["items"]
        return any(one["metadata"]["name"] == "default" for one in found)

    def _plugin(self) -> list[str]:
        shared, whole = len(boards.SHARED), ",".join(boards.uuid(gpu) for gpu in boards.WHOLE)
        return [
            *(sys.executable, "-m", "tools.cluster.device_plugin", str(self.state / PROTO)),
            f"vke.volcengine.com/mgpu-core={100 * shared}",
            f"vke.volcengine.com/mgpu-memory={shared * (boards.MEMORY >> 20)}",
            f"nvidia.com/gpu={whole}",
        ]


def _rise(before: Page, after: Page, one: Running, gpu: int) -> float:
    labels = {**one.labels, "gpu": str(gpu)}
    name = "mgpu_container_core_seconds_total"
    return (after.value(name, **labels) or 0.0) - (before.value(name, **labels) or 0.0)


def _lost(page: Page, gpu: int) -> float:
    name = "mgpu_device_unattributed_core_seconds_total"
    return sum(value for _, value in page.all(name, gpu=str(gpu)))
