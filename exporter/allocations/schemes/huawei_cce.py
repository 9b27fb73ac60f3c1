"""Huawei Cloud CCE's GPU virtualization (xGPU).

Sources: the CCE user guide, cce_10_0644 and following (resources), and cce_10_0965 (equal
distribution over several cards). ``volcano.sh/gpu-mem.128Mi`` counts 128 MiB.
``gpu-core.percentage`` is per cent of one card and may be absent: then only memory is promised. The
pod label ``volcano.sh/gpu-num`` is the number of cards over which both are divided evenly.

Unconfirmed: the annotation of the placement, so no card is known until a process is found on it;
that ``gpu-num`` applies to each container of the pod alike. Fractions of ``nvidia.com/gpu``, which
the guide allows and Kubernetes refuses, are not read.
"""

from exporter.allocations.quantities import MIB
from exporter.allocations.reader import PodReader, Share, lasting_containers
from exporter.allocations.scheme import Decoded, IndexBasis, Scheme
from exporter.model import Allocation, Container, NodeFacts, Pod

_NAME = "huawei-cce"
_MEMORY = "volcano.sh/gpu-mem.128Mi"
_MEMORY_UNIT = 128 * MIB
_CORE = "volcano.sh/gpu-core.percentage"
_CARD_COUNT = "volcano.sh/gpu-num"  # a pod label


def decode(pod: Pod, node: NodeFacts) -> Decoded:
    """Return the allocations of each container. The system does not name the cards."""
    reader = PodReader(_NAME, pod, node)
    return reader.decoded(
        allocation
        for container in lasting_containers(pod)
        for allocation in _allocations(reader, container)
    )


def _allocations(reader: PodReader, container: Container) -> list[Allocation]:
    core, memory = reader.quantity(container, _CORE), reader.quantity(container, _MEMORY)
    if core is None and memory is None:
        return []
    count = reader.spread(_CARD_COUNT)
    if not reader.allows(container, count):
        return []
    share = Share(
        reader.core(None if core is None else core // count),
        reader.memory(None if memory is None else memory // count, _MEMORY_UNIT),
    )
    return reader.allocate(container, (None,) * count, share)


SCHEME = Scheme(
    name=_NAME,
    resources=(_MEMORY, _CORE),
    annotations=(),
    index_basis=IndexBasis.NVML_INDEX,
    decode=decode,
    labels=(_CARD_COUNT,),
    placement=(),
)
