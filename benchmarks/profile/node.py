"""A full node: GPUs with many processes, real cgroups that hold them, an API server with its pods.

The GPUs are tests/fakenvml; pods are as large as real ones, which are mostly managedFields.
"""

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.cgroups.names import container_path, new_container_id, new_uid
from tests.cgroups.real import RealCgroups, mounted, real_cgroups
from tests.fakenvml.build import library
from tests.fakenvml.scenario import GIB, Gpu, Process, Scenario, Work
from tests.pods.apiserver import ApiServer, write_kubeconfig
from tests.pods.documents import Document, node_document, pod_document

NAME, NAMESPACE = "node-1", "machine-learning"
CONTAINERS_OF_GPU = 8
IDLE = ("busybox", "sleep", "2147483647")
PADDING = 12_000  # characters: a pod of the API server has 13 KB


@dataclass(frozen=True, slots=True)
class Size:
    """How many GPUs, processes on each, and pods; those that use a GPU come first."""

    gpus: int = 8
    processes: int = 64
    pods: int = 110

    @property
    def tenants(self) -> int:
        """Pods that use a GPU: one container on one GPU each."""
        return min(self.pods, self.gpus * min(CONTAINERS_OF_GPU, self.processes))


class Node:
    """What stands around the exporter. ``flags`` are those of an exporter on it."""

    def __init__(self, folder: Path, size: Size, cgroups: RealCgroups, api: ApiServer) -> None:
        self.size, self._cgroups, self._api = size, cgroups, api
        self.scenario_file = folder / "gpus.txt"
        kubeconfig = write_kubeconfig(folder / "kubeconfig", api.url)
        self.library = library()
        self.flags = (
            f"--nvml.library={self.library}",
            f"--node.name={NAME}",
            f"--kubeconfig={kubeconfig}",
            f"--path.cgroup={cgroups.root}",  # others on this machine make cgroups too
        )
        api.set_node(node_document(NAME, {"kubernetes.io/hostname": NAME}, {}))
        containers = [new_container_id() for _ in range(size.pods)]
        uids = [new_uid() for _ in range(size.pods)]
        self._documents = [self._pod(i, uids[i], containers[i]) for i in range(size.pods)]
        for document in self._documents:
            api.add_pod(document)
        self._populate(
            [container_path("systemd", *ids) for ids in zip(uids, containers, strict=True)]
        )

    def change_pod(self, number: int) -> None:
        """Let a pod's container have been restarted; it keeps its allotment and its processes."""
        document = self._documents[number % len(self._documents)]
        [status] = document["status"]["containerStatuses"]
        before = f"containerd://{new_container_id()}"
        status["lastState"] = {"terminated": {"containerID": before}}
        self._api.modify_pod(document)

    def replace_pod(self, number: int) -> None:
        """Let a pod without a GPU go, and another come in its place."""
        self._api.add_pod(self._pod(10_000 + number, new_uid(), new_container_id()))
        if number:
            self._api.delete_pod(f"worker-{9_999 + number}", NAMESPACE)

    def _pod(self, number: int, uid: str, container_id: str) -> Document:
        on_gpu = number < self.size.tenants
        gpu = number % self.size.gpus
        document = pod_document(
            f"worker-{number}",
            namespace=NAMESPACE,
            uid=uid,
            node=NAME,
            containers={"main": container_id},
            limits={"vke.volcengine.com/mgpu-core": "10", "vke.volcengine.com/mgpu-memory": "8192"}
            if on_gpu
            else {"cpu": "1"},
            annotations={"vke.volcengine.com/gpu-index-container-main": str(gpu)} if on_gpu else {},
            labels={"app.kubernetes.io/name": "worker", "pod-template-hash": "5d4f8c7b9"},
        )
        document["metadata"]["managedFields"] = [{"f:metadata": {"f:labels": "x" * PADDING}}]
        return document

    def _populate(self, cgroups: list[str]) -> None:
        size, now = self.size, time.time()
        scenario = Scenario(gpus=[Gpu(i) for i in range(size.gpus)], loaded=now - 60)
        tenants = [cgroups[i] for i in range(size.tenants)]
        for gpu in range(size.gpus):
            homes = tenants[gpu :: size.gpus]
            for i in range(size.processes):
                pid = self._cgroups.spawn(homes[i % len(homes)], IDLE)
                scenario.processes.append(Process(gpu, pid, GIB, start=now))
                turn = 1 / size.processes  # one after the other, so that each is sampled at times
                work = Work(gpu, pid, now, None, 1.0, 0.9 * turn, i * turn, memory=0.25)
                scenario.works.append(work)
        for cgroup in cgroups[size.tenants :]:
            self._cgroups.spawn(cgroup, IDLE)
        scenario.write(self.scenario_file)


@contextlib.contextmanager
def full_node(folder: Path, size: Size) -> Iterator[Node]:
    """A node of this size; all of it goes on leaving."""
    with real_cgroups("v1" if mounted("v1") else "v2") as cgroups, ApiServer() as api:
        yield Node(folder, size, cgroups, api)
