"""The device of a claim's result, by what its driver publishes of it in its ResourceSlices.

A claim names its device. So one whose device is not known is placed on none, wherever its processes
are seen: a new instance's are listed on its whole card until it is found.
"""

import re
from collections.abc import Mapping, Sequence

from exporter.agent.allocations.devicenames import (
    card_at,
    card_by_number,
    card_by_pci,
    cards,
    device_by_uuid,
    instances,
)
from exporter.agent.allocations.quantities import parse_quantity
from exporter.agent.allocations.reader import PodReader
from exporter.agent.allocations.terms import IndexBasis, Reason
from exporter.model import PARTITIONED, ClaimedDevice, Device, NodeFacts, OfferedDevice

HAMI, VGPU_MANAGER = "hami-core-gpu.project-hami.io", "manager.nvidia.com"
_AMD = "gpu.amd.com"
VENDORS = {
    "gpu.nvidia.com": "nvidia",
    HAMI: "nvidia",
    VGPU_MANAGER: "nvidia",
    _AMD: "amd",
    "gpu.intel.com": "intel",
}
UUID, _TYPE, PARENT = "uuid", "type", "parentUUID"
_PCI_ADDRESSES = ("resource.kubernetes.io/pciBusID", "pciAddr", "pcieBusID", "pciBusID")
ATTRIBUTES = frozenset({UUID, _TYPE, PARENT, *_PCI_ADDRESSES})
MEMORY = "memory"
_NVIDIA_NAME = re.compile(r"(?:hami-|v)?gpu-(\d{1,3})", re.ASCII)
_INSTANCE_NAME = re.compile(r"gpu-\d{1,3}-mig-.{1,63}-\d{1,3}-(\d{1,2})", re.ASCII)
_AMD_NAME = re.compile(r"gpu-\d{1,4}-(\d{1,4})", re.ASCII)  # of the card's node and the render node
_INTEL_NAME = re.compile(r"([0-9a-f]{4})-([0-9a-f]{2})-([0-9a-f]{2})-([0-7])-.*", re.ASCII)
_PASSED_ON = "vfio"  # the beginning of the type of a card that a virtual machine has
_CARDS = frozenset({"gpu", "amdgpu"})  # types
_ALL_OF_IT = 0.9  # of a card's memory: drivers and slices differ by what the firmware reserves
_NOTHING = OfferedDevice()


def offered_of(reader: PodReader, result: ClaimedDevice) -> OfferedDevice:
    """Return what the driver publishes of a device; nothing if its slice is not read."""
    return reader.node.offered.get((result.driver, result.pool, result.device), _NOTHING)


def texts(driver: str, offered: OfferedDevice) -> dict[str, str]:
    """Return attributes and capacities, those of the driver's own domain without it."""
    both = {**offered.attributes, **offered.capacity}
    return {key.removeprefix(f"{driver}/"): text for key, text in both.items()}


def matched(node: NodeFacts, driver: str, offered: OfferedDevice) -> Device | None:
    """Return the device that is read and has the UUID or the PCI address of an offered one."""
    stated = texts(driver, offered)
    if uuid := stated.get(UUID):
        return device_by_uuid(node, uuid)
    addresses = [stated[key] for key in _PCI_ADDRESSES if key in stated]
    return next((card for each in addresses if (card := card_at(node, each))), None)


def amount_of(
    reader: PodReader, result: ClaimedDevice, capacity: Mapping[str, str], name: str
) -> int | None:
    """Return an amount of a capacity; None if there is none of this name, or it is malformed."""
    text = capacity.get(name) or capacity.get(f"{result.driver}/{name}")
    if text is None:
        return None
    amount = parse_quantity(text)
    if amount is None:
        reader.reject(Reason.BAD_QUANTITY, f"{result.device}: {name}={text[:50]}")
    return amount


def published_uuid(reader: PodReader, result: ClaimedDevice) -> str:
    """Return the UUID that a driver publishes of a device, "" if none."""
    offered = offered_of(reader, result)
    return texts(result.driver, offered).get(UUID, "")


def is_partition(offered: OfferedDevice) -> bool:
    """Whether it is a partition of a card of AMD's."""
    return offered.attributes.get(_TYPE) == "amdgpu-partition"


