"""Snapshots of whole nodes, by the real cycle: simulated, crowded, hostile."""

from dataclasses import replace
from functools import cache

from exporter.agent.collector import Collector, Sources
from exporter.agent.collector.wiring import make_collector, open_sources
from exporter.agent.settings import load
from exporter.agent.simulation.load_scenario import describe
from exporter.agent.simulation.node import Node
from exporter.agent.sources.cgroups.processsource import SimulatedProcesses
from exporter.agent.sources.gpus.simulated import SimulatedGpus
from exporter.agent.sources.pods.podsource import SimulatedPods
from exporter.model import (
    CgroupIdentity,
    Container,
    DeviceMemory,
    DeviceReading,
    DeviceState,
    Engines,
    Pod,
    PodTable,
    ProcessActivity,
    ProcessInfo,
    ProcessMemory,
    Snapshot,
    SourceStatus,
    Unmeasured,
    Window,
)
from tests.agent.collector.bench import CID, DEVICE, SECOND, Bench
from tests.agent.simulation.clock import ManualClock
from tests.agent.simulation.pods import shared

HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "</title></svg><script>alert(1)</script>",
    "{{7*7}}${7*7}",
    "../../../etc/passwd",
    "a/b?c#d%2Fe",
    "\u202egnp.exe",
    "\ud800",
    "\x00\x07\n\r\t",
    "x" * 253,
    "",
)


@cache
def demo(seconds: int = 60, scenario: str = "demo") -> Snapshot:
    """A shipped scenario after so many cycles of a second."""
    clock = ManualClock()
    settings = load({"simulate": [scenario]}, {})
    return _run(make_collector(settings, open_sources(settings, clock), clock), clock, seconds)


@cache
def crowded(gpus: int = 64, containers: int = 500) -> Snapshot:
    """A node with many GPUs and containers, each with a process of its own."""
    device = {"model": "NVIDIA A100-SXM4-80GB", "memory": "80GiB"}
    work = {"duty": 0.1, "period": "200ms", "memory": "4GiB"}
    pods = [
        shared(
            {
                "name": f"worker-{number:03}",
                "namespace": f"team-{number % 7}",
                "containers": [{"name": "main", "processes": [{**work, "device": number % gpus}]}],
            },
            *("mgpu", [number % gpus], 10, 8),
        )
        for number in range(containers)
    ]
    clock = ManualClock()
    node = Node(describe({"devices": [device] * gpus, "pods": pods}, "crowd"), clock)
    sources = Sources(
        (SimulatedGpus(node, clock),),
        SimulatedProcesses(node.cgroup_paths, node.process_infos),
        SimulatedPods(node.pod_table, clock=clock),
    )
    return _run(make_collector(load({}, {}), sources, clock), clock, 6)


@cache
def hostile() -> Snapshot:
    """A node whose pods, containers and processes have any names at all."""
    bench = Bench()
    pods = {f"uid-{n}": _hostile_pod(n, name) for n, name in enumerate(HOSTILE)}
    by_cid = {pod.containers[0].container_ids[0]: (pod.uid, pod.name) for pod in pods.values()}
    bench.pods.current = PodTable(1, pods, {uid: uid for uid in pods}, by_cid)
    for number, name in enumerate(HOSTILE):
        bench.processes.identities[100 + number] = CgroupIdentity(f"uid-{number}", f"{number:064x}")
        bench.processes.infos[100 + number] = ProcessInfo(name, bench.clock.time_ns(), name)
    bench.processes.identities[99] = CgroupIdentity(None, HOSTILE[0], HOSTILE[1])
    bench.gpus.devices = (_shared_by(range(99, 100 + len(HOSTILE))),)
    return _run(bench.collector, bench.clock, 8)


@cache
def failing() -> Snapshot:
    """A node on which processes cannot be told apart, one GPU is lost, and names are old."""
    bench = Bench()
    pod = Pod("uid-1", "ml", "train", containers=(Container("main", container_ids=(CID,)),))
    bench.name_pod(pod)
    bench.processes.identities[100] = CgroupIdentity("uid-1", CID)
    working = _shared_by(range(100, 101))
    other = replace(DEVICE, uuid="GPU-1", index=1)
    bench.gpus.devices = (working, working._replace(device=other))
    _run(bench.collector, bench.clock, 3)
    bench.gpus.devices = (working, DeviceReading(other, DeviceState.LOST, "off the bus"))
    bench.processes.now = SourceStatus(
        "cgroups",
        up=False,
        detail="hostPID is not set: set hostPID: true in the pod spec",
        reason=Unmeasured.NO_HOSTPID,
    )
    bench.pods.up = False
    return _run(bench.collector, bench.clock, 5)


def _hostile_pod(number: int, name: str) -> Pod:
    container = Container(name, container_ids=(f"{number:064x}",))
    return Pod(
        f"uid-{number}",
        name,
        name,
        phase="Running",
        owner_kind=name,
        owner_name=name,
        containers=(container,),
    )


def _shared_by(pids: range) -> DeviceReading:
    each = SECOND // 20
    rows = tuple(ProcessActivity(pid, Engines(core=each)) for pid in pids)
    busy = Engines(core=each * len(pids))
    held = tuple(ProcessMemory(pid, 2**30, frozenset({"compute"})) for pid in pids)
    return DeviceReading(
        replace(DEVICE, model=HOSTILE[0]),
        window=Window(0, SECOND, SECOND, 0, busy, rows),
        memory=DeviceMemory(80 * 2**30, len(pids) * 2**30, None, held),
    )


def _run(collector: Collector, clock: ManualClock, seconds: int) -> Snapshot:
    for _ in range(seconds):
        clock.move(1)
        collector.cycle()
    return collector.snapshot
