"""NVIDIA's dcgm-exporter: its default counters and some of its further ones.

Names, units and meanings are those of ``etc/default-counters.csv`` (NVIDIA/dcgm-exporter d5e5f51)
and ``dcgmlib/dcgm_fields.h`` (NVIDIA/DCGM 72fa3fe); labels those of
``internal/pkg/rendermetrics``. No default counter is left out.

A device with one container has that container's labels. For a device with several, what ``SPLIT``
names is split: one series for each container, and one without a container's labels for the rest;
their sum is the device's value. dcgm-exporter repeats its other values for each pod, so that a sum
over pods multiplies the device. Here they are written once, without a pod.

A MIG instance has its board's ``gpu``, ``UUID`` and ``device``; ``GPU_I_ID`` and ``GPU_I_PROFILE``
say which one it is. A board with instances has no memory of its own here, as in DCGM.
"""

from exporter.metrics.compat.subjects import PERCENT, Alias, CompatSubject, Figure, of, per
from exporter.model import MIB, DeviceFacts

_DEVICE = {
    "gpu": "board_gpu",
    "UUID": "board_uuid",
    "pci_bus_id": "pci",
    "device": "device",
    "modelName": "model",
    "Hostname": "node",
    "hostname": "node",  # the name since dcgm-exporter 4
    "DCGM_FI_DRIVER_VERSION": "driver",
    "DCGM_FI_SYSTEM_DRIVER_VERSION": "driver",  # the name since dcgm-exporter 4.9
    "GPU_I_PROFILE": "profile",
    "GPU_I_ID": "gpu_instance",
    "namespace": "namespace",
    "pod": "pod",
    "container": "container",
    "pod_uid": "pod_uid",
    "uid": "uid",
}


def _device(name: str, about: str, figure: Figure, kind: str = "gauge") -> Alias:
    return Alias(name, about, "device", _DEVICE, figure, kind)


def _count(name: str, about: str, figure: Figure) -> Alias:
    return _device(name, about, figure, "counter")


def _split(name: str, about: str, figure: Figure) -> Alias:
    """A family that is split by container."""
    about = f"{about}; of a shared GPU each container's part."
    return Alias(name, about, "holder", _DEVICE, figure)


def _total(device: CompatSubject) -> float | None:
    """`memory_total_bytes`, where `memory_used_bytes` is known.

    Of a board with MIG instances only the instances' memory is read, and adds up.
    """
    total, used = (device.value(f"memory_{n}_bytes") for n in ("total", "used"))
    return None if used is None else total


def _nvlink(device: CompatSubject) -> float | None:
    """The rate of `nvlink_bytes_total` in both directions."""
    sent, received = (device.value(f"nvlink_bytes_{d}") for d in ("transmit", "receive"))
    return None if sent is None or received is None else sent + received


def _free(device: CompatSubject) -> float | None:
    """`memory_total_bytes` - `memory_used_bytes` - `memory_reserved_bytes`."""
    total, used, reserved = (
        device.value(f"memory_{n}_bytes") for n in ("total", "used", "reserved")
    )
    return None if total is None or used is None else total - used - (reserved or 0)


