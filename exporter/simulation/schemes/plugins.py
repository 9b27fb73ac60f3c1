"""Device plugins of vendors: the pod says how many, the kubelet (PodResources) which.

NVIDIA's k8s-device-plugin: ids are UUIDs, ``UUID::n`` for a replica; the node's labels are those of
GPU feature discovery (``internal/lm``). Time-slicing promises nothing; MPS an equal part of threads
and memory.

ROCm/k8s-device-plugin ``docs/user-guide/configuration.md``: ids are PCI addresses, of a
board or its first partition, and of other partitions ``amdgpu_xcp_N``, counted over all boards.
intel-device-plugins ``cmd/gpu_plugin``: ids are ``card<minor>-<n>``; a card that is divided
promises nothing. Its resource ``monitoring`` gives all cards to look at, none to use.
"""

from collections import Counter
from collections.abc import Iterator

from exporter.model import Grant
from exporter.simulation.description import DeviceSpec
from exporter.simulation.schemes.system import (
    MIB,
    Amount,
    ContainerRequest,
    Offer,
    PlacedPod,
    SchemeOutput,
    Site,
    System,
)

AMD, I915 = "amd.com/gpu", "gpu.intel.com/i915"
MONITORING = "monitoring"


def _amd(order: PlacedPod) -> SchemeOutput:
    limits: dict[str, dict[str, Amount]] = {}
    grants: list[Grant] = []
    for ask in order.asks:
        resource = ask.devices[0].resource or AMD
        limits[ask.name] = {resource: ask.count}
        if ask.allocation.placed:
            ids = tuple(_amd_id(device, order.site) for device in ask.devices)
            grants.append(Grant(ask.name, resource, ids))
    return SchemeOutput(limits, grants=tuple(grants))


def _amd_id(device: DeviceSpec, site: Site) -> str:
    if not device.instance_id:
        return device.pci_bus_id
    others = [each.number for each in site.of("amd") if each.instance_id]
    return f"amdgpu_xcp_{others.index(device.number)}"


def _amd_offer(site: Site) -> Offer:
    devices = [device for device in site.of("amd") if not device.divided]
    labels = {"amd.com/gpu.product-name": devices[0].model.replace(" ", "_")} if devices else {}
    return Offer(Counter(device.resource or AMD for device in devices), labels)


def _intel(order: PlacedPod) -> SchemeOutput:
    limits: dict[str, dict[str, Amount]] = {}
    grants: list[Grant] = []
    for ask in order.asks:
        resource = ask.container.resource or ask.devices[0].resource or I915
        ids = ("all",) if resource.endswith(MONITORING) else tuple(_intel_ids(ask))
        limits[ask.name] = {resource: len(ids)}
        if ask.allocation.placed:
            grants.append(Grant(ask.name, resource, ids))
    return SchemeOutput(limits, grants=tuple(grants))


def _intel_ids(ask: ContainerRequest) -> Iterator[str]:
    for device, slots in zip(ask.devices, ask.allocation.slots, strict=True):
        yield from (f"card{device.minor}-{slot}" for slot in slots)


def _intel_offer(site: Site) -> Offer:
    offered: Counter[str] = Counter()
    for device in site.of("intel"):
        offered[device.resource or I915] += device.replicas
    return Offer(offered)


AMD_SYSTEM = System(_amd, _amd_offer)
INTEL_SYSTEM = System(_intel, _intel_offer)


GPU = "nvidia.com/gpu"
STRATEGY = "nvidia.com/mig.strategy"
SINGLE, MPS = "single", "mps"


def _resource(site: Site, device: DeviceSpec) -> str:
    """What a device is called: an instance by its profile, but by MIG's strategy *single*."""
    if device.resource:
        return device.resource
    if not device.profile or site.labels.get(STRATEGY) == SINGLE:
        return GPU
    return f"nvidia.com/mig-{device.profile.replace('+', '.')}"


def _write(order: PlacedPod) -> SchemeOutput:
    limits: dict[str, dict[str, Amount]] = {}
    grants = []
    for ask in order.asks:
        ids: dict[str, list[str]] = {}
        for device, slots in zip(ask.devices, ask.allocation.slots, strict=True):
            ids.setdefault(_resource(order.site, device), []).extend(_ids(device, slots))
        limits[ask.name] = {resource: len(each) for resource, each in ids.items()}
        if ask.allocation.placed:
            grants += [Grant(ask.name, resource, tuple(each)) for resource, each in ids.items()]
    return SchemeOutput(limits, grants=tuple(grants))


def _ids(device: DeviceSpec, slots: tuple[int, ...]) -> Iterator[str]:
    if device.replicas == 1:
        yield device.uuid
    else:
        yield from (f"{device.uuid}::{slot}" for slot in slots)


def _units(site: Site) -> list[DeviceSpec]:
    """What can be given out: instances, and the cards that are not divided into them."""
    return [device for device in site.of("nvidia") if not device.divided]


def _offer(site: Site) -> Offer:
    """Labels of GPU feature discovery are the node's: of cards that differ, the last one's."""
    units = _units(site)
    allocatable: dict[str, Amount] = {}
    labels = {
        "nvidia.com/gpu.count": str(len(site.cards)),
        "nvidia.com/gpu.sharing-strategy": next(filter(None, map(_strategy, units)), "none"),
        "nvidia.com/mps.capable": str(any(map(_by_mps, units))).lower(),
    }
    for device in units:
        resource = _resource(site, device)
        allocatable[resource] = int(allocatable.get(resource, 0)) + device.replicas
        name = resource.removesuffix(".shared")
        labels[f"{name}.replicas"] = str(device.replicas)
        labels[f"{name}.memory"] = str(device.memory_bytes // MIB)
        labels[f"{name}.product"] = _product(device, single=resource == GPU)
    if any(device.profile for device in units):
        labels[STRATEGY] = "mixed"  # a scenario's own label stands before it
    return Offer(allocatable, labels)


def _by_mps(device: DeviceSpec) -> bool:
    return device.sharing == MPS


def _strategy(device: DeviceSpec) -> str:
    """How a device is shared, "" if it is not."""
    return (device.sharing or "time-slicing") if device.replicas > 1 else ""


def _product(device: DeviceSpec, *, single: bool) -> str:
    part = f"-MIG-{device.profile}" if device.profile and single else ""
    shared = "-SHARED" if device.replicas > 1 else ""
    return device.model.replace(" ", "-") + part + shared


NVIDIA_SYSTEM = System(_write, _offer)
