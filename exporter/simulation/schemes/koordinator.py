"""Koordinator, by ``apis/extension/device_share.go``.

Cores and memory are in per cent, totals over the cards. The annotation is the pod's: each card by
its minor, with what all of its containers have there, memory as a Kubernetes quantity.
"""

import json

from exporter.simulation.description import DeviceSpec
from exporter.simulation.schemes.system import (
    GIB,
    MIB,
    WHOLE,
    Amount,
    ContainerRequest,
    Offer,
    PlacedPod,
    SchemeOutput,
    Site,
    System,
)

DOMAIN = "koordinator.sh"


def _write(order: PlacedPod) -> SchemeOutput:
    asks = list(order.asks)
    annotations = {}
    if all(ask.allocation.placed for ask in asks):
        cards = {device.minor: device for ask in asks for device in ask.devices}
        listed = [_device(card, asks) for _, card in sorted(cards.items())]
        annotations["scheduling.koordinator.sh/device-allocated"] = json.dumps(
            {"gpu": listed}, separators=(",", ":")
        )
    return SchemeOutput({ask.name: _limits(ask) for ask in asks}, annotations)


def _limits(ask: ContainerRequest) -> dict[str, Amount]:
    """The ratio is of the card's memory; where that is no whole number, bytes are asked for."""
    found: dict[str, Amount] = {}
    if ask.count > 1 and not ask.whole:
        found[f"{DOMAIN}/gpu.shared"] = ask.count
    if ask.core:
        found[f"{DOMAIN}/gpu-core"] = ask.core * ask.count
    memory = _memory_of(ask, ask.devices[0])
    ratio = memory and WHOLE * memory / ask.devices[0].memory_bytes
    if ratio and ratio.is_integer():
        found[f"{DOMAIN}/gpu-memory-ratio"] = int(ratio) * ask.count
    elif memory:
        found[f"{DOMAIN}/gpu-memory"] = _quantity(memory * ask.count)
    return found


def _device(card: DeviceSpec, asks: list[ContainerRequest]) -> dict[str, object]:
    here = [ask for ask in asks if card in ask.devices]
    memory = sum(_memory_of(ask, card) for ask in here)
    resources = {
        f"{DOMAIN}/gpu-core": str(sum(ask.core or 0 for ask in here)),
        f"{DOMAIN}/gpu-memory": _quantity(memory),
        f"{DOMAIN}/gpu-memory-ratio": str(WHOLE * memory // card.memory_bytes),
    }
    return {"minor": card.minor, "resources": resources}


def _quantity(size: int) -> str:
    return f"{size // GIB}Gi" if size % GIB == 0 else f"{size // MIB}Mi"


def _memory_of(ask: ContainerRequest, card: DeviceSpec) -> int:
    """Bytes of a card; without memory in the request, in proportion to the cores."""
    return ask.memory or card.memory_bytes * (ask.core or WHOLE) // WHOLE


def _offer(site: Site) -> Offer:
    memory = sum(card.memory_bytes for card in site.cards)
    return Offer(
        {
            f"{DOMAIN}/gpu": WHOLE * len(site.cards),
            f"{DOMAIN}/gpu-core": WHOLE * len(site.cards),
            f"{DOMAIN}/gpu-memory": _quantity(memory),
            f"{DOMAIN}/gpu-memory-ratio": WHOLE * len(site.cards),
        }
    )


SYSTEM = System(_write, _offer)
