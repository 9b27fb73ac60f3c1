"""The table of all metric families that the exporter serves. Data.

The exposition, the documentation and the tests are generated from it. A family's full name is
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

OWN_LEVEL = "exporter"  # families about the exporter itself

CORE = "core"  # the group of families that cannot be switched off

NS = 1_000_000_000  # the ledger counts time in nanoseconds
UJ = 1_000_000  # and energy in microjoules


@dataclass(frozen=True, slots=True)
class Family:
    """One metric family. The ledger's integer divided by ``divisor`` is in the base unit.

    Families of one ``group`` are switched off together, with the driver calls that they need. A
    series of an ``open`` family may have further labels, which its row names: ``label_…`` and
    ``annotation_…``.
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


def _counter(
    level: str, name: str, about: str, labels: tuple[str, ...] = (), divisor: int = 1
) -> Family:
    return Family(level, name, about, "counter", labels, divisor)


def _moment(level: str, name: str, about: str) -> Family:
    return Family(level, name, about, divisor=NS)


def _optional(
    group: str, name: str, about: str, labels: tuple[str, ...] = (), divisor: int = 1
) -> Family:
    """A device family that can be switched off."""
    kind = "counter" if name.endswith("_total") else "gauge"
    return Family("device", name, about, kind, labels, divisor, group=group)


_WINDOW = "averaged over --collection.window"
_CORE = (
    "core (SM) busy time, from NVML process utilization as parts of the device's busy time; for "
    "AMD "
    "an estimate from the compute units occupied at each sample"
)
_ESTIMATE = "estimated: active energy split by core use, idle energy by --energy.idle"


_COPY = "Busy time of all copy engines, summed (AMD: KFD's sdma_<gpu>; DRM: fdinfo)."
_EVICTED = "Time that queues were evicted to make room for others (AMD: KFD's evicted_ms)."


def _counted(level: str) -> tuple[Family, ...]:
    """Counters that some drivers have for each process, summed."""
    return (
        _counter(level, "copy_seconds_total", _COPY, divisor=NS),
        _counter(level, "evicted_seconds_total", _EVICTED, divisor=NS),
    )


def _usage_gauges(level: str) -> tuple[Family, ...]:
    """The gauges that containers and groups share."""
    return (
        Family(level, "core_utilization_ratio", f"Share of the GPU's core time in use, {_WINDOW}."),
        Family(
            level,
            "memory_used_bytes",
            "Device memory held (NVML running processes; AMD: KFD's vram_<gpu>; DRM: fdinfo).",
        ),
        Family(level, "memory_used_peak_bytes", "Highest device memory held so far."),
        Family(level, "memory_active_ratio", f"Share of time with memory traffic, {_WINDOW}."),
        Family(level, "encoder_utilization_ratio", f"Share of the encoder's time, {_WINDOW}."),
        Family(level, "decoder_utilization_ratio", f"Share of the decoder's time, {_WINDOW}."),
        Family(level, "processes", "Processes with a context on the device."),
        _moment(level, "last_active_timestamp_seconds", "When it last used the GPU's core."),
        _moment(level, "observed_since_timestamp_seconds", "When counting began."),
        Family(
            level,
            "unmeasured",
            "1 for each quantity that cannot be measured now, with the reason; its series are "
            "absent.",
            labels=("quantity", "reason"),
        ),
    )


def _usage_counters(level: str) -> tuple[Family, ...]:
    """The counters that containers and groups share."""
    return (
        _counter(level, "core_seconds_total", f"GPU-seconds used: {_CORE}.", divisor=NS),
        _counter(level, "memory_active_seconds_total", "Time with memory traffic.", divisor=NS),
        _counter(level, "encoder_seconds_total", "Encoder busy time.", divisor=NS),
        _counter(level, "decoder_seconds_total", "Decoder busy time.", divisor=NS),
        _counter(level, "energy_joules_total", f"Energy used, {_ESTIMATE}.", divisor=UJ),
        *_counted(level),
    )


def _sum_counters(level: str, users: str) -> tuple[Family, ...]:
    """The counters that namespaces and kinds of groups share."""
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
    "Allocated share of the GPU times the time of the allocation.",
    divisor=NS,
)

