"""vGPU requests, and the device lists that HAMi writes for them; Volcano took both over.

Stands on HAMi's ``docs/develop/protocol.md``, ``pkg/device/devices.go`` (EncodeContainerDevices)
and ``pkg/device/nvidia/mig_allocations.go``. An annotation holds one segment per container, split
by ``;``, of devices ``UUID,type,MiB,cores`` closed by ``:``. Memory and cores are per vGPU; 0 cores
are no limit. Older dynamic MIG adds template and slot to the UUID (``GPU-...[7-9]``), which name no
instance; since v2.10 a second annotation, in JSON, names it by segment and place in it. A MIG
instance's core is what it has of its GPU, so none is stated here.

Who may change a pod may change the annotation, so each entry is held against the limits
(``evidence``). While a MIG instance is not seen on the node, the amounts of the limits stand: the
scheduler gives the next larger instance.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from exporter.allocations.devices import device_by_uuid, instances
from exporter.allocations.evidence import agreed, is_backed
from exporter.allocations.quantities import MIB, natural_of, parse_natural
from exporter.allocations.reader import PodReader, Share
from exporter.allocations.registered import registered_memory
from exporter.allocations.scheme import Reason
from exporter.model import Allocation, Container, Device

_MIG = "mig"
_MODES = {name: name for name in ("hami-core", _MIG, "mps")}
_PRIORITIES = {"0": "high", "1": "low"}
_DEVICE_FIELDS = 4
MAX_SEGMENTS = 512  # more containers of a pod are not kept; what follows is no segment's any more


@dataclass(frozen=True, slots=True)
class Names:
    """Resources of vGPUs. ``memory_factor``: how many MiB one unit of ``memory`` is."""

    count: str
    memory: str
    memory_percentage: str
    core: str
    priority: str = ""
    memory_factor: int = 1

    @property
    def shares(self) -> frozenset[str]:
        """Those that ask for a part of a device."""
        return frozenset({self.memory, self.memory_percentage, self.core})

    @property
    def asking(self) -> tuple[str, ...]:
        """Those that ask for vGPUs: without one of them a container has none."""
        return tuple(filter(None, (self.count, *sorted(self.shares))))

    @property
    def all(self) -> tuple[str, ...]:
        """Every resource, the one that counts devices first."""
        return (*self.asking, *filter(None, (self.priority,)))


class Instance(NamedTuple):
    """A MIG instance that is made for a pod: its GPU's UUID and its own, "" until it is there."""

    gpu: str
    uuid: str


Instances = Mapping[tuple[int, int], Instance]  # by segment, and place in it
_NO_INSTANCES: Instances = MappingProxyType({})


class Terms(NamedTuple):
    """What holds for all vGPUs of a pod.

    ``key`` is the annotation that lists them, ``registers`` are the node's that list its cards.
    ``percent``: whether cores are per cent of a GPU.
    """

    names: Names
    key: str
    policy: str = ""
    percent: bool = True
    instances: Instances = _NO_INSTANCES
    registers: tuple[str, ...] = ()


class _Entry(NamedTuple):
    uuid: str
    memory: str
    core: str
    instance: Instance | None


def read_mode(reader: PodReader, key: str) -> str:
    """Return the mode that a pod asks for by this annotation, "" where it leaves a choice."""
    words = {word for part in reader.annotation(key).split(",") if (word := part.strip())}
    return reader.one_of(_MODES, words.pop()) if len(words) == 1 else ""


def read_instances(reader: PodReader, key: str) -> Instances:
    """Return the MIG instances that an annotation names; none of them where one is malformed."""
    document = reader.document(key)
    if document is None:
        return {}
    found: dict[tuple[int, int], Instance] = {}
    for record in document if isinstance(document, list) else [document]:
        fields = record if isinstance(record, dict) else {}
        segment, place = (natural_of(fields.get(k)) for k in ("containerIndex", "deviceIndex"))
        gpu, uuid = fields.get("gpuUUID"), fields.get("migUUID", "")
        known = isinstance(gpu, str) and isinstance(uuid, str)
        if segment is None or place is None or not known or (segment, place) in found:
            reader.reject(Reason.BAD_ANNOTATION, f"{key}={reader.annotation(key)}")
            return {}
        found[segment, place] = Instance(str(gpu), str(uuid))
    return found


def by_lists(
    reader: PodReader, owners: Sequence[Container], segments: Sequence[str], terms: Terms
) -> list[Allocation]:
    """Return what the segments say of their owners; of what they leave out, the limits do."""
    lists: dict[str, list[tuple[int, list[str]]]] = {}
    for index, (owner, segment) in enumerate(zip(owners, segments, strict=True)):
        entries = [entry for entry in segment.split(":") if entry]
        lists.setdefault(owner.name, []).append((index, entries))
    allocations: list[Allocation] = []
    for owner in {owner.name: owner for owner in owners if owner.kind != "init"}.values():
        found = [
            allocation
            for entry in _entries(reader, owner, lists[owner.name], terms)
            for allocation in _by_entry(reader, owner, entry, terms)
        ]
        # An entry that cannot be read costs its device, not what was asked for.
        allocations += [*found, *by_limits(reader, owner, terms)[len(found) :]]
    return allocations


