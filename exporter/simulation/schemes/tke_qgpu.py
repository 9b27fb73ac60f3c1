"""Tencent TKE qGPU, as the documents 457/65734, 457/90912 and 457/127667 have it.

Cores are in per cent and memory in GiB, both totals over a container's cards; an offline pod's
cores are a resource of their own. The placement's key is known from elastic-ai's fork of arena
only; its numbers are taken for NVML's.
"""

from exporter.simulation.schemes.system import (
    GIB,
    WHOLE,
    Amount,
    ContainerRequest,
    Offer,
    PlacedPod,
    SchemeOutput,
    Site,
    System,
)

DOMAIN = "tke.cloud.tencent.com"


def _write(order: PlacedPod) -> SchemeOutput:
    asks = list(order.asks)
    offline = order.pod.app_class == "offline"
    annotations = {f"{DOMAIN}/qgpu": "true"}
    if order.pod.app_class:
        annotations[f"{DOMAIN}/app-class"] = order.pod.app_class
    for ask in asks:
        if ask.allocation.placed:
            numbers = ask.numbers(lambda device: device.index)
            annotations[f"{DOMAIN}/qgpu-pgpu-{ask.name}"] = numbers
    return SchemeOutput({ask.name: _limits(ask, offline=offline) for ask in asks}, annotations)


def _limits(ask: ContainerRequest, *, offline: bool) -> dict[str, Amount]:
    found: dict[str, Amount] = {}
    if ask.core:
        core = "qgpu-core-greedy" if offline else "qgpu-core"
        found[f"{DOMAIN}/{core}"] = ask.core * ask.count
    if ask.memory:
        found[f"{DOMAIN}/qgpu-memory"] = ask.memory * ask.count // GIB
    return found


def _offer(site: Site) -> Offer:
    memory = sum(card.memory_bytes // GIB for card in site.cards)
    return Offer(
        allocatable={
            f"{DOMAIN}/qgpu-core": WHOLE * len(site.cards),
            f"{DOMAIN}/qgpu-memory": memory,
        },
        labels={"qgpu-device-enable": "enable"},
    )


SYSTEM = System(_write, _offer, unit=GIB)
