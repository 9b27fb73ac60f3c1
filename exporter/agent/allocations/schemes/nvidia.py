"""NVIDIA's device plugin: whole cards, MIG instances, time-slicing and MPS.

``nvidia.com/gpu`` is a whole card, or an instance with MIG's strategy *single*;
``nvidia.com/mig-<profile>`` is an instance. MPS gives each client an equal part of the
threads and memory, however many replicas its container has. nos' sized replicas and OpenShift's
instances (``mig.das.com/``) are read too. Devices are known by the profile ``podresources``.

With both `NVIDIA_GPU_MEMORY_REQUEST` and `…_LIMIT` in the pod, the toolkit and a driver from R615
on limit a container's memory on each card.

Unconfirmed: ids of replicas before AnnotatedID (they are rejected). Without feature discovery's
labels and grants, sharing is recognised only if the node has more allocatable than real devices,
and a renamed resource only with the suffix ``.shared``.

Sources: the README of NVIDIA/k8s-device-plugin ("Shared Access to GPUs"), its AnnotatedID, and the
node labels of its GPU feature discovery (``internal/lm``). PodResources names ``GPU-<uuid>``,
``MIG-<uuid>``, ``<id>::<n>`` for a replica. Before it is read, ``device`` is None. A grant with any
other id (``<uuid>-<n>``) is from another plugin that serves the same resource: it places nothing,
and its devices are unknown.

* An instance's share of its card follows from the device once it is placed, so its core is None.
* A resource that the plugin's configuration renames is recognised only by its granted ids, if it
  begins with ``nvidia.com/``.
* Two replicas of time-slicing may be the same card.
* MPS's limits are for each client (``cmd/mps-control-daemon/mps/daemon.go``).
* On WSL there is one device, ``all``: all cards.
* The toolkit's hook stands in the plugin's CDI devices. A smaller limit does not make the part of
  the card that is kept from others smaller: who writes the pod writes it himself.
* nos offers MPS's replicas of a size, ``nvidia.com/gpu-<n>gb`` (nebuly-ai/nos); ``mig.das.com/``
  names instances for OpenShift's operator (openshift/instaslice-operator).
"""

import re
from dataclasses import replace

from exporter.agent.allocations.devicenames import (
    cards,
    common_memory,
    device_by_uuid,
    instances,
)
from exporter.agent.allocations.quantities import parse_natural, parse_quantity
from exporter.agent.allocations.reader import NOTHING, PodReader, Share, each_container
from exporter.agent.allocations.replicas import number_of_units, sharing_replicas
from exporter.agent.allocations.scheme import Scheme
from exporter.agent.allocations.schemes import vgpu_manager
from exporter.agent.allocations.schemes.nvfractions import environment_limit
from exporter.agent.allocations.terms import MPS, SHARED, Evidence, IndexBasis, Reason
from exporter.model import GIB, MIB, Allocation, Container, Device, NodeFacts

_DOMAIN = "nvidia.com/"
_GPU = "nvidia.com/gpu"
_MIG = "nvidia.com/mig-"
_DAS = "mig.das.com/"  # OpenShift's instances, by profile
_OTHERS = frozenset(vgpu_manager.SCHEME.resources)  # of the same domain, with ids of this form
_RENAMED = ".shared"  # the suffix that the plugin's renameByDefault adds
_STRATEGY = "nvidia.com/gpu.sharing-strategy"
_ALL_CARDS = "all"
_SIZE = re.compile(r"(?:\dc\.)?\d{1,2}g\.\d{1,4}gb", re.ASCII)  # of an instance's profile
_OF_A_SIZE = re.compile(r"nvidia\.com/gpu-(\d{1,4})gb", re.ASCII)  # nos; GiB
_PRODUCT = "nvidia.com/gpu.product"
_UNIT_MEMORY = "nvidia.com/gpu.memory"  # MiB; the instance's where nvidia.com/gpu is one
_TIME_SLICING, _NONE = "time-slicing", "none"
_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_DEVICE_ID = re.compile(  # the last is an instance's before driver 470
    rf"GPU-{_UUID}|MIG-{_UUID}|MIG-GPU-{_UUID}/\d+/\d+", re.IGNORECASE | re.ASCII
)