def _entries(
    reader: PodReader, owner: Container, own: Sequence[tuple[int, list[str]]], terms: Terms
) -> list[_Entry]:
    """Return the readable entries of an owner; none if its limits ask for another number."""
    listed = sum(len(texts) for _, texts in own)
    if not listed or not is_backed(reader, owner, terms.names.asking, terms.key):
        return []
    if not reader.allows(owner, listed):
        return []
    asked = _count(reader, owner, terms.names)
    if asked and listed != asked:
        detail = f"{owner.name}: {listed} vGPUs in {terms.key}, {asked} asked for"
        reader.reject(Reason.PLACEMENT_MISMATCH, detail)
        return []
    found: list[_Entry] = []
    seen: set[str] = set()
    for index, texts in own:
        for place, text in enumerate(texts):
            entry = _entry(reader, text, terms.instances.get((index, place)))
            name = entry and (entry.instance.uuid if entry.instance else entry.uuid)
            if name and name in seen:
                reader.reject(Reason.DUPLICATE_DEVICE, text)
            elif entry:
                seen.update({name or ""} - {""})
                found.append(entry)
    return found


def _entry(reader: PodReader, text: str, instance: Instance | None) -> _Entry | None:
    uuid, *fields = text.split(",", _DEVICE_FIELDS)
    if len(fields) < _DEVICE_FIELDS - 1:
        reader.reject(Reason.BAD_ANNOTATION, text)
        return None
    return _Entry(uuid, fields[1], fields[2], instance)


def _by_entry(reader: PodReader, owner: Container, entry: _Entry, terms: Terms) -> list[Allocation]:
    mig = _is_mig(reader, entry)
    device = _device(reader, entry, mig=mig)
    memory, core = parse_natural(entry.memory), parse_natural(entry.core)
    if memory is None or core is None:
        reader.reject(Reason.BAD_QUANTITY, ",".join(text[:50] for text in entry[:3]))
    share = Share(
        reader.core(core or None) if terms.percent and not mig else None,
        reader.memory(memory or None, MIB),
        _MIG if mig else terms.policy,
        _priority(reader, owner, terms),
    )
    if mig and device is not None:
        return reader.allot(owner, (device,), share, whole=True)
    asked, slack = _asked(reader, owner, terms, entry.uuid)
    if mig:
        asked_memory = share.memory_bytes if asked.memory_bytes is None else asked.memory_bytes
        share = share._replace(core=asked.core or None, memory_bytes=asked_memory)
        return reader.allot(owner, (device,), share)
    return reader.allot(owner, (device,), agreed(reader, (share,), asked, slack=slack)[0])


def _is_mig(reader: PodReader, entry: _Entry) -> bool:
    """Whether a vGPU is a MIG instance: it is told to be, or its GPU is divided into them."""
    parts = instances(reader.node)
    divided = any(entry.uuid in {part.uuid, part.parent_uuid} for part in parts)
    return entry.instance is not None or "[" in entry.uuid or divided


def _device(reader: PodReader, entry: _Entry, *, mig: bool) -> Device | None:
    """Return the GPU or MIG instance of an entry; None where it is not told or not there."""
    gpu, _, _ = entry.uuid.partition("[")
    if entry.instance is not None:
        return _instance(reader, gpu, entry.instance)
    device = reader.device(gpu)
    return device if device and bool(device.parent_uuid) == mig else None


def _instance(reader: PodReader, gpu: str, told: Instance) -> Device | None:
    device = reader.device(told.uuid) if told.uuid else None
    if told.gpu == gpu and (device is None or device.parent_uuid == gpu):
        return device
    reader.reject(Reason.PLACEMENT_MISMATCH, f"{told.uuid} of {told.gpu} on {gpu}")
    return None


def by_limits(reader: PodReader, owner: Container, terms: Terms) -> list[Allocation]:
    """Return the allotment of a container whose devices are not known: only how many."""
    names = terms.names
    count = _count(reader, owner, names)
    if not count or not reader.allows(owner, count):
        return []
    asked, _ = _asked(reader, owner, terms, "")
    share = Share(
        asked.core or None, asked.memory_bytes, terms.policy, _priority(reader, owner, terms)
    )
    stated = not owner.limits.keys().isdisjoint((names.memory, names.memory_percentage))
    return reader.allot(owner, (None,) * count, share, whole=share.core == 1 and not stated)


def _count(reader: PodReader, owner: Container, names: Names) -> int:
    """Return how many vGPUs a container asks for; without a count, shares mean one.

    0 also where only the beginning of the resource's name is known.
    """
    if names.count.endswith("/"):
        return 0
    shares = not names.shares.isdisjoint(owner.limits)
    return reader.quantity(owner, names.count) or int(shares)


def _asked(reader: PodReader, owner: Container, terms: Terms, uuid: str) -> tuple[Share, int]:
    """Return what the limits ask for of one vGPU, and by how many bytes its memory is uncertain.

    A percentage is one of the card's memory as it is registered on the node.
    """
    names = terms.names
    core = reader.limit(owner, names.core) if terms.percent else None
    share = Share(reader.core(core) if core else core, None)
    memory = reader.quantity(owner, names.memory)
    if memory is not None:
        size = reader.memory(memory, names.memory_factor * MIB)
        return share._replace(memory_bytes=size), 0
    percent = reader.quantity(owner, names.memory_percentage)
    registered = registered_memory(reader.node, terms.registers, uuid)
    if percent is None or registered is None:
        card = device_by_uuid(reader.node, uuid)
        size = reader.part_of_memory(card, percent)
        return share._replace(memory_bytes=size), (reader.card_memory(card) or 0) // 100
    size = reader.memory(registered * percent // 100 or None, MIB)
    return share._replace(memory_bytes=size), MIB


def _priority(reader: PodReader, owner: Container, terms: Terms) -> str:
    return reader.one_of(_PRIORITIES, owner.limits.get(terms.names.priority, ""))
