"""Baidu AI Cloud CCE's shared GPUs (cGPU, sGPU).

The resources' names contain the card's model: ``baidu.com/a10_24g_cgpu`` counts cards,
``..._core`` is per cent, ``..._memory`` GiB, ``..._memory_percent`` per cent of a card. Without
``..._core`` the core is shared.

Unconfirmed: the annotation of the placement; what memory is if only core is stated.

Sources: the CCE documents "GPU Exclusive and Shared Usage Instructions" and "sharing multiple cards
with one container". Each amount is divided evenly over the cards counted. The count alone means
whole cards.
"""

from exporter.agent.allocations.reader import PodReader, Share, each_container
from exporter.agent.allocations.scheme import Scheme
from exporter.agent.allocations.trust import asks_for
from exporter.model import GIB, Allocation, Container

_DOMAIN = "baidu.com/"
_CARD = "_cgpu"
_CORE, _MEMORY, _MEMORY_PERCENT = "_core", "_memory", "_memory_percent"


def read(reader: PodReader, container: Container) -> list[Allocation]:
    """Return the allocations of a container. The system does not name the cards."""
    suffixes = ("", _CORE, _MEMORY, _MEMORY_PERCENT)
    names = (name.partition(_CARD) for name in container.limits if name.startswith(_DOMAIN))
    models = {model + card for model, card, suffix in names if card and suffix in suffixes}
    allocations: list[Allocation] = []
    for model in sorted(models):
        count = reader.quantity(container, model) or 1
        parts = (_CORE, _MEMORY, _MEMORY_PERCENT)
        core, memory, percent = (reader.quantity(container, model + part) for part in parts)
        # Cards that are counted and of which no part is stated are whole ones.
        whole = not asks_for(container, [model + part for part in parts])
        if not reader.allows(container, count) or (whole and not reader.quantity(container, model)):
            continue
        share = Share(1.0, None)
        if not whole:
            of_card = None if percent is None else percent // count
            size = reader.part_of_memory(None, of_card)
            if memory is not None:
                size = reader.memory(memory, GIB, count)
            share = Share(reader.core(core, count), size)
        allocations += reader.allocate(container, (None,) * count, share, whole=whole)
    return allocations


SCHEME = Scheme(
    name="baidu-cce",
    resources=(_DOMAIN,),
    annotations=(),
    index_basis=None,
    read=each_container(read),
    placement=(),
)
