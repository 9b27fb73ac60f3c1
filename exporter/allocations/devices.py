"""Which devices of the node an allotment can mean."""

import re
from collections.abc import Sequence

from exporter.allocations.scheme import IndexBasis
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
    """Return the parts of one vendor's GPUs: MIG instances, AMD's partitions."""
    return tuple(d for d in node.devices if d.vendor.lower() == vendor and d.parent_uuid)


def card_by_number(node: NodeFacts, basis: IndexBasis, number: int) -> Device | None:
    """Return the card of this number; None unless there is exactly one."""
    found = [card for card, own in numbered_cards(node, basis) if own == number]
    return found[0] if len(found) == 1 else None


def numbered_cards(node: NodeFacts, basis: IndexBasis) -> list[tuple[Device, int | None]]:
    """Return the node's cards with the number that each has on this basis."""
    found = cards(node)
    if basis is IndexBasis.PCI:
        ordered = sorted(found, key=lambda card: card.pci_bus_id.lower())
        return [(card, place) for place, card in enumerate(ordered)]
    return [(card, card.minor if basis is IndexBasis.MINOR else card.index) for card in found]


def device_by_uuid(node: NodeFacts, uuid: str) -> Device | None:
    """Return the card or MIG instance of this UUID."""
    return next((device for device in node.devices if device.uuid == uuid), None)


def card_by_pci(node: NodeFacts, vendor: str, address: str) -> Device | None:
    """Return the vendor's card at this PCI address; None unless there is exactly one."""
    wanted = _pci_address(address)
    found = [c for c in cards(node, vendor) if wanted and _pci_address(c.pci_bus_id) == wanted]
    return found[0] if len(found) == 1 else None


def _pci_address(text: str) -> tuple[int, ...]:
    match = _PCI_ADDRESS.fullmatch(text)
    return tuple(int(part, 16) for part in match.groups()) if match else ()


def common_memory(devices: Sequence[Device]) -> int | None:
    """Return the memory that each of the devices has, in bytes; None where they differ."""
    sizes = {device.memory_bytes for device in devices}
    return sizes.pop() if len(sizes) == 1 else None
