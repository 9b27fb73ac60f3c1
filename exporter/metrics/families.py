"""The table of all metric families that the exporter serves. Data.

The exposition, the documentation and the tests are generated from it. A family's full name is
``mgpu_<level>_<name>``. Its labels are those of its level, then its own. It reads its values from
the facts of its level.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import astuple, dataclass
from typing import Any, Generic, Protocol, TypeVar

from exporter.model import (
    AllocatedTime,
    ContainerHolding,
    Device,
    DeviceFacts,
    ExporterFacts,
    GroupHolding,
    GroupKindFacts,
    Holding,
    NamespaceFacts,
    Number,
    PodFacts,
    PodInfo,
    Reasons,
    SourceStatus,
    Used,
)

PREFIX = "mgpu"

LEVELS: dict[str, tuple[str, ...]] = {
    "device": ("gpu", "uuid"),
    "container": ("namespace", "pod", "container", "gpu", "uuid"),
    "pod": ("namespace", "pod"),
    "namespace": ("namespace", "uuid"),
    "group": ("kind", "group", "gpu", "uuid"),
    "group_kind": ("kind", "uuid"),
    "exporter": (),
}

OWN_LEVEL = "exporter"  # families about the exporter itself

CORE = "core"  # the group of families that cannot be switched off
CONTENTION = "contention"
OFF_BY_DEFAULT = frozenset({CONTENTION})
"""Groups that are served only if ``--metrics.enable`` names them: they have many series."""

NS = 1_000_000_000  # the ledger counts time in nanoseconds
UJ = 1_000_000  # and energy in microjoules


Sample = tuple[tuple[str, ...], Number]
"""The values of a family's own labels, and the number."""

F = TypeVar("F", contravariant=True)  # noqa: PLC0105 - the facts of a level

K = TypeVar("K", bound=str)


@dataclass(frozen=True, slots=True)
class FamilyOf(Generic[F]):
    """One metric family. ``read`` returns its number from a fact, None if it is not known.

    A family with ``labels`` of its own has ``each`` instead. A number divided by ``divisor`` is in
    the base unit. Families of one ``group`` are switched off together, with the driver calls that
    they need. ``further`` returns labels beyond the table's: ``label_…`` and ``annotation_…``.
    """

    level: str
    name: str
    help: str
    read: Callable[[F], Number | None] | None = None
    type: str = "gauge"
    labels: tuple[str, ...] = ()
    each: Callable[[F], Iterable[Sample]] | None = None
    divisor: int = 1
    group: str = CORE
    further: Callable[[F], Mapping[str, str]] | None = None

    @property
    def full_name(self) -> str:
        """The name on the page, e.g. ``mgpu_container_core_seconds_total``."""
        return f"{PREFIX}_{self.level}_{self.name}"

    def samples(self, fact: F) -> list[Sample]:
        """What it has of a fact; its own labels are empty where the family has none."""
        if self.each is not None:
            return list(self.each(fact))
        number = self.read(fact) if self.read is not None else None
        return [] if number is None else [((), number)]


Family = FamilyOf[Any]


class HasUsed(Protocol):
    """Facts with counters of use."""

    @property
    def used(self) -> Used:
        """The counters."""
        ...


def _counter(
    level: str, name: str, about: str, read: Callable[[F], Number | None], divisor: int = 1
) -> FamilyOf[F]:
    return FamilyOf(level, name, about, read, "counter", divisor=divisor)


def _moment(level: str, name: str, about: str, read: Callable[[F], Number | None]) -> FamilyOf[F]:
    return FamilyOf(level, name, about, read, divisor=NS)


def _sensor(group: str, name: str, about: str) -> FamilyOf[DeviceFacts]:
    """A sensor of a board, which can be switched off."""
    kind = "counter" if name.endswith("_total") else "gauge"
    return FamilyOf("device", name, about, lambda d: d.sensors.number(name), kind, group=group)


def _sensors(
    group: str, name: str, about: str, label: str, divisor: int = 1
) -> FamilyOf[DeviceFacts]:
    """Several sensors of a board, one for each value of a label."""
    kind = "counter" if name.endswith("_total") else "gauge"
    return FamilyOf(
        *("device", name, about, None, kind, (label,)),
        each=lambda d: _keyed(d.sensors.by_label(name)),
        divisor=divisor,
        group=group,
    )


def _keyed(numbers: Mapping[K, Number]) -> list[Sample]:
    return [((str(key),), number) for key, number in numbers.items()]


def _flag(value: bool | None) -> int | None:  # noqa: FBT001 - what is turned into a number
    return None if value is None else int(value)


