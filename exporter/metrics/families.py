"""The metric table: every family that the exporter serves, once. Data, not code.

The exposition, the documentation and the tests are made from it. A family's full name is
``mgpu_<level>_<name>``. Its labels are those of its level, then its own.
"""

from collections.abc import Collection
from dataclasses import dataclass

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

OPEN_LABELS = ("label_", "annotation_")
OWN_LEVEL = "exporter"  # what the exporter says of itself

CORE = "core"  # the group that is always served

NS = 1_000_000_000  # accounts of time are kept in nanoseconds
UJ = 1_000_000  # accounts of energy in microjoules


@dataclass(frozen=True, slots=True)
class Family:
    """One metric family. ``divisor`` leads from the ledger's integers to the base unit.

    ``group`` is what can be switched off together, with the calls that it takes. A series of an
    ``open`` family may carry further labels, which its row names; ``OPEN_LABELS`` begin them all.
    """

    level: str
    name: str
    help: str
    type: str = "gauge"
    labels: tuple[str, ...] = ()
    divisor: int = 1
    group: str = CORE
    open: bool = False

    @property
    def full_name(self) -> str:
        """The name on the page, e.g. ``mgpu_container_core_seconds_total``."""
        return f"{PREFIX}_{self.level}_{self.name}"

    @property
    def all_labels(self) -> tuple[str, ...]:
        """The labels of the level, then the family's own."""
        return LEVELS[self.level] + self.labels


def _counter(
    level: str, name: str, about: str, labels: tuple[str, ...] = (), divisor: int = 1
) -> Family:
    return Family(level, name, about, "counter", labels, divisor)


def _moment(level: str, name: str, about: str) -> Family:
    return Family(level, name, about, divisor=NS)


def _optional(
    group: str, name: str, about: str, labels: tuple[str, ...] = (), divisor: int = 1
) -> Family:
    """A family of devices that can be switched off."""
    kind = "counter" if name.endswith("_total") else "gauge"
    return Family("device", name, about, kind, labels, divisor, group=group)


_WINDOW = "averaged over --collection.window"
_CORE = (
    "core (SM) busy time, from NVML process utilization as parts of the device's busy time; of AMD "
    "an estimate by the compute units occupied at each sample"
)
_ESTIMATE = "estimated: active energy split by core use, idle energy by --energy.idle"


_COPY = "Busy time of copy engines, all of them added up (AMD: KFD's sdma_<gpu>; DRM: fdinfo)."
_EVICTED = "Time that queues were off the device to make room for others (AMD: KFD's evicted_ms)."


def _counted(level: str) -> tuple[Family, ...]:
    """What some drivers count of each process, summed up."""
    return (
        _counter(level, "copy_seconds_total", _COPY, divisor=NS),
        _counter(level, "evicted_seconds_total", _EVICTED, divisor=NS),
    )


def _usage_gauges(level: str) -> tuple[Family, ...]:
    """The gauges that a container and a group have alike."""
    return (
        Family(level, "core_utilization_ratio", f"Share of the GPU's time in use, {_WINDOW}."),
        Family(
            level,
            "memory_used_bytes",
            "Device memory held (NVML running processes; AMD: KFD's vram_<gpu>; DRM: fdinfo).",
        ),
        Family(level, "memory_used_peak_bytes", "Highest device memory seen held."),
        Family(level, "memory_active_ratio", f"Share of time with memory traffic, {_WINDOW}."),
        Family(level, "encoder_utilization_ratio", f"Share of the encoder's time, {_WINDOW}."),
        Family(level, "decoder_utilization_ratio", f"Share of the decoder's time, {_WINDOW}."),
        Family(level, "processes", "Processes that hold a context on the device."),
        _moment(level, "last_active_timestamp_seconds", "When it last used the GPU's core."),
        _moment(level, "observed_since_timestamp_seconds", "Since when it has been accounted."),
        Family(
            level,
            "unmeasured",
            "1 for each quantity that cannot be measured now, and why; its series are absent.",
            labels=("quantity", "reason"),
        ),
    )


def _usage_counters(level: str) -> tuple[Family, ...]:
    """The accounts that a container and a group have alike."""
    return (
        _counter(level, "core_seconds_total", f"GPU-seconds used: {_CORE}.", divisor=NS),
        _counter(level, "memory_active_seconds_total", "Time with memory traffic.", divisor=NS),
        _counter(level, "encoder_seconds_total", "Encoder busy time.", divisor=NS),
        _counter(level, "decoder_seconds_total", "Decoder busy time.", divisor=NS),
        _counter(level, "energy_joules_total", f"Energy used, {_ESTIMATE}.", divisor=UJ),
        *_counted(level),
    )


