"""The devices of a scenario file: cards, and parts of them, each as its vendor's."""

from collections.abc import Sequence
from dataclasses import replace

from exporter.agent.simulation import identity, keys
from exporter.agent.simulation.description import DeviceSpec
from exporter.agent.simulation.keys import Section
from exporter.model import FIRST_INDEX, MIG, PARTITIONED, Device

SLICES = 7  # of compute that a card has which can be divided
FIRST_BUS = {"nvidia": 0x10, "intel": 0x50, "amd": 0x90}
# NVML writes a domain of eight digits, the kernel of four.
ADDRESS = {"nvidia": "00000000:{:02X}:00.0", "amd": "0000:{:02x}:00.0", "intel": "0000:{:02x}:00.0"}
FIRST_MINOR = {"nvidia": 0, "intel": 0, "amd": 128}  # nvidiaN, cardN, renderDN
DRIVER = {"nvidia": "580.95.05", "intel": "xe 6.12.0", "amd": ""}  # Linux's amdgpu has no version


def read_devices(top: Section, of: tuple[int, str]) -> tuple[DeviceSpec, ...]:
    """The devices in their order, which numbers them.

    ``of``: the scenario's seed and its node's name, which make the UUIDs its own.

    Raises:
        ScenarioError: there is none, or one is not valid.

    """
    devices: list[DeviceSpec] = []
    for section in top.sections(keys.DEVICES):
        parent = section.get(keys.PARENT)
        if parent is None:
            card = _card(section, devices, of)
            devices += _parted(section, card)
            continue
        # A card stands before its instances: a device is known by its place in the list.
        if parent >= len(devices) or devices[parent].parent is not None:
            raise section.wrong(keys.PARENT, "the number of a card that stands before it")
        if devices[parent].shown.vendor != "nvidia":
            raise section.wrong(keys.PARENT, "a card of NVIDIA's; AMD's have the key partition")
        card = devices[parent]
        devices[parent] = replace(card, divided=True, shown=replace(card.shown, sharing=MIG))
        devices.append(_instance(section, devices, devices[parent], of))
    if len(devices) > keys.MAX_DEVICES:
        raise top.wrong(keys.DEVICES, f"a list of at most {keys.MAX_DEVICES} devices")
    if len({device.shown.uuid for device in devices}) < len(devices):
        raise top.refused(keys.DEVICES, "two devices have the same uuid; write each once")
    return tuple(devices)


def _card(section: Section, before: Sequence[DeviceSpec], of: tuple[int, str]) -> DeviceSpec:
    vendor = section.get(keys.VENDOR)
    place = sum(each.shown.vendor == vendor and each.parent is None for each in before)
    minor = section.get(keys.MINOR)
    if minor is None:
        minor = FIRST_MINOR[vendor] + place
    pci_bus_id = section.get(keys.PCI_BUS_ID) or ADDRESS[vendor].format(FIRST_BUS[vendor] + place)
    driver = section.get(keys.DRIVER_VERSION)
    if section.has(keys.DEVICE_PROFILE):
        raise section.wrong(keys.DEVICE_PROFILE, "it for a MIG instance, which has a parent")
    if not section.get(keys.MODEL):
        raise section.wrong(keys.MODEL, "the name of a card")
    shown = Device(
        uuid=section.get(keys.UUID) or _uuid(vendor, pci_bus_id, of, len(before)),
        # The source of Intel's devices numbers them by the N of cardN, the others in their order.
        index=FIRST_INDEX[vendor] + (minor if vendor == "intel" else place),
        vendor=vendor,
        model=section.get(keys.MODEL),
        minor=minor,
        pci_bus_id=pci_bus_id,
        sharing=section.get(keys.SHARING),
        driver_version=DRIVER[vendor] if driver is None else driver,
        memory_bytes=_memory(section, vendor) or None,
    )
    device = DeviceSpec(
        number=len(before),
        shown=shown,
        reserved_bytes=section.get(keys.RESERVED),
        idle_watts=section.get(keys.IDLE_POWER),
        max_watts=section.get(keys.MAX_POWER),
        clock_hertz=section.get(keys.CLOCK_MHZ) * 10**6,
        policy=section.get(keys.CARD_POLICY),
    )
    if device.max_watts < device.idle_watts:
        raise section.wrong(keys.MAX_POWER, "no less than idle_power")
    return device


def _uuid(vendor: str, pci_bus_id: str, of: tuple[int, str], number: int) -> str:
    """As the source of this vendor's devices writes it."""
    if vendor == "intel":
        return f"DRM-{pci_bus_id}"
    if vendor == "amd":
        return f"GPU-{identity.number(*of, 'device', number):016x}"
    return f"GPU-{identity.uuid(*of, 'device', number)}"


def _memory(section: Section, vendor: str) -> int:
    size = section.get(keys.DEVICE_MEMORY)
    # Graphics in a processor of Intel's have no memory of their own.
    if not size and vendor != "intel":
        raise section.wrong(keys.DEVICE_MEMORY, keys.DEVICE_MEMORY.kind.allowed)
    return size


def _parted(section: Section, board: DeviceSpec) -> list[DeviceSpec]:
    """A card, or a board with its partitions."""
    mode = section.get(keys.PARTITION)
    if not mode:
        return [board]
    whole = board.shown
    if whole.vendor != "amd":
        raise section.wrong(keys.PARTITION, "it for a board of AMD's")
    count = keys.PARTITIONS[mode]
    part = replace(
        whole,
        minor=None,
        memory_bytes=(whole.memory_bytes or 0) // count,
        parent_uuid=whole.uuid,
        profile=f"{mode}_nps1",
        core_share=1 / count,
    )
    parts = [replace(part, uuid=f"{whole.uuid}-{n}", gpu_instance=n) for n in range(count)]
    return [
        replace(board, divided=True, shown=replace(whole, sharing=PARTITIONED)),
        *(
            replace(board, number=board.number + 1 + n, parent=board.number, shown=shown)
            for n, shown in enumerate(parts)
        ),
    ]


def _instance(
    section: Section, before: Sequence[DeviceSpec], card: DeviceSpec, of: tuple[int, str]
) -> DeviceSpec:
    number, profile = len(before), section.get(keys.DEVICE_PROFILE)
    slices, mig, _ = profile.partition("g.")
    if not mig:
        raise section.wrong(keys.DEVICE_PROFILE, "a MIG profile such as 1g.10gb")
    shown = replace(
        card.shown,
        uuid=section.get(keys.UUID) or f"MIG-{identity.uuid(*of, 'device', number)}",
        memory_bytes=_memory(section, card.shown.vendor),
        sharing=section.get(keys.SHARING),
        parent_uuid=card.shown.uuid,
        profile=profile,
        gpu_instance=1 + sum(device.parent == card.number for device in before),
        core_share=int(slices) / SLICES,
    )
    return replace(card, number=number, shown=shown, parent=card.number, divided=False)