def _reasons(unmeasured: Reasons) -> list[Sample]:
    return [((quantity, str(reason)), 1) for quantity, reason in unmeasured.items()]


_WINDOW = "averaged over --collection.window"
_CORE = (
    "core (SM) busy time, from NVML process utilization as parts of the device's busy time; for "
    "AMD "
    "an estimate from the compute units occupied at each sample"
)
_ESTIMATE = "estimated: active energy split by core use, idle energy by --energy.idle"


_COPY = "Busy time of all copy engines, summed (AMD: KFD's sdma_<gpu>; DRM: fdinfo)."
_EVICTED = "Time that queues were evicted to make room for others (AMD: KFD's evicted_ms)."


def _counted(level: str) -> tuple[FamilyOf[HasUsed], ...]:
    """Counters that some drivers have for each process, summed."""
    return (
        _counter(level, "copy_seconds_total", _COPY, lambda f: f.used.copy_ns, NS),
        _counter(level, "evicted_seconds_total", _EVICTED, lambda f: f.used.evicted_ns, NS),
    )


def _usage_gauges(level: str) -> tuple[FamilyOf[Holding], ...]:
    """The gauges that containers and groups share."""
    return (
        FamilyOf(
            level,
            "core_utilization_ratio",
            f"Share of the GPU's core time in use, {_WINDOW}.",
            lambda h: h.average.core,
        ),
        FamilyOf(
            level,
            "memory_used_bytes",
            "Device memory held (NVML running processes; AMD: KFD's vram_<gpu>; DRM: fdinfo).",
            lambda h: h.memory.used_bytes,
        ),
        FamilyOf(
            level,
            "memory_used_peak_bytes",
            "Highest device memory held so far.",
            lambda h: h.memory.peak_bytes,
        ),
        FamilyOf(
            level,
            "memory_active_ratio",
            f"Share of time with memory traffic, {_WINDOW}.",
            lambda h: h.average.memory_active,
        ),
        FamilyOf(
            level,
            "encoder_utilization_ratio",
            f"Share of the encoder's time, {_WINDOW}.",
            lambda h: h.average.encoder,
        ),
        FamilyOf(
            level,
            "decoder_utilization_ratio",
            f"Share of the decoder's time, {_WINDOW}.",
            lambda h: h.average.decoder,
        ),
        FamilyOf(
            level,
            "processes",
            "Processes with a context on the device.",
            lambda h: h.memory.processes,
        ),
        _moment(
            level,
            "last_active_timestamp_seconds",
            "When it last used the GPU's core.",
            lambda h: h.last_active_unix_ns,
        ),
        _moment(
            level,
            "observed_since_timestamp_seconds",
            "When counting began.",
            lambda h: h.since_unix_ns,
        ),
        FamilyOf(
            level,
            "unmeasured",
            "1 for each quantity that cannot be measured now, with the reason; its series are "
            "absent.",
            labels=("quantity", "reason"),
            each=lambda h: _reasons(h.unmeasured),
        ),
    )


def _counters(level: str, about: str) -> tuple[FamilyOf[HasUsed], ...]:
    """The counters of all that used a device; ``about`` is that of the core."""
    return (
        _counter(level, "core_seconds_total", about, lambda f: f.used.core_ns, NS),
        *_engines(level),
        _counter(
            level,
            "energy_joules_total",
            f"Energy used, {_ESTIMATE}.",
            lambda f: f.used.energy_uj,
            UJ,
        ),
        *_counted(level),
    )


def _engines(level: str) -> tuple[FamilyOf[HasUsed], ...]:
    """The counters of the engines beside the core."""
    return (
        _counter(
            level,
            "memory_active_seconds_total",
            "Time with memory traffic.",
            lambda f: f.used.memory_active_ns,
            NS,
        ),
        _counter(
            level, "encoder_seconds_total", "Encoder busy time.", lambda f: f.used.encoder_ns, NS
        ),
        _counter(
            level, "decoder_seconds_total", "Decoder busy time.", lambda f: f.used.decoder_ns, NS
        ),
    )


class HasAllocated(Protocol):
    """Facts with counters of allocations."""

    @property
    def allocated(self) -> AllocatedTime:
        """The counters."""
        ...


_KEPT = (
    "Part of a GPU that is kept from others: the larger of core and memory share; 1 for a whole "
    "card; of a MIG instance the larger of its compute and memory slices; where nothing is "
    "promised, one of the device's replicas."
)
_WAITING = (
    "Time in which the container may have waited for others on the core: it had run within 10 s, "
    "held a context, and others ran (computed from NVML's samples)."
)