def _sum_counters(level: str, users: str) -> tuple[Family, ...]:
    """The accounts that a namespace and a kind of group have alike."""
    return (
        _counter(level, "core_seconds_total", f"GPU-seconds used by {users}.", divisor=NS),
        _counter(level, "memory_active_seconds_total", "Time with memory traffic.", divisor=NS),
        _counter(level, "encoder_seconds_total", "Encoder busy time.", divisor=NS),
        _counter(level, "decoder_seconds_total", "Decoder busy time.", divisor=NS),
        _counter(level, "energy_joules_total", f"Energy used, {_ESTIMATE}.", divisor=UJ),
        *_counted(level),
    )


_ALLOCATED = _counter(
    "container",
    "allocated_core_seconds_total",
    "Allotted share of the GPU times the time that it was allotted.",
    divisor=NS,
)

DEVICE = (
    Family(
        "device",
        "info",
        "The device: model, place and driver (NVML; AMD: sysfs and KFD topology; DRM: sysfs).",
        labels=(
            *("vendor", "model", "pci_bus_id", "parent_uuid", "profile", "sharing"),
            "driver_version",
        ),
    ),
    Family("device", "up", "1 if the device could be read in the last cycle, else 0."),
    Family(
        "device",
        "unmeasured",
        "1 for each quantity that cannot be measured now, and why; its series are absent.",
        labels=("quantity", "reason"),
    ),
    Family("device", "utilization_ratio", f"Share of time with work on the core, {_WINDOW}."),
    Family(
        "device",
        "memory_total_bytes",
        "Device memory (nvmlDeviceGetMemoryInfo; AMD: mem_info_vram_total).",
    ),
    Family(
        "device",
        "memory_used_bytes",
        "Device memory in use (nvmlDeviceGetMemoryInfo; AMD: mem_info_vram_used, of a partition "
        "what its processes hold).",
    ),
    Family("device", "memory_reserved_bytes", "Device memory kept by driver and firmware."),
    Family("device", "memory_active_ratio", f"Share of time with memory traffic, {_WINDOW}."),
    Family("device", "encoder_utilization_ratio", f"Share of the encoder's time, {_WINDOW}."),
    Family("device", "decoder_utilization_ratio", f"Share of the decoder's time, {_WINDOW}."),
    Family(
        "device",
        "sharing_replicas",
        "Replicas that the device is divided into, which only MPS promises a part of it (node "
        "labels of GPU feature discovery and GKE, else what the node offers).",
    ),
    Family(
        "device",
        "allocated_core_ratio",
        "Sum of the core shares that are known to be allotted on the device.",
    ),
    Family(
        "device",
        "allocated_memory_bytes",
        "Sum of the memory that is known to be allotted on the device.",
    ),
    Family(
        "device",
        "unattributed_memory_bytes",
        "Device memory that no container or group holds, by reason; overlap is below 0.",
        labels=("reason",),
    ),
    Family(
        "device",
        "normalization_ratio",
        f"Core time given to processes against what the driver credits them with, {_WINDOW}.",
    ),
    Family(
        "device",
        "method_info",
        "How it is measured now: busy time by samples, rates, gpm or fdinfo; shares by "
        "process_utilization, accounting, sole_owner, fdinfo or cu_occupancy (an estimate); energy "
        "by counter or power; none "
        "where it is not.",
        labels=("busy", "shares", "energy"),
    ),
    _counter(
        "device",
        "busy_seconds_total",
        "Time with work on the core (NVML; AMD: gpu_busy_percent, or gfx_busy_inst of a partition, "
        "sampled; DRM: fdinfo, the sum of all clients).",
        divisor=NS,
    ),
    _counter("device", "memory_active_seconds_total", "Time with memory traffic.", divisor=NS),
    _counter("device", "encoder_seconds_total", "Encoder busy time.", divisor=NS),
    _counter("device", "decoder_seconds_total", "Decoder busy time.", divisor=NS),
    *_counted("device"),
    _counter(
        "device",
        "energy_joules_total",
        "Energy of the board (nvmlDeviceGetTotalEnergyConsumption; AMD: gpu_metrics; DRM: hwmon); "
        "estimated from power readings where device_method_info says so.",
        divisor=UJ,
    ),
    _counter(
        "device",
        "idle_energy_joules_total",
        "The part of the board's energy that it would have used idle, estimated; for whom it is "
        "charged to see --energy.idle.",
        divisor=UJ,
    ),
    *(
        _counter(
            "device",
            f"unattributed_{quantity}_total",
            f"The part of the device's {what} that no container or group used, by reason.",
            ("reason",),
            divisor,
        )
        for quantity, what, divisor in (
            ("core_seconds", "busy time", NS),
            ("memory_active_seconds", "time with memory traffic", NS),
            ("encoder_seconds", "encoder time", NS),
            ("decoder_seconds", "decoder time", NS),
            ("energy_joules", "energy", UJ),
            ("copy_seconds", "copy engines' time", NS),
            ("evicted_seconds", "eviction time", NS),
        )
    ),
    _counter(
        "device",
        "unexplained_core_seconds_total",
        "Why core time counts as unattributed with the reason no_pid: the parts of it.",
        ("reason",),
        NS,
    ),
    _counter(
        "device",
        "unobserved_seconds_total",
        "Time whose samples the driver had dropped before they were read.",
        divisor=NS,
    ),
)

