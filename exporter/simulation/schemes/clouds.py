"""Systems of cloud providers: Volcano Engine's mGPU and Tencent's qGPU.

mGPU is as its scheduler plugin writes it (Volcano's mGPU proposal, ``type.go``): cores in per cent
and memory in MiB, both totals over a container's cards. Whole cards ask for no memory. Cards are
numbered as NVML does. The device plugin's ids are virtual.

qGPU is as the documents 457/65734, 457/90912 and 457/127667 have it: cores in per cent and memory
in GiB, both totals over a container's cards. An offline pod's cores are a resource of their own.
The placement's key is known from elastic-ai's fork of arena only; its numbers are taken for NVML's.
"""

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
    virtual,
)

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
