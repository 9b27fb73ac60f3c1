"""HAMi and Volcano's vGPU: one encoding of devices, two ways to number containers by it.

HAMi: ``docs/develop/protocol.md``, ``pkg/device/devices.go``; a segment for each init container
and each container, in their order, and ``;`` after each. Volcano: ``devices/nvidia/vgpu``; a
segment for each container that asks, and ``;`` between them. A device is ``UUID,type,MiB,cores:``;
without memory asked for it is the card's whole. The device plugins' ids are virtual.
"""

from collections.abc import Callable, Mapping

from exporter.model import Grant
from exporter.simulation.schemes.system import (
    ASSUMED_NS,
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
NVIDIA, VOLCANO = "nvidia.com", "volcano.sh"
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
    names = {"count": "gpu", "memory": "gpumem", "core": "gpucores"}
    limits = {name: _limits(ask, NVIDIA, names) for name, ask in by_name.items()}
    return SchemeOutput(limits, annotations, grants=_grants(order, f"{NVIDIA}/gpu"))


def _volcano(order: PlacedPod) -> SchemeOutput:
    asks = list(order.asks)
    annotations = {
        "volcano.sh/vgpu-node": order.site.node,
        "volcano.sh/vgpu-time": str(ASSUMED_NS // 10**9),
        "volcano.sh/bind-phase": "success",
    }
    if all(ask.allocation.placed for ask in asks):
        annotations["volcano.sh/vgpu-ids-new"] = ";".join(map(_segment, asks))
    if order.pod.policy:
        annotations["volcano.sh/vgpu-mode"] = order.pod.policy
    names = {"count": "vgpu-number", "memory": "vgpu-memory", "core": "vgpu-cores"}
    limits = {ask.name: _limits(ask, VOLCANO, names) for ask in asks}
    return SchemeOutput(limits, annotations, grants=_grants(order, f"{VOLCANO}/vgpu-number"))


def _limits(ask: ContainerRequest, domain: str, names: Mapping[str, str]) -> dict[str, Amount]:
    """How many devices, and MiB and per cent of each."""
    found: dict[str, Amount] = {f"{domain}/{names['count']}": ask.count}
    if ask.memory:
        found[f"{domain}/{names['memory']}"] = ask.memory // MIB
    if ask.core:
        found[f"{domain}/{names['core']}"] = ask.core
    return found


def _segment(ask: ContainerRequest) -> str:
    return "".join(
        f"{card.uuid},NVIDIA,{(ask.memory or card.memory_bytes) // MIB},{ask.core or 0}:"
        for card in ask.devices
    )


def _grants(order: PlacedPod, resource: str) -> tuple[Grant, ...]:
    another = order.site.another
    return tuple(
        virtual(ask, resource, ask.count, f"{another(ask.devices[0]).uuid}-{{}}".format)
        for ask in order.asks
    )


def _offer(resource: str, key: str) -> Callable[[Site], Offer]:
    def offer(site: Site) -> Offer:
        cards = "".join(
            f"{card.uuid},{SPLIT},{card.memory_bytes // MIB},100,NVIDIA-{card.model},0,true:"
            for card in site.cards
        )
        return Offer({resource: SPLIT * len(site.cards)}, annotations={key: cards})

    return offer


HAMI = System(_hami, _offer(f"{NVIDIA}/gpu", "hami.io/node-nvidia-register"))
VOLCANO_VGPU = System(_volcano, _offer(f"{VOLCANO}/vgpu-number", "volcano.sh/node-vgpu-register"))
