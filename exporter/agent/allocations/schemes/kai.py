"""KAI Scheduler, and Run:ai, which it was made from: fractions of a GPU.

A pod's annotation asks for a fraction or an amount of a GPU's memory. Core is the same fraction,
not promised. A higher limit of Run:ai's dynamic fractions is the memory limit. The pod that
reserves the card names it. Where HAMi-core enforces, an amount is rounded up to
hundredths.

A fraction counts only for as many devices as the scheduler has reserved, because users may change
the annotation. Set ``--allocations.kai-namespaces``, so that nobody poses as the scheduler.

Unconfirmed: Run:ai's keys of limits; whether Run:ai enforces by a library of its own.

Sources: kai-scheduler/KAI-Scheduler's ``pkg/common/constants/constants.go``,
``pkg/common/resources/gpu_sharing.go``, ``pkg/binder/binding/resourcereservation`` and
``docs/gpu-sharing``. ``gpu-memory`` is MiB. The container is the first, unless the pod names
another. The pod that reserves a device has the same group in a label, and the UUID in an
annotation. It asks for ``nvidia.com/gpu``. A pod that also asks for ``nvidia.com/gpu`` itself does
not belong to KAI, which refuses such pods.

Without ``--allocations.kai-namespaces`` the two usual namespaces count, and any in which a pod has
the name, the container and the label of a reservation. If the kubelet reports what that pod holds,
it must hold the named device. Such a pod of the fraction's own namespace does not count, and one
without a fraction of another namespace has its card for itself.

The policy is ``enforced`` if the pod's container has both parts of HAMi-core: the memory limit in
its environment, from KAI's ConfigMap (``pkg/admission/webhook/v1alpha2/hamicore``), and
``/etc/ld.so.preload`` from the host, which KAI-resource-isolator mounts
(``docs/gpu-sharing/hami/README.md``). The limit is then that of ``pkg/binder/plugins/hamicore``: a
share of the node label ``nvidia.com/gpu.memory``, with two decimals as ``pkg/scheduler/cache``
writes it. The environment variable ``GPU_PORTION`` is that share too, and no limit.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from math import ceil

from exporter.agent.allocations.devicenames import device_by_uuid
from exporter.agent.allocations.quantities import parse_natural
from exporter.agent.allocations.reader import MAX_CARDS, PodReader, Share
from exporter.agent.allocations.scheme import Scheme
from exporter.agent.allocations.schemes import nvfractions
from exporter.agent.allocations.terms import ENFORCED, UNENFORCED, Evidence, IndexBasis, Reason
from exporter.model import MIB, Allocation, Container, Device, Grant, NodeFacts, Pod, Said, Tie

_GPU = "nvidia.com/gpu"
_FRACTION = "gpu-fraction"
_MEMORY = "gpu-memory"
_FRACTION_LIMIT = "gpu-fraction-limit"
_MEMORY_LIMIT = "gpu-memory-limit"
_DEVICES = "gpu-fraction-num-devices"
_CONTAINER = "gpu-fraction-container-name"
_GROUP = "runai-gpu-group"  # of one device; with "/<group>" behind it, one label a device
RESERVATION_NAMESPACES = frozenset({"kai-resource-reservation", "runai-reservation"})
RESERVATION_NAME, RESERVATION_CONTAINER = "gpu-reservation", "resource-reservation"
_CARD_MEMORY = "nvidia.com/gpu.memory"  # a node label, MiB
_RESERVED = "run.ai/reserve_for_gpu_index"  # the value is a UUID
_TIE = f"{_GROUP}/"  # the kind of tie; no namespace has a name with a slash
_MEMBER, _RESERVES = "member", "reserves"  # what pods say of a group
Namespaces = frozenset[str]  # of reservations, by the settings; empty if they are to be found


def read(reader: PodReader, namespaces: Namespaces = frozenset()) -> list[Allocation]:
    """Return a pod's allocations, one per device."""
    pod, node = reader.pod, reader.node
    if is_reservation(pod, namespaces) and _reserves_for_others(pod, node, namespaces):
        reader.holds_for_others()
        return []
    groups = _groups(pod)
    asks = pod.annotations.keys() & {_FRACTION, _MEMORY}
    if not groups or not asks or any(_GPU in c.limits for c in pod.containers):
        return []
    if nvfractions.serves(pod, node) or not reader.allows(Container(name=""), len(groups)):
        return []
    reserved = [found for each in groups if (found := _reserving(reader, each, namespaces))]
    if not reserved:
        known = ", ".join(sorted(namespaces or RESERVATION_NAMESPACES))
        reader.reject(Reason.UNPROVEN, f"no pod reserves a GPU for {groups[0]} (in {known})")
        return []
    # The fraction is of one container, by the annotation or else the first. If it is not there, the
    # pod as a whole has it.
    stated = reader.annotation(_CONTAINER)
    by_name = (c for c in pod.containers if c.name == stated)
    container = next(by_name if stated else iter(reader.apps), None)
    if container is None:
        reader.reject(Reason.CONTAINER_MISMATCH, f"{_CONTAINER}={stated}")
        container = Container(name="")
    policy = ENFORCED if container.memory_hook else UNENFORCED
    fraction = reader.share(_FRACTION)
    # A pod with a limit above its request may use up to the limit. The scheduler keeps no more for
    # it than the request: the rest goes to others.
    has_limit = bool(pod.annotations.keys() & {_FRACTION_LIMIT, _MEMORY_LIMIT})
    allocations: list[Allocation] = []
    for card in _devices(reader, container, reserved):
        share = Share(fraction, _memory(reader, card, fraction, policy), policy)
        made = reader.allocate(container, (card,), share)
        kept = None
        if has_limit:
            size = reader.card_memory(card)
            of_card = int(size * fraction) if size and fraction else None
            kept = _amount(reader, _MEMORY) or of_card
        allocations += (replace(allocation, kept_bytes=kept) for allocation in made)
    return allocations


