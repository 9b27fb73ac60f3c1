"""Volcano's GPU sharing before its vGPU: memory, or whole cards.

Source: ``pkg/scheduler/api/devices/nvidia/gpushare`` (``share.go``, ``type.go``) of
volcano-sh/volcano. ``gpu-memory`` is MiB on one card, ``gpu-number`` counts whole cards. The pod's
annotation ``volcano.sh/gpu-index`` lists the cards of all its containers together. Memory of each
container is on that one card. Whole cards are assigned to a container only if no other has any.

Unconfirmed: whether a card's number is its NVML index (assumed here) or its minor.
"""

from exporter.allocations.quantities import MIB
from exporter.allocations.reader import PodReader, Share, lasting_containers
from exporter.allocations.scheme import Decoded, IndexBasis, Scheme
from exporter.model import Allocation, Container, Device, NodeFacts, Pod

_NAME = "volcano-gpushare"
_MEMORY = "volcano.sh/gpu-memory"
_NUMBER = "volcano.sh/gpu-number"
_PLACEMENT = "volcano.sh/gpu-index"


def decode(pod: Pod, node: NodeFacts) -> Decoded:
    """Return the memory, or the whole cards, allocated to each container."""
    reader = PodReader(_NAME, pod, node)
    counts = {
        container.name: reader.quantity(container, _NUMBER) or 0
        for container in lasting_containers(pod)
    }
    alone = sum(count > 0 for count in counts.values()) <= 1
    return reader.decoded(
        allocation
        for container in lasting_containers(pod)
        for allocation in _allocations(reader, container, counts[container.name], alone=alone)
    )


def _allocations(
    reader: PodReader, container: Container, count: int, *, alone: bool
) -> list[Allocation]:
    memory = reader.quantity(container, _MEMORY)
    if count:
        if not reader.allows(container, count):
            return []
        cards = _cards(reader, count) if alone else (None,) * count
        return reader.allocate(container, cards, Share(1.0, None), whole=True)
    if memory is None:
        return []
    return reader.allocate(container, _cards(reader, 1), Share(None, reader.memory(memory, MIB)))


def _cards(reader: PodReader, count: int) -> tuple[Device | None, ...]:
    return reader.placement(_PLACEMENT, count, IndexBasis.NVML_INDEX)


SCHEME = Scheme(
    name=_NAME,
    resources=(_MEMORY, _NUMBER),
    annotations=(_PLACEMENT,),
    index_basis=IndexBasis.NVML_INDEX,
    decode=decode,
)
