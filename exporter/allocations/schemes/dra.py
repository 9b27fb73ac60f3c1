"""Dynamic resource allocation: devices that a container has by a ResourceClaim.

Claims on devices of NVIDIA's, HAMi's, vgpu-manager's, AMD's and Intel's drivers are read, and of
any driver that publishes a card's UUID or PCI address. The only container of a claim has the cores
and memory that the claim consumes, else all of the device. Several containers of one claim have a
replica each, and nothing is promised. MPS's limits and ``shares`` of NVIDIA's driver are read.
Administrative access is not an allocation. A claim is placed on no other device than it names.

``mgpu_pod_unhealthy_devices`` counts the devices of a pod that the kubelet says are unhealthy, and
``mgpu-exporter check`` names the node's tainted devices, by their drivers and by DeviceTaintRules.

Unconfirmed: the vendors' own drivers on hardware. Claims were tried with Kubernetes' test driver.

Sources: ``resource.k8s.io/v1`` (kubernetes/api; v1beta2 and v1beta1 hold the same), KEP-5004
(claims that stand for an extended resource), KEP-5075 (consumable capacity), and what the drivers
publish: kubernetes-sigs/dra-driver-nvidia-gpu (``gpu.nvidia.com``: attribute ``uuid``, else the
name ``gpu-<minor>``), Project-HAMi/k8s-dra-driver (``hami-core-gpu.project-hami.io``),
coldzerofear/vgpu-manager (``manager.nvidia.com``), ROCm/k8s-gpu-dra-driver (``gpu.amd.com``:
``docs/driver-attributes.md``; a partition has its card's PCI address) and
intel/intel-resource-drivers-for-kubernetes (``gpu.intel.com``: a device's name begins with its PCI
address). A device of any other driver that may be a GPU and is none that is read is counted: its
driver publishes a UUID, memory or cores of it, or the claim stands for a GPU's resource.

* A claim that consumes ``cores`` has that share of the card: per cent with HAMi's and
  vgpu-manager's drivers, else of the cores that the device offers. HAMi's driver enforces 60 %
  where a claim consumes none. Otherwise core is None. An instance's share of its card follows from
  the device once it is placed.
* A part of a device has the policy ``shared``, and ``enforced`` where HAMi's or vgpu-manager's
  driver holds it.
* With MPS, each container that uses the claim has the limits of the claim's configuration: per cent
  of the threads, and memory (``GpuConfig``, ``api/nvidia.com/resource/v1beta1/sharing.go``). A
  limit of one device names it by UUID, or by its number among the UUIDs, in their order, of the
  devices that have this configuration.
* An instance that its driver creates when it is claimed has no UUID in the slice. It is the
  instance of its parent that begins at the memory slice in the device's name
  (``gpu-<minor>-mig-<profile>-<id>-<start>``).
* A card that is passed to a virtual machine (type ``vfio``) is not seen by the host's driver, so it
  has no device.
* A claim names its device, so one whose device is not known is placed on none, wherever its
  processes are seen: a new instance's are listed on its whole card until it is found. A partition
  of AMD's is the one of its card's on which they are seen; while none is known, it is on the card
  if its memory is stated. Where no slice of AMD's driver can be read, a device's name says nothing:
  if no card of AMD's is divided, it is the card on which they are seen.
"""

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from exporter.allocations.devices import (
    card_at,
    card_by_number,
    card_by_pci,
    cards,
    device_by_uuid,
    instances,
)
from exporter.allocations.quantities import parse_natural, parse_quantity
from exporter.allocations.reader import PodReader, Share, each_container, lasting_containers
from exporter.allocations.scheme import (
    ENFORCED,
    SHARED,
    Evidence,
    IndexBasis,
    Reason,
    Scheme,
)
from exporter.model import (
    PARTITIONED,
    Allocation,
    ClaimedDevice,
    ClaimRef,
    Container,
    Device,
    NodeFacts,
    OfferedDevice,
    Pod,
)