def _last_xid(device: CompatSubject) -> float | None:
    """The last XID error that was reported (`xid_last_timestamp_seconds`); 0 if none was."""
    if not isinstance(device.fact, DeviceFacts) or device.fact.xids is None:
        return None
    counts = device.fact.xids.items()
    seen = {xid: c.last_unix_ns for xid, c in counts if c.last_unix_ns is not None}
    newest = max(seen, key=lambda xid: seen[xid], default="0")
    # Further XIDs are counted together as "other", which is no number.
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
    _count(
        "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
        "Total energy consumption since the exporter's start (in mJ).",
        of("energy_joules_total", times=1000),
    ),
    _split(
        "DCGM_FI_DEV_GPU_UTIL",
        "GPU utilization (in %)",
        of("core_utilization_ratio", times=PERCENT),
    ),
    _split(
        "DCGM_FI_DEV_MEM_COPY_UTIL",
        "Memory utilization (in %)",
        of("memory_active_ratio", times=PERCENT),
    ),
    _split(
        "DCGM_FI_DEV_ENC_UTIL",
        "Encoder utilization (in %)",
        of("encoder_utilization_ratio", times=PERCENT),
    ),
    _split(
        "DCGM_FI_DEV_DEC_UTIL",
        "Decoder utilization (in %)",
        of("decoder_utilization_ratio", times=PERCENT),
    ),
    _count(
        "DCGM_FI_DEV_POWER_VIOLATION",
        "Throttling duration due to power constraints (in ns).",
        of("throttle_seconds_total", "sw_power_cap", times=1e9),
    ),
    _count(
        "DCGM_FI_DEV_SYNC_BOOST_VIOLATION",
        "Throttling duration due to sync-boost constraints (in ns).",
        of("throttle_seconds_total", "sync_boost", times=1e9),
    ),
    _count(
        "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL",
        "Total number of single-bit volatile ECC errors.",
        of("ecc_errors_total", "corrected"),
    ),
    _count(
        "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL",
        "Total number of double-bit volatile ECC errors.",
        of("ecc_errors_total", "uncorrected"),
    ),
    _count(
        "DCGM_FI_DEV_RETIRED_SBE",
        "Total number of retired pages due to single-bit errors.",
        of("retired_pages", "corrected"),
    ),
    _count(
        "DCGM_FI_DEV_RETIRED_DBE",
        "Total number of retired pages due to double-bit errors.",
        of("retired_pages", "uncorrected"),
    ),
    _count(
        "DCGM_FI_DEV_RETIRED_PENDING",
        "Whether pages are pending retirement.",
        of("retired_pages_pending"),
    ),
    *(
        _count(
            f"DCGM_FI_DEV_NVLINK_{dcgm}_ERROR_COUNT_TOTAL",
            f"Total number of NVLink {what}.",
            of("nvlink_errors_total", kind),
        )
        for dcgm, kind, what in (
            ("CRC_FLIT", "crc_flit", "flow-control CRC errors"),
            ("CRC_DATA", "crc_data", "data CRC errors"),
            ("REPLAY", "replay", "retries"),
            ("RECOVERY", "recovery", "recovery errors"),
        )
    ),
    _count(
        "DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "Total number of PCIe retries.", of("pcie_replays_total")
    ),
    _device("DCGM_FI_DEV_PCIE_LINK_GEN", "PCIe link generation.", of("pcie_link_generation")),
    _device("DCGM_FI_DEV_PCIE_LINK_WIDTH", "PCIe link width.", of("pcie_link_width")),
    _device("DCGM_FI_DEV_FAN_SPEED", "Fan speed (in %).", of("fan_speed_ratio", times=PERCENT)),
    _device("DCGM_FI_DEV_PSTATE", "Performance state.", of("performance_state")),
    _device("DCGM_FI_DEV_XID_ERRORS", "Value of the last XID error encountered.", _last_xid),
    _device("DCGM_FI_DEV_FB_FREE", "Framebuffer memory free (in MiB).", per(_free, MIB)),
    _split(
        "DCGM_FI_DEV_FB_USED", "Framebuffer memory used (in MiB)", of("memory_used_bytes", per=MIB)
    ),
    _device("DCGM_FI_DEV_FB_TOTAL", "Total framebuffer of the GPU (in MiB).", per(_total, MIB)),
    _device(
        "DCGM_FI_DEV_FB_RESERVED",
        "Framebuffer memory reserved (in MiB).",
        of("memory_reserved_bytes", per=MIB),
    ),
    _device(
        "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL",
        "NVLink bandwidth of all lanes since an earlier scrape (in MB/s, as DCGM counts it).",
        per(_nvlink, 1_024_000),  # DCGM divides KiB per second by 1000
    ),
    _device(
        "DCGM_FI_PROF_PCIE_TX_BYTES",
        "Bytes per second sent over PCIe since an earlier scrape, headers included.",
        of("pcie_bytes_transmit"),
    ),
    _device(
        "DCGM_FI_PROF_PCIE_RX_BYTES",
        "Bytes per second received over PCIe since an earlier scrape, headers included.",
        of("pcie_bytes_receive"),
    ),
    _device(
        "DCGM_FI_DEV_VGPU_LICENSE_STATUS",
        "Whether the vGPU is licensed; 0 where none is needed.",
        of("vgpu_licensed"),
    ),
    _count(
        "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS",
        "Number of remapped rows for uncorrectable errors",
        of("remapped_rows", "uncorrected"),
    ),
    _count(
        "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS",
        "Number of remapped rows for correctable errors",
        of("remapped_rows", "corrected"),
    ),
    _device(
        "DCGM_FI_DEV_ROW_REMAP_FAILURE",
        "Whether remapping of rows has failed",
        of("row_remapping", "failed"),
    ),
    _split(
        "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
        "Ratio of time the graphics engine is active",
        of("core_utilization_ratio"),
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
    _device(
        "DCGM_FI_PROF_DRAM_ACTIVE",
        "Ratio of cycles the device memory interface is active sending or receiving data.",
        of("dram_active_ratio"),
    ),
)
