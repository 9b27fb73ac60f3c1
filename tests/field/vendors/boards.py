"""A node in a directory with AMD's and Intel's boards, as their kernel drivers show them."""

from pathlib import Path

from tests.agent.sources.cgroups.names import container_path
from tests.agent.sources.gpus.amd.trees import Board, Tree
from tests.agent.sources.gpus.drm.machine import Machine
from tests.agent.sources.pods.documents import pod_document
from tests.field.nodes import FieldNode

GIB = 1 << 30
CORE = "mgpu_container_core_seconds_total"
BUSY = "mgpu_device_busy_seconds_total"
JOULES = "mgpu_device_energy_joules_total"
MEMORY = "mgpu_container_memory_used_bytes"
UNATTRIBUTED = "mgpu_device_unattributed_core_seconds_total"


class VendorNode(FieldNode):
    """``node.tree`` takes AMD's boards, ``node.machine`` cards of any DRM driver."""

    def __init__(self, folder: Path, **settings: str) -> None:
        rhythm = {"collection_processes-interval": "1s", "collection_sensors-interval": "1s"}
        super().__init__(folder, **{**rhythm, **settings})  # type: ignore[arg-type]
        self.machine = Machine(folder)
        self.tree = Tree(self.sys)
        self.tree.load()

    def tenant(self, name: str, limits: dict[str, str] | None = None) -> int:
        """A pod with one process, whose pid is returned."""
        return self.process(self.home(name, limits))

    def home(self, name: str, limits: dict[str, str] | None = None) -> str:
        """A pod without a process yet: the cgroup of its container."""
        document = pod_document(name, limits=limits)
        self.pod(document)
        status = document["status"]["containerStatuses"][0]["containerID"]
        return container_path(
            "systemd", document["metadata"]["uid"], status.removeprefix("containerd://")
        )

    def process(self, cgroup: str, uid: int = 0, pid: int | None = None, start: int = 1000) -> int:
        """A process in a cgroup, without a descriptor yet."""
        pid = next(self._pids) if pid is None else pid
        self._put_cgroup(cgroup, pid)
        self.proc.put(pid, f"/{cgroup}", start=start, uid=uid)
        for name in ("fd", "fdinfo"):
            (self.proc.root / str(pid) / name).mkdir()
        return pid

    def client(
        self, pid: int, board: Board, number: int = 1, vram: int = 0, gtt: int = 0, **ns: int
    ) -> None:
        """A DRM client of amdgpu, whose engines have been busy for so long."""
        told = "".join(f"drm-engine-{name}:\t{used} ns\n" for name, used in ns.items())
        self.machine.open(
            *(pid, 4 + number),
            f"drm-driver:\tamdgpu\ndrm-client-id:\t{number}\ndrm-pdev:\t{board.pci}\n"
            f"drm-memory-vram:\t{vram >> 10} KiB\ndrm-memory-gtt: \t{gtt >> 10} KiB\n{told}",
            board.render,
        )
