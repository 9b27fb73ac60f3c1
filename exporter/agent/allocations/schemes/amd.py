"""AMD's device plugin: whole cards and partitions of cards.

``amd.com/gpu`` is a card, or a partition with the naming strategy ``single``;
``amd.com/<compute>_<memory>`` is a partition, whose core and memory are not stated. A container
with ``amd.com/gpumem`` or ``gpucores`` belongs to HAMi.

Unconfirmed: whether the node's label of partitioning has values other than names of resources.

Source: ROCm/k8s-device-plugin's ``docs/user-guide/configuration.md``. With the naming strategy
``mixed``, SPX is the whole card. The kubelet's PodResources names devices by PCI address. That
names a card's first partition; the others are ``amdgpu_xcp_<n>``, their own devices in sysfs.

The node's partitioning is the label that AMD's labeller writes (``cmd/k8s-node-labeller/main.go``),
with the name of the resource as its value. ``amd.com/gpu.vram`` is rounded, so memory is known only
of cards that the exporter reads.
"""

import re

from exporter.agent.allocations.devicenames import card_by_pci, cards, common_memory, instances
from exporter.agent.allocations.reader import NOTHING, PodReader, Share, each_container
from exporter.agent.allocations.scheme import Scheme
from exporter.agent.allocations.terms import Evidence, IndexBasis, Reason
from exporter.agent.allocations.trust import asks_for
from exporter.model import PARTITIONED, Allocation, Container, Device, NodeFacts

_VENDOR = "amd"
_GPU = "amd.com/gpu"
_SPX = "amd.com/spx_"
_MODES = ("spx", "dpx", "tpx", "qpx", "cpx")
_PARTITIONS = tuple(f"amd.com/{mode}_nps{n}" for mode in _MODES for n in (1, 2, 4, 8))
_RESOURCES = (_GPU, *_PARTITIONS)
_PARTITIONING = (  # node labels: the labeller's two, and the user guide's
    "amd.com/gpu.compute-memory-partition",
    "beta.amd.com/gpu.compute-memory-partition",
    "amd.com/compute-memory-partition",
)
_XCP = "amdgpu_xcp_"  # begins the id of a partition that is not its card's first
_HAMI = frozenset({"amd.com/gpumem", "amd.com/gpucores"})
_DEVICE_ID = re.compile(
    r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]|amdgpu_xcp_\d{1,5}", re.IGNORECASE | re.ASCII
)


def read(reader: PodReader, container: Container) -> list[Allocation]:
    """Return the cards or partitions allocated to a container."""
    if asks_for(container, _HAMI):
        return []
    allocations: list[Allocation] = []
    seen: set[str] = set()
    named = container.limits.keys() | reader.granted_resources(container)
    for resource in (resource for resource in _RESOURCES if resource in named):
        # A device whose id is not known has "". Ids of another form are those of a plugin that took
        # over the resource, and may share a card.
        ids = tuple(dict.fromkeys(map(str.lower, reader.granted(container, resource))))
        is_own = all(map(_DEVICE_ID.fullmatch, ids))
        if not ids or not is_own:
            count = reader.quantity(container, resource) or 0
            ids = ("",) * count if reader.allows(container, count) else ()
        if not seen.isdisjoint(ids):
            reader.reject(Reason.DUPLICATE_DEVICE, f"{container.name}: {resource}")
        elif reader.allows(container, len(ids)):
            seen.update(each for each in ids if each)
            for each in ids:
                allocations += _placed(reader, container, resource, each, is_own=is_own)
    return allocations


def _placed(
    reader: PodReader, container: Container, resource: str, device_id: str, *, is_own: bool
) -> list[Allocation]:
    node = reader.node
    card, parts = card_by_pci(node, _VENDOR, device_id), instances(node, _VENDOR)
    whole = _is_whole(node, card, resource, device_id)
    memory = card.memory_bytes if card else common_memory(cards(node, _VENDOR))
    share = Share(1.0, memory) if whole and is_own else NOTHING
    among: tuple[Device, ...] | None
    if device_id.startswith(_XCP):
        device = next((part for part in parts if part.sysfs_name == device_id), None)
        # Where sysfs does not name the partitions, it is the one on which it is seen.
        among = () if any(part.sysfs_name for part in parts) else parts
    else:
        # At the address of a card that is partitioned is its first partition.
        device = card
        if card is not None and card.sharing == PARTITIONED:
            own = (part for part in parts if part.parent_uuid == card.uuid)
            device = next((part for part in own if part.gpu_instance == 0), None)
        among = () if device_id else None if whole else parts
    return reader.allocate(container, (device,), share, among=among)


def _is_whole(node: NodeFacts, card: Device | None, resource: str, device_id: str) -> bool:
    # ``amd.com/gpu`` is a card, or with the strategy *single* a partition of one. The labels, the
    # card itself or a partition's id show which.
    if resource == _GPU:
        modes = (node.labels[key] for key in _PARTITIONING if key in node.labels)
        mode = next(modes, "spx").lower()
        parted = any(c.sharing == PARTITIONED for c in ((card,) if card else cards(node, _VENDOR)))
        return mode.startswith("spx") and not parted and not device_id.startswith(_XCP)
    return resource.startswith(_SPX)


SCHEME = Scheme(
    name="amd-device-plugin",
    resources=_RESOURCES,
    annotations=(),
    index_basis=IndexBasis.UUID,
    read=each_container(read),
    amounts=(Evidence.LIMITS, Evidence.GRANT),
    placement=(Evidence.GRANT,),
)
