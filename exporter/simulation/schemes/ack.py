"""Aliyun's ACK: memory and cores by container and card, in annotations of the pod.

As arena's ``pkg/apis/types/const.go`` has it: for each container, by its place, what it has of each
card, in GiB (or MiB by configuration). Cards are numbered as NVML does.
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
)

ALIYUN = "aliyun.com"
ACK_PREFIX = "scheduler.framework.gpushare"
UNITS = {"GiB": GIB, "MiB": MIB}


def _unit(site: Site) -> int:
    return UNITS[site.memory_unit]


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


def _gpu_mem(ask: ContainerRequest, unit: int) -> dict[str, Amount]:
    """A total over the container's cards."""
    return {f"{ALIYUN}/gpu-mem": (ask.memory or 0) * ask.count // unit}


def _by_place(
    asks: list[ContainerRequest], share: Callable[[ContainerRequest], int]
) -> dict[str, dict[str, int]]:
    return {str(a.place): {str(card.index): share(a) for card in a.devices} for a in asks}


def _ack_core(ask: ContainerRequest) -> dict[str, Amount]:
    return {f"{ALIYUN}/gpu-core.percentage": ask.core * ask.count} if ask.core else {}


def _ack_offer(site: Site) -> Offer:
    return Offer(
        {
            f"{ALIYUN}/gpu-mem": sum(card.memory_bytes // _unit(site) for card in site.cards),
            f"{ALIYUN}/gpu-count": len(site.cards),
            f"{ALIYUN}/gpu-core.percentage": WHOLE * len(site.cards),
        },
        labels={"ack.node.gpu.schedule": "core_mem"},
    )


SYSTEM = System(_ack, _ack_offer, unit_of=_unit)