_HAMI, _VGPU_MANAGER = "hami-core-gpu.project-hami.io", "manager.nvidia.com"
_AMD = "gpu.amd.com"
_VENDORS = {
    "gpu.nvidia.com": "nvidia",
    _HAMI: "nvidia",
    _VGPU_MANAGER: "nvidia",
    _AMD: "amd",
    "gpu.intel.com": "intel",
}
DRIVERS = frozenset(_VENDORS)
_IN_PERCENT = frozenset({_HAMI, _VGPU_MANAGER})  # of a card's cores, and what they promise holds
_HAMI_DEFAULT = 60  # per cent
_UUID, _TYPE, _PARENT = "uuid", "type", "parentUUID"
_PCI_ADDRESSES = ("resource.kubernetes.io/pciBusID", "pciAddr", "pcieBusID", "pciBusID")
ATTRIBUTES = frozenset({_UUID, _TYPE, _PARENT, *_PCI_ADDRESSES})
_GPUS = ("nvidia.com/", "amd.com/gpu", "gpu.intel.com/")  # beginnings of extended resources
_NVIDIA_NAME = re.compile(r"(?:hami-|v)?gpu-(\d{1,3})", re.ASCII)
_INSTANCE_NAME = re.compile(r"gpu-\d{1,3}-mig-.{1,63}-\d{1,3}-(\d{1,2})", re.ASCII)
_INTEL_NAME = re.compile(r"([0-9a-f]{4})-([0-9a-f]{2})-([0-9a-f]{2})-([0-7])-.*", re.ASCII)
_MEMORY, _CORES, _SHARES = "memory", "cores", "shares"
CAPACITIES = frozenset({_MEMORY, _CORES, _SHARES})
_MPS, _MPS_STRATEGY = "mps", "MPS"
_OF_DEVICE = "memory/"  # begins the name of the limit of one device
_PASSED_ON = "vfio"  # the beginning of the type of a card that a virtual machine has
_MOST_SHARES = 10_000
_NOTHING = OfferedDevice()


class _Part(NamedTuple):
    """One container's part of one result of a claim."""

    device: Device | None
    memory_bytes: int | None
    shared: bool
    core: float | None = None
    replicas: int = 1
    mps: bool = False
    held: bool = False
    among: tuple[Device, ...] = ()


def has_claims(pod: Pod) -> bool:
    """Whether a pod may share a claim with other pods."""
    return any(container.claims for container in pod.containers)


def read(reader: PodReader, container: Container) -> list[Allocation]:
    """Return the devices of a container's claims."""
    results = _results(reader, container)
    if not reader.allows(container, len(results)):
        return []
    parts: dict[str, list[_Part]] = {}  # a container may have several of one card
    for claim, result in results:
        part = _part(reader, claim, result)._replace(among=_among(reader, result))
        key = part.device.uuid if part.device else f"{result.driver}/{result.pool}/{result.device}"
        parts.setdefault(key, []).append(part)
    return [
        allocation
        for same in parts.values()
        for allocation in reader.allocate(
            container, (same[0].device,), _share(reader, same), among=same[0].among
        )
    ]


def _results(reader: PodReader, container: Container) -> list[tuple[str, ClaimedDevice]]:
    """Return the GPUs of a container, each once, with the name of its claim."""
    found: dict[tuple[str, ...], tuple[str, ClaimedDevice]] = {}
    for ref in container.claims:
        allocated = reader.node.claims.get((reader.pod.namespace, ref.claim))
        if allocated is None:
            reader.reject(Reason.UNKNOWN_CLAIM, f"{container.name}: {ref.claim}")
        for result in allocated or ():
            taken = not result.admin_access and _takes(ref, ref.claim, result)
            if taken and _is_gpu(reader, ref, result):
                key = (ref.claim, result.driver, result.pool, result.device, result.share_id)
                found.setdefault(key, (ref.claim, result))
    return list(found.values())


def _is_gpu(reader: PodReader, ref: ClaimRef, result: ClaimedDevice) -> bool:
    """Whether a device is a GPU: by its driver, or because it is a card that is read."""
    if result.driver in _VENDORS:
        return True
    offered = reader.node.offered.get((result.driver, result.pool, result.device))
    if offered is not None and _matched(reader.node, result.driver, offered):
        return True
    stated = _texts(result.driver, offered) if offered else {}
    like_a_gpu = not {_UUID, _PARENT, _MEMORY, _CORES}.isdisjoint(stated)
    if like_a_gpu or ref.resource.startswith(_GPUS):
        detail = f"{result.driver}: {result.device} is no card that is read"
        reader.reject(Reason.UNKNOWN_DRIVER, detail)
    return False