DEVICE = (
    Family(
        "device",
        "info",
        "Model, PCI address and driver of the device (NVML; AMD: sysfs and KFD topology; DRM: "
        "sysfs). gpu_instance is the number of a MIG instance or partition on its GPU; "
        "cuda_version is the highest that the driver supports.",
        labels=(
            *("vendor", "model", "pci_bus_id", "parent_uuid", "profile", "sharing"),
            *("driver_version", "gpu_instance", "cuda_version"),
        ),
    ),
    Family("device", "up", "1 if the device could be read in the last cycle, else 0."),
    Family(
        "device",
        "unmeasured",
        "1 for each quantity that cannot be measured now, with the reason; its series are absent.",
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
        "Device memory in use (nvmlDeviceGetMemoryInfo; AMD: mem_info_vram_used, for a partition "
        "the "
        "memory that its processes hold).",
    ),
    Family("device", "memory_reserved_bytes", "Device memory reserved by driver and firmware."),
    Family("device", "memory_active_ratio", f"Share of time with memory traffic, {_WINDOW}."),
    Family("device", "encoder_utilization_ratio", f"Share of the encoder's time, {_WINDOW}."),
    Family("device", "decoder_utilization_ratio", f"Share of the decoder's time, {_WINDOW}."),
    Family(
        "device",
        "sharing_replicas",
        "Replicas that the device is offered as; only MPS guarantees a replica a part of the "
        "device "
        "(node labels of GPU feature discovery and GKE, else the node's allocatable resources).",
    ),
    Family(
        "device",
        "allocated_core_ratio",
        "Sum of the core shares allocated on the device, as far as they are known.",
    ),
    Family(
        "device",
        "allocated_memory_bytes",
        "Sum of the memory allocated on the device, as far as it is known.",
    ),
    Family(
        "device",
        "unattributed_memory_bytes",
        "Device memory that no container or group holds, by reason; for overlap the value is "
        "negative.",
        labels=("reason",),
    ),
    Family(
        "device",
        "normalization_ratio",
        "Core time attributed to processes divided by the core time that the driver reports for "
        f"them, {_WINDOW}.",
    ),
    Family(
        "device",
        "method_info",
        "How the device is measured now: busy time by samples, rates, gpm or fdinfo; shares by "
        "process_utilization, sole_owner, fdinfo or cu_occupancy (an estimate); energy "
        "by counter or power; none if it is not measured. naming: whether busy samples of the core "
        "name a process (always, partly, never; unknown without evidence). period: seconds between "
        "two samples.",
        labels=("busy", "shares", "energy", "naming", "period"),
    ),
    _counter(
        "device",
        "busy_seconds_total",
        "Time with work on the core (NVML; AMD: gpu_busy_percent, for a partition gfx_busy_inst, "
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
        "estimated from power readings if device_method_info says so.",
        divisor=UJ,
    ),
    _counter(
        "device",
        "idle_energy_joules_total",
        "The part of the board's energy that it would have used idle, estimated; --energy.idle "
        "sets "
        "who is charged for it.",
        divisor=UJ,
    ),
    *(
        _counter(
            "device",
            f"unattributed_{quantity}_total",
            f"The part of the device's {what} that is attributed to no container or group, by "
            "reason.",
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
        "The parts of the unattributed core time with the reason no_pid, by cause.",
        ("reason",),
        NS,
    ),
    _counter(
        "device",
        "unobserved_seconds_total",
        "Time that was not observed, because the driver dropped its samples before they were read.",
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
        "Temperature (nvmlDeviceGetTemperatureV; memory: NVML field 82; AMD and DRM: hwmon).",
        ("sensor",),
    ),
    _optional(
        "clocks",
        "clock_hertz",
        "Current clock (nvmlDeviceGetClockInfo; AMD and DRM: hwmon).",
        ("clock",),
    ),
    _optional(
        "throttle",
        "throttle_seconds_total",
        f"Time that clocks were throttled {_SINCE} (NVML fields 74, 76, 269-271); for AMD since "
        "the "
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
        "Memory rows that were remapped, by the kind of error (NVML fields 142 and 143).",
        ("kind",),
    ),
    _optional(
        "ecc",
        "row_remapping",
        "1 if a remapping is pending until a reset, or has failed (NVML fields 144 and 145).",
        ("state",),
    ),
    _optional(
        "ecc",
        "retired_pages",
        "Memory pages that were retired, by the kind of error; before Ampere (NVML fields 29, 30).",
        ("kind",),
    ),
    _optional(
        "ecc",
        "retired_pages_pending",
        "1 if the retirement of a page is pending until a restart (NVML field 31).",
    ),
    _optional(
        "recovery",
        "recovery_action",
        "What the driver says the GPU needs: 0 nothing, 1 its reset, 2 a restart of the node, 3 "
        "drain peer-to-peer, 4 drain and reset, 5 recover the IMEX domain, 6 reset the bus, 7 "
        "restart the system (NVML field 230, driver 570 and later).",
    ),
    _optional(
        "fan",
        "fan_speed_ratio",
        "Fan speed that is asked for, as a share of the most (nvmlDeviceGetFanSpeed); boards with "
        "fans.",
    ),
    _optional(
        "clocks",
        "performance_state",
        "Performance state, from 0 (highest) to 15 (nvmlDeviceGetPerformanceState).",
    ),
    _optional(
        "link",
        "pcie_link_generation",
        "Current PCIe generation, lower while the GPU is idle "
        "(nvmlDeviceGetCurrPcieLinkGeneration).",
    ),
    _optional(
        "link",
        "pcie_link_max_generation",
        "Highest PCIe generation of GPU and system (nvmlDeviceGetMaxPcieLinkGeneration).",
    ),
    _optional("link", "pcie_link_width", "Current PCIe lanes (nvmlDeviceGetCurrPcieLinkWidth)."),
    _optional(
        "link",
        "pcie_link_max_width",
        "Most PCIe lanes of GPU and system (nvmlDeviceGetMaxPcieLinkWidth).",
    ),
    _optional(
        "link",
        "pcie_replays_total",
        f"PCIe packets that were sent again {_SINCE} (NVML field 94).",
    ),
    _optional(
        "bar1",
        "bar1_used_bytes",
        "BAR1 memory in use, by which CPUs and other devices reach the GPU's memory "
        "(nvmlDeviceGetBAR1MemoryInfo).",
    ),
    _optional("bar1", "bar1_total_bytes", "BAR1 memory (nvmlDeviceGetBAR1MemoryInfo)."),
    _optional(
        "license",
        "vgpu_licensed",
        "1 if the driver of a vGPU's guest is licensed, 0 if it is not or needs no license "
        "(nvmlDeviceGetGridLicensableFeatures).",
    ),
    _optional(
        "pcie",
        "pcie_bytes_total",
        "PCIe traffic of the device, protocol overhead included (GPM; before Hopper NVML fields "
        "197 "
        "and 198, which lose traffic beyond 4 GiB in a collection interval).",
        ("direction",),
    ),
    _optional(
        "nvlink",
        "nvlink_bytes_total",
        f"NVLink payload over all links {_SINCE} (NVML fields 138 and 139).",
        ("direction",),
    ),
    _optional(
        "nvlink",
        "nvlink_errors_total",
        f"NVLink errors over all links {_SINCE} (NVML fields 38, 45, 52 and 59).",
        ("kind",),
    ),
    _optional(
        "profiling",
        "dram_active_ratio",
        "Share of time that the memory interface moved data, averaged over 5 s (NVML GPM).",
    ),
    _optional(
        "profiling",
        "sm_active_ratio",
        "Share of the SMs that were busy, averaged over 5 s (NVML GPM, Hopper and newer).",
    ),
    _optional(
        "profiling",
        "sm_occupancy_ratio",
        "Resident warps divided by the most that the SMs can hold, averaged over 5 s (NVML GPM).",
    ),
    _optional(
        "profiling",
        "tensor_active_ratio",
        "Share of time with tensor cores in use, averaged over 5 s (NVML GPM).",
    ),
    _optional(
        "cost",
        "driver_seconds_total",
        "Time that the exporter spent in driver calls for the device, by what it read.",
        ("part",),
        NS,
    ),
    _optional(
        "cost",
        "read_interval_seconds",
        "Time from one read of a part to the next; longer than set while the driver is slow to "
        "answer.",
        ("part",),
        NS,
    ),
    _optional(
        "xid",
        "xid_errors_total",
        "XID errors that the driver reported since the exporter's start (NVML events).",
        ("xid",),
    ),
    _optional(
        "xid",
        "xid_last_timestamp_seconds",
        "When the XID error was last reported since the exporter's start.",
        ("xid",),
        NS,
    ),
)

CONTAINER = (
    *_usage_gauges("container"),
    Family("container", "core_limit_ratio", "Allocated share of the GPU's core."),
    Family("container", "memory_limit_bytes", "Allocated device memory."),
    Family(
        "container", "core_limit_utilization_ratio", "Core usage divided by the allocated share."
    ),
    Family(
        "container",
        "memory_limit_utilization_ratio",
        "Memory held divided by the allocated memory.",
    ),
    Family(
        "container",
        "allocated_replicas",
        "Allocated replicas of the device (time slices, MPS replicas, or uses of a claim).",
    ),
    Family(
        "container",
        "allocation_info",
        "The sharing system that allocated the device, its policy and the container's priority; "
        "the "
        "device labels are empty if the device is not known, the container label if the allocation "
        "is the pod's.",
        labels=("scheme", "policy", "priority"),
    ),
    Family(
        "container",
        "placement_mismatch",
        "1 on a device that a process of the container uses and its allocation does not name, 0 if "
        "they agree. Usage is shown where it was measured, limits where they were allocated.",
    ),
    *_usage_counters("container"),
    _ALLOCATED,
)

POD = (
    Family(
        "pod",
        "info",
        "Identity and controller of the pod, from the pod source in use, with the labels and "
        "annotations of --pods.labels and --pods.annotations.",
        labels=("uid", "qos", "owner_kind", "owner_name"),
        open=True,
    ),
    Family("pod", "core_usage_gpus", f"Core in use, in GPUs, {_WINDOW}."),
    Family("pod", "core_limit_gpus", "Core allocated, in GPUs."),
    Family("pod", "memory_used_bytes", "Device memory held by all its containers."),
    Family("pod", "memory_limit_bytes", "Device memory allocated to all its containers."),
    Family(
        "pod",
        "core_limit_utilization_ratio",
        "Core usage of the containers that have an allocated share, divided by these shares.",
    ),
    Family(
        "pod",
        "memory_limit_utilization_ratio",
        "Memory held divided by the allocated memory, on the device with the highest ratio.",
    ),
    _moment("pod", "last_active_timestamp_seconds", "When it last used a GPU's core."),
    _counter("pod", "core_seconds_total", f"GPU-seconds used: {_CORE}.", divisor=NS),
    _counter("pod", "energy_joules_total", f"Energy used, {_ESTIMATE}.", divisor=UJ),
    _counter(
        "pod",
        "allocated_core_seconds_total",
        "Allocated shares of all its containers times the time of the allocations.",
        divisor=NS,
    ),
    _counter(
        "pod",
        "limited_core_seconds_total",
        "The part of core_seconds_total that is compared with the allocation: of the containers "
        "that have an allocated share.",
        divisor=NS,
    ),
)

NAMESPACE = (
    *_sum_counters("namespace", "its pods"),
    _counter(
        "namespace",
        "allocated_core_seconds_total",
        "Allocated shares of all its pods times the time of the allocations, ended pods included; "
        "uuid is empty while the device is not known.",
        divisor=NS,
    ),
)

GROUP = (
    Family(
        "group",
        "info",
        "Names of the group: of its container, machine or unit, its user, and for a Slurm job the "
        "account, job and step; empty if not known.",
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
        "Settings that decide what the values mean: who is charged for idle energy.",
        labels=("energy_idle",),
    ),
    Family(
        "exporter",
        "config_last_reload_successful",
        "1 if the settings could be used when they were last read, else 0; the old ones then stay "
        "in force.",
    ),
    _moment(
        "exporter",
        "config_last_reload_success_timestamp_seconds",
        "When usable settings were last read.",
    ),
    Family("exporter", "simulated", "1 if the node is simulated: no value is real."),
    Family(
        "exporter",
        "source_up",
        "1 if the source answered in the last cycle. Of the pod sources, those that were asked.",
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
        "When the served values were measured.",
        divisor=NS,
    ),
    _counter(
        "exporter",
        "rejected_samples_total",
        "Rows and items from outside that were implausible or unreadable, by reason.",
        ("reason",),
    ),
    _counter(
        "exporter",
        "access_reviews_total",
        "Questions to the API server about clients, by review (token: whose it is; right: what "
        "they may do) and outcome (allowed, denied; failed: without a usable answer; not_asked: "
        "too many waited). Absent without --web.kubernetes-access.",
        ("review", "outcome"),
    ),
    _counter(
        "exporter",
        "dropped_series_total",
        "Series that were left out because of --metrics.max-series-per-family, summed over the "
        "collection cycles.",
        ("family",),
    ),
    Family(
        "exporter",
        "collection_interval_seconds",
        "Current time from one collection cycle to the next.",
        divisor=NS,
    ),
    _counter("exporter", "cycles_total", "Collection cycles."),
    _counter("exporter", "cycle_overruns_total", "Cycles that took longer than the interval."),
    _counter("exporter", "nvml_calls_total", "Calls of the driver library.", ("call",)),
    _counter(
        "exporter",
        "nvml_call_seconds_total",
        "Time spent in the driver library. Time in nvmlEventSetWait_v2 is spent waiting for "
        "events.",
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
"""The groups that ``--metrics.disable`` can switch off."""


def families_without(disabled: Collection[str]) -> tuple[Family, ...]:
    """The table without the disabled families. ``disabled`` has groups and full names."""
    return tuple(f for f in FAMILIES if f.group not in disabled and f.full_name not in disabled)


def groups_without(disabled: Collection[str]) -> frozenset[str]:
    """The groups of which no family is left. What only they need is not read."""
    return frozenset(OPTIONAL_GROUPS) - {family.group for family in families_without(disabled)}