def _held_against(level: str, whose: str) -> tuple[FamilyOf[HasAllocated], ...]:
    """Counters of the allocation of containers, pods and namespaces, beside its core time."""
    return (
        _counter(
            level,
            "allocated_idle_core_seconds_total",
            f"Allocated core time that {whose} did not use, counted at each window: use + idle - "
            "borrowed = allocated, while use is measured.",
            lambda f: f.allocated.idle_ns,
            NS,
        ),
        _counter(
            level,
            "borrowed_core_seconds_total",
            f"Core time that {whose} used beyond the allocated share, counted at each window.",
            lambda f: f.allocated.borrowed_ns,
            NS,
        ),
        _counter(
            level,
            "allocated_gpu_seconds_total",
            "Part of a GPU that is kept from others (allocated_gpus) times its time.",
            lambda f: f.allocated.gpu_ns,
            NS,
        ),
    )


def _info(device: Device) -> tuple[str, ...]:
    """The values of the labels of ``device_info``."""
    instance = "" if device.gpu_instance is None else str(device.gpu_instance)
    return (
        *(device.vendor, device.model, device.pci_bus_id, device.parent_uuid, device.profile),
        *(device.sharing, device.driver_version, instance, device.cuda_version),
    )


def _method(facts: DeviceFacts) -> list[Sample]:
    methods = facts.methods
    if methods is None:
        return []
    return [((methods.busy, methods.shares, methods.energy, *facts.sampling.labels), 1)]


def _unattributed(
    name: str, what: str, divisor: int, amount: Callable[[Used], int | None]
) -> FamilyOf[DeviceFacts]:
    """What is attributed to nobody, by reason."""

    def each(facts: DeviceFacts) -> Iterable[Sample]:
        for reason, used in facts.unattributed.items():
            number = amount(used)
            if number is not None:
                yield (str(reason),), number

    about = f"The part of the device's {what} that is attributed to no container or group, by "
    return FamilyOf(
        "device",
        f"unattributed_{name}_total",
        f"{about}reason.",
        type="counter",
        labels=("reason",),
        each=each,
        divisor=divisor,
    )


