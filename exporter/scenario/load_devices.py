"""The devices of a scenario file: cards, and MIG instances of them."""

from collections.abc import Sequence
from dataclasses import replace

from exporter.scenario import identity, keys
from exporter.scenario.description import DeviceSpec, ScenarioError
from exporter.scenario.section import Section

SLICES = 7  # of compute that a card has which can be divided
FIRST_BUS = 0x10
# NVML writes a domain of eight digits, the kernel of four.
ADDRESS = {"nvidia": "00000000:{:02X}:00.0", "amd": "0000:{:02x}:00.0", "intel": "0000:{:02x}:00.0"}


def read_devices(top: Section, seed: int) -> tuple[DeviceSpec, ...]:
    """The devices in their order, which numbers them.

    Raises:
        ScenarioError: there is none, or one is not valid.

    """
    devices: list[DeviceSpec] = []
    for section in top.sections(keys.DEVICES, keys.D):
        parent = section.get(keys.PARENT)
        if parent is None:
            devices.append(_card(section, devices, seed))
            continue
        if parent >= len(devices) or devices[parent].parent is not None:
            raise section.wrong(keys.PARENT, "the number of a card that stands before it")
        devices[parent] = replace(devices[parent], divided=True, sharing="mig")
        devices.append(_instance(section, devices, devices[parent], seed))
    if len(devices) > keys.MOST_DEVICES:
        raise top.wrong(keys.DEVICES, f"a list of at most {keys.MOST_DEVICES} devices")
    if len({device.uuid for device in devices}) < len(devices):
        raise ScenarioError(f"{top.where}.devices: two devices have the same uuid; write each once")
    return tuple(devices)


def _card(section: Section, before: Sequence[DeviceSpec], seed: int) -> DeviceSpec:
    vendor = section.get(keys.VENDOR)
    index = sum(device.vendor == vendor and device.parent is None for device in before)
    number, minor = len(before), section.get(keys.MINOR)
    if not section.get(keys.MODEL):
        raise section.wrong(keys.MODEL, "the name of a card")
    device = DeviceSpec(
        number=number,
        index=index,
        minor=index if minor is None else minor,
        uuid=section.get(keys.UUID) or f"GPU-{identity.uuid(seed, 'device', number)}",
        model=section.get(keys.MODEL),
        memory_bytes=section.get(keys.DEVICE_MEMORY),
        reserved_bytes=section.get(keys.RESERVED),
        idle_watts=section.get(keys.IDLE_POWER),
        max_watts=section.get(keys.MAX_POWER),
        clock_hertz=section.get(keys.CLOCK_MHZ) * 10**6,
        pci_bus_id=section.get(keys.PCI_BUS_ID) or ADDRESS[vendor].format(FIRST_BUS + index),
        driver_version=section.get(keys.DRIVER_VERSION),
        sharing=section.get(keys.SHARING),
        vendor=vendor,
        replicas=section.get(keys.DEVICE_REPLICAS),
        resource=section.get(keys.DEVICE_RESOURCE),
        policy=section.get(keys.CARD_POLICY),
        profile=section.get(keys.DEVICE_PROFILE),
    )
    if device.max_watts < device.idle_watts:
        raise section.wrong(keys.MAX_POWER, "no less than idle_power")
    return _shared(section, device)


def _instance(
    section: Section, before: Sequence[DeviceSpec], card: DeviceSpec, seed: int
) -> DeviceSpec:
    number, profile = len(before), section.get(keys.DEVICE_PROFILE)
    slices, mig, _ = profile.partition("g.")
    if not mig:
        raise section.wrong(keys.DEVICE_PROFILE, "a MIG profile such as 1g.10gb")
    instance = replace(
        card,
        number=number,
        uuid=section.get(keys.UUID) or f"MIG-{identity.uuid(seed, 'device', number)}",
        memory_bytes=section.get(keys.DEVICE_MEMORY),
        sharing=section.get(keys.SHARING),
        replicas=section.get(keys.DEVICE_REPLICAS),
        resource=section.get(keys.DEVICE_RESOURCE),
        parent=card.number,
        parent_uuid=card.uuid,
        profile=profile,
        instance_id=1 + sum(device.parent == card.number for device in before),
        core_share=int(slices) / SLICES,
        divided=False,
    )
    return _shared(section, instance)


def _shared(section: Section, device: DeviceSpec) -> DeviceSpec:
    if device.sharing and device.replicas == 1:
        raise section.wrong(keys.DEVICE_REPLICAS, "2 or more: the device is shared")
    return device
