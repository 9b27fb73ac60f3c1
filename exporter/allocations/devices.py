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
    """Return the card of this NVML index or minor number; None unless there is exactly one."""
    found = [
        card
        for card in cards(node)
        if (card.minor if basis is IndexBasis.MINOR else card.index) == number
    ]
    return found[0] if len(found) == 1 else None


def device_by_uuid(node: NodeFacts, uuid: str) -> Device | None:
    """Return the card or MIG instance of this UUID."""
    return next((device for device in node.devices if device.uuid == uuid), None)


def common_memory(devices: Sequence[Device]) -> int | None:
    """Return the memory that each of the devices has, in bytes; None where they differ."""
    sizes = {device.memory_bytes for device in devices}
    return sizes.pop() if len(sizes) == 1 else None