DEVICE: tuple[FamilyOf[DeviceFacts], ...] = (
    FamilyOf(
        "device",
        "info",
        "Model, PCI address and driver of the device (NVML; AMD: sysfs and KFD topology; DRM: "
        "sysfs). gpu_instance is the number of a MIG instance or partition on its GPU; "
        "cuda_version is the highest that the driver supports.",
        labels=(
            *("vendor", "model", "pci_bus_id", "parent_uuid", "profile", "sharing"),
            *("driver_version", "gpu_instance", "cuda_version"),
        ),
        each=lambda d: [(_info(d.device), 1)],
    ),
    FamilyOf(
        "device",
        "up",
        "1 if the device could be read in the last cycle, else 0.",
        lambda d: int(d.is_up),
    ),
    FamilyOf(
        "device",
        "unmeasured",
        "1 for each quantity that cannot be measured now, with the reason; its series are absent.",
        labels=("quantity", "reason"),
        each=lambda d: _reasons(d.unmeasured),
    ),
    FamilyOf(
        "device",
        "utilization_ratio",
        f"Share of time with work on the core, {_WINDOW}.",
        lambda d: d.average.core,
    ),
    FamilyOf(
        "device",
        "memory_total_bytes",
        "Device memory (nvmlDeviceGetMemoryInfo; AMD: mem_info_vram_total).",
        lambda d: d.memory.total_bytes,
    ),
    FamilyOf(
        "device",
        "memory_used_bytes",
        "Device memory in use (nvmlDeviceGetMemoryInfo; AMD: mem_info_vram_used, for a partition "
        "the "
        "memory that its processes hold).",
        lambda d: d.memory.used_bytes,
    ),
    FamilyOf(
        "device",
        "memory_reserved_bytes",
        "Device memory reserved by driver and firmware.",
        lambda d: d.memory.reserved_bytes,
    ),
    FamilyOf(
        "device",
        "memory_active_ratio",
        f"Share of time with memory traffic, {_WINDOW}.",
        lambda d: d.average.memory_active,
    ),
    FamilyOf(
        "device",
        "encoder_utilization_ratio",
        f"Share of the encoder's time, {_WINDOW}.",
        lambda d: d.average.encoder,
    ),
    FamilyOf(
        "device",
        "decoder_utilization_ratio",
        f"Share of the decoder's time, {_WINDOW}.",
        lambda d: d.average.decoder,
    ),
    FamilyOf(
        "device",
        "sharing_replicas",
        "Replicas that the device is offered as; only MPS guarantees a replica a part of the "
        "device "
        "(node labels of GPU feature discovery and GKE, else the node's allocatable resources).",
        lambda d: d.allocated.replicas,
    ),
    FamilyOf(
        "device",
        "allocated_core_ratio",
        "Sum of the core shares allocated on the device, as far as they are known.",
        lambda d: d.allocated.core,
    ),
    FamilyOf(
        "device",
        "allocated_memory_bytes",
        "Sum of the memory allocated on the device, as far as it is known.",
        lambda d: d.allocated.memory_bytes,
    ),
    FamilyOf(
        "device",
        "unattributed_memory_bytes",
        "Device memory that no container or group holds, by reason; for overlap the value is "
        "negative.",
        labels=("reason",),
        each=lambda d: _keyed(d.memory.unattributed_bytes),
    ),
    FamilyOf(
        "device",
        "normalization_ratio",
        "Core time attributed to processes divided by the core time that the driver reports for "
        f"them, {_WINDOW}.",
        lambda d: d.normalization,
    ),
    FamilyOf(
        "device",
        "method_info",
        "How the device is measured now: busy time by samples, rates, gpm or fdinfo; shares by "
        "process_utilization, sole_owner, fdinfo or cu_occupancy (an estimate); energy "
        "by counter or power; none if it is not measured. naming: whether busy samples of the core "
        "name a process (always, partly, never; unknown without evidence). period: seconds between "
        "two samples.",
        labels=("busy", "shares", "energy", "naming", "period"),
        each=_method,
    ),
    _counter(
        "device",
        "busy_seconds_total",
        "Time with work on the core (NVML; AMD: gpu_busy_percent, for a partition gfx_busy_inst, "
        "sampled; DRM: fdinfo, the sum of all clients).",
        lambda d: d.used.core_ns,
        NS,
    ),
    *_engines("device"),
    *_counted("device"),
    _counter(
        "device",
        "energy_joules_total",
        "Energy of the board (nvmlDeviceGetTotalEnergyConsumption; AMD: gpu_metrics; DRM: hwmon); "
        "estimated from power readings if device_method_info says so.",
        lambda d: d.used.energy_uj,
        UJ,
    ),
    _counter(
        "device",
        "idle_energy_joules_total",
        "The part of the board's energy that it would have used idle, estimated; --energy.idle "
        "sets "
        "who is charged for it.",
        lambda d: d.idle_energy_uj,
        UJ,
    ),
    _unattributed("core_seconds", "busy time", NS, lambda u: u.core_ns),
    _unattributed(
        "memory_active_seconds", "time with memory traffic", NS, lambda u: u.memory_active_ns
    ),
    _unattributed("encoder_seconds", "encoder time", NS, lambda u: u.encoder_ns),
    _unattributed("decoder_seconds", "decoder time", NS, lambda u: u.decoder_ns),
    _unattributed("energy_joules", "energy", UJ, lambda u: u.energy_uj),
    _unattributed("copy_seconds", "copy engines' time", NS, lambda u: u.copy_ns),
    _unattributed("evicted_seconds", "eviction time", NS, lambda u: u.evicted_ns),
    FamilyOf(
        "device",
        "unexplained_core_seconds_total",
        "The parts of the unattributed core time with the reason no_pid, by cause.",
        type="counter",
        labels=("reason",),
        each=lambda d: _keyed(d.unexplained_ns),
        divisor=NS,
    ),
    _counter(
        "device",
        "unobserved_seconds_total",
        "Time that was not observed, because the driver dropped its samples before they were read.",
        lambda d: d.unobserved_ns,
        NS,
    ),
    _counter(
        "device",
        "unallocated_gpu_seconds_total",
        "Time of the part of the GPU that is allocated to nobody; parts of boards have none, they "
        "count for their board.",
        lambda d: d.allocated.free_ns,
        NS,
    ),
    _counter(
        "device",
        "overcommitted_gpu_seconds_total",
        "Time of what is allocated beyond the whole GPU.",
        lambda d: d.allocated.overcommitted_ns,
        NS,
    ),
)


def _last_xids(facts: DeviceFacts) -> Iterable[Sample]:
    for xid, count in (facts.xids or {}).items():
        if count.last_unix_ns is not None:
            yield (xid,), count.last_unix_ns


_SINCE = "since the driver was loaded or the board reset"