def _texts(driver: str, offered: OfferedDevice) -> dict[str, str]:
    """Return attributes and capacities, those of the driver's own domain without it."""
    both = {**offered.attributes, **offered.capacity}
    return {key.removeprefix(f"{driver}/"): text for key, text in both.items()}


def _matched(node: NodeFacts, driver: str, offered: OfferedDevice) -> Device | None:
    """Return the device that is read and has the UUID or the PCI address of an offered one."""
    stated = _texts(driver, offered)
    if uuid := stated.get(_UUID):
        return device_by_uuid(node, uuid)
    addresses = [stated[key] for key in _PCI_ADDRESSES if key in stated]
    return next((card for each in addresses if (card := card_at(node, each))), None)


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
    if result.sharing.get("strategy") == _MPS_STRATEGY:
        return _with_mps(reader, claim, result, device)
    if users > 1:
        return _Part(device, None, shared=True)
    consumable = bool(result.share_id or result.consumed)
    capacity = result.consumed if consumable else offered.capacity
    memory = reader.memory(_capacity(reader, result, capacity, _MEMORY) or None, 1)
    if memory is None and not consumable and device and not _is_partition(offered):
        memory = device.memory_bytes
    shares = _capacity(reader, result, result.consumed, _SHARES)
    return _Part(
        device,
        memory,
        shared=consumable,
        core=_core(reader, result, offered),
        replicas=min(shares or 1, _MOST_SHARES),
        held=result.driver in _IN_PERCENT,
    )


def _capacity(
    reader: PodReader, result: ClaimedDevice, capacity: Mapping[str, str], name: str
) -> int | None:
    """Return an amount of a capacity; None if there is none of this name, or it is malformed."""
    text = capacity.get(name) or capacity.get(f"{result.driver}/{name}")
    if text is None:
        return None
    amount = parse_quantity(text)
    if amount is None:
        reader.reject(Reason.BAD_QUANTITY, f"{result.device}: {name}={text[:50]}")
    return amount


def _core(reader: PodReader, result: ClaimedDevice, offered: OfferedDevice) -> float | None:
    """Return the share of the card's cores that a claim consumes; None if it promises none."""
    consumed = _capacity(reader, result, result.consumed, _CORES)
    if result.driver in _IN_PERCENT:
        unstated = _CORES not in result.consumed and result.driver == _HAMI
        return reader.core(_HAMI_DEFAULT if unstated else consumed or None)
    whole = _capacity(reader, result, offered.capacity, _CORES)
    if not consumed or not whole:
        return None
    if consumed > whole:
        reader.reject(Reason.CORE_OUT_OF_RANGE, f"{result.device}: {consumed} of {whole} cores")
        return None
    return consumed / whole


def _with_mps(reader: PodReader, claim: str, result: ClaimedDevice, device: Device | None) -> _Part:
    """Return what each user of a device has by MPS's limits."""
    text = _memory_with_mps(reader, claim, result)
    amount, percent = parse_quantity(text), parse_natural(result.sharing.get("core", "0"))
    if amount is None or percent is None:
        reader.reject(Reason.BAD_QUANTITY, f"{result.device}: {dict(result.sharing)}")
    return _Part(
        device,
        reader.memory(amount or None, 1),
        shared=True,
        core=reader.core(percent or None),
        mps=True,
    )


def _memory_with_mps(reader: PodReader, claim: str, result: ClaimedDevice) -> str:
    """Return the limit of a device's memory, "0" if none is known."""
    sharing = result.sharing
    limits = {
        key.removeprefix(_OF_DEVICE): text
        for key, text in sharing.items()
        if key.startswith(_OF_DEVICE)
    }
    own = _published_uuid(reader, result)
    if own in limits:
        return limits[own]
    numbers = {n: text for key, text in limits.items() if (n := parse_natural(key)) is not None}
    if not numbers:
        return sharing.get(_MEMORY, "0")
    every = reader.node.claims.get((reader.pod.namespace, claim)) or ()
    alike = [d for d in every if (d.driver, d.sharing) == (result.driver, sharing)]
    uuids = sorted({_published_uuid(reader, device) for device in alike})
    if "" in uuids:
        return "0"
    return numbers.get(uuids.index(own)) or sharing.get(_MEMORY, "0")