_SINCE = "since the driver was loaded or the board reset"

BOARD = (
    _optional("power", "power_watts", "Board power (nvmlDeviceGetPowerUsage; AMD and DRM: hwmon)."),
    _optional(
        "power",
        "power_limit_watts",
        "Enforced power limit (nvmlDeviceGetEnforcedPowerLimit; AMD: power1_cap).",
    ),
    _optional(
        "temperature",
        "temperature_celsius",
        "Temperature (nvmlDeviceGetTemperatureV; of the memory: NVML field 82; AMD and DRM: "
        "hwmon).",
        ("sensor",),
    ),
    _optional(
        "clocks",
        "clock_hertz",
        "Clock now (nvmlDeviceGetClockInfo; AMD and DRM: hwmon).",
        ("clock",),
    ),
    _optional(
        "throttle",
        "throttle_seconds_total",
        f"Time that clocks were held down {_SINCE} (NVML fields 74, 76, 269-271); of AMD since the "
        "exporter's start (residencies of gpu_metrics).",
        ("reason",),
        NS,
    ),
    _optional(
        "ecc",
        "ecc_errors_total",
        f"Memory errors {_SINCE} (NVML fields 3 and 4; AMD: RAS's umc_err_count).",
        ("kind",),
    ),
    _optional(
        "ecc",
        "remapped_rows",
        "Rows of the memory that were replaced, by the kind of error (NVML fields 142 and 143).",
        ("kind",),
    ),
    _optional(
        "ecc",
        "row_remapping",
        "1 if a remapping waits for a reset, or has failed (NVML fields 144 and 145).",
        ("state",),
    ),
    _optional(
        "pcie",
        "pcie_bytes_total",
        "PCIe traffic as the device sees it, with the protocol's own (GPM; before Hopper NVML "
        "fields 197 and 198, which miss what goes beyond 4 GiB in a collection interval).",
        ("direction",),
    ),
    _optional(
        "nvlink",
        "nvlink_bytes_total",
        f"NVLink payload over all links {_SINCE} (NVML fields 138 and 139).",
        ("direction",),
    ),
    _optional(
        "profiling",
        "sm_active_ratio",
        "Share of the SMs that were busy, averaged over 5 s (NVML GPM, Hopper and newer).",
    ),
    _optional(
        "profiling",
        "sm_occupancy_ratio",
        "Share of the warps that fit on the SMs, averaged over 5 s (NVML GPM).",
    ),
    _optional(
        "profiling",
        "tensor_active_ratio",
        "Share of time that tensor cores were in use, averaged over 5 s (NVML GPM).",
    ),
    _optional(
        "cost",
        "driver_seconds_total",
        "Time that the exporter spent in the driver's calls for the device, by what it read.",
        ("part",),
        NS,
    ),
    _optional(
        "cost",
        "read_interval_seconds",
        "Time from one read of it to the next; wider than set while the driver is slow to answer.",
        ("part",),
        NS,
    ),
    _optional(
        "xid",
        "xid_errors_total",
        "XIDs that the driver reported since the exporter's start (NVML events).",
        ("xid",),
    ),
    _optional(
        "xid",
        "xid_last_timestamp_seconds",
        "When an XID was last reported since the exporter's start.",
        ("xid",),
        NS,
    ),
)

CONTAINER = (
    *_usage_gauges("container"),
    Family("container", "core_limit_ratio", "Share of the GPU's core that was allotted."),
    Family("container", "memory_limit_bytes", "Device memory that was allotted."),
    Family("container", "core_limit_utilization_ratio", "Core use against the allotted share."),
    Family("container", "memory_limit_utilization_ratio", "Memory held against the allotment."),
    Family(
        "container",
        "allocated_replicas",
        "Replicas of the device allotted (time-sliced, MPS's, or uses of a claim).",
    ),
    Family(
        "container",
        "allocation_info",
        "The sharing system that allotted the device, its policy and the container's priority; "
        "without a device where that is not known, without a container where the pod has it.",
        labels=("scheme", "policy", "priority"),
    ),
    Family(
        "container",
        "placement_mismatch",
        "1 on a device where a process of the container was seen and which its allotment leaves "
        "out, 0 where the two agree: use stands where it was seen, limits as allotted.",
    ),
    *_usage_counters("container"),
    _ALLOCATED,
)

