"""Koordinator's device sharing.

Stands on ``apis/extension/device_share.go`` of koordinator-sh/koordinator. The pod's annotation
``scheduling.koordinator.sh/device-allocated`` lists its devices by minor number: ``gpu-core`` per
cent, ``gpu-memory`` a Kubernetes quantity of bytes, ``gpu-memory-ratio`` per cent of the card. How
they are split among containers is not recorded: one that alone asks for some has them, else the
pod.

Limits, read where there is no annotation: ``gpu.shared`` counts the devices over which the others
are divided; without it 100, 200, ... are whole devices. ``koordinator.sh/gpu`` stands for core and
ratio at once. Koordinator also serves ``nvidia.com/gpu``: a pod with its annotation is
Koordinator's.

Unconfirmed: nothing in the annotation; entries of other kinds (``rdma``, ``xpu``) are not read.
"""

from exporter.allocations.quantities import natural_of
from exporter.allocations.reader import PodReader, Share, lasting_containers
from exporter.allocations.scheme import Decoded, IndexBasis, Reason, Scheme
from exporter.model import Allocation, Container, NodeFacts, Pod

_NAME = "koordinator"
_CORE = "koordinator.sh/gpu-core"
_MEMORY = "koordinator.sh/gpu-memory"
_RATIO = "koordinator.sh/gpu-memory-ratio"
_BOTH = "koordinator.sh/gpu"
_SHARED = "koordinator.sh/gpu.shared"
_OWN_RESOURCES = (_BOTH, _CORE, _MEMORY, _RATIO, _SHARED)
_ALSO_SERVED = "nvidia.com/gpu"
_ALLOCATED = "scheduling.koordinator.sh/device-allocated"


def decode(pod: Pod, node: NodeFacts) -> Decoded:
    """Return what the pod, or its only user of GPUs, was allotted on each device."""
    reader = PodReader(_NAME, pod, node)
    users = [c for c in lasting_containers(pod) if not c.limits.keys().isdisjoint(_OWN_RESOURCES)]
    document = reader.document(_ALLOCATED)
    devices = document.get("gpu") if isinstance(document, dict) else None
    if devices is not None:
        served = users or [c for c in lasting_containers(pod) if _ALSO_SERVED in c.limits]
        return reader.decoded(_by_annotation(reader, reader.owner(served), devices))
    return reader.decoded(found for user in users for found in _by_limits(reader, user))


def _by_annotation(reader: PodReader, owner: Container, devices: object) -> list[Allocation]:
    if not isinstance(devices, list):
        reader.reject(Reason.BAD_ANNOTATION, _told(reader))
        return []
    if not reader.allows(owner, len(devices)):
        return []
    allocations: list[Allocation] = []
    seen: set[int] = set()
    for device in devices:
        minor = natural_of(device.get("minor")) if isinstance(device, dict) else None
        resources = device.get("resources") if isinstance(device, dict) else None
        if minor is None or not isinstance(resources, dict):
            reader.reject(Reason.BAD_ANNOTATION, _told(reader))
        elif minor in seen:
            reader.reject(Reason.DUPLICATE_DEVICE, f"minor {minor}")
        else:
            seen.add(minor)
            allocations += _by_device(reader, owner, minor, resources)
    return allocations


def _by_device(
    reader: PodReader, owner: Container, minor: int, resources: dict[str, object]
) -> list[Allocation]:
    card = reader.card(reader.basis(IndexBasis.MINOR), minor)
    amounts = {key: natural_of(resources[key]) for key in _OWN_RESOURCES if key in resources}
    if None in amounts.values():
        reader.reject(Reason.BAD_QUANTITY, _told(reader))
    core, memory, ratio = (amounts.get(key) or None for key in (_CORE, _MEMORY, _RATIO))
    part = reader.core(core)
    whole = part == 1 and amounts.keys().isdisjoint((_MEMORY, _RATIO))
    known = reader.part_of_memory(card, ratio) if memory is None else reader.memory(memory, 1)
    return reader.allot(owner, (card,), Share(part, known), whole=whole)


def _told(reader: PodReader) -> str:
    return f"{_ALLOCATED}={reader.annotation(_ALLOCATED)}"


def _by_limits(reader: PodReader, user: Container) -> list[Allocation]:
    both = reader.quantity(user, _BOTH)
    core = reader.quantity(user, _CORE) or both
    ratio = reader.quantity(user, _RATIO) or both
    memory, shared = reader.quantity(user, _MEMORY), reader.quantity(user, _SHARED)
    most = max(core or 0, ratio or 0)
    count = shared or (most // 100 if most % 100 == 0 else 1)
    if not any((core, memory, ratio, shared)) or not reader.allows(user, count):
        return []
    count = max(count, 1)
    share = Share(
        reader.core(None if core is None else core // count),
        reader.part_of_memory(None, None if ratio is None else ratio // count)
        if memory is None
        else reader.memory(memory // count, 1),
    )
    return reader.allot(user, (None,) * count, share)


SCHEME = Scheme(
    name=_NAME,
    resources=(*_OWN_RESOURCES, _ALSO_SERVED),
    annotations=(_ALLOCATED,),
    index_basis=IndexBasis.MINOR,
    decode=decode,
)
