"""Pods as sharing systems write them, for nodes that tests and benchmarks need many of."""

from collections.abc import Sequence
from typing import Any

Keys = dict[str, Any]
Texts = dict[str, str]
Written = tuple[Texts, Texts, dict[str, list[str]]]  # limits, annotations, what was granted

VKE, TKE, HAMI = "vke.volcengine.com", "tke.cloud.tencent.com", "hami.io"


def gpu_uuid(card: int, node: int = 0) -> str:
    """The UUID of a card, for its device and for systems that name cards by it."""
    return f"GPU-{node:08x}-{card:04x}-4000-8000-000000000000"


def shared(
    pod: Keys,
    system: str,
    cards: Sequence[int],
    core: int | None = None,
    gib: int | None = None,
    node: int = 0,
) -> Keys:
    """The pod whose first container has these cards, per cent and GiB of each, by this system."""
    first, *others = pod["containers"]
    uuids = [gpu_uuid(card, node) for card in cards]
    numbers = ",".join(map(str, cards))
    asked = (first["name"], numbers, len(cards), core, gib)
    limits, annotations, granted = {
        "mgpu": _mgpu(*asked),
        "qgpu": _qgpu(*asked),
        "hami": _hami(uuids, core or 0, gib or 0, len(others)),
        "nvidia": ({"nvidia.com/gpu": str(len(cards))}, {}, {"nvidia.com/gpu": uuids}),
    }[system]
    containers = [{**first, "limits": limits, "granted": granted}, *others]
    return {**pod, "containers": containers, "annotations": annotations}


def _mgpu(name: str, numbers: str, count: int, core: int | None, gib: int | None) -> Written:
    limits = {}
    if core:
        limits[f"{VKE}/mgpu-core"] = str(core * count)
    if gib:
        limits[f"{VKE}/mgpu-memory"] = str(gib * count * 1024)
    return limits, {f"{VKE}/assumed": "true", f"{VKE}/gpu-index-container-{name}": numbers}, {}


def _qgpu(name: str, numbers: str, count: int, core: int | None, gib: int | None) -> Written:
    limits = {}
    if core:
        limits[f"{TKE}/qgpu-core"] = str(core * count)
    if gib:
        limits[f"{TKE}/qgpu-memory"] = str(gib * count)
    return limits, {f"{TKE}/qgpu": "true", f"{TKE}/qgpu-pgpu-{name}": numbers}, {}


def _hami(uuids: Sequence[str], core: int, gib: int, others: int) -> Written:
    limits = {"nvidia.com/gpu": str(len(uuids)), "nvidia.com/gpumem": str(gib * 1024)}
    if core:
        limits["nvidia.com/gpucores"] = str(core)
    segment = "".join(f"{uuid},NVIDIA,{gib * 1024},{core}:" for uuid in uuids)
    marks = {f"{HAMI}/bind-phase": "success", f"{HAMI}/vgpu-devices-allocated": f"{segment};"}
    marks[f"{HAMI}/vgpu-devices-allocated"] += ";" * others
    return limits, marks, {}
