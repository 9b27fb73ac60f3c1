"""HAMi, by ``docs/develop/protocol.md`` and ``pkg/device/devices.go``.

The annotation has a segment for each init container and each container, in their order, and ``;``
after each. A device is ``UUID,type,MiB,cores:``; without memory asked for it is the card's whole.
The device plugin's ids are virtual.
"""

from exporter.model import Grant
from exporter.simulation.schemes.system import (
    MIB,
    Amount,
    ContainerRequest,
    Offer,
    PlacedPod,
    SchemeOutput,
    Site,
    System,
    virtual,
)

SPLIT = 10  # the parts that the device plugin makes of a card by default
GPU = "nvidia.com/gpu"
INIT_FIRST = (("init", "sidecar"), ("app",))


def _hami(order: PlacedPod) -> SchemeOutput:
    by_name = {ask.name: ask for ask in order.asks}
    segments = (
        _segment(by_name[container.name]) if container.name in by_name else ""
        for kinds in INIT_FIRST
        for container in order.pod.containers
        if container.kind in kinds
    )
    annotations = {"hami.io/vgpu-node": order.site.node, "hami.io/bind-phase": "success"}
    if all(ask.allocation.placed for ask in by_name.values()):
        annotations["hami.io/vgpu-devices-allocated"] = "".join(f"{s};" for s in segments)
    if order.pod.policy:
        annotations["nvidia.com/vgpu-mode"] = order.pod.policy
    limits = {name: _limits(ask) for name, ask in by_name.items()}
    return SchemeOutput(limits, annotations, grants=_grants(order))


def _limits(ask: ContainerRequest) -> dict[str, Amount]:
    """How many devices, and MiB and per cent of each."""
    found: dict[str, Amount] = {GPU: ask.count}
    if ask.memory:
        found["nvidia.com/gpumem"] = ask.memory // MIB
    if ask.core:
        found["nvidia.com/gpucores"] = ask.core
    return found


def _segment(ask: ContainerRequest) -> str:
    return "".join(
        f"{card.uuid},NVIDIA,{(ask.memory or card.memory_bytes) // MIB},{ask.core or 0}:"
        for card in ask.devices
    )


def _grants(order: PlacedPod) -> tuple[Grant, ...]:
    another = order.site.another
    return tuple(
        virtual(ask, GPU, ask.count, f"{another(ask.devices[0]).uuid}-{{}}".format)
        for ask in order.asks
    )


def _offer(site: Site) -> Offer:
    cards = "".join(
        f"{card.uuid},{SPLIT},{card.memory_bytes // MIB},100,NVIDIA-{card.model},0,true:"
        for card in site.cards
    )
    register = {"hami.io/node-nvidia-register": cards}
    return Offer({GPU: SPLIT * len(site.cards)}, annotations=register)


SYSTEM = System(_hami, _offer)
