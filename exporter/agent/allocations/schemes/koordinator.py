"""Koordinator's device sharing.

``gpu-core`` and ``gpu-memory-ratio`` are per cent, ``gpu-memory`` is bytes. If only one container
asks for devices, they are that container's, else the pod's.

Unconfirmed: values of ``koordinator.sh/gpu-isolation-provider`` other than ``HAMi-core``.

Source: ``apis/extension/device_share.go`` of koordinator-sh/koordinator. The pod's annotation
``scheduling.koordinator.sh/device-allocated`` lists its devices by ``id``, the UUID, and by minor
number, which counts where the id names no device. An entry without amounts has those of the limits.
The split among containers is not recorded. The annotation counts only for a pod whose limits hold
these resources (``evidence``).

Limits: ``gpu.shared`` counts the devices over which the others are divided; without it 100, 200,
... are whole devices. ``koordinator.sh/gpu`` stands for core and ratio at once. Koordinator also
serves ``nvidia.com/gpu``, each 100 per cent of core and memory. A pod that asks for it and has the
annotation belongs to Koordinator if the node offers Koordinator's resources too
(``pkg/slo-controller/noderesource/plugins/gpudeviceresource``) and no device plugin has granted it
devices. Entries of other kinds (``rdma``, ``xpu``) are not read.

The pod's label ``koordinator.sh/gpu-isolation-provider`` names what holds it to its share
(``HAMi-core``; the policy is ``hami-core``). Koordinator itself holds a pod to nothing.
"""

from collections.abc import Sequence
from typing import NamedTuple

from exporter.agent.allocations.devicenames import device_by_uuid
from exporter.agent.allocations.quantities import natural_of
from exporter.agent.allocations.reader import PodReader, Share
from exporter.agent.allocations.scheme import Scheme
from exporter.agent.allocations.terms import UNENFORCED, IndexBasis, Reason
from exporter.agent.allocations.trust import agreed, asks_for
from exporter.model import Allocation, Container, Device
from exporter.model.policies import policies

_DOMAIN = "koordinator.sh/"
_CORE = "koordinator.sh/gpu-core"
_MEMORY = "koordinator.sh/gpu-memory"
_RATIO = "koordinator.sh/gpu-memory-ratio"
_BOTH = "koordinator.sh/gpu"
_SHARED = "koordinator.sh/gpu.shared"
_OWN_RESOURCES = (_BOTH, _CORE, _MEMORY, _RATIO, _SHARED)
_ALSO_SERVED = "nvidia.com/gpu"
_PROVIDER = "koordinator.sh/gpu-isolation-provider"
_PROVIDERS = policies(**{"HAMi-core": "hami-core"})
_ALLOCATED = "scheduling.koordinator.sh/device-allocated"


class _Sums(NamedTuple):
    """The total of all users of a pod: per cent of one card, and bytes. 0 is nothing."""

    core: int
    ratio: int
    memory: int


class _DeviceEntry(NamedTuple):
    """A device of the annotation. ``card`` is None if the node has no card with its number."""

    card: Device | None
    core: int | None
    ratio: int | None
    memory: int | None


def read(reader: PodReader) -> list[Allocation]:
    """Return the allocations of the pod, or of its only user of GPUs, one per device."""
    containers, has_list = reader.lasting, _ALLOCATED in reader.pod.annotations
    own = [c for c in containers if asks_for(c, _OWN_RESOURCES)]
    users = own or [c for c in containers if asks_for(c, (_ALSO_SERVED,))]
    # Koordinator serves ``nvidia.com/gpu`` too, and then offers its own resources on the node. What
    # the kubelet granted is a device plugin's. While nothing is known of the node, it may serve.
    node = reader.node
    unknown = not (node.labels or node.annotations or node.allocatable)
    serves = unknown or any(name.startswith(_DOMAIN) for name in node.allocatable)
    is_at_work = serves and not any(reader.granted(user, _ALSO_SERVED) for user in users)
    if not own and users and not is_at_work:
        if has_list:
            reader.reject(Reason.UNPROVEN, f"{_ALLOCATED}, but Koordinator is not on this node")
        return []
    document = reader.document(_ALLOCATED)
    devices = document.get("gpu") if isinstance(document, dict) else None
    if devices is None:
        is_malformed = has_list and not isinstance(document, dict)
        asking = users if is_malformed else own
        return [found for user in asking for found in _by_limits(reader, user)]
    if not users:
        reader.reject(Reason.NOT_REQUESTED, f"{_ALLOCATED} without a limit on {_CORE}")
        return []
    entries = _entries(reader, reader.owner(users), devices)
    if _fits(reader, users, entries):
        return _by_annotation(reader, users, entries)
    return [found for user in users for found in _by_limits(reader, user)]