def is_card(
    result: ClaimedDevice, offered: OfferedDevice, device: Device | None, among: Sequence[Device]
) -> bool:
    """Whether a claimed device is all of a card: no instance, partition or part by size.

    ``device`` None: it is not known (any more); ``among`` has those of which it is one.
    """
    stated = texts(result.driver, offered)
    if PARENT in stated or is_partition(offered):
        return False
    if device is None:
        is_named = _NVIDIA_NAME.fullmatch(result.device) or _INTEL_NAME.fullmatch(result.device)
        is_published = stated.get(_TYPE) in _CARDS if _TYPE in stated else bool(is_named)
        return is_published or (bool(among) and not any(each.parent_uuid for each in among))
    # Another vendor's driver may offer parts of a card at its address. They are smaller.
    size = parse_quantity(stated.get(MEMORY, ""))
    is_part = bool(size and device.memory_bytes and size < _ALL_OF_IT * device.memory_bytes)
    return not (device.parent_uuid or is_part)


def device_of(reader: PodReader, result: ClaimedDevice) -> Device | None:
    """Return the device of a result; None if its driver's attributes do not identify one."""
    offered = offered_of(reader, result)
    attributes = texts(result.driver, offered)
    # A card that a virtual machine has is not seen by the host's driver, so it is none here.
    if attributes.get(_TYPE, "").startswith(_PASSED_ON):
        return None
    if uuid := attributes.get(UUID):
        return reader.device(uuid)
    vendor = VENDORS.get(result.driver)
    if vendor is None:
        return matched(reader.node, result.driver, offered)
    # An instance that its driver creates when it is claimed has no UUID in the slice. Its name says
    # where it begins on its parent: ``gpu-<minor>-mig-<profile>-<id>-<start>``.
    if PARENT in attributes:
        named = _INSTANCE_NAME.fullmatch(result.device)
        own = [i for i in instances(reader.node) if i.parent_uuid == attributes[PARENT]]
        found = [i for i in own if named and i.placement_start == int(named[1])]
        return found[0] if len(found) == 1 else None
    # An instance of NVIDIA's has its card's PCI address, so that address identifies neither.
    if vendor == "nvidia":
        named = _NVIDIA_NAME.fullmatch(result.device)
        return card_by_number(reader.node, IndexBasis.MINOR, int(named[1])) if named else None
    of = _partition if is_partition(offered) else _card
    return of(reader, result, attributes)


def _partition(
    reader: PodReader, result: ClaimedDevice, attributes: Mapping[str, str]
) -> Device | None:
    """Return AMD's partition with the render node in a device's name; else its undivided card."""
    parts, named = _partitions(reader, result), _AMD_NAME.fullmatch(result.device)
    # While no partition is known, one with a size of its own is on its card.
    if parts:
        minor = int(named[1]) if named else -1
        return next((part for part in parts if part.minor == minor), None)
    sized = amount_of(reader, result, offered_of(reader, result).capacity, MEMORY)
    return _card(reader, result, attributes) if sized else None


def _card(reader: PodReader, result: ClaimedDevice, attributes: Mapping[str, str]) -> Device | None:
    """Return the card at the PCI address of a result."""
    addresses = [attributes[key] for key in _PCI_ADDRESSES if key in attributes]
    if named := _INTEL_NAME.fullmatch(result.device):
        addresses.append("{}:{}:{}.{}".format(*named.groups()))
    found = (card_by_pci(reader.node, VENDORS[result.driver], each) for each in addresses)
    return next(filter(None, found), None)


def among(reader: PodReader, result: ClaimedDevice) -> tuple[Device, ...]:
    """Return the devices of which a claimed one is one, for as long as it is not known itself."""
    driver, node = result.driver, reader.node
    # Where no slice of AMD's driver can be read, a device's name says nothing. If no card of AMD's
    # is divided, it is the card on which its processes are seen.
    if driver != _AMD or any(driver == known for known, _, _ in node.offered):
        return _partitions(reader, result)
    found = cards(node, VENDORS[_AMD])
    divided = instances(node, VENDORS[_AMD]) or any(c.sharing == PARTITIONED for c in found)
    return () if divided else found


def _partitions(reader: PodReader, result: ClaimedDevice) -> tuple[Device, ...]:
    """Return the partitions of which a claimed one of AMD's is one: it has its card's address."""
    offered = offered_of(reader, result)
    if result.driver != _AMD or not is_partition(offered):
        return ()
    card = _card(reader, result, texts(result.driver, offered))
    parts = instances(reader.node, VENDORS[_AMD])
    return tuple(part for part in parts if card and part.parent_uuid == card.uuid)
