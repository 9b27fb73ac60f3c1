"""Each reason of the closed lists, produced by what it stands for and seen in a Snapshot.

A reason that nothing here produces fails: it would be a word without a meaning.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from exporter.agent.allocations.reader import PodReader
from exporter.agent.allocations.room import MAX_OF_POD
from exporter.agent.allocations.rules import Rules
from exporter.agent.allocations.scheme import Scheme
from exporter.agent.collector import Collector, CycleRules, Sources
from exporter.agent.ledger import Ledger
from exporter.agent.sources.cgroups.processcontainers import CgroupProcesses
from exporter.agent.sources.cgroups.processsource import ProcessSource
from exporter.agent.sources.gpus.amd.amdsource import AmdSource
from exporter.model import (
    Allocation,
    CgroupIdentity,
    Container,
    DeviceMemory,
    DeviceReading,
    DeviceState,
    Engines,
    PodTable,
    ProcessActivity,
    ProcessMemory,
    Snapshot,
    Unattributed,
    Unit,
    Unmeasured,
    Window,
)
from tests.agent.collector.bench import CID, DEVICE, PLACED, POD, SECOND, Bench
from tests.agent.sources.cgroups.fakeproc import FakeProc
from tests.agent.sources.cgroups.names import container_path
from tests.agent.sources.gpus.amd.trees import (
    MI250,
    MI300X,
    RADEON,
    TICKS,
    V1_3,
    Tree,
    put,
    table,
    v1_6,
)
from tests.agent.sources.gpus.nvml.node import HASTY, PATIENT, START, Node
from tests.fakenvml.build import library
from tests.fakenvml.scenario import GIB, Fault, Gpu, Instance, Process, Work
from tests.rows import rows_of

ROWS = ("nvmlDeviceGetProcessUtilization", "nvmlDeviceGetProcessesUtilizationInfo")
PLACED_POD = replace(POD, annotations=PLACED)


class Scene:
    """A node to do things to, and the Snapshot of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bench = Bench()
        self.bench.processes.identities[7] = CgroupIdentity("uid-1", CID, "containerd")
        self.bench.use(7, SECOND // 2)
        self.driver = Node(folder)
        self.driver.scenario.gpus = [Gpu(0)]
        self.driver.scenario.processes = [Process(gpu=0, pid=7, memory=GIB)]
        self.driver.scenario.works = [Work(gpu=0, pid=7, start=START - 60)]

    def watch(self, seconds: int = 5) -> Snapshot:
        """The last Snapshot of some cycles with the driver's readings, a second apart."""
        for _ in range(seconds):
            self.bench.gpus.devices = self.driver.read(after=1).devices
            self.bench.cycle()
        return self.bench.collector.snapshot

    def break_driver(self, *faults: Fault, hasty: bool = False) -> Snapshot:
        """Let the driver fail after it was read once; its container's pod is known by name."""
        self.bench.name_pod(PLACED_POD)
        self.driver.start(HASTY if hasty else PATIENT)
        self.watch(2)
        self.driver.fail(*faults)
        return self.watch()

    def with_processes(self, processes: ProcessSource) -> Snapshot:
        """One cycle over another source of processes; the container's pod is known by name."""
        bench = self.bench
        bench.name_pod(PLACED_POD)
        sources = Sources((bench.gpus,), processes, bench.pods)
        ledger = Ledger(300 * SECOND, 15 * SECOND)
        snapshot = Collector(sources, ledger, bench.clock).cycle()
        processes.close()
        return snapshot

    def with_window(self, window: Window) -> Snapshot:
        """One cycle with this window of the device."""
        self.bench.gpus.devices = (DeviceReading(DEVICE, window=window),)
        return self.bench.cycle()


def refused(scene: Scene, code: int) -> Snapshot:
    scene.driver.scenario.faults = [Fault("error", name, code=code) for name in ROWS]
    return scene.break_driver(*scene.driver.scenario.faults)


def driver_too_old(scene: Scene) -> Snapshot:
    scene.driver.start(path=library(omit=set(ROWS)))
    return scene.watch()


def gpu_lost(scene: Scene) -> Snapshot:
    scene.break_driver()
    scene.driver.change_gpu(0, lost=True)
    return scene.watch()


def released(scene: Scene) -> Snapshot:
    scene.break_driver()
    scene.driver.ask("release", True)
    return scene.watch()


def mig(scene: Scene) -> Snapshot:
    scene.driver.scenario.gpus = [Gpu(0, mig=True)]
    scene.driver.scenario.instances = [Instance(0, 0)]
    scene.driver.start()
    return scene.watch()


def never_idle(scene: Scene) -> Snapshot:
    scene.driver.start()
    return scene.watch()


def rejected_samples(scene: Scene) -> Snapshot:
    scene.bench.name_pod(PLACED_POD)
    scene.driver.change_gpu(0, garbage=4)
    scene.driver.start()
    return scene.watch(12)


def not_named(scene: Scene) -> Snapshot:
    """The device is busy, and the driver's rows name nobody."""
    scene.bench.name_pod(PLACED_POD)
    window = Window(0, SECOND, SECOND, 0, Engines(core=SECOND // 2))
    return [scene.with_window(window) for _ in range(11)][-1]


def no_hostpid(scene: Scene) -> Snapshot:
    cgroup = scene.folder / "cgroup" / container_path("systemd", "uid-1", CID)
    cgroup.mkdir(parents=True)
    (scene.folder / "cgroup" / "cgroup.controllers").touch()
    (cgroup / "cgroup.procs").write_text("0\n")  # so cgroup v2 shows a pid of another namespace
    proc = FakeProc(scene.folder / "proc")
    return scene.with_processes(CgroupProcesses(str(scene.folder / "cgroup"), str(proc.root)))


def no_cgroups(scene: Scene) -> Snapshot:
    proc = FakeProc(scene.folder / "proc")
    return scene.with_processes(CgroupProcesses(str(scene.folder / "missing"), str(proc.root)))


def container_pending(scene: Scene) -> Snapshot:
    waiting = Container("side", limits=POD.containers[0].limits)
    scene.bench.processes.identities[7] = CgroupIdentity("uid-1", "b" * 64, "containerd")
    main = replace(POD.containers[0], container_ids=())
    scene.bench.name_pod(replace(PLACED_POD, containers=(main, waiting)))
    return scene.bench.cycle()


def container_unknown(scene: Scene) -> Snapshot:
    container_pending(scene)
    return [scene.bench.cycle() for _ in range(61)][-1]


def pod_unknown(scene: Scene) -> Snapshot:
    scene.bench.pods.current = PodTable()
    return scene.bench.cycle()


def placement(scene: Scene) -> Snapshot:
    scene.bench.processes.identities.clear()
    scene.bench.name_pod()
    return scene.bench.cycle()


def allocation_pending(scene: Scene) -> Snapshot:
    """A decoder that does not come to its end while the cycle waits for it."""
    release = threading.Event()

    def read(_: PodReader) -> list[Allocation]:
        release.wait(60)
        return []

    rules = Rules((Scheme("slow", (), (), None, read),))
    scene.bench.collector.follow(CycleRules(allocations=rules))
    scene.bench.name_pod(PLACED_POD)
    with scene.bench.collector._accounting._allocations.beside():
        snapshot = scene.bench.cycle()
        release.set()
    return snapshot


def allocation_over_limit(scene: Scene) -> Snapshot:
    asking = POD.containers[0]
    many = [replace(asking, name=f"c{n}", container_ids=()) for n in range(MAX_OF_POD)]
    scene.bench.name_pod(replace(PLACED_POD, containers=(asking, *many)))
    return scene.bench.cycle()


def mps(scene: Scene) -> Snapshot:
    """The driver credits the server with all that its clients do."""
    scene.bench.name_pod(PLACED_POD)
    scene.bench.processes.identities[8] = CgroupIdentity(unit=Unit("systemd", "job.service"))
    server, client = frozenset({"compute", "mps_server"}), frozenset({"mps"})
    holders = (
        ProcessMemory(9, 10, server),
        *(ProcessMemory(pid, 10, client) for pid in (7, 8)),
    )
    busy = Engines(core=SECOND // 2)
    window = Window(0, SECOND, SECOND, 0, busy, (ProcessActivity(9, busy),))
    memory = DeviceMemory(1000, 20, None, holders)
    scene.bench.gpus.devices = (
        DeviceReading(replace(DEVICE, sharing="mps"), window=window, memory=memory),
    )
    return [scene.bench.cycle() for _ in range(20)][-1]


def asleep(scene: Scene) -> Snapshot:
    """A Radeon that the kernel has suspended."""
    tree = Tree(scene.folder / "sys")
    tree.load()
    board = tree.add(RADEON)
    put(board.folder / "power/control", "auto")
    put(board.folder / "power/runtime_status", "suspended")
    source = AmdSource(tree.sysfs, scene.folder / "proc", clock=scene.bench.clock)
    scene.bench.gpus.devices = source.read().devices
    source.close()
    return scene.bench.cycle()


def partitioned(scene: Scene) -> Snapshot:
    """An AMD board in partitions, which has one counter of energy for all of them."""
    tree, clock = Tree(scene.folder / "sys"), scene.bench.clock
    tree.load()
    board = tree.add(MI300X, parts=8)
    source = AmdSource(tree.sysfs, clock=clock)
    for joules in (0, 100, 200):
        board.metrics(v1_6(joules * TICKS))
        scene.bench.gpus.devices = source.read().devices
        scene.bench.cycle()  # a second later
    source.close()
    return scene.bench.collector.snapshot


def module(scene: Scene) -> Snapshot:
    """The dies of an MI250, of which the first has the power and the energy of both."""
    tree, clock = Tree(scene.folder / "sys"), scene.bench.clock
    tree.load()
    first, second = tree.add(MI250), tree.add(MI250)
    second.hwmon(power1_average=0)
    source = AmdSource(tree.sysfs, clock=clock)
    for joules in (0, 100, 200):
        first.metrics(table(V1_3, {24: ("Q", joules * TICKS)}))
        second.metrics(table(V1_3, {24: ("Q", 0)}))
        scene.bench.gpus.devices = source.read().devices
        scene.bench.cycle()  # a second later
    source.close()
    return scene.bench.collector.snapshot


UNMEASURED: Mapping[Unmeasured, Callable[[Scene], Snapshot]] = {
    Unmeasured.NOT_SUPPORTED: lambda scene: refused(scene, 3),
    Unmeasured.NO_PERMISSION: lambda scene: refused(scene, 4),
    Unmeasured.DRIVER_TOO_OLD: driver_too_old,
    Unmeasured.GPU_LOST: gpu_lost,
    Unmeasured.DRIVER_STUCK: lambda scene: scene.break_driver(
        Fault("hang", "nvmlDeviceGetSamples"), hasty=True
    ),
    Unmeasured.RELEASED: released,
    Unmeasured.READ_FAILED: lambda scene: scene.break_driver(
        Fault("error", "nvmlDeviceGetSamples", code=999)
    ),
    Unmeasured.MIG: mig,
    Unmeasured.NEVER_IDLE: never_idle,
    Unmeasured.REJECTED_SAMPLES: rejected_samples,
    Unmeasured.NOT_NAMED: not_named,
    Unmeasured.NO_HOSTPID: no_hostpid,
    Unmeasured.NO_CGROUPS: no_cgroups,
    Unmeasured.CONTAINER_PENDING: container_pending,
    Unmeasured.CONTAINER_UNKNOWN: container_unknown,
    Unmeasured.POD_UNKNOWN: pod_unknown,
    Unmeasured.PLACEMENT: placement,
    Unmeasured.ALLOCATION_PENDING: allocation_pending,
    Unmeasured.ALLOCATION_OVER_LIMIT: allocation_over_limit,
    Unmeasured.MPS: mps,
    Unmeasured.PARTITIONED: partitioned,
    Unmeasured.MODULE: module,
    Unmeasured.ASLEEP: asleep,
}
OF_THE_DRIVER = tuple(UNMEASURED)[:10]


def host_process(scene: Scene) -> Snapshot:
    scene.bench.processes.identities[7] = CgroupIdentity()
    return scene.bench.cycle()


def unknown_cgroup(scene: Scene) -> Snapshot:
    scene.bench.processes.error = OSError("no /proc")
    return scene.bench.cycle()


def exited(scene: Scene) -> Snapshot:
    scene.bench.processes.identities.clear()
    return scene.bench.cycle()


def overlap(scene: Scene) -> Snapshot:
    holders = tuple(ProcessMemory(pid, 60, frozenset({"compute"})) for pid in (7, 8))
    memory = DeviceMemory(1000, 100, None, holders)
    scene.bench.gpus.devices = (DeviceReading(DEVICE, memory=memory),)
    return scene.bench.cycle()


BUSY = Window(0, 2 * SECOND, SECOND, SECOND, Engines(core=SECOND // 2), energy_uj=100)
UNATTRIBUTED: Mapping[Unattributed, Callable[[Scene], Snapshot]] = {
    Unattributed.HOST_PROCESS: host_process,
    Unattributed.UNKNOWN_CGROUP: unknown_cgroup,
    Unattributed.EXITED: exited,
    Unattributed.NO_PID: lambda scene: scene.with_window(BUSY),
    Unattributed.IDLE: lambda scene: scene.with_window(BUSY._replace(idle_energy_uj=40)),
    Unattributed.UNOBSERVED: lambda scene: scene.with_window(BUSY),
    Unattributed.OVERLAP: overlap,
    Unattributed.MIG: mig,
    Unattributed.MPS: mps,
    Unattributed.PARTITIONED: partitioned,
    Unattributed.MODULE: module,
}


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    scene = Scene(tmp_path)
    yield scene
    scene.driver.stop()


def told(snapshot: Snapshot) -> set[str]:
    """The reasons of everything that is not measured."""
    found: set[str] = set()
    for rows in rows_of(snapshot).values():
        for row in rows:
            values = row.values.get("unmeasured", {})
            assert isinstance(values, Mapping)
            found.update(reason for _, reason in values)
    return found


def charged(snapshot: Snapshot) -> set[str]:
    """The reasons under which something of a device is unattributed."""
    found: set[str] = set()
    for row in rows_of(snapshot)["device"]:
        for name, values in row.values.items():
            if name.startswith("unattributed_"):
                assert isinstance(values, Mapping)
                found.update(reason for (reason,), amount in values.items() if amount)
    return found


@pytest.mark.parametrize(
    "reason",
    [
        pytest.param(reason, marks=[pytest.mark.program("cc")] * (reason in OF_THE_DRIVER))
        for reason in Unmeasured
    ],
)
def test_each_reason_why_something_is_unmeasured_can_be_produced(
    reason: Unmeasured, scene: Scene
) -> None:
    snapshot = UNMEASURED[reason](scene)

    assert str(reason) in told(snapshot)
    assert told(snapshot) <= set(Unmeasured)


@pytest.mark.program("cc")
def test_containers_on_a_board_in_mig_mode_without_instances_have_a_reason(scene: Scene) -> None:
    scene.bench.name_pod(replace(POD, containers=(Container("main", container_ids=(CID,)),)))
    scene.driver.scenario.gpus = [Gpu(0, mig=True)]
    scene.driver.scenario.works = []
    scene.driver.start(PATIENT)

    (row,) = rows_of(scene.watch())["container"]

    assert row.values["memory_used_bytes"] == GIB
    assert "core_utilization_ratio" not in row.values
    reasons = row.values["unmeasured"]
    assert isinstance(reasons, Mapping)
    assert {("core", "mig"), ("energy", "mig")} <= reasons.keys()
    assert {reason for _, reason in reasons} == {"mig"}


@pytest.mark.parametrize("reason", Unattributed)
def test_each_reason_why_use_is_unattributed_can_be_produced(
    reason: Unattributed, scene: Scene
) -> None:
    assert str(reason) in charged(UNATTRIBUTED[reason](scene))


def test_every_state_in_which_a_device_cannot_be_read_is_a_reason() -> None:
    assert {str(state) for state in DeviceState} - {"up"} <= set(Unmeasured)


def test_only_the_reasons_of_the_list_can_be_published(scene: Scene) -> None:
    odd = {"core": "because"}
    scene.bench.gpus.devices = (DeviceReading(DEVICE, unmeasured=odd),)  # type: ignore[arg-type] # the point

    with pytest.raises(ValueError, match="because"):
        scene.bench.cycle()