POD = (
    Family(
        "pod",
        "info",
        "The pod's identity and the owner it was made for, from the source of pods in use; with "
        "the labels and annotations of --pods.labels and --pods.annotations.",
        labels=("uid", "qos", "owner_kind", "owner_name"),
        open=True,
    ),
    Family("pod", "core_usage_gpus", f"GPUs' worth of core in use, {_WINDOW}."),
    Family("pod", "core_limit_gpus", "GPUs' worth of core allotted."),
    Family("pod", "memory_used_bytes", "Device memory held by all its containers."),
    Family("pod", "memory_limit_bytes", "Device memory allotted to all its containers."),
    Family(
        "pod",
        "core_limit_utilization_ratio",
        "Core use of the containers that have a share against it.",
    ),
    Family(
        "pod",
        "memory_limit_utilization_ratio",
        "Memory held against the allotment, on the device where that is most.",
    ),
    _moment("pod", "last_active_timestamp_seconds", "When it last used a GPU's core."),
    _counter("pod", "core_seconds_total", f"GPU-seconds used: {_CORE}.", divisor=NS),
    _counter("pod", "energy_joules_total", f"Energy used, {_ESTIMATE}.", divisor=UJ),
    _counter(
        "pod",
        "allocated_core_seconds_total",
        "Allotted shares of all its containers times the time that they were allotted.",
        divisor=NS,
    ),
)

NAMESPACE = _sum_counters("namespace", "its pods")

GROUP = (
    Family(
        "group",
        "info",
        "What the group is called: its container's or machine's name, its unit, its user, and of a "
        "Slurm job the account, the job and the step; empty where that is not known.",
        labels=("name", "user", "account", "slurm_job", "slurm_step"),
    ),
    *_usage_gauges("group"),
    *_usage_counters("group"),
)

GROUP_KIND = _sum_counters("group_kind", "all groups of the kind")

EXPORTER = (
    Family("exporter", "build_info", "Version of the exporter.", labels=("version", "python")),
    Family(
        "exporter",
        "config_info",
        "Settings that decide what the figures mean: whom idle energy is charged to.",
        labels=("energy_idle",),
    ),
    Family(
        "exporter",
        "config_last_reload_successful",
        "1 if the settings could be used when they were last read, else 0: then the old ones are.",
    ),
    _moment(
        "exporter",
        "config_last_reload_success_timestamp_seconds",
        "When the settings were last read and could be used.",
    ),
    Family("exporter", "simulated", "1 if the node is simulated: nothing here is real."),
    Family(
        "exporter",
        "source_up",
        "1 if the source answered in the last cycle; of sources of pods, each that was turned to.",
        labels=("source",),
    ),
    Family(
        "exporter",
        "source_duration_seconds",
        "How long the source took in the last cycle.",
        labels=("source",),
        divisor=NS,
    ),
    Family(
        "exporter",
        "source_last_success_timestamp_seconds",
        "When the source last answered.",
        labels=("source",),
        divisor=NS,
    ),
    Family(
        "exporter",
        "snapshot_timestamp_seconds",
        "When what is served here was measured.",
        divisor=NS,
    ),
    _counter(
        "exporter",
        "rejected_samples_total",
        "Rows and items from outside that could not be true or read, by reason.",
        ("reason",),
    ),
    _counter(
        "exporter",
        "dropped_series_total",
        "Series beyond --metrics.max-series-per-family, which are left out, summed over the "
        "collection cycles.",
        ("family",),
    ),
    Family(
        "exporter",
        "collection_interval_seconds",
        "Time from one collection cycle to the next, as wide as it is now.",
        divisor=NS,
    ),
    Family(
        "exporter",
        "cpu_budget_ratio",
        "The share of one CPU of --collection.budget; absent where there is none.",
    ),
    Family(
        "exporter",
        "cpu_used_ratio",
        "The share of one CPU that the exporter used lately; absent where there is no budget.",
    ),
    _counter("exporter", "cycles_total", "Collection cycles."),
    _counter("exporter", "cycle_overruns_total", "Cycles that took longer than the interval."),
    _counter("exporter", "nvml_calls_total", "Calls of the driver library.", ("call",)),
    _counter(
        "exporter",
        "nvml_call_seconds_total",
        "Time spent in the driver library; in nvmlEventSetWait_v2 it is spent waiting for events.",
        ("call",),
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
"""What ``--metrics.disable`` can switch off together."""


def families_without(disabled: Collection[str]) -> tuple[Family, ...]:
    """The table without the families of some groups, and without some by their full names."""
    return tuple(f for f in FAMILIES if f.group not in disabled and f.full_name not in disabled)


def groups_without(disabled: Collection[str]) -> frozenset[str]:
    """The groups of which no family is left: what only they need is not to be read."""
    return frozenset(OPTIONAL_GROUPS) - {family.group for family in families_without(disabled)}
