"""Alibaba Cloud ACS: parts of a GPU on its GPU-HPN nodes.

Both resources are per cent of one GPU: of its core, and of its memory.

Unconfirmed: where the device is written; whether there may be more than 100 per cent (assumed
not); how it is enforced.

Source: ACS's document on sharing GPUs of GPU-HPN nodes. Both resources are per cent of one GPU:
``alibabacloud.com/gpu-core.percentage`` of its core, ``gpu-memory.percentage`` of its memory.
"""

from exporter.allocations.reader import PodReader, Share, lasting_containers
from exporter.allocations.scheme import Decoded, Scheme
from exporter.model import Allocation, Container, NodeFacts, Pod

_NAME = "aliyun-acs"
_CORE = "alibabacloud.com/gpu-core.percentage"
_MEMORY = "alibabacloud.com/gpu-memory.percentage"


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
    share = Share(reader.core(core), reader.part_of_memory(None, memory))
    return reader.allocate(container, (None,), share)


SCHEME = Scheme(
    name=_NAME,
    resources=(_CORE, _MEMORY),
    annotations=(),
    index_basis=None,
    decode=decode,
    placement=(),
    enforcement="",
)
