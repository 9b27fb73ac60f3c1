"""Volcano Engine VKE mGPU.

A core of 100, 200, ... is whole cards, without ``mgpu-memory``. Init containers are not scheduled.

Unconfirmed: whether a card's number is its NVML index (assumed) or its minor; the placement in the
schedule mode ``id``; a placement's key that ends in the container's position.

Sources: the Volcano project's mGPU design proposal ("Based on Device API support for mGPU
scheduling"), the scheduler plugin's ``type.go`` and validators, and product document 6460/182418
(several cards for one container). ``container-multiple-gpu`` holds, for each of
``spec.containers``, the number of cards over which its request is divided evenly, 0 for none.
"""

from collections.abc import Iterator

from exporter.agent.allocations.quantities import parse_quantity
from exporter.agent.allocations.reader import PodReader, Share
from exporter.agent.allocations.scheme import Scheme
from exporter.agent.allocations.terms import IndexBasis, Reason
from exporter.model import MIB, Allocation, Container
from exporter.model.policies import policies

_CORE = "vke.volcengine.com/mgpu-core"
_MEMORY = "vke.volcengine.com/mgpu-memory"
_PLACEMENT = "vke.volcengine.com/gpu-index-container-"
_CARD_COUNTS = "vke.volcengine.com/container-multiple-gpu"
_POLICY = "vke.volcengine.com/mgpu-compute-policy"
_POLICIES = policies("fixed-share", "guaranteed-burst-share", "native-burst-share")


def read(reader: PodReader) -> Iterator[Allocation]:
    """Return the allocations of each container, one per card."""
    apps = reader.apps
    if not any(_CORE in app.limits or _MEMORY in app.limits for app in apps):
        return
    stated = reader.annotation(_POLICY) or reader.node.labels.get(_POLICY, "")
    policy = reader.one_of(_POLICIES, stated)
    counts = reader.numbers(_CARD_COUNTS)
    if counts and len(counts) != len(apps):
        reader.reject(Reason.CONTAINER_MISMATCH, f"{_CARD_COUNTS} has {len(counts)} entries")
        counts = ()
    # The key ends in the name of the container, or maybe in its position. A container may be called
    # like a number, so it is one or the other for all of a pod.
    keys = [_PLACEMENT + app.name for app in apps]
    if reader.pod.annotations.keys().isdisjoint(keys):
        keys = [f"{_PLACEMENT}{position}" for position in range(len(apps))]
    for app, count, key in zip(apps, counts or (0,) * len(apps), keys, strict=True):
        allowed = count if reader.allows(app, count) else 0
        yield from _allocations(reader, app, allowed, key, policy)


def _allocations(
    reader: PodReader, app: Container, count: int, key: str, policy: str
) -> list[Allocation]:
    core, memory = reader.quantity(app, _CORE), reader.quantity(app, _MEMORY)
    if core is None and memory is None:
        return []
    # Several shared cards have the memory that was asked for, whatever their core.
    alone = count == 0 or memory is None
    whole = core is not None and core % 100 == 0 and alone and count in {0, core // 100}
    count = core // 100 if core is not None and whole else max(count, 1)
    if not reader.allows(app, count):
        return []
    share = Share(
        reader.core(core, count),
        reader.memory(memory, MIB, count),
        policy,
    )
    allocatable, allocations = reader.node.allocatable, list[Allocation]()
    cores, sizes = (parse_quantity(allocatable.get(name, "")) for name in (_CORE, _MEMORY))
    for card in reader.placement(key, count):
        # A whole card has the memory that NVML reports, or else its part of what the node offers.
        size = reader.card_memory(card)
        if whole and size is None and cores and sizes and cores % 100 == 0:
            size = reader.memory(sizes // (cores // 100), MIB)
        own = share._replace(memory_bytes=size) if whole else share
        allocations += reader.allocate(app, (card,), own)
    return allocations


SCHEME = Scheme(
    name="vke-mgpu",
    resources=(_CORE, _MEMORY),
    annotations=(_PLACEMENT, _CARD_COUNTS, _POLICY),
    index_basis=IndexBasis.NVML_INDEX,
    read=read,
)
