"""vGPU requests, and the lists of devices that HAMi and Volcano write for them.

Sources: HAMi's ``docs/develop/protocol.md``, ``pkg/device/devices.go`` (EncodeContainerDevices) and
``pkg/device/nvidia/mig_allocations.go``; Volcano has the same format. An annotation holds one
segment per container, split by ``;``, of devices ``UUID,type,memory,cores``, each closed by ``:``.
Memory is MiB, or units of Volcano's factor. Both are per vGPU; 0 cores are no limit. Older dynamic
MIG adds template and slot to the UUID (``GPU-...[7-9]``), which name no instance. Since v2.10 a
second annotation, in JSON, names the instance by segment and position.
A MIG instance's core follows from its GPU, so none is stated.

A user who may change a pod may change the annotation, so each entry is compared with the limits
(``evidence``). A MIG instance counts before the limits: the scheduler assigns the next larger one.

HAMi-core holds a container to its limits. A container whose environment has
``CUDA_DISABLE_CONTROL=true`` gets its devices without that library: the policy is ``unenforced``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from exporter.agent.allocations.devicenames import device_by_uuid, instances
from exporter.agent.allocations.quantities import natural_of, parse_natural
from exporter.agent.allocations.reader import PodReader, Share
from exporter.agent.allocations.registered import registered_memory
from exporter.agent.allocations.terms import UNENFORCED, Reason
from exporter.agent.allocations.trust import agreed, asks_for, is_backed
from exporter.model import MIB, MIG, Allocation, Container, Device
from exporter.model.policies import policies

_CORE = "hami-core"
_MODES = policies(_CORE, MIG, "mps")
_PRIORITIES = {"0": "high", "1": "low"}
_DEVICE_FIELDS = 4
MAX_SEGMENTS = 512  # a pod has at most as many containers; the rest is not split


@dataclass(frozen=True, slots=True)
class ResourceNames:
    """Names of the resources of vGPUs. ``memory_factor`` is the MiB in one unit of ``memory``."""

    count: str
    memory: str
    memory_percentage: str
    core: str
    priority: str = ""
    memory_factor: int = 1

    @property
    def shares(self) -> frozenset[str]:
        """The resources that ask for a part of a device."""
        return frozenset({self.memory, self.memory_percentage, self.core})

    def share(self, owner: Container) -> bool:
        """Whether a container asks for a part of a device."""
        return asks_for(owner, self.shares)

    def states_share(self, owner: Container) -> bool:
        """Whether a container asks for a vGPU and states a share of it, be it 0: no limit."""
        return not self.shares.isdisjoint(owner.limits) and asks_for(owner, self.asking)

    @property
    def asking(self) -> tuple[str, ...]:
        """The resources that ask for vGPUs. A container with none of them has no vGPU."""
        return tuple(filter(None, (self.count, *sorted(self.shares))))

    @property
    def all(self) -> tuple[str, ...]:
        """All resources, the one that counts devices first."""
        return (*self.asking, *filter(None, (self.priority,)))


class Instance(NamedTuple):
    """A MIG instance created for a pod: its GPU's UUID and its own, "" until that is written.

    ``start`` is the first memory slice of its placement.
    """

    gpu: str
    uuid: str
    start: int | None = None


Instances = Mapping[tuple[int, int], Instance]  # by segment, and place in it
_NO_INSTANCES: Instances = MappingProxyType({})


class Terms(NamedTuple):
    """The terms of all vGPUs of a pod.

    ``key`` is the annotation that lists them. ``registers`` are the node's annotations that list
    its cards. ``percent``: whether cores are per cent of a GPU. ``unit``: the bytes in one unit of
    memory in the list and in the registers; that of the limits is in ``names``.
    ``percentage_first``: whether the percentage counts where a limit has both it and the amount.
    """

    names: ResourceNames
    key: str
    policy: str = ""
    percent: bool = True
    instances: Instances = _NO_INSTANCES
    registers: tuple[str, ...] = ()
    unit: int = MIB
    percentage_first: bool = False


class _Entry(NamedTuple):
    uuid: str
    memory: str
    core: str
    instance: Instance | None


def read_mode(reader: PodReader, key: str) -> str:
    """Return the mode that a pod asks for by this annotation, "" if it names none or several."""
    words = {word for part in reader.annotation(key).split(",") if (word := part.strip())}
    return reader.one_of(_MODES, words.pop()) if len(words) == 1 else ""


def read_instances(reader: PodReader, key: str) -> Instances:
    """Return the MIG instances that an annotation names; empty if one of them is malformed."""
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
        placement = fields.get("placement")
        start = natural_of(placement.get("start")) if isinstance(placement, dict) else None
        found[segment, place] = Instance(str(gpu), str(uuid), start)
    return found


def by_lists(
    reader: PodReader, owners: Sequence[Container], segments: Sequence[str], terms: Terms
) -> list[Allocation]:
    """Return the allocations of the segments' owners. The limits fill what segments omit."""
    lists: dict[str, list[tuple[int, list[str]]]] = {}
    for index, (owner, segment) in enumerate(zip(owners, segments, strict=True)):
        entries = [entry for entry in segment.split(":") if entry]
        lists.setdefault(owner.name, []).append((index, entries))
    allocations: list[Allocation] = []
    lasting = {container.name for container in reader.lasting}
    for owner in {owner.name: owner for owner in owners if owner.name in lasting}.values():
        found = [
            allocation
            for entry in _entries(reader, owner, lists[owner.name], terms)
            for allocation in _by_entry(reader, owner, entry, terms)
        ]
        # An entry that cannot be read costs its device, not the amounts.
        allocations += [*found, *by_limits(reader, owner, terms)[len(found) :]]
    return allocations