def is_reservation(pod: Pod, namespaces: Namespaces = frozenset()) -> bool:
    """Whether a pod reserves a GPU for others."""
    if namespaces or pod.namespace in RESERVATION_NAMESPACES:
        return pod.namespace in (namespaces or RESERVATION_NAMESPACES)
    own = [container.name for container in pod.containers]
    named = pod.name.startswith(RESERVATION_NAME) and own == [RESERVATION_CONTAINER]
    return named and _GROUP in pod.labels


def _reserves_for_others(pod: Pod, node: NodeFacts, namespaces: Namespaces) -> bool:
    """Whether a reservation holds its card for others, and so uses none itself.

    One that is only found by its names must have a fraction of another namespace on it: whoever
    makes pods in one namespace alone could take such names.
    """
    stated, held = pod.annotations.get(_RESERVED, ""), _ids(node.grants.get(pod.uid, ()))
    if not _holds(node, stated, held):
        return False
    if namespaces or pod.namespace in RESERVATION_NAMESPACES:
        return True
    said = node.ties.get((_TIE, pod.labels.get(_GROUP, "")), {})
    return any(word == _MEMBER and namespace != pod.namespace for word, namespace, *_ in said)


def ties(
    pod: Pod, grants: Sequence[Grant], namespaces: Namespaces = frozenset()
) -> Iterator[tuple[Tie, Said]]:
    """Return the groups of a pod: whose member it is, and for which it holds which devices."""
    groups = _groups(pod)
    if len(groups) <= MAX_CARDS:
        for group in groups:
            yield (_TIE, group), (_MEMBER, pod.namespace)
    if is_reservation(pod, namespaces) and _GROUP in pod.labels:
        stated, held = pod.annotations.get(_RESERVED, ""), _ids(grants)
        yield (_TIE, pod.labels[_GROUP]), (_RESERVES, pod.namespace, stated, *held)


def _ids(grants: Iterable[Grant]) -> list[str]:
    return sorted({device_id for grant in grants for device_id in grant.device_ids})


def _holds(node: NodeFacts, stated: str, held: Iterable[str]) -> bool:
    """Whether a reservation holds the device that it names, if the kubelet says what it holds."""
    uuids = {device_id for device_id in held if device_by_uuid(node, device_id)}
    return not stated or not uuids or stated in uuids


def _groups(pod: Pod) -> tuple[str, ...]:
    """Return the reservation groups that a pod belongs to, in the order of their labels."""
    keys = (key for key in pod.labels if key == _GROUP or key.startswith(f"{_GROUP}/"))
    return tuple(dict.fromkeys(pod.labels[key] for key in keys))


def _amount(reader: PodReader, key: str) -> int | None:
    text = reader.annotation(key)
    amount = parse_natural(text)
    if text and amount is None:
        reader.reject(Reason.BAD_QUANTITY, f"{key}={text}")
    return reader.memory(amount, MIB)


