"""Finds the devices that an allocation names."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from exporter.agent.allocations.quantities import (
    MAX_MEMORY_BYTES,
    parse_natural,
)
from exporter.agent.allocations.terms import IndexBasis
from exporter.model import MIB, Device, NodeFacts

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
    """Return the vendor's cards on the node, each with its number on this basis.

    It is the number that a card had when the pod's cards were first found: drivers number again.
    """
    now = _numbers(cards(node, vendor), basis)
    if not node.numbered:
        return now
    first = _numbers(cards(replace(node, devices=node.numbered), vendor), basis)
    there = {card.uuid: card for card, _ in now}
    kept = [(there[card.uuid], number) for card, number in first if card.uuid in there]
    known, taken = {card.uuid for card, _ in first}, {number for _, number in first}
    news = [(c, number) for c, number in now if c.uuid not in known and number not in taken]
    return kept + news


def _numbers(found: Iterable[Device], basis: IndexBasis) -> list[tuple[Device, int | None]]:
    if basis is IndexBasis.PCI:
        ordered = sorted(found, key=lambda card: card.pci_bus_id.lower())
        return [(card, place) for place, card in enumerate(ordered)]
    return [(card, card.minor if basis is IndexBasis.MINOR else card.index) for card in found]


def first_numbered(first: tuple[Device, ...], now: tuple[Device, ...]) -> tuple[Device, ...]:
    """Return the devices with the numbers that count from now on, by those of the first time.

    They are the present ones as long as none of the first has left or has another number.
    """
    numbers = {device.uuid: (device.index, device.minor) for device in now}
    is_same = all(numbers.get(d.uuid) == (d.index, d.minor) for d in first)
    return now if is_same else first


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


_CARD_MEMORY = "nvidia.com/gpu.memory"  # a node label, MiB


def with_labelled_memory(node: NodeFacts) -> NodeFacts:
    """Return the node; where its driver knows no card's memory, they have that of the label.

    The driver of a board that shares its host's memory, such as GB10, reports none.
    """
    labelled = parse_natural(node.labels.get(_CARD_MEMORY, "")) or 0
    known = [each.memory_bytes for each in (*cards(node), *instances(node))]
    if not labelled or labelled * MIB > MAX_MEMORY_BYTES or any(known):
        return node
    whole = {card.uuid for card in cards(node)} - {part.parent_uuid for part in instances(node)}
    devices = [
        replace(each, memory_bytes=labelled * MIB) if each.uuid in whole else each
        for each in node.devices
    ]
    return replace(node, devices=tuple(devices))
