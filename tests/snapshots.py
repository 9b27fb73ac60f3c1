"""Snapshots for tests of what is served."""

from collections.abc import Sequence
from typing import Any

from exporter.metrics.families import BOARD
from exporter.model import (
    AllocatedTime,
    AllocationFacts,
    Averages,
    CallCount,
    CgroupMemory,
    ContainerHolding,
    ContainerKey,
    Device,
    DeviceAllocation,
    DeviceFacts,
    DeviceMemoryFacts,
    Engines,
    ExporterFacts,
    Facts,
    Granted,
    GroupFacts,
    GroupHolding,
    GroupKey,
    GroupKindFacts,
    HeldMemory,
    LastReload,
    Methods,
    NamespaceFacts,
    PartCost,
    PodFacts,
    PodInfo,
    Sampling,
    Sensors,
    Snapshot,
    SourceStatus,
    Unattributed,
    Unexplained,
    Unit,
    Unmeasured,
    Used,
    Waiting,
    XidCount,
)

A = ContainerKey("ml", "train", "main")


def snapshot_of(**facts: Sequence[Any]) -> Snapshot:
    """A snapshot with these facts."""
    made = Facts(**{name: tuple(some) for name, some in facts.items()})
    return Snapshot(version=1, measured=lambda: made)


def container(owner: ContainerKey = A, uuid: str = "GPU-1", **fields: Any) -> ContainerHolding:
    """A container on the first device."""
    return ContainerHolding(**{"owner": owner, "index": 0, "uuid": uuid, **fields})


def exporter(**fields: Any) -> ExporterFacts:
    """The exporter's own facts."""
    own: dict[str, Any] = {"version": "1", "python": "3", "unix_ns": 1, "cycles": 1}
    own |= {"overruns": 1, "interval_ns": 1, "simulated": True, "idle": "unattributed"}
    return ExporterFacts(**own | fields)


def with_every_family(number: int = 1) -> Snapshot:
    """A snapshot in which every family of the table has one sample."""
    used, average = Used(Engines(*[number] * 4), *[number] * 3), Averages(*[number] * 4)
    owned: dict[str, Any] = {
        "index": 0,
        "uuid": "GPU-1",
        "used": used,
        "average": average,
        "memory": HeldMemory(
            number, number, number, CgroupMemory(number, number, number, "kernel", "", number)
        ),
        "last_active_unix_ns": number,
        "since_unix_ns": number,
        "jobs": (Unit("slurm", "4711"),),
        "unmeasured": {"encoder": Unmeasured.MIG},
    }
    allocated = AllocatedTime(*[number] * len(AllocatedTime._fields))
    facts = Facts(
        (_device(number, used, average),),
        (
            ContainerHolding(
                owner=A,
                allocation=AllocationFacts((Granted("kernel", "enforced", "1"),), *[number] * 4),
                waiting=Waiting(number, {ContainerKey("ml", "x", "c"): number}),
                allocated=allocated,
                misplaced=True,
                **owned | {"average": average._replace(waiting=number)},
            ),
        ),
        (GroupHolding(owner=GroupKey("docker", "x"), info=GroupFacts("name"), **owned),),
        (
            PodFacts(
                namespace="ml",
                name="train",
                core=number,
                core_limit=number,
                core_of_limit=number,
                memory_bytes=number,
                memory_limit_bytes=number,
                memory_of_limit=number,
                info=PodInfo("uid"),
                last_active_unix_ns=number,
                used=used,
                limited_core_ns=number,
                allocated=allocated,
                allocated_gpus=number,
                unhealthy_devices=number,
            ),
        ),
        (NamespaceFacts("ml", "GPU-1", used, allocated, number),),
        (GroupKindFacts("docker", "GPU-1", used),),
    )
    own = exporter(
        sources=(SourceStatus("nvml", up=True, last_success_unix_ns=number, unreadable=0),),
        rejected={"why": number},
        calls={"nvmlInit": CallCount(number, number)},
        dropped={"family": number},
        reload=LastReload(successful=True, success_unix_ns=number),
        reviews={("token", "allowed"): number},
    )
    return Snapshot(version=1, measured=lambda: facts, exporter=own)


def _device(number: int, used: Used, average: Averages) -> DeviceFacts:
    plain = {f.name: number for f in BOARD if not f.labels}
    labelled = {f.name: {f.labels[0]: number} for f in BOARD if f.labels}
    return DeviceFacts(
        device=Device("GPU-1", 0, "nvidia", "H100"),
        unmeasured={"encoder": Unmeasured.MIG},
        used=used,
        average=average,
        idle_energy_uj=number,
        unobserved_ns=number,
        unattributed={Unattributed.NO_PID: used},
        unexplained_ns={Unexplained.CAP: number},
        normalization=number,
        methods=Methods(),
        sampling=Sampling(),
        memory=DeviceMemoryFacts(number, number, number, {Unattributed.NO_PID: number}),
        allocated=DeviceAllocation(*[number] * 5),
        sensors=Sensors(plain, labelled),
        xids={"79": XidCount(number, number)},
        costs={"window": PartCost(number, number)},
    )
