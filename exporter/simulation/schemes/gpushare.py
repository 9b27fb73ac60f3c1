"""Memory shared by the pod: Volcano's gpushare and Aliyun's, old and new.

Volcano ``devices/nvidia/gpushare``: MiB, or whole cards by number; one index for the pod. Aliyun's
gpushare-device-plugin ``pkg/gpu/nvidia/const.go``: GiB (or MiB by configuration), one card for
the pod. ACK (arena ``pkg/apis/types/const.go``): for each container, by its place, what it has of
each card. Cards are numbered as NVML does; the device plugins' ids are virtual.
"""

import json
from collections.abc import Callable

from exporter.simulation.schemes.system import (
    ASSUMED_NS,
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
    virtual,
)

VOLCANO, ALIYUN = "volcano.sh", "aliyun.com"
ACK_PREFIX = "scheduler.framework.gpushare"
MOST_IDS = 100  # of virtual devices that are listed; in MiB there would be thousands
UNITS = {"GiB": GIB, "MiB": MIB}


def _unit(site: Site) -> int:
    return UNITS[site.memory_unit]


# --- Volcano -------------------------------------------------------------------------------------


def _volcano(order: PlacedPod) -> SchemeOutput:
    asks = list(order.asks)
    cards = dict.fromkeys(device.index for ask in asks for device in ask.devices)
    annotations = {f"{VOLCANO}/predicate-time": str(ASSUMED_NS)}
    if all(ask.allocation.placed for ask in asks):
        annotations[f"{VOLCANO}/gpu-index"] = ",".join(map(str, cards))
    return SchemeOutput({ask.name: _volcano_limits(ask) for ask in asks}, annotations)


def _volcano_limits(ask: ContainerRequest) -> dict[str, Amount]:
    if ask.memory and not ask.whole:
        return {f"{VOLCANO}/gpu-memory": ask.memory // MIB}
    return {f"{VOLCANO}/gpu-number": ask.count}


def _volcano_offer(site: Site) -> Offer:
    memory = sum(card.memory_bytes // MIB for card in site.cards)
    return Offer({f"{VOLCANO}/gpu-memory": memory, f"{VOLCANO}/gpu-number": len(site.cards)})


# --- Aliyun, the open-source scheduler -----------------------------------------------------------


def _aliyun(order: PlacedPod) -> SchemeOutput:
    asks, unit = list(order.asks), _unit(order.site)
    total = sum((ask.memory or 0) // unit for ask in asks)
    card = next((device for ask in asks for device in ask.devices), order.site.cards[0])
    annotations = {
        "ALIYUN_COM_GPU_MEM_POD": str(total),
        "ALIYUN_COM_GPU_MEM_DEV": str(card.memory_bytes // unit),
        "ALIYUN_COM_GPU_MEM_ASSUME_TIME": str(ASSUMED_NS),
    }
    if all(ask.allocation.placed for ask in asks):
        annotations |= {
            "ALIYUN_COM_GPU_MEM_IDX": str(card.index),
            "ALIYUN_COM_GPU_MEM_ASSIGNED": "true",
            "ALIYUN_COM_GPU_MEM_ASSIGN_TIME": str(ASSUMED_NS),
        }
    limits = {ask.name: _gpu_mem(ask, unit) for ask in asks}
    grants = tuple(
        virtual(
            ask,
            f"{ALIYUN}/gpu-mem",
            min((ask.memory or 0) // unit, MOST_IDS),
            f"{order.site.another(card).uuid}-_-{{}}".format,
        )
        for ask in asks
    )
    return SchemeOutput(limits, annotations, grants=grants)


def _gpu_mem(ask: ContainerRequest, unit: int) -> dict[str, Amount]:
    """A total over the container's cards."""
    return {f"{ALIYUN}/gpu-mem": (ask.memory or 0) * ask.count // unit}


def _aliyun_offer(site: Site) -> Offer:
    units = sum(card.memory_bytes // _unit(site) for card in site.cards)
    return Offer(
        {f"{ALIYUN}/gpu-mem": units, f"{ALIYUN}/gpu-count": len(site.cards)},
        labels={"gpushare": "true"},
    )


# --- Aliyun ACK ----------------------------------------------------------------------------------


def _ack(order: PlacedPod) -> SchemeOutput:
    asks, unit = list(order.asks), _unit(order.site)
    annotations = {
        f"{ACK_PREFIX}.assume-time": str(ASSUMED_NS),
        f"{ACK_PREFIX}.assigned": "true",
    }
    if all(ask.allocation.placed for ask in asks):
        memory = _by_place(asks, lambda ask: (ask.memory or 0) // unit)
        annotations[f"{ACK_PREFIX}.allocation"] = json.dumps(memory, separators=(",", ":"))
        if any(ask.core for ask in asks):
            core = _by_place(asks, lambda ask: ask.core or 0)
            key = "gpushare.alibabacloud.com/core-percentage"
            annotations[key] = json.dumps(core, separators=(",", ":"))
    count = max((ask.count for ask in asks), default=1)
    return SchemeOutput(
        limits={ask.name: _gpu_mem(ask, unit) | _ack_core(ask) for ask in asks},
        annotations=annotations,
        labels={f"{ALIYUN}/gpu-count": str(count)} if count > 1 else {},
    )


def _by_place(
    asks: list[ContainerRequest], share: Callable[[ContainerRequest], int]
) -> dict[str, dict[str, int]]:
    return {str(a.place): {str(card.index): share(a) for card in a.devices} for a in asks}


def _ack_core(ask: ContainerRequest) -> dict[str, Amount]:
    return {f"{ALIYUN}/gpu-core.percentage": ask.core * ask.count} if ask.core else {}


def _ack_offer(site: Site) -> Offer:
    core = {f"{ALIYUN}/gpu-core.percentage": WHOLE * len(site.cards)}
    offer = _aliyun_offer(site)
    return Offer({**offer.allocatable, **core}, labels={"ack.node.gpu.schedule": "core_mem"})


VOLCANO_GPUSHARE = System(_volcano, _volcano_offer)
ALIYUN_GPUSHARE = System(_aliyun, _aliyun_offer, unit_of=_unit)
ACK = System(_ack, _ack_offer, unit_of=_unit)
