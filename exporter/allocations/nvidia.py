"""NVIDIA's device plugin: whole cards, MIG instances, time-slicing and MPS.

Stands on the README of NVIDIA/k8s-device-plugin ("Shared Access to GPUs") and the node labels of
its GPU feature discovery (``internal/lm``). The pod says how many devices it has but not which:
the kubelet's PodResources does. Until that is read, ``device`` is None.

* ``nvidia.com/gpu`` is a whole card with all its memory - or, where MIG's strategy is *single*, an
  instance. ``nvidia.com/mig-<profile>`` is an instance (strategy *mixed*). An instance's share of
  its card follows from the device once it is placed, so its core is None here.
* Time-slicing promises neither core nor memory, and two replicas may be the same card: one
  allocation that counts the replicas granted.
* MPS gives each replica an equal part of the card's threads and memory.
* Before anything is known of the node, or without permission to read it, a device may be any of
  these: its core and memory are None.

Unconfirmed: nothing in the names; without feature discovery's labels, sharing is recognised only by
more allocatable devices than the node has.
"""

from exporter.allocations.devices import cards, common_memory, instances
from exporter.allocations.quantities import MIB, parse_natural, parse_quantity
from exporter.allocations.reader import PodReader, lasting_containers
from exporter.allocations.scheme import Decoded, IndexBasis, Reason, Scheme
from exporter.model import Allocation, Container, Device, NodeFacts, Pod

_NAME = "nvidia-device-plugin"
_GPU = "nvidia.com/gpu"
_MIG = "nvidia.com/mig-"
_SHARED = ".shared"  # the suffix that the plugin's renameByDefault adds
_STRATEGY = "nvidia.com/gpu.sharing-strategy"
_PRODUCT = "nvidia.com/gpu.product"
_UNIT_MEMORY = "nvidia.com/gpu.memory"  # MiB; the instance's where nvidia.com/gpu is one
_TIME_SLICING, _MPS, _NONE = "time-slicing", "mps", "none"


def decode(pod: Pod, node: NodeFacts) -> Decoded:
    """Return how many devices, or replicas of devices, each container was allotted."""
    reader = PodReader(_NAME, pod, node)
    return reader.decoded(
        allocation
        for container in lasting_containers(pod)
        for resource in sorted(container.limits)
        if resource in {_GPU, _GPU + _SHARED} or resource.startswith(_MIG)
        for allocation in _allot(reader, container, resource)
    )


def _allot(reader: PodReader, container: Container, resource: str) -> list[Allocation]:
    count = reader.quantity(container, resource)
    if count is None:
        return []
    sharing = _sharing(reader.node, resource)
    if sharing not in {"", _MPS}:  # nothing is promised
        return [_allocation(reader, container, None, None, sharing, count)]
    if not reader.allows(container, count):
        return []
    if not (reader.node.labels or reader.node.allocatable):
        reader.reject(Reason.NODE_UNKNOWN, f"{container.name}: {resource} may be shared")
        return count * [_allocation(reader, container, None, None, "", None)]
    core, memory = _whole(reader, resource)
    replicas = None
    if sharing == _MPS:
        core, memory = _part(reader, resource, core, memory)
        replicas = 1
    return count * [_allocation(reader, container, core, memory, sharing, replicas)]


def _sharing(node: NodeFacts, resource: str) -> str:
    """Return how devices of this resource are shared: a strategy, "shared", or "" for not."""
    strategy = node.labels.get(_STRATEGY, _NONE)
    replicas = _replicas(node, resource)
    shared = strategy != _NONE if replicas is None else replicas > 1
    units = _units(node, resource)
    allocatable = parse_quantity(node.allocatable.get(resource, ""))
    overcommitted = bool(units and allocatable and allocatable > len(units))
    if not (shared or overcommitted or resource.endswith(_SHARED)):
        return ""
    return strategy if strategy in {_TIME_SLICING, _MPS} else _SHARED.removeprefix(".")


def _replicas(node: NodeFacts, resource: str) -> int | None:
    return parse_natural(node.labels.get(f"{resource.removesuffix(_SHARED)}.replicas", ""))


def _is_mig(node: NodeFacts, resource: str) -> bool:
    """Whether a unit is a MIG instance. By the *single* strategy that is ``nvidia.com/gpu`` too."""
    parents = {part.parent_uuid for part in instances(node)}
    divided = bool(parents) and all(card.uuid in parents for card in cards(node))
    return divided or resource.startswith(_MIG) or "-MIG-" in node.labels.get(_PRODUCT, "")


def _units(node: NodeFacts, resource: str) -> tuple[Device, ...]:
    """Return the devices that one unit of this resource may be."""
    parts = instances(node)
    if resource.startswith(_MIG):
        profile = resource.removeprefix(_MIG).removesuffix(_SHARED)
        return tuple(part for part in parts if part.profile.replace("+", ".") == profile)
    if _is_mig(node, resource):
        return parts
    parents = {part.parent_uuid for part in parts}
    return tuple(card for card in cards(node) if card.uuid not in parents)


def _whole(reader: PodReader, resource: str) -> tuple[float | None, int | None]:
    """Return core and memory of one unshared unit."""
    units = _units(reader.node, resource)
    memory = common_memory(units)
    if not resource.startswith(_MIG) and all(unit.memory_bytes is None for unit in units):
        labelled = parse_natural(reader.node.labels.get(_UNIT_MEMORY, ""))
        memory = reader.memory(labelled or None, MIB)
    return None if _is_mig(reader.node, resource) else 1.0, memory


def _part(
    reader: PodReader, resource: str, core: float | None, memory: int | None
) -> tuple[float | None, int | None]:
    """Return core and memory of one MPS replica."""
    replicas = _replicas(reader.node, resource)
    if not replicas:
        reader.reject(
            Reason.UNKNOWN_REPLICAS, f"no label {resource.removesuffix(_SHARED)}.replicas"
        )
        return None, None
    return (
        None if core is None else core / replicas,
        None if memory is None else memory // replicas,
    )


def _allocation(
    reader: PodReader,
    container: Container,
    core: float | None,
    memory_bytes: int | None,
    sharing: str,
    replicas: int | None,
) -> Allocation:
    return Allocation(
        pod_uid=reader.pod.uid,
        container=container.name,
        device=None,
        core=core,
        memory_bytes=memory_bytes,
        scheme=_NAME,
        policy=sharing,
        replicas=replicas,
    )


SCHEME = Scheme(
    name=_NAME,
    resources=(_GPU, _GPU + _SHARED, _MIG),
    annotations=(),
    index_basis=IndexBasis.UUID,
    decode=decode,
)