def read(reader: PodReader, container: Container) -> list[Allocation]:
    """Return the devices, or replicas of devices, allocated to each container."""
    allocations: list[Allocation] = []
    seen: set[str] = set()
    for resource in sorted(container.limits.keys() | reader.granted_resources(container)):
        own = resource.startswith((_DOMAIN, _DAS)) and resource not in _OTHERS
        held = _held(reader, container, resource) if own else {}
        # These are the plugin's whatever it grants. Others under its domain may be another
        # plugin's, and count only by ids of its form.
        is_usual = resource in {_GPU, _GPU + _RENAMED} or resource.startswith((_MIG, _DAS))
        is_known = is_usual or _OF_A_SIZE.fullmatch(resource)
        if not seen.isdisjoint(held):
            reader.reject(Reason.DUPLICATE_DEVICE, f"{container.name}: {resource}")
        elif not held and is_known:
            made = _unplaced(reader, container, resource)
            allocations += _limited(reader, container, resource, "", made)
        elif reader.allows(container, len(held)):
            seen.update(held)
            for uuid, replicas in held.items():
                made = _placed(reader, container, resource, uuid, replicas)
                allocations += _limited(reader, container, resource, uuid, made)
    return allocations


def _limited(
    reader: PodReader, container: Container, resource: str, uuid: str, made: list[Allocation]
) -> list[Allocation]:
    """Return the allocations with the limit of the container's environment; instances have none.

    ``uuid`` "": it is not known of which devices they are.
    """
    if not container.environment:
        return made
    device = device_by_uuid(reader.node, uuid)
    is_mig = bool(device.parent_uuid) if device else _is_mig(reader.node, resource)
    if is_mig or uuid.startswith("MIG-"):
        return made
    card = common_memory((device,) if device else _units(reader.node, resource))
    limit = environment_limit(reader, container, card)
    limited: list[Allocation] = []
    for one in made:
        most = [each for each in (one.memory_bytes, limit) if each is not None]
        limited.append(replace(one, memory_bytes=min(most, default=None)))
    return limited


def _held(reader: PodReader, container: Container, resource: str) -> dict[str, int]:
    """Return the number of replicas granted by device UUID; 0 for a device that is not shared.

    Empty if the ids are another plugin's.
    """
    held: dict[str, int] = {}
    for device_id in reader.granted(container, resource):
        if device_id == _ALL_CARDS:
            held |= dict.fromkeys((card.uuid for card in cards(reader.node)), 0)
            continue
        # ``<uuid>::<n>`` is a replica. Ids of another form are another plugin's, which has taken
        # over the resource: then nothing here is this one's.
        uuid, replica, _ = device_id.partition("::")
        if device_by_uuid(reader.node, uuid) is None and not _DEVICE_ID.fullmatch(uuid):
            return {}
        held[uuid] = held.get(uuid, 0) + bool(replica)
    return held


def _placed(
    reader: PodReader, container: Container, resource: str, uuid: str, replicas: int
) -> list[Allocation]:
    device = reader.device(uuid)
    if size := _OF_A_SIZE.fullmatch(resource):
        own = Share(None, reader.memory(int(size[1]) or None, GIB), MPS, replicas=replicas or 1)
        return reader.allocate(container, (device,), own, among=())
    core, memory = _whole(reader, resource, device)
    if device is None and uuid.startswith("MIG-"):
        core = memory = None
    sharing = ""
    if replicas:
        strategy = reader.node.labels.get(_STRATEGY, "")
        sharing = strategy if strategy in {_TIME_SLICING, MPS} else SHARED
        core, memory = _part(reader, resource, core, memory, sharing)
    share = Share(core, memory, sharing, replicas=replicas or None)
    return reader.allocate(container, (device,), share, among=())


def _unplaced(reader: PodReader, container: Container, resource: str) -> list[Allocation]:
    """Return the allocations of a container if only the number of its devices is known."""
    count = reader.quantity(container, resource)
    if count is None:
        return []
    size = _OF_A_SIZE.fullmatch(resource)
    sharing = MPS if size else _sharing(reader.node, resource)
    among = _units(reader.node, resource) if _is_mig(reader.node, resource) else None
    if size or sharing not in {"", MPS}:
        memory = reader.memory(int(size[1]) or None, GIB) if size else None  # else none is promised
        own = Share(None, memory, sharing, replicas=count)
        return reader.allocate(container, (None,), own, among=among)
    if not reader.allows(container, count):
        return []
    devices = (None,) * count
    if reader.granted(container, resource):  # another plugin's
        return reader.allocate(container, devices, NOTHING, among=among)
    if not (reader.node.labels or reader.node.allocatable):
        reader.reject(Reason.NODE_UNKNOWN, f"{container.name}: {resource} may be shared")
        return reader.allocate(container, devices, NOTHING, among=among)
    core, memory = _whole(reader, resource, None)
    if sharing == MPS:
        core, memory = _part(reader, resource, core, memory, sharing)
    share = Share(core, memory, sharing, replicas=1 if sharing == MPS else None)
    return reader.allocate(container, devices, share, among=among)