BOARD: tuple[FamilyOf[DeviceFacts], ...] = (
    _sensor("power", "power_watts", "Board power (nvmlDeviceGetPowerUsage; AMD and DRM: hwmon)."),
    _sensor(
        "power",
        "power_limit_watts",
        "Enforced power limit (nvmlDeviceGetEnforcedPowerLimit; AMD: power1_cap).",
    ),
    _sensors(
        "temperature",
        "temperature_celsius",
        "Temperature (nvmlDeviceGetTemperatureV; memory: NVML field 82; AMD and DRM: hwmon).",
        "sensor",
    ),
    _sensors(
        "clocks",
        "clock_hertz",
        "Current clock (nvmlDeviceGetClockInfo; AMD and DRM: hwmon).",
        "clock",
    ),
    _sensors(
        "throttle",
        "throttle_seconds_total",
        f"Time that clocks were throttled {_SINCE} (NVML fields 74, 76, 269-271); for AMD since "
        "the "
        "exporter's start (residencies of gpu_metrics).",
        "reason",
        NS,
    ),
    _sensors(
        "ecc",
        "ecc_errors_total",
        f"Memory errors {_SINCE} (NVML fields 3 and 4; AMD: RAS's umc_err_count).",
        "kind",
    ),
    _sensors(
        "ecc",
        "remapped_rows",
        "Memory rows that were remapped, by the kind of error (NVML fields 142 and 143).",
        "kind",
    ),
    _sensors(
        "ecc",
        "row_remapping",
        "1 if a remapping is pending until a reset, or has failed (NVML fields 144 and 145).",
        "state",
    ),
    _sensors(
        "ecc",
        "retired_pages",
        "Memory pages that were retired, by the kind of error; before Ampere (NVML fields 29, 30).",
        "kind",
    ),
    _sensor(
        "ecc",
        "retired_pages_pending",
        "1 if the retirement of a page is pending until a restart (NVML field 31).",
    ),
    _sensor(
        "recovery",
        "recovery_action",
        "What the driver says the GPU needs: 0 nothing, 1 its reset, 2 a restart of the node, 3 "
        "drain peer-to-peer, 4 drain and reset, 5 recover the IMEX domain, 6 reset the bus, 7 "
        "restart the system (NVML field 230, driver 570 and later).",
    ),
    _sensor(
        "fan",
        "fan_speed_ratio",
        "Fan speed that is asked for, as a share of the most (nvmlDeviceGetFanSpeed); boards with "
        "fans.",
    ),
    _sensor(
        "clocks",
        "performance_state",
        "Performance state, from 0 (highest) to 15 (nvmlDeviceGetPerformanceState).",
    ),
    _sensor(
        "link",
        "pcie_link_generation",
        "Current PCIe generation, lower while the GPU is idle "
        "(nvmlDeviceGetCurrPcieLinkGeneration).",
    ),
    _sensor(
        "link",
        "pcie_link_max_generation",
        "Highest PCIe generation of GPU and system (nvmlDeviceGetMaxPcieLinkGeneration).",
    ),
    _sensor("link", "pcie_link_width", "Current PCIe lanes (nvmlDeviceGetCurrPcieLinkWidth)."),
    _sensor(
        "link",
        "pcie_link_max_width",
        "Most PCIe lanes of GPU and system (nvmlDeviceGetMaxPcieLinkWidth).",
    ),
    _sensor(
        "link",
        "pcie_replays_total",
        f"PCIe packets that were sent again {_SINCE} (NVML field 94).",
    ),
    _sensor(
        "bar1",
        "bar1_used_bytes",
        "BAR1 memory in use, by which CPUs and other devices reach the GPU's memory "
        "(nvmlDeviceGetBAR1MemoryInfo).",
    ),
    _sensor("bar1", "bar1_total_bytes", "BAR1 memory (nvmlDeviceGetBAR1MemoryInfo)."),
    _sensor(
        "license",
        "vgpu_licensed",
        "1 if the driver of a vGPU's guest is licensed, 0 if it is not or needs no license "
        "(nvmlDeviceGetGridLicensableFeatures).",
    ),
    _sensors(
        "pcie",
        "pcie_bytes_total",
        "PCIe traffic of the device, protocol overhead included (GPM; before Hopper NVML fields "
        "197 "
        "and 198, which lose traffic beyond 4 GiB in a collection interval).",
        "direction",
    ),
    _sensors(
        "nvlink",
        "nvlink_bytes_total",
        f"NVLink payload over all links {_SINCE} (NVML fields 138 and 139).",
        "direction",
    ),
    _sensors(
        "nvlink",
        "nvlink_errors_total",
        f"NVLink errors over all links {_SINCE} (NVML fields 38, 45, 52 and 59).",
        "kind",
    ),
    _sensor(
        "profiling",
        "dram_active_ratio",
        "Share of time that the memory interface moved data, averaged over 5 s (NVML GPM).",
    ),
    _sensor(
        "profiling",
        "sm_active_ratio",
        "Share of the SMs that were busy, averaged over 5 s (NVML GPM, Hopper and newer).",
    ),
    _sensor(
        "profiling",
        "sm_occupancy_ratio",
        "Resident warps divided by the most that the SMs can hold, averaged over 5 s (NVML GPM).",
    ),
    _sensor(
        "profiling",
        "tensor_active_ratio",
        "Share of time with tensor cores in use, averaged over 5 s (NVML GPM).",
    ),
    FamilyOf(
        "device",
        "driver_seconds_total",
        "Time that the exporter spent in driver calls for the device, by what it read.",
        type="counter",
        labels=("part",),
        each=lambda d: [((part,), cost.duration_ns) for part, cost in d.costs.items()],
        divisor=NS,
        group="cost",
    ),
    FamilyOf(
        "device",
        "read_interval_seconds",
        "Time from one read of a part to the next; longer than set while the driver is slow to "
        "answer.",
        labels=("part",),
        each=lambda d: [
            ((part,), c.every_ns) for part, c in d.costs.items() if c.every_ns is not None
        ],
        divisor=NS,
        group="cost",
    ),
    FamilyOf(
        "device",
        "xid_errors_total",
        "XID errors that the driver reported since the exporter's start (NVML events).",
        type="counter",
        labels=("xid",),
        each=lambda d: [((xid,), count.events) for xid, count in (d.xids or {}).items()],
        group="xid",
    ),
    FamilyOf(
        "device",
        "xid_last_timestamp_seconds",
        "When the XID error was last reported since the exporter's start.",
        labels=("xid",),
        each=_last_xids,
        divisor=NS,
        group="xid",
    ),
)


