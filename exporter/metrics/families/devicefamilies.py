"""The families of devices: what is measured of each, and what its board reports of itself."""

from collections.abc import Callable, Iterable
from functools import partial

from exporter.metrics.families.family import (
    WINDOW,
    FamilyOf,
    Sample,
    averages,
    counted,
    engines,
    keyed,
    unmeasured,
)
from exporter.model import Device, DeviceFacts, Used

_device = partial(FamilyOf[DeviceFacts], "device")
_SINCE = "since the driver was loaded or the board reset"


def _sensor(group: str, name: str, about: str, label: str = "") -> FamilyOf[DeviceFacts]:
    """A sensor of a board, which can be switched off; several where it has a label."""
    if label:
        return _device(
            name,
            about,
            labels=(label,),
            each=lambda d: keyed(d.sensors.by_label(name)),
            group=group,
        )
    return _device(name, about, lambda d: d.sensors.value(name), group=group)


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
    name: str, what: str, amount: Callable[[Used], int | None]
) -> FamilyOf[DeviceFacts]:
    """What is attributed to nobody, by reason."""

    def each(facts: DeviceFacts) -> Iterable[Sample]:
        for reason, used in facts.unattributed.items():
            number = amount(used)
            if number is not None:
                yield (str(reason),), number

    about = f"The part of the device's {what} that is attributed to no container or group, by "
    return _device(f"unattributed_{name}_total", f"{about}reason.", labels=("reason",), each=each)


def _last_xids(facts: DeviceFacts) -> Iterable[Sample]:
    for xid, count in (facts.xids or {}).items():
        if count.last_unix_ns is not None:
            yield (xid,), count.last_unix_ns


