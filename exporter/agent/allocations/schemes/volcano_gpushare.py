"""Volcano's GPU sharing before its vGPU: memory, or whole cards.

``gpu-memory`` is memory of one card, ``gpu-number`` counts whole cards. Memory is in units of
``--gpu-memory-factor``, known by the node's units; otherwise set
``--allocations.volcano-memory-factor``.

Unconfirmed: a node whose first card has another size than the others; then set the factor.

Source: ``pkg/scheduler/api/devices/nvidia/gpushare`` (``share.go``, ``type.go``) of
volcano-sh/volcano. The pod's annotation ``volcano.sh/gpu-index`` lists the cards of all its
containers together. Memory of each container is on that one card. Whole cards are assigned to a
container only if no other has any. A card's number is its NVML index (volcano-sh/devices,
``pkg/plugin/nvidia/utils.go``). The node offers as many units as its cards have together, each as
many as the first.
"""

from collections.abc import Iterator
from functools import partial

from exporter.agent.allocations.reader import PodReader, Share
from exporter.agent.allocations.registered import memory_factor
from exporter.agent.allocations.scheme import Scheme
from exporter.agent.allocations.terms import UNENFORCED, IndexBasis
from exporter.model import MIB, Allocation, Device

_MEMORY = "volcano.sh/gpu-memory"
_NUMBER = "volcano.sh/gpu-number"
_PLACEMENT = "volcano.sh/gpu-index"


def read(reader: PodReader, stated_factor: int = 0) -> Iterator[Allocation]:
    """Return the memory, or the whole cards, allocated to each container."""
    users = reader.lasting
    counts = [reader.quantity(container, _NUMBER) or 0 for container in users]
    alone = sum(count > 0 for count in counts) <= 1
    unit = MIB * memory_factor(reader.node, _MEMORY, (), stated_factor)
    for container, count in zip(users, counts, strict=True):
        if count and reader.allows(container, count):
            # The annotation lists the cards of the pod. Where several containers have whole ones,
            # it does not say which has which.
            cards: tuple[Device | None, ...] = (None,) * count
            if alone:
                cards = reader.placement(_PLACEMENT, count)
            yield from reader.allocate(container, cards, Share(1.0, None), whole=True)
        amount = None if count else reader.quantity(container, _MEMORY)
        if amount is not None:
            share = Share(None, reader.memory(amount, unit))
            yield from reader.allocate(container, reader.placement(_PLACEMENT, 1), share)


def scheme(stated_factor: int = 0) -> Scheme:
    """Return the scheme; ``stated_factor`` is the memory factor of the settings, 0 for none."""
    return Scheme(
        name="volcano-gpushare",
        resources=(_MEMORY, _NUMBER),
        annotations=(_PLACEMENT,),
        index_basis=IndexBasis.NVML_INDEX,
        read=partial(read, stated_factor=stated_factor),
        enforcement=UNENFORCED,
    )


SCHEME = scheme()