CONTAINER: tuple[FamilyOf[ContainerHolding], ...] = (
    *_usage_gauges("container"),
    FamilyOf(
        "container",
        "core_limit_ratio",
        "Allocated share of the GPU's core.",
        lambda c: c.allocation.core,
    ),
    FamilyOf(
        "container",
        "memory_limit_bytes",
        "Allocated device memory.",
        lambda c: c.allocation.memory_bytes,
    ),
    FamilyOf(
        "container",
        "core_limit_utilization_ratio",
        "Core usage divided by the allocated share.",
        lambda c: c.core_of_limit,
    ),
    FamilyOf(
        "container",
        "memory_limit_utilization_ratio",
        "Memory held divided by the allocated memory.",
        lambda c: c.memory_of_limit,
    ),
    FamilyOf(
        "container",
        "allocated_replicas",
        "Allocated replicas of the device (time slices, MPS replicas, or uses of a claim).",
        lambda c: c.allocation.replicas,
    ),
    FamilyOf(
        "container",
        "allocation_info",
        "The sharing system that allocated the device, its policy and the container's priority; "
        "the "
        "device labels are empty if the device is not known, the container label if the allocation "
        "is the pod's.",
        labels=("scheme", "policy", "priority"),
        each=lambda c: [(of, 1) for of in c.allocation.granted],
    ),
    FamilyOf(
        "container",
        "placement_mismatch",
        "1 on a device that a process of the container uses and its allocation does not name, 0 if "
        "they agree. Usage is shown where it was measured, limits where they were allocated.",
        lambda c: _flag(c.misplaced),
    ),
    *_counters("container", f"GPU-seconds used: {_CORE}."),
    _counter(
        "container",
        "allocated_core_seconds_total",
        "Allocated share of the GPU times the time of the allocation.",
        lambda c: c.allocated.core_ns,
        NS,
    ),
    *_held_against("container", "the container"),
    FamilyOf("container", "allocated_gpus", _KEPT, lambda c: c.allocation.gpus),
    _counter(
        "container",
        "core_waiting_seconds_total",
        f"{_WAITING} Upper bound: a program that pauses by itself looks the same.",
        lambda c: c.waiting.waited_ns,
        NS,
    ),
    FamilyOf(
        "container",
        "core_pressure_ratio",
        f"Share of time in core_waiting_seconds_total, {_WINDOW}; an upper bound.",
        lambda c: c.average.waiting,
    ),
    FamilyOf(
        "container",
        "core_waiting_on_seconds_total",
        "Waiting (core_waiting_seconds_total) by the pod that ran; for a group by_pod is its kind "
        "and name, and by_namespace is empty.",
        type="counter",
        labels=("by_namespace", "by_pod"),
        each=lambda c: c.waiting.by_pod.items(),
        divisor=NS,
        group=CONTENTION,
    ),
)


