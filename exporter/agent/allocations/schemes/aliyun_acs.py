"""Alibaba Cloud ACS: parts of a GPU on its GPU-HPN nodes.

Both resources are per cent of one GPU: of its core, and of its memory.

Unconfirmed: where the device is written; whether there may be more than 100 per cent (assumed
not); how it is enforced.

Source: ACS's document on sharing GPUs of GPU-HPN nodes. Both resources are per cent of one GPU:
``alibabacloud.com/gpu-core.percentage`` of its core, ``gpu-memory.percentage`` of its memory.
"""

from exporter.agent.allocations.reader import PodReader, Share, each_container
from exporter.agent.allocations.scheme import Scheme
from exporter.model import Allocation, Container

_CORE = "alibabacloud.com/gpu-core.percentage"
_MEMORY = "alibabacloud.com/gpu-memory.percentage"


def read(reader: PodReader, container: Container) -> list[Allocation]:
    """Return the allocations of each container. The system does not name the cards."""
    core, memory = reader.quantity(container, _CORE), reader.quantity(container, _MEMORY)
    if core is None and memory is None:
        return []
    share = Share(reader.core(core), reader.part_of_memory(None, memory))
    return reader.allocate(container, (None,), share)


SCHEME = Scheme(
    name="aliyun-acs",
    resources=(_CORE, _MEMORY),
    annotations=(),
    index_basis=None,
    read=each_container(read),
    placement=(),
    enforcement="",
)
