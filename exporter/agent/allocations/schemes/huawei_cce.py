"""Huawei Cloud CCE's GPU virtualization (xGPU).

``volcano.sh/gpu-mem.128Mi`` counts 128 MiB; ``gpu-core.percentage`` is per cent of one card and
may be absent. Both are divided over as many cards as the pod label ``volcano.sh/gpu-num`` says. A
fraction of ``nvidia.com/gpu`` (``500m``) is that part of a card's memory.

Unconfirmed: the annotation of the placement; that ``gpu-num`` applies to each container alike;
that a fraction is rounded down.

Sources: the CCE user guide, cce_10_0644 and following (resources), cce_10_0965 (equal distribution
over several cards) and cce_10_0742 (a fraction: rounded down to 128 MiB; core is shared).
Kubernetes' own API server refuses a fraction, so it occurs on CCE only.
"""

import re

from exporter.agent.allocations.reader import PodReader, Share, each_container
from exporter.agent.allocations.scheme import Scheme
from exporter.model import MIB, Allocation, Container

_MEMORY = "volcano.sh/gpu-mem.128Mi"
_MEMORY_UNIT = 128 * MIB
_CORE = "volcano.sh/gpu-core.percentage"
_GPU = "nvidia.com/gpu"
_FRACTION = re.compile(r"(\d{1,3})m", re.ASCII)
_CARD_COUNT = "volcano.sh/gpu-num"  # a pod label


def read(reader: PodReader, container: Container) -> list[Allocation]:
    """Return the allocations of each container. The system does not name the cards."""
    if fraction := _FRACTION.fullmatch(container.limits.get(_GPU, "")):
        card, thousandths = reader.card_memory(None), int(fraction[1])
        size = None
        # Of cards that differ in size the fraction is of one that is not known.
        if card is not None and thousandths:
            size = reader.memory(card * thousandths // 1000 // _MEMORY_UNIT, _MEMORY_UNIT)
        return reader.allocate(container, (None,), Share(None, size))
    core, memory = reader.quantity(container, _CORE), reader.quantity(container, _MEMORY)
    if core is None and memory is None:
        return []
    count = reader.spread(_CARD_COUNT)
    share = Share(
        reader.core(core, count),
        reader.memory(memory, _MEMORY_UNIT, count),
    )
    return reader.allocate(container, (None,) * count, share)


SCHEME = Scheme(
    name="huawei-cce",
    resources=(_MEMORY, _CORE, _GPU),
    annotations=(),
    index_basis=None,
    read=each_container(read),
    labels=(_CARD_COUNT,),
    placement=(),
)
