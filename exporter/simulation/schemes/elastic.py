"""tkestack's gpu-manager and elastic-gpu, which came after it.

gpu-manager ``pkg/types/types.go``, gpu-admission ``pkg/device/nodeInfo.go``: per cent and 256 MiB,
totals over the cards, which are listed by minor for the container's place. elastic-gpu-agent
``pkg/common/const.go``: per cent and MiB, cards in the order of PCI addresses, for the container's
name. Both give whole cards with all their memory. Their device plugins' ids are virtual.
"""

from exporter.model import Grant
from exporter.simulation.schemes.system import (
    ASSUMED_NS,
    MIB,
    WHOLE,
    Amount,
    ContainerRequest,
    Offer,
    PlacedPod,
    SchemeOutput,
    Site,
    System,
    virtual,
)

TENCENT, ELASTIC = "tencent.com", "elasticgpu.io"
BLOCK = 256 * MIB


def _gpu_manager(order: PlacedPod) -> SchemeOutput:
    annotations = {
        f"{TENCENT}/gpu-assigned": "true",
        f"{TENCENT}/predicate-node": order.site.node,
        f"{TENCENT}/predicate-time": str(ASSUMED_NS),
    }
    for ask in order.asks:
        if ask.allocation.placed:
            key = f"{TENCENT}/predicate-gpu-idx-{ask.place}"
            annotations[key] = ask.numbers(lambda device: device.minor)
    limits = {ask.name: _limits(ask, f"{TENCENT}/vcuda-", BLOCK) for ask in order.asks}
    return SchemeOutput(
        limits, annotations, grants=_grants(order, f"{TENCENT}/vcuda-core", "tencent-{}")
    )


def _elastic_gpu(order: PlacedPod) -> SchemeOutput:
    annotations = {f"{ELASTIC}/assumed": "true"}
    for ask in order.asks:
        if ask.allocation.placed:
            key = f"{ELASTIC}/container-{ask.name}"
            annotations[key] = ask.numbers(order.site.pci_place)
    limits = {ask.name: _limits(ask, f"{ELASTIC}/gpu-", MIB) for ask in order.asks}
    return SchemeOutput(
        limits, annotations, grants=_grants(order, f"{ELASTIC}/gpu-core", "0-{:02d}")
    )


def _limits(ask: ContainerRequest, prefix: str, unit: int) -> dict[str, Amount]:
    found: dict[str, Amount] = {}
    if ask.core:
        found[f"{prefix}core"] = ask.core * ask.count
    if ask.memory:
        found[f"{prefix}memory"] = ask.memory * ask.count // unit
    return found


def _grants(order: PlacedPod, resource: str, form: str) -> tuple[Grant, ...]:
    asks = (ask for ask in order.asks if ask.core)
    return tuple(virtual(a, resource, (a.core or 0) * a.count, form.format) for a in asks)


def _gpu_manager_offer(site: Site) -> Offer:
    blocks = sum(card.memory_bytes // BLOCK for card in site.cards)
    return Offer(
        {f"{TENCENT}/vcuda-core": WHOLE * len(site.cards), f"{TENCENT}/vcuda-memory": blocks},
        labels={"nvidia-device-enable": "enable"},
    )


def _elastic_gpu_offer(site: Site) -> Offer:
    memory = sum(card.memory_bytes // MIB for card in site.cards)
    core = WHOLE * len(site.cards)
    return Offer({f"{ELASTIC}/gpu-core": core, f"{ELASTIC}/gpu-memory": memory})


GPU_MANAGER = System(_gpu_manager, _gpu_manager_offer, unit=BLOCK)
ELASTIC_GPU = System(_elastic_gpu, _elastic_gpu_offer)
