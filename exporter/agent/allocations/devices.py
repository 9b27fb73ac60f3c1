"""Finds the devices that an allocation names, and counts the replicas of each device.

Replicas are the parts into which time-slicing, MPS or Intel's plugin divide a device.

Sources: GPU feature discovery's node labels (NVIDIA/k8s-device-plugin, ``internal/lm/resource.go``:
``<resource>.replicas`` is for one device; 1 is "not shared", 0 that sharing does not apply) and
GKE's ``cloud.google.com/gke-max-shared-clients-per-gpu``. Without such a label the replicas are
counted: the amount of the resource that the node offers, divided by the devices that it can be. So
they are where the label says 1 and the plugin shows that it shares (a discovery without the
plugin's configuration, k8s-device-plugin#732): by the resource's suffix, or a replica's id.
Intel's plugin (``-shared-dev-num``) has no label, and is always counted.

Replicas are not counted if HAMi runs on the node: it offers as much ``nvidia.com/gpu`` as pods may
share the cards (``deviceSplitCount``), and those are not replicas. If devices of one resource are
divided differently, the labels do not distinguish them, and no replicas are returned.
"""

import re
from collections.abc import Iterable, Sequence

from exporter.agent.allocations.quantities import parse_natural, parse_quantity
from exporter.agent.allocations.terms import IndexBasis
from exporter.model import Device, NodeFacts

# NVML writes the domain with 8 digits, sysfs and the device plugins with 4.
_PCI_ADDRESS = re.compile(
    r"([0-9a-f]{4,8}):([0-9a-f]{2}):([0-9a-f]{2})\.([0-7])", re.IGNORECASE | re.ASCII
)


def cards(node: NodeFacts, vendor: str = "nvidia") -> tuple[Device, ...]:
    """Return the node's physical GPUs of one vendor: each numbers its own from 0."""
    return tuple(
        device
        for device in node.devices
        if device.vendor.lower() == vendor and not device.parent_uuid
    )


def instances(node: NodeFacts, vendor: str = "nvidia") -> tuple[Device, ...]:
    """Return the parts of one vendor's GPUs: MIG instances or AMD's partitions."""
    return tuple(d for d in node.devices if d.vendor.lower() == vendor and d.parent_uuid)


def card_by_number(
    node: NodeFacts, basis: IndexBasis, number: int, vendor: str = "nvidia"
) -> Device | None:
    """Return the vendor's card with this number; None unless there is exactly one."""
    found = [card for card, own in numbered_cards(node, basis, vendor) if own == number]
    return found[0] if len(found) == 1 else None


def numbered_cards(
    node: NodeFacts, basis: IndexBasis, vendor: str = "nvidia"
) -> list[tuple[Device, int | None]]:
    """Return the vendor's cards on the node, each with its number on this basis."""
    found = cards(node, vendor)
    if basis is IndexBasis.PCI:
        ordered = sorted(found, key=lambda card: card.pci_bus_id.lower())
        return [(card, place) for place, card in enumerate(ordered)]
    return [(card, card.minor if basis is IndexBasis.MINOR else card.index) for card in found]


def device_by_uuid(node: NodeFacts, uuid: str) -> Device | None:
    """Return the card or MIG instance of this UUID, which some systems write in small letters."""
    small = uuid.lower()
    return next((device for device in node.devices if device.uuid.lower() == small), None)


def card_by_pci(node: NodeFacts, vendor: str, address: str) -> Device | None:
    """Return the vendor's card at this PCI address; None unless there is exactly one."""
    wanted = _pci_address(address)
    found = [c for c in cards(node, vendor) if wanted and _pci_address(c.pci_bus_id) == wanted]
    return found[0] if len(found) == 1 else None


def card_at(node: NodeFacts, address: str) -> Device | None:
    """Return the card of any vendor at this PCI address; None unless there is exactly one."""
    vendors = sorted({device.vendor.lower() for device in node.devices})
    found = [card for vendor in vendors if (card := card_by_pci(node, vendor, address))]
    return found[0] if len(found) == 1 else None


def _pci_address(text: str) -> tuple[int, ...]:
    match = _PCI_ADDRESS.fullmatch(text)
    return tuple(int(part, 16) for part in match.groups()) if match else ()


def common_memory(devices: Sequence[Device]) -> int | None:
    """Return the memory of each of the devices, in bytes; None if they differ."""
    sizes = {device.memory_bytes for device in devices}
    return sizes.pop() if len(sizes) == 1 else None


_GKE_CLIENTS = "cloud.google.com/gke-max-shared-clients-per-gpu"
_MIG = "nvidia.com/mig-"
_OF_CARDS = {"nvidia": ("nvidia.com/gpu",), "intel": ("gpu.intel.com/i915", "gpu.intel.com/xe")}
_OTHER_USE = ("hami.io/", "4pd.io/")
_MOST = 10_000  # of one device; more are rejected


def sharing_replicas(node: NodeFacts) -> dict[str, int]:
    """Return the number of replicas of each device that has some, by UUID. Never raises."""
    parents = {device.parent_uuid for device in node.devices}
    units = [device for device in node.devices if device.uuid not in parents]
    found = {}
    for device in units:
        keys = [f"{name}.replicas" for name in _resources(device)]
        if device.vendor.lower() == "nvidia":
            keys.append(_GKE_CLIENTS)
        stated = (parse_natural(node.labels.get(key, "")) for key in keys)
        count = next((number for number in stated if number), None)
        # A discovery without the plugin's configuration says 1 whatever the plugin does.
        if count is None or (count == 1 and _is_shared(node, device)):
            count = _by_offer(node, device, units)
        if count is not None and 1 < count <= _MOST:
            found[device.uuid] = count
    return found


def _resources(device: Device) -> tuple[str, ...]:
    """Return the names under which a plugin may offer the device."""
    cards = _OF_CARDS.get(device.vendor.lower(), ())
    if not device.parent_uuid:
        return cards
    return (_MIG + device.profile.replace("+", "."), *cards)  # strategy mixed, or else single


def _is_shared(node: NodeFacts, device: Device) -> bool:
    """Whether the plugin itself shows that it shares the device, whatever a label says."""
    offers = (node.allocatable.get(f"{name}.shared", "") for name in _resources(device))
    if any(parse_quantity(offer) for offer in offers):
        return True
    ids = (i for grants in node.grants.values() for grant in grants for i in grant.device_ids)
    return any(each.startswith(f"{device.uuid}::") for each in ids)


def _by_offer(node: NodeFacts, device: Device, units: Iterable[Device]) -> int | None:
    """Return how often the node offers the device, with all others that have its resource."""
    # HAMi offers as much of the resource as pods may share the cards. Those are not replicas.
    if any(key.startswith(_OTHER_USE) for key in (*node.labels, *node.annotations)):
        return None
    for name in _resources(device):
        alike = sum(name in _resources(other) for other in units)
        offers = (node.allocatable.get(key, "") for key in (name, f"{name}.shared"))
        offered = next((n for offer in offers if (n := parse_quantity(offer))), None)
        # Where devices of one resource are divided differently, nothing distinguishes them.
        if offered is not None:
            return offered // alike if offered % alike == 0 else None
    return None