def _entries(
    reader: PodReader, owner: Container, own: Sequence[tuple[int, list[str]]], terms: Terms
) -> list[_Entry]:
    """Return the readable entries of an owner; empty if its limits ask for another number."""
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
            uuid, *fields = text.split(",", _DEVICE_FIELDS)
            entry: _Entry | None = None
            if len(fields) < _DEVICE_FIELDS - 1:
                reader.reject(Reason.BAD_ANNOTATION, text)
            else:
                entry = _Entry(uuid, fields[1], fields[2], terms.instances.get((index, place)))
            name = entry and (entry.instance.uuid if entry.instance else entry.uuid)
            if name and name in seen:
                reader.reject(Reason.DUPLICATE_DEVICE, text)
            elif entry:
                seen.update({name or ""} - {""})
                found.append(entry)
    return found


def _by_entry(reader: PodReader, owner: Container, entry: _Entry, terms: Terms) -> list[Allocation]:
    # A vGPU is a MIG instance if the entry says so, or if its GPU is divided into instances.
    gpu, bracket, _ = entry.uuid.partition("[")
    own = instances(reader.node)
    divided = any(entry.uuid in {part.uuid, part.parent_uuid} for part in own)
    mig = entry.instance is not None or bool(bracket) or divided
    if entry.instance is not None:
        device = _instance(reader, gpu, entry.instance)
    else:
        device = reader.device(gpu)
        device = device if device and bool(device.parent_uuid) == mig else None
    memory, core = parse_natural(entry.memory), parse_natural(entry.core)
    if memory is None or core is None:
        reader.reject(Reason.BAD_QUANTITY, ",".join(text[:50] for text in entry[:3]))
    share = Share(
        reader.core(core or None) if terms.percent and not mig else None,
        reader.memory(memory or None, terms.unit),
        MIG if mig else _policy(owner, terms),
        _priority(reader, owner, terms),
    )
    asked, slack = _asked(reader, owner, terms, entry.uuid)
    # An instance that is named and is not known is none of those that are.
    among: list[Device] | None = None
    if mig:
        among = [part for part in own if part.parent_uuid == gpu and entry.instance is None]
    if mig and (device is not None or _can_be(reader, entry, share, asked)):
        return reader.allocate(owner, (device,), share, whole=device is not None, among=among)
    agreed_on = agreed(reader, (share,), asked, slack=slack)[0]
    return reader.allocate(owner, (device,), agreed_on, among=among)


