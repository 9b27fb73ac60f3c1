"""Small nodes of each vendor, with a truth that goes on by a second at a time.

On each: pods ``victim`` and ``near`` on card A, ``far`` on card B where there is one, and ``late``,
whose process begins ``LATE_S`` after the start, on the same card as ``far``.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path

from exporter.agent.sources.groups.groupowners import GroupUsers
from exporter.model import Reading
from tests.agent.sources.gpus.amd.trees import MI300X, STRIX_HALO, TICKS, Kind, v1_6, v1_9
from tests.agent.sources.gpus.drm.machine import i915
from tests.agent.sources.node.messages import claim, container, devices
from tests.agent.sources.node.messages import pod as held
from tests.agent.sources.pods.devices import claim_document, result, slice_document
from tests.doors.servers import (
    API,
    CONTENTS,
    JSONS,
    KUBELET,
    FaultyApi,
    FaultyKubelet,
    sources,
)
from tests.fakenvml.scenario import Fault as NvmlFault
from tests.fakenvml.scenario import Gpu, Instance
from tests.field.nodes import FieldNode
from tests.field.pods import FieldPod
from tests.field.vendors.boards import GIB, VendorNode
from tests.field.vendors.test_intel import xe

LATE_S = 8
WINDOW = "6s"  # so far averages go back, and so long a gap withholds what it is in
MS = 10**6
PCI = ("0000:03:00.0", "0000:04:00.0")
DRIVER = {  # what NVML answers, by its codes
    "absent": 3,
    "refused": 4,
    "not found": 6,
    "lost": 15,
    "in use": 19,
    "uninitialized": 1,
    "failed": 999,
}
CALLS = {
    "nvml": tuple(DRIVER),
    "kubelet": (*KUBELET, *CONTENTS),
    "api": (*API, *JSONS),
    "pods": ("twice", "listed anew", "gone and back", "fails"),  # the watch of pods
    "boards": ("numbered anew",),
}
CORES = {"victim": 500, "near": 200, "far": 400, "late": 300}  # in a thousand


class Node:
    """``tick`` makes the files of the next second. ``first``: parts of paths that are card A's."""

    first: tuple[str, ...] = ()
    uuid_a, uuid_b = "", ""

    def __init__(self, node: FieldNode) -> None:
        self.node = node
        self.second = 0
        self.pids: dict[str, int] = {}

    def tick(self) -> None:
        self.second += 1
        if self.second == 1:
            self.node.collector = self.node._collector()
            for name in ("victim", "near", "far"):
                self.begin(name)
        if self.second == LATE_S:
            self.begin("late")
        self.work()

    def begin(self, name: str) -> None:
        raise NotImplementedError

    def fail(self, function: str = "", answer: str = "") -> None:
        """Let this function of the driver, or call of another program, answer so; or none."""
        self.node.pods.fail(answer if function == "pods.watch" else "")

    @property
    def functions(self) -> Collection[str]:
        """The functions and calls that were asked for so far."""
        return {"pods.watch"}

    def work(self) -> None:
        """Let the counters go on."""

    def worked(self, name: str) -> int:
        """Milliseconds that a pod's process has worked so far."""
        since = LATE_S - 1 if name == "late" else 0
        return CORES[name] * max(self.second - since, 0)


class Amd(Node):
    """Two boards of one kind, or one in partitions."""

    def __init__(self, folder: Path, kind: Kind, parts: int = 1, **more: object) -> None:
        self.vendor = VendorNode(folder, collection_window=WINDOW, **more)  # type: ignore[arg-type]
        super().__init__(self.vendor)
        boards = [self.vendor.tree.add(kind, parts) for _ in range(1 if parts > 1 else 2)]
        self.kind, self.parts, self.boards = kind, parts, boards
        self.of = {
            name: (boards[0], boards[0].gpu_ids[0])
            if name in {"victim", "near"}
            else (boards[-1], boards[-1].gpu_ids[-1])
            for name in CORES
        }
        first = boards[0]
        if parts == 1:
            self.uuid_a, self.uuid_b = first.uuid, boards[1].uuid
            self.first = (first.pci, "card1", f"vram_{first.gpu_ids[0]}")
        self.work()

    def begin(self, name: str) -> None:
        self.pids[name] = pid = self.tenant(name)
        if self.kind.occupancy:  # else nothing says how much it computes
            self.vendor.tree.run(pid)

    def tenant(self, name: str) -> int:
        return self.vendor.tenant(name, {"amd.com/gpu": "1"})

    def work(self) -> None:
        up_s = 1000 + self.vendor.clock.monotonic_ns() / 10**9
        (self.vendor.proc.root / "uptime").write_text(f"{up_s:.2f} 0.00\n")
        for name, pid in self.pids.items():
            board, gpu_id = self.of[name]
            cus = CORES[name] * self.kind.cus // self.parts // 1000
            known = {"gfx": self.worked(name) * MS, "gtt": GIB}
            if self.kind.occupancy:
                known = {}
                self.vendor.tree.use(pid, gpu_id, vram=8 * GIB, cus=cus)
                self.vendor.tree.count(pid, gpu_id, self.worked(name) * 100)
            if self.parts == 1:
                self.vendor.client(pid, board, 1 + list(CORES).index(name), vram=GIB, **known)
        for number, board in enumerate(self.boards):
            busy = [self.percent({"victim", "near"}), self.percent({"far", "late"})]
            # Unknown memory in use would have the sum of its processes in its place.
            own = 20 * GIB if self.kind.bank is None else GIB // 10  # a chip has the rest in GTT
            board.set(gpu_busy_percent=busy[number], mem_info_vram_used=own)
            board.set(mem_info_gtt_used=20 * GIB - own)
            ticks, cycles = self.second * 100 * TICKS, self.second * 1000
            if self.parts > 1:
                dies = [percent for percent in busy for _ in range(4)]
                board.metrics(v1_9(ticks, dies, cycles, 0))
            elif self.kind.table:
                board.metrics(v1_6(ticks, [[busy[number]] * 8], cycles, 0))

    def percent(self, names: set[str]) -> int:
        return sum(CORES[name] for name in self.pids.keys() & names) // 10


