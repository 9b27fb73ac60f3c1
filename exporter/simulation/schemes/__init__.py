"""The sharing systems that a scenario's pods can use, and what each of them writes.

Keys, units and device numbers are those of each system's documents and source code. They are
written apart from the decoders of ``exporter.allocations``, so that each checks the other: this
package may not import them.
"""

from collections.abc import Iterable, Mapping

from exporter.simulation.description import Scheme
from exporter.simulation.schemes import (
    clouds,
    dra,
    hami,
    plugins,
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
    "memory_unit",
    "offered",
    "texts",
    "written",
]

SYSTEMS: Mapping[Scheme, System] = {
    Scheme.MGPU: clouds.MGPU_SYSTEM,
    Scheme.QGPU: clouds.QGPU_SYSTEM,
    Scheme.HAMI: hami.SYSTEM,
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


def memory_unit(scheme: Scheme | None) -> int:
    """The size in bytes of a system's unit of memory."""
    return 1 if scheme is None else SYSTEMS[scheme].unit
