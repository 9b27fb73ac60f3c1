"""Volcano Engine mGPU, as its scheduler plugin writes it (Volcano's mGPU proposal, ``type.go``).

Cores are in per cent and memory in MiB, both totals over a container's cards. Whole cards ask for
no memory. Cards are numbered as NVML does. The device plugin's ids are virtual.
"""

from exporter.simulation.schemes.system import (
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

DOMAIN = "vke.volcengine.com"


def _write(order: PlacedPod) -> SchemeOutput:
    asks = list(order.asks)
    site = order.site
    return SchemeOutput(
        limits={ask.name: _limits(ask) for ask in asks},
        annotations=_annotations(order, asks),
        grants=tuple(
            virtual(
                ask,
                f"{DOMAIN}/mgpu-core",
                ask.core * ask.count,
                f"{site.another(ask.devices[0]).index}-{{:02d}}".format,
            )
            for ask in asks
            if ask.core
        ),
    )


def _limits(ask: ContainerRequest) -> dict[str, Amount]:
    found: dict[str, Amount] = {}
    if ask.core:
        found[f"{DOMAIN}/mgpu-core"] = ask.core * ask.count
    if ask.memory and not ask.whole:
        found[f"{DOMAIN}/mgpu-memory"] = ask.memory * ask.count // MIB
    return found


def _annotations(order: PlacedPod, asks: list[ContainerRequest]) -> dict[str, str]:
    found = {f"{DOMAIN}/assumed": "true"}
    if order.pod.policy:
        found[f"{DOMAIN}/mgpu-compute-policy"] = order.pod.policy
    shared_over = {ask.place: ask.count for ask in asks if not ask.whole and ask.count > 1}
    if shared_over:
        apps = sum(container.kind == "app" for container in order.pod.containers)
        counts = (str(shared_over.get(place, 0)) for place in range(apps))
        found[f"{DOMAIN}/container-multiple-gpu"] = ",".join(counts)
    for ask in asks:
        if ask.allocation.placed:
            key = f"{DOMAIN}/gpu-index-container-{ask.name}"
            found[key] = ask.numbers(lambda device: device.index)
    return found


def _offer(site: Site) -> Offer:
    memory = sum(card.memory_bytes for card in site.cards)
    return Offer(
        allocatable={
            f"{DOMAIN}/mgpu-core": WHOLE * len(site.cards),
            f"{DOMAIN}/mgpu-memory": memory // MIB,
        },
        labels={"vke.node.gpu.schedule": "mgpu"},
    )


SYSTEM = System(_write, _offer)
