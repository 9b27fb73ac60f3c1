"""Schedulers that divide GPUs: NVIDIA's KAI-Scheduler (and Run:ai), and Koordinator.

KAI by ``pkg/common/constants/constants.go``: a pod asks by annotation for a fraction, or for MiB,
of each GPU for one container, and asks for no resource. Which GPU it is stands on another pod: a
reservation in a namespace of its own that holds the device for all of its group and says its UUID.

Koordinator by ``apis/extension/device_share.go``: cores and memory are in per cent, totals over the
cards. The annotation is the pod's: each card by its minor, with what all of its containers have
there, memory as a Kubernetes quantity.
"""

import json

from exporter.simulation import identity
from exporter.simulation.description import (
    AllocationSpec,
    ContainerSpec,
    DeviceSpec,
    PodSpec,
    Scheme,
)
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
from exporter.simulation.work import Span

KOORDINATOR = "koordinator.sh"


def _koordinator(order: PlacedPod) -> SchemeOutput:
    asks = list(order.asks)
    annotations = {}
    if all(ask.allocation.placed for ask in asks):
        cards = {device.minor: device for ask in asks for device in ask.devices}
        listed = [_card(card, asks) for _, card in sorted(cards.items())]
        annotations["scheduling.koordinator.sh/device-allocated"] = json.dumps(
            {"gpu": listed}, separators=(",", ":")
        )
    return SchemeOutput({ask.name: _koordinator_limits(ask) for ask in asks}, annotations)


def _koordinator_limits(ask: ContainerRequest) -> dict[str, Amount]:
    """The ratio is of the card's memory; where that is no whole number, bytes are asked for."""
    found: dict[str, Amount] = {}
    if ask.count > 1 and not ask.whole:
        found[f"{KOORDINATOR}/gpu.shared"] = ask.count
    if ask.core:
        found[f"{KOORDINATOR}/gpu-core"] = ask.core * ask.count
    memory = _memory_of(ask, ask.devices[0])
    ratio = memory and WHOLE * memory / ask.devices[0].memory_bytes
    if ratio and ratio.is_integer():
        found[f"{KOORDINATOR}/gpu-memory-ratio"] = int(ratio) * ask.count
    elif memory:
        found[f"{KOORDINATOR}/gpu-memory"] = _quantity(memory * ask.count)
    return found


def _card(card: DeviceSpec, asks: list[ContainerRequest]) -> dict[str, object]:
    here = [ask for ask in asks if card in ask.devices]
    memory = sum(_memory_of(ask, card) for ask in here)
    resources = {
        f"{KOORDINATOR}/gpu-core": str(sum(ask.core or 0 for ask in here)),
        f"{KOORDINATOR}/gpu-memory": _quantity(memory),
        f"{KOORDINATOR}/gpu-memory-ratio": str(WHOLE * memory // card.memory_bytes),
    }
    return {"minor": card.minor, "resources": resources}


def _quantity(size: int) -> str:
    return f"{size // GIB}Gi" if size % GIB == 0 else f"{size // MIB}Mi"


def _memory_of(ask: ContainerRequest, card: DeviceSpec) -> int:
    """Bytes of a card; without memory in the request, in proportion to the cores."""
    return ask.memory or card.memory_bytes * (ask.core or WHOLE) // WHOLE


def _koordinator_offer(site: Site) -> Offer:
    memory = sum(card.memory_bytes for card in site.cards)
    return Offer(
        {
            f"{KOORDINATOR}/gpu": WHOLE * len(site.cards),
            f"{KOORDINATOR}/gpu-core": WHOLE * len(site.cards),
            f"{KOORDINATOR}/gpu-memory": _quantity(memory),
            f"{KOORDINATOR}/gpu-memory-ratio": WHOLE * len(site.cards),
        }
    )


KOORDINATOR_SYSTEM = System(_koordinator, _koordinator_offer)


GROUP = "runai-gpu-group"
NAMESPACE = "kai-resource-reservation"
RESERVED = "run.ai/reserve_for_gpu_index"


def _kai(order: PlacedPod) -> SchemeOutput:
    annotations: dict[str, str] = {}
    labels: dict[str, str] = {}
    for ask in order.asks:
        if ask.core:
            annotations["gpu-fraction"] = f"{ask.core / WHOLE:g}"
        else:
            annotations["gpu-memory"] = str((ask.memory or 0) // MIB)
        annotations["received-resource-type"] = "Fraction"
        if ask.count > 1:
            annotations["gpu-fraction-num-devices"] = str(ask.count)
        if ask.place:
            annotations["gpu-fraction-container-name"] = ask.name
        if ask.allocation.placed:
            groups = [_group(device) for device in ask.devices]
            several = len(groups) > 1
            labels |= {f"{GROUP}/{group}" if several else GROUP: group for group in groups}
    return SchemeOutput(annotations=annotations, labels=labels)


def _group(device: DeviceSpec) -> str:
    return identity.uuid("gpu-group", device.uuid)


def _kai_offer(site: Site) -> Offer:
    return Offer({"nvidia.com/gpu": len(site.cards)})


def reservations(pods: tuple[PodSpec, ...], site: Site) -> list[PodSpec]:
    """The pods that hold the GPUs of these pods' groups, one for each GPU."""
    users = [pod for pod in pods if pod.scheme is Scheme.KAI]
    orders = (PlacedPod(pod, pod.name, site) for pod in users)
    used = {d.number: d for o in orders for ask in o.asks for d in ask.devices}
    return [_reservation(device, site.node) for _, device in sorted(used.items())]


def _reservation(device: DeviceSpec, node: str) -> PodSpec:
    group = _group(device)
    holder = ContainerSpec("resource-reservation", AllocationSpec((device.number,), slots=((0,),)))
    return PodSpec(
        namespace=NAMESPACE,
        name=f"gpu-reservation-{node}-{group[:7]}",
        containers=(holder,),
        span=Span(),
        scheme=Scheme.NVIDIA,
        qos="BestEffort",
        labels={GROUP: group},
        annotations={RESERVED: device.uuid},
        reserves=True,
    )


KAI_SYSTEM = System(_kai, _kai_offer)
