"""Which devices of the node an allotment can mean."""

from collections.abc import Sequence

from exporter.allocations.scheme import IndexBasis
from exporter.model import Device, NodeFacts


def cards(node: NodeFacts) -> tuple[Device, ...]:
    """Return the node's physical NVIDIA GPUs: other vendors number theirs from 0 as well."""
    return tuple(
        device
        for device in node.devices
        if device.vendor.lower() == "nvidia" and not device.parent_uuid
    )


def instances(node: NodeFacts) -> tuple[Device, ...]:
    """Return the node's MIG instances."""
    return tuple(device for device in node.devices if device.parent_uuid)


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


def common_memory(devices: Sequence[Device]) -> int | None:
    """Return the memory that each of the devices has, in bytes; None where they differ."""
    sizes = {device.memory_bytes for device in devices}
    return sizes.pop() if len(sizes) == 1 else None
