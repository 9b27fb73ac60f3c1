"""Elastic GPU (elastic-ai).

``gpu-core`` is per cent of one card, ``gpu-memory`` MiB; 100, 200, ... cores are whole cards.

Unconfirmed: whether memory is MiB (assumed) or 10^6 bytes; an annotation with the domain
``elasticgpu.com``; ``elasticgpu.io/qgpu-*`` and ``pgpu``, which are not read.

Sources: ``pkg/common/const.go`` of elastic-ai/elastic-gpu-agent, the utilities of
elastic-gpu-scheduler, and the API types of elastic-gpu. The README has the domain
``elasticgpu.io``, the API types ``elasticgpu.com``: both are read. The annotation
``elasticgpu.io/container-<name>`` lists cards by their position in ``/proc/driver/nvidia/gpus``,
which is in the order of PCI addresses.
"""

from exporter.agent.allocations.reader import PodReader, Share, each_container
from exporter.agent.allocations.scheme import Scheme
from exporter.agent.allocations.terms import UNENFORCED, IndexBasis
from exporter.model import MIB, Allocation, Container

_DOMAINS = ("elasticgpu.io", "elasticgpu.com")
_CORE = "gpu-core"
_MEMORY = "gpu-memory"
_PLACEMENT = "elasticgpu.io/container-"


def read(reader: PodReader, container: Container) -> list[Allocation]:
    """Return the allocations of each container, one per card."""
    # The README and the API types have two domains. The first that states an amount counts.
    amounts = (
        [reader.quantity(container, f"{domain}/{name}") for domain in _DOMAINS]
        for name in (_CORE, _MEMORY)
    )
    core, memory = (next((a for a in each if a is not None), None) for each in amounts)
    if core is None and memory is None:
        return []
    whole = core is not None and core % 100 == 0
    count = core // 100 if core is not None and whole else 1
    if not reader.allows(container, count):
        return []
    cards = reader.placement(_PLACEMENT + container.name, count)
    if whole:
        return reader.allocate(container, cards, Share(1.0, None), whole=True)
    return reader.allocate(container, cards, Share(reader.core(core), reader.memory(memory, MIB)))


SCHEME = Scheme(
    name="elastic-gpu",
    resources=tuple(f"{domain}/{name}" for domain in _DOMAINS for name in (_CORE, _MEMORY)),
    annotations=(_PLACEMENT,),
    index_basis=IndexBasis.PCI,
    read=each_container(read),
    enforcement=UNENFORCED,
)