def _identity(info: PodInfo | None) -> list[Sample]:
    return [((info.uid, info.qos, info.owner_kind, info.owner_name), 1)] if info else []


POD: tuple[FamilyOf[PodFacts], ...] = (
    FamilyOf(
        "pod",
        "info",
        "Identity and controller of the pod, from the pod source in use, with the labels and "
        "annotations of --pods.labels and --pods.annotations.",
        labels=("uid", "qos", "owner_kind", "owner_name"),
        each=lambda p: _identity(p.info),
        further=lambda p: p.info.labels if p.info else {},
    ),
    FamilyOf("pod", "core_usage_gpus", f"Core in use, in GPUs, {_WINDOW}.", lambda p: p.core),
    FamilyOf("pod", "core_limit_gpus", "Core allocated, in GPUs.", lambda p: p.core_limit),
    FamilyOf(
        "pod",
        "memory_used_bytes",
        "Device memory held by all its containers.",
        lambda p: p.memory_bytes,
    ),
    FamilyOf(
        "pod",
        "memory_limit_bytes",
        "Device memory allocated to all its containers.",
        lambda p: p.memory_limit_bytes,
    ),
    FamilyOf(
        "pod",
        "core_limit_utilization_ratio",
        "Core usage of the containers that have an allocated share, divided by these shares.",
        lambda p: p.core_of_limit,
    ),
    FamilyOf(
        "pod",
        "memory_limit_utilization_ratio",
        "Memory held divided by the allocated memory, on the device with the highest ratio.",
        lambda p: p.memory_of_limit,
    ),
    _moment(
        "pod",
        "last_active_timestamp_seconds",
        "When it last used a GPU's core.",
        lambda p: p.last_active_unix_ns,
    ),
    _counter(
        "pod", "core_seconds_total", f"GPU-seconds used: {_CORE}.", lambda p: p.used.core_ns, NS
    ),
    _counter(
        "pod",
        "energy_joules_total",
        f"Energy used, {_ESTIMATE}.",
        lambda p: p.used.energy_uj,
        UJ,
    ),
    _counter(
        "pod",
        "allocated_core_seconds_total",
        "Allocated shares of all its containers times the time of the allocations.",
        lambda p: p.allocated.core_ns,
        NS,
    ),
    *_held_against("pod", "its containers"),
    FamilyOf("pod", "allocated_gpus", _KEPT, lambda p: p.allocated_gpus),
    _counter(
        "pod",
        "limited_core_seconds_total",
        "The part of core_seconds_total that is compared with the allocation: of the containers "
        "that have an allocated share.",
        lambda p: p.limited_core_ns,
        NS,
    ),
)

NAMESPACE: tuple[FamilyOf[NamespaceFacts], ...] = (
    *_counters("namespace", "GPU-seconds used by its pods."),
    _counter(
        "namespace",
        "allocated_core_seconds_total",
        "Allocated shares of all its pods times the time of the allocations, ended pods included; "
        "uuid is empty while the device is not known.",
        lambda n: n.allocated.core_ns,
        NS,
    ),
    *_held_against("namespace", "its pods' containers"),
    FamilyOf("namespace", "allocated_gpus", _KEPT, lambda n: n.allocated_gpus),
)

GROUP: tuple[FamilyOf[GroupHolding], ...] = (
    FamilyOf(
        "group",
        "info",
        "Names of the group: of its container, machine or unit, its user, and for a Slurm job the "
        "account, job and step; empty if not known.",
        labels=("name", "user", "account", "slurm_job", "slurm_step"),
        each=lambda g: [(astuple(g.info), 1)] if g.info else [],
    ),
    *_usage_gauges("group"),
    *_counters("group", f"GPU-seconds used: {_CORE}."),
)

GROUP_KIND: tuple[FamilyOf[GroupKindFacts], ...] = _counters(
    "group_kind", "GPU-seconds used by all groups of the kind."
)


def _of_sources(
    exporter: ExporterFacts, read: Callable[[SourceStatus], Number | None]
) -> Iterable[Sample]:
    for source in exporter.sources:
        number = read(source)
        if number is not None:
            yield (source.name,), number


