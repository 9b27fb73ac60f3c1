"""KAI Scheduler, and Run:ai, which it was made from: fractions of a GPU.

Sources: NVIDIA/KAI-Scheduler's ``pkg/common/constants/constants.go`` and
``pkg/binder/binding/resourcereservation``. A pod asks by annotation for a part of a GPU
(``gpu-fraction``) or for some of its memory (``gpu-memory``, MiB), on one device or several, for
one of its containers: the first, unless it names another. The device is written on another pod of
the node, which reserves the GPU. That pod has the same group in a label, and the UUID in an
annotation. It asks for ``nvidia.com/gpu`` and uses nothing, so it never counts as a consumer.

No limit holds the amounts, and a user who may change the pod may change them. So a fraction counts
only for as many devices as the scheduler has reserved for its groups, which a tenant cannot do. The
size of the fraction is only the tenant's statement, and nothing enforces it: policy ``unenforced``.
A pod that also asks for ``nvidia.com/gpu`` itself does not belong to KAI, which refuses such pods.

Unconfirmed: newer keys of commercial Run:ai; reservations in a namespace of another name, which is
configurable (then the fraction does not count, and the reservation counts as a user of the card).
"""

from collections.abc import Sequence

from exporter.allocations.quantities import MIB, parse_natural, parse_share
from exporter.allocations.reader import PodReader, Share, app_containers
from exporter.allocations.scheme import Decoded, Evidence, IndexBasis, Reason, Scheme
from exporter.model import Container, Device, NodeFacts, Pod

_NAME = "kai"
_GPU = "nvidia.com/gpu"
_FRACTION = "gpu-fraction"
_MEMORY = "gpu-memory"
_DEVICES = "gpu-fraction-num-devices"
_CONTAINER = "gpu-fraction-container-name"
_GROUP = "runai-gpu-group"  # of one device; with "/<group>" behind it, one label a device
RESERVATION_NAMESPACES = frozenset({"kai-resource-reservation", "runai-reservation"})
_NAMESPACES = " or ".join(sorted(RESERVATION_NAMESPACES))
_RESERVED = "run.ai/reserve_for_gpu_index"  # the value is a UUID
_UNENFORCED = "unenforced"


def decode(pod: Pod, node: NodeFacts) -> Decoded:
    """Return a pod's allocations, one per device."""
    if is_reservation(pod):
        return Decoded(consumer=False)
    groups = _groups(pod)
    asks = pod.annotations.keys() & {_FRACTION, _MEMORY}
    if not groups or not asks or any(_GPU in c.limits for c in pod.containers):
        return Decoded()
    reader = PodReader(_NAME, pod, node)
    reserved = [group for group in groups if _reservations(node, group)]
    if not reserved:
        reader.reject(Reason.UNPROVEN, f"no pod in {_NAMESPACES} reserves a GPU for {groups[0]}")
        return reader.decoded(())
    container = _container(reader)
    share = Share(_core(reader), _memory(reader), _UNENFORCED)
    return reader.decoded(reader.allocate(container, _devices(reader, container, reserved), share))


def is_reservation(pod: Pod) -> bool:
    """Whether a pod reserves a GPU for others."""
    return pod.namespace in RESERVATION_NAMESPACES


def _groups(pod: Pod) -> tuple[str, ...]:
    """Return the reservation groups that a pod belongs to, in the order of their labels."""
    keys = (key for key in pod.labels if key == _GROUP or key.startswith(f"{_GROUP}/"))
    return tuple(dict.fromkeys(pod.labels[key] for key in keys))


def _container(reader: PodReader) -> Container:
    """Return the container that has the fraction, or the pod as a whole if it is not there."""
    stated = reader.annotation(_CONTAINER)
    named = (c for c in reader.pod.containers if c.name == stated)
    found = next(named if stated else iter(app_containers(reader.pod)), None)
    if found is None:
        reader.reject(Reason.CONTAINER_MISMATCH, f"{_CONTAINER}={stated}")
    return found or Container(name="")


def _core(reader: PodReader) -> float | None:
    text = reader.annotation(_FRACTION)
    share = parse_share(text)
    if text and share is None:
        reader.reject(Reason.CORE_OUT_OF_RANGE, f"{_FRACTION}={text}")
    return share


def _memory(reader: PodReader) -> int | None:
    text = reader.annotation(_MEMORY)
    amount = parse_natural(text)
    if text and amount is None:
        reader.reject(Reason.BAD_QUANTITY, f"{_MEMORY}={text}")
    return reader.memory(amount, MIB)


def _devices(reader: PodReader, container: Container, groups: Sequence[str]) -> list[Device | None]:
    """Return the devices that are reserved for the groups, None for each that is unknown.

    There are never more devices than groups, whatever number the pod states.
    """
    count = _count(reader)
    if not reader.allows(container, count):
        return []
    if len(groups) != count:
        reader.reject(Reason.PLACEMENT_MISMATCH, f"{len(groups)} groups for {count} devices")
        return [None] * min(count, len(groups))
    found = [_reserved(reader, group) for group in groups]
    known = [device.uuid for device in found if device is not None]
    if len(set(known)) < len(known):
        reader.reject(Reason.DUPLICATE_DEVICE, ", ".join(known))
        return [None] * count
    return found


def _count(reader: PodReader) -> int:
    text = reader.annotation(_DEVICES)
    count = parse_natural(text)
    if text and not count:
        reader.reject(Reason.BAD_ANNOTATION, f"{_DEVICES}={text}")
    return count or 1


def _reservations(node: NodeFacts, group: str) -> list[Pod]:
    """Return the pods that hold a GPU for a group."""
    return [
        pod
        for pod in node.pods.values()
        if is_reservation(pod) and pod.labels.get(_GROUP) == group
        if not (pod.terminal or pod.deleted)
    ]


def _reserved(reader: PodReader, group: str) -> Device | None:
    """Return the device that is reserved for a group."""
    reserving = _reservations(reader.node, group)
    stated = {pod.annotations.get(_RESERVED, "") for pod in reserving} - {""}
    return reader.device(stated.pop()) if len(stated) == 1 else None


SCHEME = Scheme(
    name=_NAME,
    resources=(_GPU,),
    annotations=(_FRACTION, _MEMORY, _DEVICES, _CONTAINER, _RESERVED),
    labels=(_GROUP, f"{_GROUP}/"),
    index_basis=IndexBasis.UUID,
    decode=decode,
    affects_others=is_reservation,
    amounts=(Evidence.ANNOTATION,),
    placement=(Evidence.RESERVATION,),
)
