"""Dynamic resource allocation: devices that a container has by a ResourceClaim.

Sources: ``resource.k8s.io/v1`` (kubernetes/api; v1beta2 and v1beta1 hold the same), KEP-5004
(claims that stand for an extended resource), KEP-5075 (consumable capacity), and what the drivers
publish: kubernetes-sigs/dra-driver-nvidia-gpu (``gpu.nvidia.com``: attribute ``uuid``, else the
name ``gpu-<minor>``), ROCm/k8s-gpu-dra-driver (``gpu.amd.com``: ``docs/driver-attributes.md``; a
partition has its card's PCI address) and intel/intel-resource-drivers-for-kubernetes
(``gpu.intel.com``: a device's name begins with its PCI address). Other drivers' devices are not
GPUs.

* A claim names devices, not a share of their core: core is None. An instance's share of its card
  follows from the device once it is placed.
* If this container alone uses the claim, memory is what the claim consumes of the device, else all
  of the device. A part of a device has the policy ``shared``. If several containers use the claim,
  of one pod or of many, nothing is promised: each has a replica, and no memory.
* Administrative access (``adminAccess``) is not an allocation.

Unconfirmed: the capacity that a driver for NVIDIA lets claims consume (assumed: ``memory``); the
device of an instance that its driver creates only when it is claimed: it has no UUID before.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

from exporter.allocations.devices import card_by_number, card_by_pci
from exporter.allocations.quantities import parse_quantity
from exporter.allocations.reader import PodReader, Share, lasting_containers
from exporter.allocations.scheme import SHARED, Decoded, Evidence, IndexBasis, Reason, Scheme
from exporter.model import (
    Allocation,
    ClaimedDevice,
    ClaimRef,
    Container,
    Device,
    NodeFacts,
    OfferedDevice,
    Pod,
)

_NAME = "dra"
_VENDORS = {"gpu.nvidia.com": "nvidia", "gpu.amd.com": "amd", "gpu.intel.com": "intel"}
DRIVERS = frozenset(_VENDORS)
_UUID, _TYPE = "uuid", "type"
_PCI_ADDRESSES = ("resource.kubernetes.io/pciBusID", "pciAddr")
ATTRIBUTES = frozenset({_UUID, _TYPE, *_PCI_ADDRESSES})
_NVIDIA_NAME = re.compile(r"gpu-(\d{1,3})", re.ASCII)
_INTEL_NAME = re.compile(r"([0-9a-f]{4})-([0-9a-f]{2})-([0-9a-f]{2})-([0-7])-.*", re.ASCII)
_MEMORY = "memory"
_NOTHING = OfferedDevice()


class _Part(NamedTuple):
    """One container's part of one result of a claim."""

    device: Device | None
    memory_bytes: int | None
    shared: bool


def decode(pod: Pod, node: NodeFacts) -> Decoded:
    """Return the devices of each container's claims."""
    reader = PodReader(_NAME, pod, node)
    return reader.decoded(
        allocation
        for container in lasting_containers(pod)
        if container.claims
        for allocation in _allocations(reader, container)
    )


def has_claims(pod: Pod) -> bool:
    """Whether a pod may share a claim with other pods."""
    return any(container.claims for container in pod.containers)


def _allocations(reader: PodReader, container: Container) -> list[Allocation]:
    results = _results(reader, container)
    if not reader.allows(container, len(results)):
        return []
    parts: dict[str, list[_Part]] = {}  # a container may have several of one card
    for claim, result in results:
        part = _part(reader, claim, result)
        key = part.device.uuid if part.device else f"{result.driver}/{result.pool}/{result.device}"
        parts.setdefault(key, []).append(part)
    return [
        allocation
        for same in parts.values()
        for allocation in reader.allocate(container, (same[0].device,), _share(reader, same))
    ]


