"""A collector over sources that the test sets: one device, one pod, one process."""

from exporter.agent.collector import Collector, IdlePolicy, Sources
from exporter.agent.ledger import Ledger
from exporter.agent.sources.node.nodesource import NodeSource
from exporter.model import (
    Container,
    Device,
    DeviceMemory,
    DeviceReading,
    Engines,
    Pod,
    PodTable,
    ProcessActivity,
    ProcessMemory,
    Snapshot,
    Window,
)
from tests.agent.collector.sources import SetGpus, SetPods, SetProcesses
from tests.agent.simulation.clock import ManualClock
from tests.rows import Row, rows_of

SECOND = 1_000_000_000
CID = "a" * 64
DEVICE = Device("GPU-0", 0, "nvidia", memory_bytes=80 * 2**30)
POD = Pod(
    "uid-1",
    "ml",
    "train",
    phase="Running",
    containers=(
        Container(
            "main",
            container_ids=(CID,),
            limits={
                "vke.volcengine.com/mgpu-core": "50",
                "vke.volcengine.com/mgpu-memory": "1024",
            },
        ),
    ),
)
PLACED = {"vke.volcengine.com/gpu-index-container-main": "0"}


class Bench:
    """A collector over sources that the test sets."""

    def __init__(
        self, idle: IdlePolicy = IdlePolicy.UNATTRIBUTED, nodes: tuple[NodeSource, ...] = ()
    ) -> None:
        self.clock = ManualClock()
        self.gpus = SetGpus()
        self.processes = SetProcesses()
        self.pods = SetPods()
        self.ledger = Ledger(300 * SECOND, 15 * SECOND)
        sources = Sources((self.gpus,), self.processes, self.pods, nodes)
        self.collector = Collector(sources, self.ledger, self.clock, idle=idle)

    def use(self, pid: int, core_ns: int, memory: int = 100) -> None:
        """Let one process use the device in the next cycles."""
        window = Window(
            0, SECOND, SECOND, 0, Engines(core=core_ns), (ProcessActivity(pid, Engines(core_ns)),)
        )
        holders = (ProcessMemory(pid, memory, frozenset({"compute"})),)
        reading = DeviceReading(
            DEVICE, window=window, memory=DeviceMemory(1000, memory, None, holders)
        )
        self.gpus.devices = (reading,)

    def name_pod(self, pod: Pod = POD) -> None:
        """Let the pod source know the pod."""
        self.pods.current = PodTable(
            self.pods.current.version + 1,
            {pod.uid: pod},
            {pod.uid: pod.uid},
            {cid: (pod.uid, c.name) for c in pod.containers for cid in c.container_ids},
        )

    def cycle(self) -> Snapshot:
        """One second later, one cycle."""
        self.clock.move(1)
        return self.collector.cycle()


def row(snapshot: Snapshot, level: str, *labels: str) -> Row:
    """The one row with these labels."""
    return next(r for r in rows_of(snapshot)[level] if r.labels == labels)