def _entries(reader: PodReader, owner: Container, devices: object) -> list[_DeviceEntry]:
    if not isinstance(devices, list):
        reader.reject(Reason.BAD_ANNOTATION, _annotation(reader))
        return []
    if not reader.allows(owner, len(devices)):
        return []
    found: dict[int, _DeviceEntry] = {}
    for device in devices:
        minor = natural_of(device.get("minor")) if isinstance(device, dict) else None
        resources = device.get("resources", {}) if isinstance(device, dict) else None
        if minor is None or not isinstance(resources, dict):
            reader.reject(Reason.BAD_ANNOTATION, _annotation(reader))
        elif minor in found:
            reader.reject(Reason.DUPLICATE_DEVICE, f"minor {minor}")
        else:
            # A minor may be another card's after a restart. A UUID is not.
            uuid = device.get("id")
            named = device_by_uuid(reader.node, uuid) if isinstance(uuid, str) else None
            amounts = [natural_of(resources.get(key, 0)) for key in (_CORE, _RATIO, _MEMORY)]
            if None in amounts:
                reader.reject(Reason.BAD_QUANTITY, _annotation(reader))
            found[minor] = _DeviceEntry(
                named or reader.card(minor), *(each or None for each in amounts)
            )
    return list(found.values())


def _fits(reader: PodReader, users: Sequence[Container], entries: Sequence[_DeviceEntry]) -> bool:
    """Whether the number of devices is possible for the request."""
    if not entries:
        return False
    # Of one container the number is certain. Several may share a card or have one each.
    counts = [_count(reader, user) for user in users]
    most = sum(max(count, 1) for count in counts)
    fewest = most if len(users) == 1 else max(1, -(-_sums(reader, users).core // 100))
    if fewest <= len(entries) <= most:
        return True
    asked = f"{fewest} to {most}" if fewest < most else f"{most}"
    reader.reject(Reason.PLACEMENT_MISMATCH, f"{len(entries)} devices listed, {asked} asked for")
    return False


def _by_annotation(
    reader: PodReader, users: Sequence[Container], entries: Sequence[_DeviceEntry]
) -> list[Allocation]:
    sums = _sums(reader, users)
    # The annotation may be the pod owner's. What the limits say has passed the scheduler, so its
    # ratios count only where they add up to that.
    ratios = [entry.ratio for entry in entries]
    if sums.ratio and sum(ratio or 0 for ratio in ratios) != sums.ratio:
        if any(ratios):
            detail = f"ratio {ratios} in the annotation, {sums.ratio} asked for"
            reader.reject(Reason.LIMITS_DIFFER, detail)
        ratios = [sums.ratio // len(entries) or None] * len(entries)
    parts = [reader.part_of_memory(e.card, r) for e, r in zip(entries, ratios, strict=True)]
    shares = [
        Share(
            reader.core(entry.core),
            part if entry.memory is None else reader.memory(entry.memory, 1),
            _policy(reader),
        )
        for entry, part in zip(entries, parts, strict=True)
    ]
    asked, slack = Share(sums.core / 100, sums.memory), 0
    if sums.ratio:
        total = sum(part or 0 for part in parts)
        known = None if None in parts else sums.memory + total
        asked = asked._replace(memory_bytes=known)
        slack = total // sums.ratio + 1  # a ratio is a whole number
    shares = agreed(reader, shares, asked, slack=slack)
    return [
        allocation
        for entry, share in zip(entries, shares, strict=True)
        for allocation in reader.allocate(
            reader.owner(users),
            (entry.card,),
            share,
            whole=share.core == 1 and entry.memory is None and entry.ratio is None,
        )
    ]


def _policy(reader: PodReader) -> str:
    """Return what holds the pod to its share, by its label."""
    return reader.one_of(_PROVIDERS, reader.pod.labels.get(_PROVIDER, ""))


def _annotation(reader: PodReader) -> str:
    return f"{_ALLOCATED}={reader.annotation(_ALLOCATED)}"


def _sums(reader: PodReader, users: Sequence[Container]) -> _Sums:
    asked = [_asked(reader, user) for user in users]
    return _Sums(*(sum(amounts) for amounts in zip(*asked, strict=True)))


def _asked(reader: PodReader, user: Container) -> _Sums:
    # Koordinator's own resources come first. ``nvidia.com/gpu`` counts whole cards, and means them
    # only where none of its own is asked for.
    both = reader.quantity(user, _BOTH)
    if not asks_for(user, _OWN_RESOURCES):
        both = 100 * (reader.quantity(user, _ALSO_SERVED) or 0)
    core, ratio = reader.quantity(user, _CORE) or both, reader.quantity(user, _RATIO) or both
    memory = reader.quantity(user, _MEMORY)
    return _Sums(core or 0, 0 if memory else ratio or 0, memory or 0)


def _count(reader: PodReader, user: Container) -> int:
    """Return over how many devices a request is divided."""
    asked = _asked(reader, user)
    most = max(asked.core, asked.ratio)
    shared = reader.quantity(user, _SHARED)
    return shared or (most // 100 if most % 100 == 0 else 1)


def _by_limits(reader: PodReader, user: Container) -> list[Allocation]:
    asked, count = _asked(reader, user), _count(reader, user)
    if not (any(asked) or count) or not reader.allows(user, count):
        return []
    count = max(count, 1)
    share = Share(
        reader.core(asked.core // count or None if asked.core else None),
        reader.memory(asked.memory // count, 1)
        if asked.memory
        else reader.part_of_memory(None, asked.ratio // count or None),
        _policy(reader),
    )
    return reader.allocate(user, (None,) * count, share)


SCHEME = Scheme(
    name="koordinator",
    resources=(*_OWN_RESOURCES, _ALSO_SERVED),
    annotations=(_ALLOCATED,),
    labels=(_PROVIDER,),
    index_basis=IndexBasis.MINOR,
    read=read,
    enforcement=UNENFORCED,
)