def _results(reader: PodReader, container: Container) -> list[tuple[str, ClaimedDevice]]:
    """Return the GPUs of a container, each once, with the name of its claim."""
    found: dict[tuple[str, ...], tuple[str, ClaimedDevice]] = {}
    for ref in container.claims:
        allocated = reader.node.claims.get((reader.pod.namespace, ref.claim))
        if allocated is None:
            reader.reject(Reason.UNKNOWN_CLAIM, f"{container.name}: {ref.claim}")
        for result in allocated or ():
            gpu = result.driver in _VENDORS and not result.admin_access
            if gpu and _takes(ref, ref.claim, result):
                key = (ref.claim, result.driver, result.pool, result.device, result.share_id)
                found.setdefault(key, (ref.claim, result))
    return list(found.values())


def _takes(ref: ClaimRef, claim: str, result: ClaimedDevice) -> bool:
    """Whether a container has this result of a claim: ``<request>``, or a part of that request."""
    request = result.request.partition("/")[0]  # "<request>/<subrequest>" of firstAvailable
    return ref.claim == claim and ref.request in {"", request, result.request}


def _part(reader: PodReader, claim: str, result: ClaimedDevice) -> _Part:
    offered = reader.node.offered.get((result.driver, result.pool, result.device), _NOTHING)
    device = _device(reader, result, offered)
    users = sum(
        any(_takes(ref, claim, result) for ref in container.claims)
        for container in _neighbours(reader)
    )
    if users > 1:
        return _Part(device, None, shared=True)
    consumable = bool(result.share_id or result.consumed)
    capacity = result.consumed if consumable else offered.capacity
    text = capacity.get(_MEMORY) or capacity.get(f"{result.driver}/{_MEMORY}") or "0"
    amount = parse_quantity(text)
    if amount is None:
        reader.reject(Reason.BAD_QUANTITY, f"{result.device}: {_MEMORY}={text[:50]}")
    memory = reader.memory(amount or None, 1)
    if memory is None and not consumable and device and not _is_partition(offered):
        memory = device.memory_bytes
    return _Part(device, memory, shared=consumable)


def _neighbours(reader: PodReader) -> Iterable[Container]:
    """Return the containers that may use the same claims: those of the pod's namespace."""
    pods = {**reader.node.pods, reader.pod.uid: reader.pod}
    return (
        container
        for pod in pods.values()
        if pod.namespace == reader.pod.namespace and not (pod.terminal or pod.deleted)
        for container in lasting_containers(pod)
    )


def _is_partition(offered: OfferedDevice) -> bool:
    return offered.attributes.get(_TYPE) == "amdgpu-partition"


def _device(reader: PodReader, result: ClaimedDevice, offered: OfferedDevice) -> Device | None:
    """Return the device of a result; None if its driver's attributes do not identify one."""
    attributes = offered.attributes
    uuid = attributes.get(_UUID) or attributes.get(f"{result.driver}/{_UUID}")
    if uuid:
        return reader.device(uuid)
    vendor = _VENDORS[result.driver]
    if vendor == "nvidia":  # an instance has its card's PCI address
        named = _NVIDIA_NAME.fullmatch(result.device)
        basis = reader.basis(IndexBasis.MINOR)
        return card_by_number(reader.node, basis, int(named[1])) if named else None
    addresses = [attributes[key] for key in _PCI_ADDRESSES if key in attributes]
    if named := _INTEL_NAME.fullmatch(result.device):
        addresses.append("{}:{}:{}.{}".format(*named.groups()))
    return next((card for a in addresses if (card := card_by_pci(reader.node, vendor, a))), None)


def _share(reader: PodReader, parts: list[_Part]) -> Share:
    shared = any(part.shared for part in parts)
    memory = [part.memory_bytes for part in parts if part.memory_bytes is not None]
    promised = len(memory) == len(parts)
    return Share(
        None,
        reader.memory(sum(memory), 1) if promised else None,
        SHARED if shared else "",
        replicas=len(parts) if shared and not promised else None,
    )


SCHEME = Scheme(
    name=_NAME,
    resources=(),  # a container's reader leaves out a resource that a claim stands for
    annotations=(),
    index_basis=IndexBasis.UUID,
    decode=decode,
    affects_others=has_claims,
    amounts=(Evidence.CLAIM,),
    placement=(Evidence.CLAIM,),
)
