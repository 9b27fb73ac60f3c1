"""The sharing systems that a scenario's pods can use, and what each of them writes.

Keys, units and device numbers are those of each system's documents and source code. They are
written apart from the decoders of ``exporter.allocations``, so that each checks the other: this
package may not import them.
"""

from collections.abc import Iterable, Mapping

from exporter.simulation.description import PodSpec, Scheme
from exporter.simulation.schemes import (
    clouds,
    dra,
    plugins,
    schedulers,
    vgpu,
)
from exporter.simulation.schemes.system import (
    Offer,
    PlacedPod,
    SchemeOutput,
    Site,
    System,
    texts,
)

__all__ = [
    "SYSTEMS",
    "Offer",
    "PlacedPod",
    "SchemeOutput",
    "Site",
    "companions",
    "memory_unit",
    "offered",
    "texts",
    "written",
]

SYSTEMS: Mapping[Scheme, System] = {
    Scheme.MGPU: clouds.MGPU_SYSTEM,
    Scheme.QGPU: clouds.QGPU_SYSTEM,
    Scheme.HAMI: vgpu.HAMI,
    Scheme.VOLCANO_VGPU: vgpu.VOLCANO_VGPU,
    Scheme.ACK: clouds.ACK_SYSTEM,
    Scheme.KOORDINATOR: schedulers.KOORDINATOR_SYSTEM,
    Scheme.GKE: plugins.GKE_SYSTEM,
    Scheme.KAI: schedulers.KAI_SYSTEM,
    Scheme.DRA: dra.SYSTEM,
    Scheme.AMD: plugins.AMD_SYSTEM,
    Scheme.INTEL: plugins.INTEL_SYSTEM,
    Scheme.NVIDIA: plugins.NVIDIA_SYSTEM,  # last: where two offer nvidia.com/gpu, its count stands
}


def written(order: PlacedPod) -> SchemeOutput:
    """The system's output for a pod: limits, annotations, grants and claims.

    Limits, annotations and labels of the scenario file are added, or replace the system's.
    """
    scheme = order.pod.scheme
    output = SYSTEMS[scheme].write(order) if scheme else SchemeOutput()
    stated = {container.name: container.limits for container in order.pod.containers}
    return SchemeOutput(
        {name: {**output.limits.get(name, {}), **own} for name, own in stated.items()},
        {**output.annotations, **order.pod.annotations},
        {**order.pod.labels, **output.labels},
        output.grants,
        output.refs,
        output.claims,
    )


def offered(schemes: Iterable[Scheme], site: Site) -> Offer:
    """The node's resources, labels and annotations, by the sharing systems in use."""
    used = set(schemes)
    offers = [system.offer(site) for scheme, system in SYSTEMS.items() if scheme in used]
    return Offer(
        {key: amount for offer in offers for key, amount in offer.allocatable.items()},
        {key: text for offer in offers for key, text in offer.labels.items()},
        {key: text for offer in offers for key, text in offer.annotations.items()},
        {key: device for offer in offers for key, device in offer.devices.items()},
    )


def companions(pods: tuple[PodSpec, ...], site: Site) -> list[PodSpec]:
    """The pods that sharing systems create for those of the scenario."""
    return schedulers.reservations(pods, site)


def memory_unit(scheme: Scheme | None, site: Site) -> int:
    """The size in bytes of a system's unit of memory."""
    if scheme is None:
        return 1
    system = SYSTEMS[scheme]
    return system.unit_of(site) if system.unit_of else system.unit
