"""The validated contents of a scenario file: frozen values without behaviour over time."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from exporter.agent.simulation.work import Curve, Lifetime, Work
from exporter.model import Device, DeviceState


class SampleRule(StrEnum):
    """Which process a driver's sample names, where several ran in it.

    The driver's header says "the process that was active on the engine when the sample was
    taken" (open-gpu-kernel-modules, ctrl2080perf.h). Recorded boards (Turing, Ada and Hopper) name
    somebody in each sample, also where the engine is idle most of the time. So END, which names
    nobody if the engine is idle at the sample's end, does not fit them. The others do.
    """

    LAST = "last"
    END = "end"
    LONGEST = "longest"
    RANDOM = "random"


class EndedRows(StrEnum):
    """What a driver's rows say of a process that has ended.

    KEPT: it stays as long as the ring holds its samples. FORGOTTEN: it has no row any more, as on
    an H100 and an H200 with driver 580, which look a process up when they are asked.
    """

    KEPT = "kept"
    FORGOTTEN = "forgotten"


SAMPLE_PERIOD_NS = 166_666_667  # of most boards seen so far; Turing has 0.5 s


@dataclass(frozen=True, slots=True)
class DeviceSpec:
    """A GPU, or a part of one: a MIG instance, an AMD partition. Bytes, watts, hertz.

    ``number`` is its place among all devices, and ``parent`` that of a part's card. ``shown`` is
    the device as its source shows it. A card with parts is ``divided``. ``policy`` is the one in
    the node's ``/proc/qgpu/N/policy``.
    """

    number: int
    shown: Device
    reserved_bytes: int
    idle_watts: float
    max_watts: float
    clock_hertz: int
    policy: str = ""
    parent: int | None = None
    divided: bool = False


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """A process and its work, the same on each of its devices.

    ``memory`` is bytes over its age. The engine shares say how long the engine is busy for each
    unit of time that the process has the GPU's cores. ``cgroup``, the group's name in ``called``,
    ``user`` and ``account`` are set outside pods only.
    """

    devices: tuple[int, ...]
    work: Work
    memory: Curve
    span: Lifetime
    memory_active: float = 0.0
    encoder: float = 0.0
    decoder: float = 0.0
    copy: float = 0.0
    kind: str = "compute"
    cgroup: str = ""
    called: str = ""
    user: str = ""
    account: str = ""


@dataclass(frozen=True, slots=True)
class ContainerSpec:
    """A container of a pod. ``kind`` is one of app, init, sidecar.

    ``granted``: the ids of devices that the kubelet gave it, by resource.
    """

    name: str
    processes: tuple[ProcessSpec, ...] = ()
    kind: str = "app"
    limits: Mapping[str, str] = field(default_factory=dict)
    granted: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PodSpec:
    """A pod, or with a recurring ``span`` the pods of a job that comes again and again."""

    namespace: str
    name: str
    containers: tuple[ContainerSpec, ...]
    span: Lifetime
    owner_kind: str = ""
    owner_name: str = ""
    qos: str = "Burstable"
    runtime: str = "containerd"
    cgroup_driver: str = "systemd"
    static: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Fault:
    """A device that cannot be read for a while."""

    device: int
    state: DeviceState
    from_ns: int
    to_ns: int


@dataclass(frozen=True, slots=True)
class Scenario:
    """A node and what happens on it.

    ``status_delay_ns`` lies between a container's start and the API server's knowing its id
    (kubernetes#110988).
    """

    node_name: str
    devices: tuple[DeviceSpec, ...]
    pods: tuple[PodSpec, ...] = ()
    processes: tuple[ProcessSpec, ...] = ()
    faults: tuple[Fault, ...] = ()
    node_labels: Mapping[str, str] = field(default_factory=dict)
    node_annotations: Mapping[str, str] = field(default_factory=dict)
    allocatable: Mapping[str, str] = field(default_factory=dict)
    sample_rule: SampleRule = SampleRule.LAST
    sample_period_ns: int = SAMPLE_PERIOD_NS
    ended_rows: EndedRows = EndedRows.KEPT
    status_delay_ns: int = 0
    seed: int = 0

    def residents(
        self,
    ) -> Iterator[tuple[ProcessSpec, PodSpec | None, ContainerSpec | None]]:
        """All processes in the file's order: those of pods first, then the host's."""
        for pod in self.pods:
            for container in pod.containers:
                for process in container.processes:
                    yield process, pod, container
        for process in self.processes:
            yield process, None, None
