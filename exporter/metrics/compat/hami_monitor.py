"""HAMi's vGPUmonitor (``cmd/vGPUmonitor/metrics.go``), with its present and its former names.

The former names are those of ``--legacy-metrics`` and of volcano-vgpu's monitor. HAMi's "ratio" is
in per cent. ``vdevice_index`` numbers a container's devices by index here; HAMi numbers them in the
order of its shared memory.

A container's memory is the driver's figure here; HAMi shows what its library in the container has
counted, and nothing of containers without it.

Left out: the parts of a container's memory (context, module, buffer), which only HAMi's library in
the container knows, ECC errors of a board's whole life, and the scheduler's own metrics. As in
HAMi (05880cb3), all names of a board but one have the node.
"""

from functools import partial

from exporter.metrics.compat.subjects import PERCENT, Alias, CompatSubject, of

_NODELESS = {"zone": "=vGPU", "device_index": "gpu", "device_uuid": "uuid", "device_type": "type"}
_HOST = {**_NODELESS, "node": "node"}
_CONTAINER = {
    "zone": "=vGPU",
    **{name: name for name in ("namespace", "pod", "container")},
    "vdevice_index": "place",
    "device_uuid": "uuid",
}
_OLD_HOST = {
    "zone": "=vGPU",
    "nodeid": "node",
    "deviceidx": "gpu",
    "deviceuuid": "uuid",
    "devicetype": "type",
}
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


def _used_of_board(device: CompatSubject) -> float | None:
    """`memory_used_bytes` + `memory_reserved_bytes`, as version 1 of NVML's call has it."""
    used = device.value("memory_used_bytes")
    return None if used is None else used + (device.value("memory_reserved_bytes") or 0)


def _since_last_kernel(container: CompatSubject) -> float | None:
    """Seconds since `last_active_timestamp_seconds`."""
    last = container.value("last_active_timestamp_seconds")
    return None if last is None else max(0.0, container.unix_ns / 1e9 - last)


_of_board = partial(Alias, subject="device", labels=_HOST)
_of_container = partial(Alias, subject="container", labels=_CONTAINER)
_of_board_once = partial(Alias, subject="device", labels=_OLD_HOST)
_of_container_once = partial(Alias, subject="container", labels=_OLD_CONTAINER)

ALIASES = (
    _of_board(
        "hami_host_gpu_memory_used_bytes",
        "GPU device memory usage in bytes",
        figure=_used_of_board,
    ),
    _of_board(
        "hami_host_gpu_utilization_ratio", "GPU core utilization ratio (0-100)", figure=_BUSY
    ),
    Alias(
        "hami_host_gpu_memory_controller_utilization_ratio",
        "GPU memory controller utilization ratio (0-100)",
        "device",
        _NODELESS,
        of("memory_active_ratio", times=PERCENT),
    ),
    _of_board(
        "hami_host_gpu_temperature_celsius",
        "GPU temperature in degrees Celsius",
        figure=of("temperature_celsius", "gpu"),
    ),
    _of_board(
        "hami_host_gpu_power_usage_watts", "GPU power draw in watts", figure=of("power_watts")
    ),
    _of_container("hami_vgpu_memory_used_bytes", "vGPU device memory usage in bytes", figure=_USED),
    _of_container(
        "hami_vgpu_memory_limit_bytes", "vGPU device memory limit in bytes", figure=_LIMIT
    ),
    _of_container(
        "hami_container_device_memory_bytes",
        "Container device memory usage in bytes",
        figure=_USED,
    ),
    _of_container(
        "hami_container_device_utilization_ratio",
        "Container device SM utilization ratio (0-100)",
        figure=_CORE,
    ),
    _of_container(
        "hami_container_last_kernel_elapsed_seconds",
        "Seconds since last kernel execution in container",
        figure=_since_last_kernel,
    ),
)

LEGACY = (
    _of_board_once("HostGPUMemoryUsage", "GPU device memory usage", figure=_used_of_board),
    _of_board_once("HostCoreUtilization", "GPU core utilization", figure=_BUSY),
    _of_container_once("vGPU_device_memory_usage_in_bytes", "vGPU device usage", figure=_USED),
    _of_container_once("vGPU_device_memory_limit_in_bytes", "vGPU device limit", figure=_LIMIT),
    _of_container_once("Device_memory_desc_of_container", "Container device memory", figure=_USED),
    _of_container_once(
        "Device_utilization_desc_of_container",
        "Container device utilization (0-100)",
        figure=_CORE,
    ),
    _of_container_once(
        "Device_last_kernel_of_container",
        "Seconds since last kernel execution in container",
        figure=_since_last_kernel,
    ),
)