class Slurm(Amd):
    """Two boards whose tenants are jobs of users."""

    def __init__(self, folder: Path) -> None:
        passwd = folder / "passwd"
        passwd.write_text("".join(f"{name}:x:{1000 + n}::/:\n" for n, name in enumerate(CORES)))
        super().__init__(folder, MI300X)
        node = self.vendor
        users = GroupUsers(str(passwd), str(node.proc.root), node.clock, accounts=True)
        node._groups = (users,)

    def tenant(self, name: str) -> int:
        number = list(CORES).index(name)
        job = f"system.slice/slurmstepd.scope/job_{12 + number}/step_0/user/task_0"
        pid = self.vendor.process(job, uid=1000 + number)
        environ = self.vendor.proc.root / str(pid) / "environ"
        environ.write_bytes(f"A=1\0SLURM_JOB_ACCOUNT=of-{name}\0".encode())
        return pid


class Intel(Node):
    """Two discrete cards of i915 or xe."""

    def __init__(self, folder: Path, driver: str) -> None:
        self.vendor = VendorNode(folder, collection_window=WINDOW)
        super().__init__(self.vendor)
        self.driver = driver
        self.vendor.document["status"] = {"allocatable": {f"gpu.intel.com/{driver}": "8"}}
        self.cards = [
            self.vendor.machine.card(number, driver, pci, files=self.sensors())
            for number, pci in enumerate(PCI)
        ]
        self.uuid_a, self.uuid_b = (f"DRM-{pci}" for pci in PCI)
        self.first = (PCI[0], "card0", "renderD128")

    def begin(self, name: str) -> None:
        self.pids[name] = self.vendor.tenant(name, {f"gpu.intel.com/{self.driver}": "1"})

    def sensors(self) -> dict[str, str]:
        return {
            "hwmon/hwmon7/name": self.driver,
            "hwmon/hwmon7/energy1_input": str(self.second * 60 * 10**6),
            "hwmon/hwmon7/power1_max": "190000000",
            "tile0/physical_vram_size_bytes": str(12 * GIB),
        }

    def work(self) -> None:
        for card in self.cards:
            self.vendor.machine.write(card, self.sensors())
        for number, (name, pid) in enumerate(self.pids.items(), 1):
            at = int(name in {"far", "late"})
            ms = self.worked(name)
            if self.driver == "i915":
                told = i915(number, compute=4 * ms * MS, local_mib=1024, pdev=PCI[at])
            else:
                total = 19_200 * 1000 * self.second
                told = xe(number, total, PCI[at], ccs=19_200 * ms, resident_vram0="1024 MiB")
            self.vendor.machine.open(pid, 5, told, f"renderD{128 + at}")


