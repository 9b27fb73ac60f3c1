"""NVIDIA's KAI-Scheduler (and Run:ai), by ``pkg/common/constants/constants.go``.

A pod asks by annotation for a fraction, or for MiB, of each GPU for one container, and asks for no
resource. Which GPU it is stands on another pod: a reservation in a namespace of its own that holds
the device for all of its group and says its UUID.
"""

from exporter.simulation import identity
from exporter.simulation.description import (
    AllocationSpec,
    ContainerSpec,
    DeviceSpec,
    PodSpec,
    Scheme,
)
from exporter.simulation.schemes.system import (
    MIB,
    WHOLE,
    Offer,
    PlacedPod,
    SchemeOutput,
    Site,
    System,
)
from exporter.simulation.work import Span

GROUP = "runai-gpu-group"
NAMESPACE = "kai-resource-reservation"
RESERVED = "run.ai/reserve_for_gpu_index"


def _write(order: PlacedPod) -> SchemeOutput:
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


def _offer(site: Site) -> Offer:
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


SYSTEM = System(_write, _offer)
