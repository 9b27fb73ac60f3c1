"""AMD's and Intel's device plugins: the kubelet (PodResources) says which devices.

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
