"""HAMi's vGPUmonitor (``cmd/vGPUmonitor/metrics.go``), with its present and its former names.

The former names are those of ``--legacy-metrics`` and of volcano-vgpu's monitor. HAMi's "ratio" is
in per cent. ``vdevice_index`` numbers a container's devices by index here; HAMi numbers them in the
order of its shared memory.

A container's memory is the driver's figure here; HAMi shows what its library in the container has
counted, and nothing of containers without it.

Left out: the parts of a container's memory (context, module, buffer), which only HAMi's library in
the container knows, and the scheduler's own metrics.
"""

from exporter.metrics.compat.subjects import PERCENT, Alias, Subject, of

_HOST = {"zone": "=vGPU", "device_index": "gpu", "device_uuid": "uuid", "device_type": "type"}
_CONTAINER = {
    "zone": "=vGPU",
    "namespace": "namespace",
    "pod": "pod",
    "container": "container",
    "vdevice_index": "place",
    "device_uuid": "uuid",
}
_OLD_HOST = {"zone": "=vGPU", "deviceidx": "gpu", "deviceuuid": "uuid", "devicetype": "type"}
_OLD_CONTAINER = {
    "zone": "=vGPU",
    "podnamespace": "namespace",
    "podname": "pod",
    "ctrname": "container",
    "vdeviceid": "place",
    "deviceuuid": "uuid",
}

_BUSY = of("utilization_ratio", times=PERCENT)
_USED, _LIMIT = of("memory_used_bytes"), of("memory_limit_bytes")
_CORE = of("core_utilization_ratio", times=PERCENT)


def _used_of_board(device: Subject) -> float | None:
    """`memory_used_bytes` + `memory_reserved_bytes`, as version 1 of NVML's call has it."""
    used = device.number("memory_used_bytes")
    return None if used is None else used + (device.number("memory_reserved_bytes") or 0)


def _since_last_kernel(container: Subject) -> float | None:
    """Seconds since `last_active_timestamp_seconds`."""
    last = container.number("last_active_timestamp_seconds")
    return None if last is None else max(0.0, container.unix_ns / 1e9 - last)


ALIASES = (
    Alias(
        "hami_host_gpu_memory_used_bytes",
        "GPU device memory usage in bytes",
        "device",
        _HOST,
        _used_of_board,
    ),
    Alias(
        "hami_host_gpu_utilization_ratio",
        "GPU core utilization ratio (0-100)",
        "device",
        _HOST,
        _BUSY,
    ),
    Alias(
        "hami_host_gpu_memory_controller_utilization_ratio",
        "GPU memory controller utilization ratio (0-100)",
        "device",
        _HOST,
        of("memory_active_ratio", times=PERCENT),
    ),
    Alias(
        "hami_vgpu_memory_used_bytes",
        "vGPU device memory usage in bytes",
        "container",
        _CONTAINER,
        _USED,
    ),
    Alias(
        "hami_vgpu_memory_limit_bytes",
        "vGPU device memory limit in bytes",
        "container",
        _CONTAINER,
        _LIMIT,
    ),
    Alias(
        "hami_container_device_memory_bytes",
        "Container device memory usage in bytes",
        "container",
        _CONTAINER,
        _USED,
    ),
    Alias(
        "hami_container_device_utilization_ratio",
        "Container device SM utilization ratio (0-100)",
        "container",
        _CONTAINER,
        _CORE,
    ),
    Alias(
        "hami_container_last_kernel_elapsed_seconds",
        "Seconds since last kernel execution in container",
        "container",
        _CONTAINER,
        _since_last_kernel,
    ),
)

LEGACY = (
    Alias("HostGPUMemoryUsage", "GPU device memory usage", "device", _OLD_HOST, _used_of_board),
    Alias("HostCoreUtilization", "GPU core utilization", "device", _OLD_HOST, _BUSY),
    Alias(
        "vGPU_device_memory_usage_in_bytes", "vGPU device usage", "container", _OLD_CONTAINER, _USED
    ),
    Alias(
        "vGPU_device_memory_limit_in_bytes",
        "vGPU device limit",
        "container",
        _OLD_CONTAINER,
        _LIMIT,
    ),
    Alias(
        "Device_memory_desc_of_container",
        "Container device memory",
        "container",
        _OLD_CONTAINER,
        _USED,
    ),
    Alias(
        "Device_utilization_desc_of_container",
        "Container device utilization (0-100)",
        "container",
        _OLD_CONTAINER,
        _CORE,
    ),
    Alias(
        "Device_last_kernel_of_container",
        "Seconds since last kernel execution in container",
        "container",
        _OLD_CONTAINER,
        _since_last_kernel,
    ),
)
