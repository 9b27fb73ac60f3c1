"""The marks that sharing systems leave on a pod: extended resources and annotations.

The keys and units are those of each system's documents and source code, so that the decoders of
``exporter.allocations`` read a scenario as they read a cluster.
"""

from collections.abc import Mapping

from exporter.scenario.description import Allotment, ContainerSpec, DeviceSpec, PodSpec, Scheme

MIB = 1 << 20
GIB = 1 << 30
WHOLE = 100  # percent of the cores
VKE = "vke.volcengine.com"
TKE = "tke.cloud.tencent.com"


def limits(pod: PodSpec, container: ContainerSpec) -> dict[str, str]:
    """The container's extended resources."""
    allotment = container.allotment
    if allotment is None:
        return {}
    match pod.scheme:
        case Scheme.MGPU:
            return _mgpu_limits(allotment)
        case Scheme.QGPU:
            return _qgpu_limits(allotment, offline=pod.app_class == "offline")
        case Scheme.HAMI:
            return _hami_limits(allotment)
        case _:
            return {"nvidia.com/gpu": str(len(allotment.devices))}


def annotations(pod: PodSpec, devices: tuple[DeviceSpec, ...], node: str) -> dict[str, str]:
    """The pod's annotations, the placement among them unless it was left out."""
    match pod.scheme:
        case Scheme.MGPU:
            return _mgpu_annotations(pod)
        case Scheme.QGPU:
            return _qgpu_annotations(pod)
        case Scheme.HAMI:
            segments = [_segment(container, devices) for container in pod.containers]
            return {
                "hami.io/vgpu-node": node,
                "hami.io/bind-phase": "success",
                "hami.io/vgpu-devices-allocated": "".join(f"{s};" for s in segments),
            }
        case _:
            return {}


def allocatable(schemes: frozenset[Scheme], devices: tuple[DeviceSpec, ...]) -> dict[str, str]:
    """What the node offers, in the vocabulary of the sharing systems in use."""
    count, memory = len(devices), sum(device.memory_bytes for device in devices)
    offers: Mapping[Scheme, dict[str, int]] = {
        Scheme.MGPU: {f"{VKE}/mgpu-core": WHOLE * count, f"{VKE}/mgpu-memory": memory // MIB},
        Scheme.QGPU: {f"{TKE}/qgpu-core": WHOLE * count, f"{TKE}/qgpu-memory": memory // GIB},
        Scheme.HAMI: {"nvidia.com/gpu": count},
        Scheme.NVIDIA: {"nvidia.com/gpu": count},
    }
    return {key: str(n) for scheme in sorted(schemes) for key, n in offers[scheme].items()}


def _mgpu_limits(allotment: Allotment) -> dict[str, str]:
    """Totals over the cards; whole cards ask for no memory (Volcano Engine's mGPU validator)."""
    count = len(allotment.devices)
    found = {}
    if allotment.core_percent:
        found[f"{VKE}/mgpu-core"] = str(allotment.core_percent * count)
    if allotment.memory_bytes and allotment.core_percent != WHOLE:
        found[f"{VKE}/mgpu-memory"] = str(allotment.memory_bytes * count // MIB)
    return found


def _mgpu_annotations(pod: PodSpec) -> dict[str, str]:
    found = {f"{VKE}/assumed": "true"}
    if pod.policy:
        found[f"{VKE}/mgpu-compute-policy"] = pod.policy
    shared_over = [_cards_shared_over(container.allotment) for container in pod.containers]
    if any(shared_over):
        found[f"{VKE}/container-multiple-gpu"] = ",".join(map(str, shared_over))
    for container in pod.containers:
        if container.allotment and container.allotment.placed:
            key = f"{VKE}/gpu-index-container-{container.name}"
            found[key] = _indices(container.allotment)
    return found


def _cards_shared_over(allotment: Allotment | None) -> int:
    """How many cards a container shares; 0 where it has whole cards or a single one."""
    if allotment is None or allotment.core_percent == WHOLE or len(allotment.devices) == 1:
        return 0
    return len(allotment.devices)


def _qgpu_limits(allotment: Allotment, *, offline: bool) -> dict[str, str]:
    """Totals over the cards, memory in GiB; an offline pod's cores are a resource of their own."""
    count = len(allotment.devices)
    found = {}
    if allotment.core_percent:
        core = "qgpu-core-greedy" if offline else "qgpu-core"
        found[f"{TKE}/{core}"] = str(allotment.core_percent * count)
    if allotment.memory_bytes:
        found[f"{TKE}/qgpu-memory"] = str(allotment.memory_bytes * count // GIB)
    return found


def _qgpu_annotations(pod: PodSpec) -> dict[str, str]:
    found = {f"{TKE}/qgpu": "true"}
    if pod.app_class:
        found[f"{TKE}/app-class"] = pod.app_class
    for container in pod.containers:
        if container.allotment and container.allotment.placed:
            found[f"{TKE}/qgpu-pgpu-{container.name}"] = _indices(container.allotment)
    return found


def _hami_limits(allotment: Allotment) -> dict[str, str]:
    """Memory (MiB) and cores of each of the devices asked for."""
    found = {"nvidia.com/gpu": str(len(allotment.devices))}
    if allotment.memory_bytes:
        found["nvidia.com/gpumem"] = str(allotment.memory_bytes // MIB)
    if allotment.core_percent:
        found["nvidia.com/gpucores"] = str(allotment.core_percent)
    return found


def _segment(container: ContainerSpec, devices: tuple[DeviceSpec, ...]) -> str:
    """HAMi's encoding of one container's devices: ``UUID,type,MiB,percent:`` for each."""
    allotment = container.allotment
    if allotment is None:
        return ""
    memory, core = (allotment.memory_bytes or 0) // MIB, allotment.core_percent or 0
    return "".join(f"{devices[i].uuid},NVIDIA,{memory},{core}:" for i in allotment.devices)


def _indices(allotment: Allotment) -> str:
    return ",".join(map(str, allotment.devices))