def _memory(
    reader: PodReader, card: Device | None, fraction: float | None, policy: str
) -> int | None:
    """Return the most memory of one device that a pod may have, in bytes."""
    # Without HAMi-core a pod that asks for a fraction may take as much as it likes: then these are
    # what was asked for. With it, they are what the scheduler hands on to it, in its own rounding.
    most = reader.share(_FRACTION_LIMIT) if fraction else None
    if fraction and most and most < fraction:
        reader.reject(Reason.LIMITS_DIFFER, f"{_FRACTION_LIMIT}={most} below {fraction}")
        most = None
    amount = _amount(reader, _MEMORY)
    limit = _amount(reader, _MEMORY_LIMIT) if amount else None
    if amount and limit and limit < amount:
        reader.reject(Reason.LIMITS_DIFFER, f"{_MEMORY_LIMIT}={limit} bytes below {amount}")
        limit = None
    part = most or fraction
    if policy == ENFORCED and (held := _held(reader.node, limit or amount, part)):
        return reader.memory(held, MIB)
    if amount:
        return limit or amount
    size = reader.card_memory(card)
    return reader.memory(int(size * part), 1) if size and part else None


def _held(node: NodeFacts, amount: int | None, part: float | None) -> int:
    """Return the MiB that HAMi-core gets for an amount in bytes or a part; 0 if not known.

    The scheduler hands on two decimals of the part that it counts. Of an amount it counts the
    hundredths of the label, rounded up. The label is rounded down to hundreds of MiB first.
    """
    card = parse_natural(node.labels.get(_CARD_MEMORY, "")) or 0
    if amount:
        hundreds = card - card % 100
        part = ceil(amount / MIB / hundreds * 100) / 100 if hundreds else None
    return int(card * float(f"{part:.2f}")) if part else 0


def _devices(
    reader: PodReader, container: Container, groups: Sequence[Sequence[str]]
) -> list[Device | None]:
    """Return the devices that are reserved for the groups, None for each that is unknown.

    ``groups`` has, for each group, what its reservations name. There are never more devices than
    groups, whatever number the pod states.
    """
    text = reader.annotation(_DEVICES)
    count = parse_natural(text)
    if text and not count:
        reader.reject(Reason.BAD_ANNOTATION, f"{_DEVICES}={text}")
    if not count or not reader.allows(container, count):
        count = 1
    if len(groups) != count:
        reader.reject(Reason.PLACEMENT_MISMATCH, f"{len(groups)} groups for {count} devices")
        return [None] * min(count, len(groups))
    found: list[Device | None] = []
    for group in groups:
        # Reservations of one group that name two devices name none.
        stated = set(group) - {""}
        found.append(reader.device(stated.pop()) if len(stated) == 1 else None)
    known = [device.uuid for device in found if device is not None]
    if len(set(known)) < len(known):
        reader.reject(Reason.DUPLICATE_DEVICE, ", ".join(known))
        return [None] * count
    return found


def _reserving(reader: PodReader, group: str, namespaces: Namespaces) -> list[str]:
    """Return the UUIDs that the pods name that hold a GPU for a group, "" for one that does not."""
    # A tenant could make a pod that says it reserves a card for his own. So one of his namespace
    # counts only where that is known to have reservations.
    own, node = reader.pod.namespace, reader.node
    reserved = [rest for word, *rest in node.ties.get((_TIE, group), {}) if word == _RESERVES]
    return [
        stated
        for namespace, stated, *held in reserved
        if namespace != own or own in (namespaces or RESERVATION_NAMESPACES)
        if _holds(node, stated, held)
    ]


def scheme(namespaces: Namespaces = frozenset()) -> Scheme:
    """Return the scheme, with reservations in these namespaces; empty if they are to be found."""
    return Scheme(
        name="kai",
        resources=(_GPU,),
        annotations=(
            *(_FRACTION, _MEMORY, _FRACTION_LIMIT, _MEMORY_LIMIT),
            *(_DEVICES, _CONTAINER, _RESERVED),
        ),
        labels=(_GROUP, f"{_GROUP}/"),
        index_basis=IndexBasis.UUID,
        read=partial(read, namespaces=namespaces),
        ties=partial(ties, namespaces=namespaces),
        amounts=(Evidence.ANNOTATION,),
        placement=(Evidence.RESERVATION,),
    )


SCHEME = scheme()
