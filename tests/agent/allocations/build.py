"""Pods and nodes as the decoders see them."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from exporter.agent.allocations.registry import read_by
from exporter.agent.allocations.scheme import Scheme
from exporter.agent.allocations.terms import Decoded, Reason
from exporter.model import Container, Device, Grant, NodeFacts, Pod

GIB = 1 << 30
MIB = 1 << 20
POD_UID = "00000000-0000-4000-8000-000000000001"
CARD_MEMORY = 32 * GIB


def pod(
    *containers: Container,
    annotations: Mapping[str, str] | None = None,
    phase: str = "Running",
    labels: Mapping[str, str] | None = None,
) -> Pod:
    return Pod(
        uid=POD_UID,
        namespace="default",
        name="p",
        phase=phase,
        containers=containers,
        annotations=annotations or {},
        labels=labels or {},
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
    index_bases: Mapping[str, str] | None = None,
    card_policies: Mapping[int, str] | None = None,
) -> NodeFacts:
    return NodeFacts(
        devices=devices,
        labels=labels or {},
        allocatable=allocatable or {},
        index_bases=index_bases or {},
        card_policies=card_policies or {},
    )


FOUR_CARDS = tuple(card(index) for index in range(4))


def decoder(scheme: Scheme) -> Callable[[Pod, NodeFacts], Decoded]:
    """Return a scheme's own decoder, without the registry's guard, which would hide a raise."""
    return partial(read_by, scheme)


# (container, device, core, memory in bytes) of each allocation
Told = list[tuple[str, str | None, float | None, int | None]]


def told(decoded: Decoded) -> Told:
    return [(a.container, a.device, a.core, a.memory_bytes) for a in decoded.allocations]


def reasons(decoded: Decoded) -> list[Reason]:
    return [problem.reason for problem in decoded.problems]


def granted(
    grants: Mapping[str, Sequence[str]], container: str = "a", pod_uid: str = POD_UID
) -> dict[str, tuple[Grant, ...]]:
    """Return the device ids that one container holds, by resource."""
    held = (Grant(container, resource, tuple(ids)) for resource, ids in grants.items())
    return {pod_uid: tuple(held)}