class Nvidia(Node):
    """Two boards, one in instances, or one whose clients are MPS's."""

    def __init__(self, folder: Path, sharing: str = "") -> None:
        gpus = [Gpu(0, mig=sharing == "mig" or None), Gpu(1)]
        labels = {"nvidia.com/gpu.replicas": "4"}
        super().__init__(FieldNode(folder, *gpus, labels=labels, collection_window=WINDOW))
        self.node.document["status"] = {"allocatable": {"nvidia.com/gpu": "8"}}
        self.sharing = sharing
        self.uuid_a, self.uuid_b = "GPU-0", "GPU-1"
        if sharing == "mig":
            self.node.driver.instances = [Instance(0, 0, slices=3), Instance(0, 1, slices=2)]
            self.uuid_a = "MIG-0-0"

        self._calls: set[str] = set()
        self._is_swapped = False
        read = self.node._nvml.read

        def counted(**after: float) -> Reading:
            reading = read(**after)
            self._calls |= reading.calls.keys()
            return reading

        self.node._nvml.read = counted  # type: ignore[method-assign]

    def fail(self, function: str = "", answer: str = "") -> None:
        super().fail(function, answer)
        program, _, name = function.partition(".")
        self._number(swapped=program == "boards")
        self.node.driver.faults = (
            [NvmlFault("error", name, code=DRIVER[answer])] if program == "nvml" else []
        )

    def _number(self, *, swapped: bool) -> None:
        """Let both boards have each other's number in the driver, or their own."""
        if swapped == self._is_swapped:
            return
        self._is_swapped, driver = swapped, self.node.driver
        driver.gpus = [
            replace(gpu, index=1 - gpu.index, uuid=gpu.uuid or f"GPU-{gpu.index}")
            for gpu in reversed(driver.gpus)
        ]
        driver.processes = [replace(each, gpu=1 - each.gpu) for each in driver.processes]
        driver.works = [replace(each, gpu=1 - each.gpu) for each in driver.works]

    @property
    def functions(self) -> Collection[str]:
        boards = set() if self.sharing else {"boards.order"}
        return {*boards, *super().functions, *(f"nvml.{name}" for name in self._calls)}

    def pod(self, name: str) -> FieldPod:
        return FieldPod(name, {"main": {"nvidia.com/gpu": "1"}})

    def begin(self, name: str) -> None:
        one = self.pod(name)
        self.node.pod(one.document())
        at = int(name in {"far", "late"})
        more: dict[str, object] = {}
        if self.sharing == "mig" and not at:
            more["instance"] = int(name == "near")
        if self.sharing == "mps" and not at:
            more["kind"] = "mps"
        duty, period = CORES[name] / 1000, 0.53
        self.pids[name] = self.node.start(
            one.cgroup(),
            at ^ self._is_swapped,
            duty=duty,
            period=period,
            **more,  # type: ignore[arg-type]
        )


class Served(Nvidia):
    """A node whose kubelet and API server are asked."""

    calls: tuple[str, ...] = ("kubelet.List",)

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.kubelet = self.node.kubelet = FaultyKubelet()
        self.node.facts = sources

    def fail(self, function: str = "", answer: str = "") -> None:
        super().fail(function, answer)
        program, _, name = function.partition(".")
        self.kubelet.fault = answer if program == "kubelet" else ""
        FaultyApi.fault = (name, answer) if program == "api" else ("", "")

    @property
    def functions(self) -> Collection[str]:
        return {"pods.watch", *self.calls}  # the driver's are those of the other nodes


class Plugin(Served):
    """Pods whose cards the kubelet names."""

    def begin(self, name: str) -> None:
        super().begin(name)
        cards = {"victim": "GPU-0::0", "near": "GPU-0::1", "far": "GPU-1::0", "late": "GPU-1::1"}
        self.node.kubelet.answer = b"".join(
            held(pod, container("main", devices("nvidia.com/gpu", cards[pod]))) for pod in self.pids
        )


class Claimed(Served):
    """Pods whose cards are those of claims."""

    calls = (
        "kubelet.List",
        "api.resourceclaims/victim",
        "api.resourceclaims",
        "api.resourceslices",
    )

    def pod(self, name: str) -> FieldPod:
        return FieldPod(name, {"main": {}}, claims={"main": [name]})

    def begin(self, name: str) -> None:
        super().begin(name)
        at = int(name in {"far", "late"})
        self.node.slices = [slice_document({"gpu-0": "GPU-0", "gpu-1": "GPU-1"})]
        self.node.claims["ml", name] = claim_document(result(f"gpu-{at}"))
        self.node.kubelet.answer = b"".join(
            held(pod, container("main", claim(pod, f"gpu-{int(pod in {'far', 'late'})}")))
            for pod in self.pids
        )


class Annotated(Nvidia):
    """Pods whose cards annotations name."""

    def pod(self, name: str) -> FieldPod:
        at = int(name in {"far", "late"})
        return FieldPod(
            name,
            {"main": {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "4096"}},
            annotations={
                "hami.io/vgpu-devices-allocated": f"GPU-{at},NVIDIA,4096,{CORES[name] // 10}:;"
            },
        )


NODES: Mapping[str, Callable[[Path], Node]] = {
    "amd": lambda folder: Amd(folder, MI300X),
    "amd-apu": lambda folder: Amd(folder, STRIX_HALO),
    "amd-partitions": lambda folder: Amd(folder, MI300X, parts=2),
    "i915": lambda folder: Intel(folder, "i915"),
    "xe": lambda folder: Intel(folder, "xe"),
    "slurm": Slurm,
    "nvidia": Nvidia,
    "mig": lambda folder: Nvidia(folder, "mig"),
    "mps": lambda folder: Nvidia(folder, "mps"),
    "plugin": Plugin,
    "claims": Claimed,
    "annotations": Annotated,
}