EXPORTER: tuple[FamilyOf[ExporterFacts], ...] = (
    FamilyOf(
        "exporter",
        "build_info",
        "Version of the exporter.",
        labels=("version", "python"),
        each=lambda e: [((e.version, e.python), 1)],
    ),
    FamilyOf(
        "exporter",
        "config_info",
        "Settings that decide what the values mean: who is charged for idle energy.",
        labels=("energy_idle",),
        each=lambda e: [((e.idle,), 1)],
    ),
    FamilyOf(
        "exporter",
        "config_last_reload_successful",
        "1 if the settings could be used when they were last read, else 0; the old ones then stay "
        "in force.",
        lambda e: _flag(e.reload.successful) if e.reload else None,
    ),
    _moment(
        "exporter",
        "config_last_reload_success_timestamp_seconds",
        "When usable settings were last read.",
        lambda e: e.reload.success_unix_ns if e.reload else None,
    ),
    FamilyOf(
        "exporter",
        "simulated",
        "1 if the node is simulated: no value is real.",
        lambda e: int(e.simulated),
    ),
    FamilyOf(
        "exporter",
        "source_up",
        "1 if the source answered in the last cycle. Of the pod sources, those that were asked.",
        labels=("source",),
        each=lambda e: _of_sources(e, lambda s: int(s.up)),
    ),
    FamilyOf(
        "exporter",
        "source_duration_seconds",
        "How long the source took in the last cycle.",
        labels=("source",),
        each=lambda e: _of_sources(e, lambda s: s.duration_ns),
        divisor=NS,
    ),
    FamilyOf(
        "exporter",
        "source_last_success_timestamp_seconds",
        "When the source last answered.",
        labels=("source",),
        each=lambda e: _of_sources(e, lambda s: s.last_success_unix_ns or None),
        divisor=NS,
    ),
    FamilyOf(
        "exporter",
        "snapshot_timestamp_seconds",
        "When the served values were measured.",
        lambda e: e.unix_ns,
        divisor=NS,
    ),
    FamilyOf(
        "exporter",
        "rejected_samples_total",
        "Rows and items from outside that were implausible or unreadable, by reason.",
        type="counter",
        labels=("reason",),
        each=lambda e: _keyed(e.rejected),
    ),
    FamilyOf(
        "exporter",
        "access_reviews_total",
        "Questions to the API server about clients, by review (token: whose it is; right: what "
        "they may do) and outcome (allowed, denied; failed: without a usable answer; not_asked: "
        "too many waited). Absent without --web.kubernetes-access.",
        type="counter",
        labels=("review", "outcome"),
        each=lambda e: (e.reviews or {}).items(),
    ),
    FamilyOf(
        "exporter",
        "dropped_series_total",
        "Series that were left out because of --metrics.max-series-per-family, summed over the "
        "collection cycles.",
        type="counter",
        labels=("family",),
        each=lambda e: _keyed(e.dropped),
    ),
    FamilyOf(
        "exporter",
        "collection_interval_seconds",
        "Current time from one collection cycle to the next.",
        lambda e: e.interval_ns,
        divisor=NS,
    ),
    _counter("exporter", "cycles_total", "Collection cycles.", lambda e: e.cycles),
    _counter(
        "exporter",
        "cycle_overruns_total",
        "Cycles that took longer than the interval.",
        lambda e: e.overruns,
    ),
    FamilyOf(
        "exporter",
        "nvml_calls_total",
        "Calls of the driver library.",
        type="counter",
        labels=("call",),
        each=lambda e: [((name,), call.calls) for name, call in e.calls.items()],
    ),
    FamilyOf(
        "exporter",
        "nvml_call_seconds_total",
        "Time spent in the driver library. Time in nvmlEventSetWait_v2 is spent waiting for "
        "events.",
        type="counter",
        labels=("call",),
        each=lambda e: [((name,), call.duration_ns) for name, call in e.calls.items()],
        divisor=NS,
    ),
)

FAMILIES: tuple[Family, ...] = (
    *DEVICE,
    *BOARD,
    *CONTAINER,
    *POD,
    *NAMESPACE,
    *GROUP,
    *GROUP_KIND,
    *EXPORTER,
)

OPTIONAL_GROUPS = tuple(dict.fromkeys(f.group for f in FAMILIES if f.group != CORE))
"""The groups that ``--metrics.disable`` can switch off."""


def families_without(disabled: Collection[str]) -> tuple[Family, ...]:
    """The table without the disabled families. ``disabled`` has groups and full names."""
    return tuple(f for f in FAMILIES if f.group not in disabled and f.full_name not in disabled)


def groups_without(disabled: Collection[str]) -> frozenset[str]:
    """The groups of which no family is left. What only they need is not read."""
    return frozenset(OPTIONAL_GROUPS) - {family.group for family in families_without(disabled)}