def _published_uuid(reader: PodReader, result: ClaimedDevice) -> str:
    """Return the UUID that a driver publishes of a device, "" if none."""
    offered = reader.node.offered.get((result.driver, result.pool, result.device), _NOTHING)
    return _texts(result.driver, offered).get(_UUID, "")


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
    attributes = _texts(result.driver, offered)
    if attributes.get(_TYPE, "").startswith(_PASSED_ON):
        return None
    if uuid := attributes.get(_UUID):
        return reader.device(uuid)
    vendor = _VENDORS.get(result.driver)
    if vendor is None:
        return _matched(reader.node, result.driver, offered)
    if _PARENT in attributes:
        return _instance(reader.node, attributes[_PARENT], result.device)
    if vendor == "nvidia":  # an instance has its card's PCI address
        named = _NVIDIA_NAME.fullmatch(result.device)
        return card_by_number(reader.node, IndexBasis.MINOR, int(named[1])) if named else None
    sized = _capacity(reader, result, offered.capacity, _MEMORY) and not _partitions(reader, result)
    return None if _is_partition(offered) and not sized else _card(reader, result, attributes)


def _card(reader: PodReader, result: ClaimedDevice, attributes: Mapping[str, str]) -> Device | None:
    """Return the card at the PCI address of a result."""
    addresses = [attributes[key] for key in _PCI_ADDRESSES if key in attributes]
    if named := _INTEL_NAME.fullmatch(result.device):
        addresses.append("{}:{}:{}.{}".format(*named.groups()))
    found = (card_by_pci(reader.node, _VENDORS[result.driver], each) for each in addresses)
    return next(filter(None, found), None)


def _among(reader: PodReader, result: ClaimedDevice) -> tuple[Device, ...]:
    """Return the devices of which a claimed one is one, for as long as it is not known itself."""
    driver, node = result.driver, reader.node
    if driver != _AMD or any(driver == known for known, _, _ in node.offered):
        return _partitions(reader, result)
    found = cards(node, _VENDORS[_AMD])
    divided = instances(node, _VENDORS[_AMD]) or any(c.sharing == PARTITIONED for c in found)
    return () if divided else found


def _partitions(reader: PodReader, result: ClaimedDevice) -> tuple[Device, ...]:
    """Return the partitions of which a claimed one of AMD's is one: it has its card's address."""
    offered = reader.node.offered.get((result.driver, result.pool, result.device), _NOTHING)
    if result.driver != _AMD or not _is_partition(offered):
        return ()
    card = _card(reader, result, _texts(result.driver, offered))
    parts = instances(reader.node, _VENDORS[_AMD])
    return tuple(part for part in parts if card and part.parent_uuid == card.uuid)


def _instance(node: NodeFacts, parent: str, name: str) -> Device | None:
    """Return the instance of a parent at the placement in a device's name; None unless one is."""
    named = _INSTANCE_NAME.fullmatch(name)
    if named is None:
        return None
    own = [i for i in instances(node) if i.parent_uuid == parent]
    found = [i for i in own if i.placement_start == int(named[1])]
    return found[0] if len(found) == 1 else None


def _share(reader: PodReader, parts: list[_Part]) -> Share:
    shared = any(part.shared for part in parts)
    memory = [part.memory_bytes for part in parts if part.memory_bytes is not None]
    promised = len(memory) == len(parts)
    cores = [part.core for part in parts if part.core is not None]
    core = min(1.0, sum(cores)) if len(cores) == len(parts) else None
    mps = all(part.mps for part in parts)
    held = ENFORCED if all(part.held for part in parts) else SHARED
    open_ended = shared and not (promised or core)
    return Share(
        core,
        reader.memory(sum(memory), 1) if promised else None,
        _MPS if mps else held if shared else "",
        replicas=sum(part.replicas for part in parts) if open_ended or mps else None,
    )


SCHEME = Scheme(
    name="dra",
    resources=(),  # a container's reader leaves out a resource that a claim stands for
    annotations=(),
    index_basis=IndexBasis.UUID,
    read=each_container(read),
    affects_others=has_claims,
    amounts=(Evidence.CLAIM,),
    placement=(Evidence.CLAIM,),
)
