"""Huawei CCE and Baidu CCE, as far as their documents say: what is asked for, never which card.

Huawei: units of 128 MiB, and per cent of one card. Baidu: cards by model, per cent and GiB as
totals over them.
"""

from collections import Counter

from exporter.simulation.schemes.system import (
    GIB,
    MIB,
    WHOLE,
    Amount,
    Offer,
    PlacedPod,
    SchemeOutput,
    Site,
    System,
)

HUAWEI = "volcano.sh/gpu-"
BLOCK = 128 * MIB
BAIDU = "baidu.com/gpu_cgpu"


def _huawei(order: PlacedPod) -> SchemeOutput:
    limits: dict[str, dict[str, Amount]] = {}
    for ask in order.asks:
        found = limits.setdefault(ask.name, {})
        if ask.memory:
            found[f"{HUAWEI}mem.128Mi"] = ask.memory // BLOCK
        if ask.core:
            found[f"{HUAWEI}core.percentage"] = ask.core
    return SchemeOutput(limits)


def _huawei_offer(site: Site) -> Offer:
    blocks = sum(card.memory_bytes // BLOCK for card in site.cards)
    core = WHOLE * len(site.cards)
    return Offer({f"{HUAWEI}mem.128Mi": blocks, f"{HUAWEI}core.percentage": core})


def _baidu(order: PlacedPod) -> SchemeOutput:
    limits: dict[str, dict[str, Amount]] = {}
    for ask in order.asks:
        resource = ask.devices[0].resource or BAIDU
        found = limits.setdefault(ask.name, {resource: ask.count})
        if ask.core:
            found[f"{resource}_core"] = ask.core * ask.count
        if ask.memory:
            found[f"{resource}_memory"] = ask.memory * ask.count // GIB
    return SchemeOutput(limits)


def _baidu_offer(site: Site) -> Offer:
    offered: Counter[str] = Counter()
    for card in site.cards:
        resource = card.resource or BAIDU
        offered[resource] += 1
        offered[f"{resource}_core"] += WHOLE
        offered[f"{resource}_memory"] += card.memory_bytes // GIB
    return Offer(offered)


HUAWEI_SYSTEM = System(_huawei, _huawei_offer, unit=BLOCK)
BAIDU_SYSTEM = System(_baidu, _baidu_offer, unit=GIB)
