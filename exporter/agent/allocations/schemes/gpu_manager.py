"""tkestack's gpu-manager (vcuda).

``vcuda-core`` is per cent of one card, ``vcuda-memory`` counts 256 MiB; 100, 200, ... cores are
whole cards. Other values above 100 are not an allocation. ``tencent.com/vcuda-core-limit``, which
the pod's owner writes, raises the limit.

Unconfirmed: nothing.

Sources: ``pkg/types/types.go`` and ``README.md`` of tkestack/gpu-manager, and
``pkg/device/nodeInfo.go`` of tkestack/gpu-admission. Whole cards have all their memory, whatever
``vcuda-memory`` says. The annotation ``tencent.com/predicate-gpu-idx-<i>`` lists the cards of the
container at that position of ``spec.containers`` by the N of ``/dev/nvidiaN``.
"""

from collections.abc import Iterator

from exporter.agent.allocations.quantities import parse_natural
from exporter.agent.allocations.reader import PodReader, Share
from exporter.agent.allocations.scheme import Scheme
from exporter.agent.allocations.terms import Evidence, IndexBasis, Reason
from exporter.model import MIB, Allocation

_CORE = "tencent.com/vcuda-core"
_MEMORY = "tencent.com/vcuda-memory"
_MEMORY_UNIT = 256 * MIB
_PLACEMENT = "tencent.com/predicate-gpu-idx-"
_CORE_LIMIT = "tencent.com/vcuda-core-limit"


def read(reader: PodReader) -> Iterator[Allocation]:
    """Return the allocations of each container, one per card."""
    for position, app in enumerate(reader.apps):
        core, memory = reader.quantity(app, _CORE), reader.quantity(app, _MEMORY)
        whole = core is not None and core % 100 == 0
        count = core // 100 if core is not None and whole else 1
        if (core is None and memory is None) or not reader.allows(app, count):
            continue
        share = Share(1.0, None)
        if not whole:
            # The pod's owner writes the annotation. It may raise what the scheduler gave him, and
            # lowers nothing.
            text = reader.annotation(_CORE_LIMIT)
            limit = parse_natural(text)
            if text and limit is None:
                reader.reject(Reason.BAD_QUANTITY, f"{_CORE_LIMIT}={text}")
            part = reader.core(core)
            raised = reader.core(limit) if part and limit else None
            part = max(part, raised) if part and raised else part
            share = Share(part, reader.memory(memory, _MEMORY_UNIT))
        cards = reader.placement(f"{_PLACEMENT}{position}", count)
        yield from reader.allocate(app, cards, share, whole=whole)


SCHEME = Scheme(
    name="tkestack-gpu-manager",
    resources=(_CORE, _MEMORY),
    annotations=(_PLACEMENT, _CORE_LIMIT),
    index_basis=IndexBasis.MINOR,
    read=read,
    amounts=(Evidence.LIMITS, Evidence.ANNOTATION),
)
