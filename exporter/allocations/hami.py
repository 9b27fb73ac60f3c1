"""HAMi, and 4paradigm's vGPU scheduler that it descends from.

Stands on HAMi's ``docs/develop/protocol.md`` and ``pkg/device/devices.go``. The annotation
``hami.io/vgpu-devices-allocated`` holds one segment per container, closed by ``;``, of devices
``UUID,type,MiB,cores`` closed by ``:``. Memory and cores are per vGPU; 0 cores are no limit.
``vgpu-devices-to-allocate`` is erased while devices are handed out, so it is not read.

Segments stand for init containers and then containers since v2.9.0 (commit 0658b5c8), for the
containers alone before; some older versions dropped empty segments. Their number tells which; where
it does not, the allotment is the pod's, with no container.

Unconfirmed: which versions dropped segments; the encoding of ``4pd.io/vgpu-ids``; the memory factor
(1 is taken where only the limits are known). Resource names are configurable: under others, the
annotation alone is read. A MIG slot (``GPU-...[7-9]``, dynamic MIG) does not name its instance.
"""

from exporter.allocations.devices import device_by_uuid
from exporter.allocations.quantities import MIB, parse_natural
from exporter.allocations.reader import PodReader, app_containers, lasting_containers
from exporter.allocations.scheme import Decoded, IndexBasis, Reason, Scheme
from exporter.model import Allocation, Container, NodeFacts, Pod

_NAME = "hami"
_COUNT = "nvidia.com/gpu"
_MEMORY = "nvidia.com/gpumem"
_MEMORY_PERCENT = "nvidia.com/gpumem-percentage"
_CORE = "nvidia.com/gpucores"
_OWN_RESOURCES = frozenset({_MEMORY, _MEMORY_PERCENT, _CORE})
_PRIORITY = "nvidia.com/priority"
_PRIORITIES = {"0": "high", "1": "low"}
_ALLOCATED = ("hami.io/vgpu-devices-allocated", "4pd.io/vgpu-ids-new", "4pd.io/vgpu-ids")
_DEVICE_FIELDS = 4
_POD_ONLY = Container(name="")


def decode(pod: Pod, node: NodeFacts) -> Decoded:
    """Return what each container was allotted on each of its devices."""
    reader = PodReader(_NAME, pod, node)
    encoded = next((text for key in _ALLOCATED if (text := reader.annotation(key))), "")
    if encoded:
        return reader.decoded(_by_annotation(reader, encoded))
    if any(_OWN_RESOURCES & container.limits.keys() for container in pod.containers):
        return reader.decoded(_by_limits(reader, lasting_containers(pod)))
    return reader.decoded(())


def _by_annotation(reader: PodReader, encoded: str) -> list[Allocation]:
    segments = encoded.removesuffix(";").split(";")
    owners = _owners(reader.pod, len(segments))
    if owners is None:
        reader.reject(Reason.CONTAINER_MISMATCH, f"{len(segments)} segments: {encoded}")
        return _by_segment(reader, _POD_ONLY, ":".join(segments))
    allocations: list[Allocation] = []
    for owner, segment in zip(owners, segments, strict=True):
        if owner.kind != "init":
            found = _by_segment(reader, owner, segment)
            allocations += found or _by_limits(reader, (owner,))
    return allocations


def _owners(pod: Pod, segments: int) -> tuple[Container, ...] | None:
    """Return the containers that so many segments stand for."""
    apps = app_containers(pod)
    before = tuple(c for c in pod.containers if c.kind in {"init", "sidecar"})
    requesting = tuple(app for app in apps if {_COUNT, *_OWN_RESOURCES} & app.limits.keys())
    return next((o for o in (before + apps, apps, requesting) if len(o) == segments), None)


def _by_segment(reader: PodReader, owner: Container, segment: str) -> list[Allocation]:
    entries = [entry for entry in segment.split(":") if entry]
    if not reader.allows(owner, len(entries)):
        return []
    seen: set[str] = set()
    allocations: list[Allocation] = []
    for entry in entries:
        uuid, *fields = entry.split(",", _DEVICE_FIELDS)
        if len(fields) < _DEVICE_FIELDS - 1:
            reader.reject(Reason.BAD_ANNOTATION, entry)
        elif uuid in seen:
            reader.reject(Reason.DUPLICATE_DEVICE, entry)
        else:
            seen.add(uuid)
            allocations.append(_by_entry(reader, owner, uuid, fields[1], fields[2]))
    return allocations


def _by_entry(reader: PodReader, owner: Container, uuid: str, memory: str, core: str) -> Allocation:
    device = device_by_uuid(reader.node, uuid)
    if device is None:
        reader.reject(Reason.UNKNOWN_DEVICE, uuid)
    amounts = parse_natural(memory), parse_natural(core)
    if None in amounts:
        reader.reject(Reason.BAD_QUANTITY, f"{uuid},{memory[:50]},{core[:50]}")
    return _allocation(
        reader,
        owner,
        device.uuid if device else None,
        reader.core(amounts[1] or None),
        reader.memory(amounts[0] or None, MIB),
    )


def _by_limits(reader: PodReader, owners: tuple[Container, ...]) -> list[Allocation]:
    """Return the allotment of containers whose devices are not known: only how many."""
    allocations: list[Allocation] = []
    for owner in owners:
        shares = not _OWN_RESOURCES.isdisjoint(owner.limits)  # without a count they mean one vGPU
        count = reader.quantity(owner, _COUNT) or int(shares)
        if reader.allows(owner, count):
            core = reader.core(reader.quantity(owner, _CORE))
            memory = _memory_limit(reader, owner)
            allocations += count * [_allocation(reader, owner, None, core, memory)]
    return allocations


def _memory_limit(reader: PodReader, owner: Container) -> int | None:
    if (amount := reader.quantity(owner, _MEMORY)) is not None:
        return reader.memory(amount, MIB)
    share = reader.core(reader.quantity(owner, _MEMORY_PERCENT))
    card = reader.card_memory(None)
    return None if share is None or card is None else int(card * share)


def _allocation(
    reader: PodReader,
    owner: Container,
    device: str | None,
    core: float | None,
    memory_bytes: int | None,
) -> Allocation:
    priority = reader.one_of(_PRIORITIES, owner.limits.get(_PRIORITY, ""))
    return Allocation(
        pod_uid=reader.pod.uid,
        container=owner.name,
        device=device,
        core=core,
        memory_bytes=memory_bytes,
        scheme=_NAME,
        priority=priority,
    )


SCHEME = Scheme(
    name=_NAME,
    resources=(_COUNT, *sorted(_OWN_RESOURCES), _PRIORITY),
    annotations=_ALLOCATED,
    index_basis=IndexBasis.UUID,
    decode=decode,
)
