"""NVIDIA's dcgm-exporter, as its default counters file has it (``etc/default-counters.csv``).

A device with one container has that container's labels. For a device with several containers, usage
and memory are split: one series for each container, and one without a container's labels for the
rest; their sum is the device's value. dcgm-exporter repeats its other values for each pod, so that
a sum over pods multiplies the device. Here they are written once, without a pod.

Left out, because no equal value exists here: DCGM_FI_PROF_DRAM_ACTIVE, the PCIe and NVLink
gauges (use mgpu_device_pcie_bytes_total), DCGM_FI_DEV_VGPU_LICENSE_STATUS, PCIE_REPLAY_COUNTER.
"""

from exporter.metrics.compat.subjects import MIB, PERCENT, Alias, Figure, Subject, of

_DEVICE = {
    "gpu": "gpu",
    "UUID": "uuid",
    "pci_bus_id": "pci",
    "device": "device",
    "modelName": "model",
    "Hostname": "node",
    "hostname": "node",  # the name since dcgm-exporter 4
    "DCGM_FI_DRIVER_VERSION": "driver",
    "GPU_I_PROFILE": "profile",
    "namespace": "namespace",
    "pod": "pod",
    "container": "container",
}


def _device(name: str, about: str, figure: Figure, kind: str = "gauge") -> Alias:
    return Alias(name, about, "device", _DEVICE, figure, kind)


def _free(device: Subject) -> float | None:
    """`memory_total_bytes` - `memory_used_bytes` - `memory_reserved_bytes`, in MiB."""
    total, used, reserved = (
        device.number(f"memory_{n}_bytes") for n in ("total", "used", "reserved")
    )
    return None if total is None or used is None else (total - used - (reserved or 0)) / MIB


def _last_xid(device: Subject) -> float | None:
    """The last XID error that was reported (`xid_last_timestamp_seconds`); 0 if none was."""
    if "xid_last_timestamp_seconds" not in device.values:
        return None
    seen = device.keyed("xid_last_timestamp_seconds")
    newest = max(seen, key=lambda xid: seen[xid], default=("0",))[0]
    return float(newest) if newest.isdecimal() else None


ALIASES = (
    _device(
        "DCGM_FI_DEV_SM_CLOCK", "SM clock frequency (in MHz).", of("clock_hertz", "sm", per=1e6)
    ),
    _device(
        "DCGM_FI_DEV_MEM_CLOCK",
        "Memory clock frequency (in MHz).",
        of("clock_hertz", "memory", per=1e6),
    ),
    _device("DCGM_FI_DEV_GPU_TEMP", "GPU temperature (in C).", of("temperature_celsius", "gpu")),
    _device(
        "DCGM_FI_DEV_MEMORY_TEMP", "Memory temperature (in C).", of("temperature_celsius", "memory")
    ),
    _device("DCGM_FI_DEV_POWER_USAGE", "Power draw (in W).", of("power_watts")),
    _device(
        "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
        "Total energy consumption since the exporter's start (in mJ).",
        of("energy_joules_total", times=1000),
        "counter",
    ),
    Alias(
        "DCGM_FI_DEV_GPU_UTIL",
        "GPU utilization (in %); of a shared GPU each container's part.",
        "holder",
        _DEVICE,
        of("core_utilization_ratio", times=PERCENT),
    ),
    _device(
        "DCGM_FI_DEV_MEM_COPY_UTIL",
        "Memory utilization (in %).",
        of("memory_active_ratio", times=PERCENT),
    ),
    _device(
        "DCGM_FI_DEV_ENC_UTIL",
        "Encoder utilization (in %).",
        of("encoder_utilization_ratio", times=PERCENT),
    ),
    _device(
        "DCGM_FI_DEV_DEC_UTIL",
        "Decoder utilization (in %).",
        of("decoder_utilization_ratio", times=PERCENT),
    ),
    _device("DCGM_FI_DEV_XID_ERRORS", "Value of the last XID error encountered.", _last_xid),
    _device("DCGM_FI_DEV_FB_FREE", "Framebuffer memory free (in MiB).", _free),
    Alias(
        "DCGM_FI_DEV_FB_USED",
        "Framebuffer memory used (in MiB); of a shared GPU each container's part.",
        "holder",
        _DEVICE,
        of("memory_used_bytes", per=MIB),
    ),
    _device(
        "DCGM_FI_DEV_FB_RESERVED",
        "Framebuffer memory reserved (in MiB).",
        of("memory_reserved_bytes", per=MIB),
    ),
    _device(
        "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS",
        "Number of remapped rows for uncorrectable errors",
        of("remapped_rows", "uncorrectable"),
        "counter",
    ),
    _device(
        "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS",
        "Number of remapped rows for correctable errors",
        of("remapped_rows", "correctable"),
        "counter",
    ),
    _device(
        "DCGM_FI_DEV_ROW_REMAP_FAILURE",
        "Whether remapping of rows has failed",
        of("row_remapping", "failed"),
    ),
    _device(
        "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
        "Ratio of time the graphics engine is active.",
        of("utilization_ratio"),
    ),
    _device(
        "DCGM_FI_PROF_SM_ACTIVE",
        "Ratio of cycles an SM has at least one warp assigned.",
        of("sm_active_ratio"),
    ),
    _device(
        "DCGM_FI_PROF_SM_OCCUPANCY", "Ratio of warps resident on an SM.", of("sm_occupancy_ratio")
    ),
    _device(
        "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
        "Ratio of cycles the tensor (HMMA) pipe is active.",
        of("tensor_active_ratio"),
    ),
)