def _can_be(reader: PodReader, entry: _Entry, stated: Share, asked: Share) -> bool:
    """Whether the scheduler can have made this instance of what was asked for.

    It takes one that is no smaller. On a card that is not seen to be in MIG mode, where the list
    may be made up, that is at most twice as large, or a quarter of the card.
    """
    # The annotation may be the pod owner's. An instance that no scheduler would have made of the
    # limits is not taken from it.
    gpu = device_by_uuid(reader.node, entry.uuid.partition("[")[0])
    made, wanted = stated.memory_bytes or 0, asked.memory_bytes or 0
    whole = gpu.memory_bytes if gpu else None
    if gpu is None or whole is None:
        return made >= wanted
    parents = {instance.parent_uuid for instance in instances(reader.node)}
    in_mig_mode = gpu.sharing == MIG or gpu.uuid in parents
    most = whole if in_mig_mode or not wanted else max(2 * wanted, whole // 4)
    return wanted <= made <= most


def _instance(reader: PodReader, gpu: str, named: Instance) -> Device | None:
    # One whose UUID is not written yet is found by its placement.
    own = [part for part in instances(reader.node) if part.parent_uuid == named.gpu]
    device = next((p for p in own if p.placement_start == named.start is not None), None)
    if named.uuid:
        device = reader.device(named.uuid)
    if named.gpu == gpu and (device is None or device.parent_uuid == gpu):
        return device
    reader.reject(Reason.PLACEMENT_MISMATCH, f"{named.uuid} of {named.gpu} on {gpu}")
    return None


def by_limits(reader: PodReader, owner: Container, terms: Terms) -> list[Allocation]:
    """Return the allocations of a container if only the number of its devices is known."""
    names = terms.names
    count = _count(reader, owner, names)
    if not count or not reader.allows(owner, count):
        return []
    asked, _ = _asked(reader, owner, terms, "")
    share = Share(
        asked.core or None,
        asked.memory_bytes,
        _policy(owner, terms),
        _priority(reader, owner, terms),
    )
    stated = not owner.limits.keys().isdisjoint((names.memory, names.memory_percentage))
    return reader.allocate(owner, (None,) * count, share, whole=share.core == 1 and not stated)


def _count(reader: PodReader, owner: Container, names: ResourceNames) -> int:
    """Return the number of vGPUs that a container asks for; without a count, shares mean one.

    It is 0 if only the beginning of the resource's name is known.
    """
    if names.count.endswith("/"):
        return 0
    return reader.quantity(owner, names.count) or int(names.share(owner))


def _asked(reader: PodReader, owner: Container, terms: Terms, uuid: str) -> tuple[Share, int]:
    """Return the limits' amounts for one vGPU, and the uncertainty of its memory in bytes.

    A percentage is a percentage of the card's memory as registered on the node.
    """
    names = terms.names
    core = reader.limit(owner, names.core) if terms.percent else None
    share = Share(reader.core(core) if core else core, None)
    memory = reader.quantity(owner, names.memory)
    percent = reader.quantity(owner, names.memory_percentage)
    if memory is not None and not (terms.percentage_first and percent):
        size = reader.memory(memory, names.memory_factor * MIB)
        return share._replace(memory_bytes=size), 0
    registered = registered_memory(reader.node, terms.registers, uuid)
    if percent is None or registered is None:
        card = device_by_uuid(reader.node, uuid)
        size = reader.part_of_memory(card, percent)
        return share._replace(memory_bytes=size), (reader.card_memory(card) or 0) // 100
    size = reader.memory(registered * percent // 100 or None, terms.unit)
    return share._replace(memory_bytes=size), terms.unit


def _policy(owner: Container, terms: Terms) -> str:
    """Return the mode, unless HAMi-core is to hold a container that asks not to be held."""
    return UNENFORCED if owner.uncontrolled and terms.policy in {"", _CORE} else terms.policy


def _priority(reader: PodReader, owner: Container, terms: Terms) -> str:
    return reader.one_of(_PRIORITIES, owner.limits.get(terms.names.priority, ""))
