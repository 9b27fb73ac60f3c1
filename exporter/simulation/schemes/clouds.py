"""Systems of cloud providers: Volcano Engine's mGPU, Tencent's qGPU, Aliyun's ACK.

mGPU is as its scheduler plugin writes it (Volcano's mGPU proposal, ``type.go``): cores in per cent
and memory in MiB, both totals over a container's cards. Whole cards ask for no memory. Cards are
numbered as NVML does. The device plugin's ids are virtual.

qGPU is as the documents 457/65734, 457/90912 and 457/127667 have it: cores in per cent and memory
in GiB, both totals over a container's cards. An offline pod's cores are a resource of their own.
The placement's key is known from elastic-ai's fork of arena only; its numbers are taken for NVML's.

ACK is as arena's ``pkg/apis/types/const.go`` has it: annotations of the pod say for each container,
by its place, what it has of each card, in GiB (or MiB by configuration). Cards are numbered as NVML
does.
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

ALIYUN = "aliyun.com"
ACK_PREFIX = "scheduler.framework.gpushare"
UNITS = {"GiB": GIB, "MiB": MIB}


def _ack_unit(site: Site) -> int:
    return UNITS[site.memory_unit]


def _ack(order: PlacedPod) -> SchemeOutput:
    asks, unit = list(order.asks), _ack_unit(order.site)
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
            f"{ALIYUN}/gpu-mem": sum(card.memory_bytes // _ack_unit(site) for card in site.cards),
            f"{ALIYUN}/gpu-count": len(site.cards),
            f"{ALIYUN}/gpu-core.percentage": WHOLE * len(site.cards),
        },
        labels={"ack.node.gpu.schedule": "core_mem"},
    )


ACK_SYSTEM = System(_ack, _ack_offer, unit_of=_ack_unit)


VKE = "vke.volcengine.com"
TKE = "tke.cloud.tencent.com"


def _mgpu(order: PlacedPod) -> SchemeOutput:
    asks = list(order.asks)
    site = order.site
    return SchemeOutput(
        limits={ask.name: _mgpu_limits(ask) for ask in asks},
        annotations=_mgpu_annotations(order, asks),
        grants=tuple(
            virtual(
                ask,
                f"{VKE}/mgpu-core",
                ask.core * ask.count,
                f"{site.another(ask.devices[0]).index}-{{:02d}}".format,
            )
            for ask in asks
            if ask.core
        ),
    )


def _mgpu_limits(ask: ContainerRequest) -> dict[str, Amount]:
    found: dict[str, Amount] = {}
    if ask.core:
        found[f"{VKE}/mgpu-core"] = ask.core * ask.count
    if ask.memory and not ask.whole:
        found[f"{VKE}/mgpu-memory"] = ask.memory * ask.count // MIB
    return found


def _mgpu_annotations(order: PlacedPod, asks: list[ContainerRequest]) -> dict[str, str]:
    found = {f"{VKE}/assumed": "true"}
    if order.pod.policy:
        found[f"{VKE}/mgpu-compute-policy"] = order.pod.policy
    shared_over = {ask.place: ask.count for ask in asks if not ask.whole and ask.count > 1}
    if shared_over:
        apps = sum(container.kind == "app" for container in order.pod.containers)
        counts = (str(shared_over.get(place, 0)) for place in range(apps))
        found[f"{VKE}/container-multiple-gpu"] = ",".join(counts)
    for ask in asks:
        if ask.allocation.placed:
            key = f"{VKE}/gpu-index-container-{ask.name}"
            found[key] = ask.numbers(lambda device: device.index)
    return found


def _mgpu_offer(site: Site) -> Offer:
    memory = sum(card.memory_bytes for card in site.cards)
    return Offer(
        allocatable={
            f"{VKE}/mgpu-core": WHOLE * len(site.cards),
            f"{VKE}/mgpu-memory": memory // MIB,
        },
        labels={"vke.node.gpu.schedule": "mgpu"},
    )


def _qgpu(order: PlacedPod) -> SchemeOutput:
    asks = list(order.asks)
    offline = order.pod.app_class == "offline"
    annotations = {f"{TKE}/qgpu": "true"}
    if order.pod.app_class:
        annotations[f"{TKE}/app-class"] = order.pod.app_class
    for ask in asks:
        if ask.allocation.placed:
            numbers = ask.numbers(lambda device: device.index)
            annotations[f"{TKE}/qgpu-pgpu-{ask.name}"] = numbers
    return SchemeOutput({ask.name: _qgpu_limits(ask, offline=offline) for ask in asks}, annotations)


def _qgpu_limits(ask: ContainerRequest, *, offline: bool) -> dict[str, Amount]:
    found: dict[str, Amount] = {}
    if ask.core:
        core = "qgpu-core-greedy" if offline else "qgpu-core"
        found[f"{TKE}/{core}"] = ask.core * ask.count
    if ask.memory:
        found[f"{TKE}/qgpu-memory"] = ask.memory * ask.count // GIB
    return found


def _qgpu_offer(site: Site) -> Offer:
    memory = sum(card.memory_bytes // GIB for card in site.cards)
    return Offer(
        allocatable={
            f"{TKE}/qgpu-core": WHOLE * len(site.cards),
            f"{TKE}/qgpu-memory": memory,
        },
        labels={"qgpu-device-enable": "enable"},
    )


MGPU_SYSTEM = System(_mgpu, _mgpu_offer)
QGPU_SYSTEM = System(_qgpu, _qgpu_offer, unit=GIB)
