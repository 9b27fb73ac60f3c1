"""Pods and nodes as the decoders see them."""

from collections.abc import Mapping

from exporter.model import Container, Device, NodeFacts, Pod

GIB = 1 << 30
MIB = 1 << 20
POD_UID = "00000000-0000-4000-8000-000000000001"
CARD_MEMORY = 32 * GIB


def pod(
    *containers: Container, annotations: Mapping[str, str] | None = None, phase: str = "Running"
) -> Pod:
    return Pod(
        uid=POD_UID,
        namespace="default",
        name="p",
        phase=phase,
        containers=containers,
        annotations=annotations or {},
    )


def container(
    name: str = "a", limits: Mapping[str, str] | None = None, kind: str = "app"
) -> Container:
    return Container(name=name, kind=kind, limits=limits or {})


def card(index: int, memory: int | None = CARD_MEMORY, vendor: str = "nvidia") -> Device:
    """Return a card whose minor runs against its index, as after a card was drained."""
    uuid = f"GPU-{index}" if vendor == "nvidia" else f"{vendor}-{index}"
    return Device(uuid=uuid, index=index, vendor=vendor, minor=7 - index, memory_bytes=memory)


def instance(parent: int, number: int, profile: str = "1g.5gb", memory: int = 5 * GIB) -> Device:
    return Device(
        uuid=f"MIG-{parent}-{number}",
        index=number,
        vendor="nvidia",
        parent_uuid=f"GPU-{parent}",
        profile=profile,
        memory_bytes=memory,
    )


def node(
    *devices: Device,
    labels: Mapping[str, str] | None = None,
    allocatable: Mapping[str, str] | None = None,
) -> NodeFacts:
    return NodeFacts(devices=devices, labels=labels or {}, allocatable=allocatable or {})


FOUR_CARDS = tuple(card(index) for index in range(4))