DEVICE: tuple[FamilyOf[DeviceFacts], ...] = (
    _device(
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
    _device(
        "up", "1 if the device could be read in the last cycle, else 0.", lambda d: int(d.is_up)
    ),
    unmeasured("device"),
    _device(
        "utilization_ratio",
        f"Share of a whole GPU's core time in use, {WINDOW}; a partition's is at most its part.",
        lambda d: d.average.core,
    ),
    _device(
        "memory_total_bytes",
        "Device memory (nvmlDeviceGetMemoryInfo; AMD: mem_info_vram_total).",
        lambda d: d.memory.total_bytes,
    ),
    _device(
        "memory_used_bytes",
        "Device memory in use (nvmlDeviceGetMemoryInfo; AMD: mem_info_vram_used, for a "
        "partition the memory that its processes hold; DRM: only amdgpu has it).",
        lambda d: d.memory.used_bytes,
    ),
    _device(
        "memory_reserved_bytes",
        "Device memory reserved by driver and firmware.",
        lambda d: d.memory.reserved_bytes,
    ),
    *averages("device"),
    _device(
        "sharing_replicas",
        "Replicas that the device is offered as; only MPS guarantees a replica a part of the "
        "device (node labels of GPU feature discovery and GKE, else the node's allocatable "
        "resources).",
        lambda d: d.allocated.replicas,
    ),
    _device(
        "allocated_core_ratio",
        "Sum of the core shares allocated on the device, as far as they are known.",
        lambda d: d.allocated.core,
    ),
    _device(
        "allocated_memory_bytes",
        "Sum of the memory allocated on the device, as far as it is known.",
        lambda d: d.allocated.memory_bytes,
    ),
    _device(
        "unattributed_memory_bytes",
        "Device memory that no container or group holds, by reason; for overlap the value is "
        "negative.",
        labels=("reason",),
        each=lambda d: keyed(d.memory.unattributed_bytes),
    ),
    _device(
        "normalization_ratio",
        "Core time attributed to processes divided by the core time that the driver reports for "
        f"them, {WINDOW}.",
        lambda d: d.normalization,
    ),
    _device(
        "method_info",
        "How the device is measured now: busy time by samples, rates, gpm or fdinfo; shares by "
        "process_utilization, sole_owner, fdinfo or cu_occupancy (an estimate); energy by "
        "counter or power; none if it is not measured. naming: whether busy samples of the "
        "core name a process (always, partly, never; unknown without evidence). period: "
        "seconds between two samples.",
        labels=("busy", "shares", "energy", "naming", "period"),
        each=_method,
    ),
    _device(
        "busy_seconds_total",
        "Time with work on the core (NVML; AMD: gpu_busy_percent, for a partition "
        "gfx_busy_inst, sampled; DRM: fdinfo, the sum of all clients).",
        lambda d: d.used.busy.core,
    ),
    *engines("device"),
    *counted("device"),
    _device(
        "energy_joules_total",
        "Energy of the board (nvmlDeviceGetTotalEnergyConsumption; AMD: gpu_metrics, or hwmon; "
        "DRM: hwmon), by power in between where a read is costly; estimated from power readings if "
        "device_method_info says so.",
        lambda d: d.used.energy_uj,
    ),
    _device(
        "idle_energy_joules_total",
        "The part of the board's energy that it would have used idle, estimated; --energy.idle "
        "sets who is charged for it.",
        lambda d: d.idle_energy_uj,
    ),
    _unattributed("core_seconds", "busy time", lambda u: u.busy.core),
    _unattributed(
        "memory_active_seconds", "time with memory traffic", lambda u: u.busy.memory_active
    ),
    _unattributed("encoder_seconds", "encoder time", lambda u: u.busy.encoder),
    _unattributed("decoder_seconds", "decoder time", lambda u: u.busy.decoder),
    _unattributed("energy_joules", "energy", lambda u: u.energy_uj),
    _unattributed("copy_seconds", "copy engines' time", lambda u: u.copy_ns),
    _unattributed("evicted_seconds", "eviction time", lambda u: u.evicted_ns),
    _device(
        "unexplained_core_seconds_total",
        "The parts of the unattributed core time with the reason no_pid, by cause.",
        labels=("reason",),
        each=lambda d: keyed(d.unexplained_ns),
    ),
    _device(
        "unobserved_seconds_total",
        "Time that was not observed: the driver dropped its samples before they were read, or the "
        "device was not read for too long.",
        lambda d: d.unobserved_ns,
    ),
    _device(
        "unallocated_gpu_seconds_total",
        "Time of the part of the GPU that is known to be allocated to nobody; parts of boards "
        "count for their board.",
        lambda d: d.allocated.free_ns,
    ),
    _device(
        "overcommitted_gpu_seconds_total",
        "Time of what is allocated beyond the whole GPU.",
        lambda d: d.allocated.overcommitted_ns,
    ),
)

BOARD: tuple[FamilyOf[DeviceFacts], ...] = (
    _sensor("power", "power_watts", "Board power (nvmlDeviceGetPowerUsage; AMD and DRM: hwmon)."),
    _sensor(
        "power",
        "power_limit_watts",
        "Enforced power limit (nvmlDeviceGetEnforcedPowerLimit; AMD and DRM: hwmon).",
    ),
    _sensor(
        "temperature",
        "temperature_celsius",
        "Temperature (nvmlDeviceGetTemperatureV; memory: NVML field 82; AMD and DRM: hwmon).",
        "sensor",
    ),
    _sensor(
        "clocks",
        "clock_hertz",
        "Current clock (nvmlDeviceGetClockInfo; AMD: hwmon; DRM: sysfs).",
        "clock",
    ),
    _sensor(
        "throttle",
        "throttle_seconds_total",
        f"Time that clocks were throttled {_SINCE} (NVML fields 74, 76, 269-271); for AMD since "
        "the exporter's start (residencies of gpu_metrics).",
        "reason",
    ),
    _sensor(
        "ecc",
        "ecc_errors_total",
        f"Memory errors {_SINCE} (NVML fields 3 and 4; AMD: RAS's umc_err_count).",
        "kind",
    ),
    _sensor(
        "ecc",
        "remapped_rows",
        "Memory rows that were remapped, by the kind of error (NVML fields 142 and 143).",
        "kind",
    ),
    _sensor(
        "ecc",
        "row_remapping",
        "1 if a remapping is pending until a reset, or has failed (NVML fields 144 and 145).",
        "state",
    ),
    _sensor(
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
        "What the driver says the GPU needs: 0 nothing, 1 its reset, 2 a restart of the node, "
        "3 drain peer-to-peer, 4 drain and reset, 5 recover the IMEX domain, 6 reset the bus, "
        "7 restart the system (NVML field 230, driver 570 and later).",
    ),
    _sensor(
        "fan",
        "fan_speed_ratio",
        "Fan speed that is asked for, as a share of the most (nvmlDeviceGetFanSpeed); boards "
        "with fans.",
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
        "link", "pcie_replays_total", f"PCIe packets that were sent again {_SINCE} (NVML field 94)."
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
    _sensor(
        "pcie",
        "pcie_bytes_total",
        "PCIe traffic of the device, protocol overhead included (GPM; before Hopper NVML "
        "fields 197 and 198, which lose traffic beyond 4 GiB in a collection interval).",
        "direction",
    ),
    _sensor(
        "nvlink",
        "nvlink_bytes_total",
        f"NVLink payload over all links {_SINCE} (NVML fields 138 and 139).",
        "direction",
    ),
    _sensor(
        "nvlink",
        "nvlink_errors_total",
        f"NVLink errors over all links {_SINCE} (NVML fields 38, 45, 52 and 59).",
        "kind",
    ),
    _sensor(
        "profiling",
        "dram_active_ratio",
        "Share of time that the memory interface moved data, averaged over 10 s (NVML GPM).",
    ),
    _sensor(
        "profiling",
        "sm_active_ratio",
        "Share of the SMs that were busy, averaged over 10 s (NVML GPM, Hopper and newer).",
    ),
    _sensor(
        "profiling",
        "sm_occupancy_ratio",
        "Resident warps divided by the most that the SMs can hold, averaged over 10 s (NVML GPM).",
    ),
    _sensor(
        "profiling",
        "tensor_active_ratio",
        "Share of time with tensor cores in use, averaged over 10 s (NVML GPM).",
    ),
    _device(
        "driver_seconds_total",
        "Time that the exporter spent in driver calls for the device, by what it read.",
        labels=("part",),
        each=lambda d: [((part,), cost.duration_ns) for part, cost in d.costs.items()],
        group="cost",
    ),
    _device(
        "read_interval_seconds",
        "Time from one read of a part to the next; longer than set while the driver is slow to "
        "answer.",
        labels=("part",),
        each=lambda d: [
            ((part,), c.every_ns) for part, c in d.costs.items() if c.every_ns is not None
        ],
        group="cost",
    ),
    _device(
        "xid_errors_total",
        "XID errors that the driver reported since the exporter's start (NVML events).",
        labels=("xid",),
        each=lambda d: [((xid,), count.events) for xid, count in (d.xids or {}).items()],
        group="xid",
    ),
    _device(
        "xid_last_timestamp_seconds",
        "When the XID error was last reported since the exporter's start.",
        labels=("xid",),
        each=_last_xids,
        group="xid",
    ),
)