def _sharing(node: NodeFacts, resource: str) -> str:
    """Return how devices of this resource are shared: a strategy, "shared", or "" for not."""
    strategy = node.labels.get(_STRATEGY, _NONE)
    # Labels are of a discovery that may lack the plugin's configuration. What the node offers, and
    # a renamed resource, show sharing whatever they say.
    replicas = _replicas(node, resource)
    shared = strategy != _NONE if replicas is None else replicas > 1
    if not (shared or _is_overcommitted(node, resource) or resource.endswith(_RENAMED)):
        return ""
    return strategy if strategy in {_TIME_SLICING, MPS} else SHARED


def _is_overcommitted(node: NodeFacts, resource: str) -> bool:
    """Whether the node offers more of a resource than it has devices of it."""
    if resource in node.replicas:
        return node.replicas[resource] > 1
    units = number_of_units(node, resource, len(_units(node, resource)))
    return 0 < units < (parse_quantity(node.allocatable.get(resource, "")) or 0)


def _replicas(node: NodeFacts, resource: str) -> int | None:
    """Return the replicas of each device by its label; if that says 1, those that are counted."""
    stated = parse_natural(node.labels.get(f"{resource.removesuffix(_RENAMED)}.replicas", ""))
    if stated != 1:
        return stated
    replicas = sharing_replicas(node)
    counted = {replicas.get(device.uuid, 1) for device in _units(node, resource)}
    return counted.pop() if len(counted) == 1 else stated


def _is_mig(node: NodeFacts, resource: str) -> bool:
    """Whether a unit is a MIG instance. By the *single* strategy that is ``nvidia.com/gpu`` too."""
    parents = {part.parent_uuid for part in instances(node)}
    divided = bool(parents) and all(card.uuid in parents for card in cards(node))
    return divided or resource.startswith((_MIG, _DAS)) or "-MIG-" in node.labels.get(_PRODUCT, "")


def _units(node: NodeFacts, resource: str) -> tuple[Device, ...]:
    """Return the devices that a unit of this resource can be."""
    parts = instances(node)
    if resource.startswith((_MIG, _DAS)):
        named = resource.removeprefix(_MIG).removeprefix(_DAS).removesuffix(_RENAMED)
        exact = tuple(part for part in parts if part.profile.replace("+", ".") == named)
        return exact or tuple(part for part in parts if _size(part.profile) == _size(named))
    if _is_mig(node, resource):
        return parts
    parents = {part.parent_uuid for part in parts}
    return tuple(card for card in cards(node) if card.uuid not in parents)


def _size(profile: str) -> str:
    """Return a profile without its extras (``1g.24gb.gfx``, ``1g.10gb+me``): NVML states none.

    So it is compared where no device has the whole name.
    """
    found = _SIZE.match(profile)
    return found[0] if found else profile


def _whole(
    reader: PodReader, resource: str, device: Device | None
) -> tuple[float | None, int | None]:
    """Return core and memory of one unshared unit."""
    units = (device,) if device else _units(reader.node, resource)
    memory = common_memory(units)
    if not resource.startswith((_MIG, _DAS)) and all(unit.memory_bytes is None for unit in units):
        labelled = parse_natural(reader.node.labels.get(_UNIT_MEMORY, ""))
        memory = reader.memory(labelled or None, MIB)
    mig = bool(device.parent_uuid) if device else _is_mig(reader.node, resource)
    return None if mig else 1.0, memory


def _part(
    reader: PodReader,
    resource: str,
    core: float | None,
    memory: int | None,
    sharing: str,
) -> tuple[float | None, int | None]:
    """Return core and memory of a client of one unit. Only MPS promises any."""
    if sharing != MPS:
        return None, None
    replicas = _replicas(reader.node, resource)
    if not replicas:
        reader.reject(
            Reason.UNKNOWN_REPLICAS, f"no label {resource.removesuffix(_RENAMED)}.replicas"
        )
        return None, None
    return (
        None if core is None else core / replicas,
        None if memory is None else memory // replicas or None,
    )


SCHEME = Scheme(
    name="nvidia-device-plugin",
    resources=(_GPU, _GPU + _RENAMED, _MIG, _DAS, f"{_GPU}-"),
    annotations=(),
    index_basis=IndexBasis.UUID,
    read=each_container(read),
    amounts=(Evidence.LIMITS, Evidence.GRANT),
    placement=(Evidence.GRANT,),
)
