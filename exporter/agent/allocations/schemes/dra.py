"""Dynamic resource allocation: devices that a container has by a ResourceClaim.

Claims on devices of NVIDIA's, HAMi's, vgpu-manager's, AMD's and Intel's drivers are read, and of
any driver that publishes a card's UUID or PCI address. The only container of a claim has the cores
and memory that the claim consumes, else all of the device. Several containers of one claim have a
replica each, and nothing is promised. MPS's limits and ``shares`` of NVIDIA's driver are read.
Administrative access is not an allocation. A claim is placed on no other device than it names.

``mgpu_pod_unhealthy_devices`` counts the devices of a pod that the kubelet says are unhealthy, and
``mgpu-exporter check`` names the node's tainted devices, by their drivers and by DeviceTaintRules.

Unconfirmed: the vendors' own drivers on hardware.

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
  where a claim consumes none. A card that nobody else has a part of is all of its core. An
  instance's share of its card follows from the device once it is placed. Otherwise core is None.
* A part of a device has the policy ``shared``, and ``enforced`` where HAMi's or vgpu-manager's
  driver holds it.
* With MPS, each container that uses the claim has the limits of the claim's configuration: per cent
  of the threads, and memory (``GpuConfig``, ``api/nvidia.com/resource/v1beta1/sharing.go``). A
  limit of one device names it by UUID, or by its number among the UUIDs, in their order, of the
  devices that have this configuration.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from exporter.agent.allocations.claimed import (
    HAMI,
    MEMORY,
    PARENT,
    UUID,
    VENDORS,
    VGPU_MANAGER,
    among,
    amount_of,
    device_of,
    is_card,
    is_partition,
    matched,
    offered_of,
    published_uuid,
    texts,
)
from exporter.agent.allocations.quantities import parse_natural, parse_quantity
from exporter.agent.allocations.reader import PodReader, Share, lasting_containers
from exporter.agent.allocations.scheme import Scheme
from exporter.agent.allocations.terms import ENFORCED, MPS, SHARED, Evidence, IndexBasis, Reason
from exporter.model import (
    Allocation,
    ClaimedDevice,
    ClaimRef,
    Container,
    Device,
    Grant,
    OfferedDevice,
    Pod,
    Said,
    Tie,
)

DRIVERS = frozenset(VENDORS)
_IN_PERCENT = frozenset({HAMI, VGPU_MANAGER})  # of a card's cores, and what they promise holds
_HAMI_DEFAULT = 60  # per cent
_GPUS = ("nvidia.com/", "amd.com/gpu", "gpu.intel.com/")  # beginnings of extended resources
_CORES, _SHARES = "cores", "shares"
CAPACITIES = frozenset({MEMORY, _CORES, _SHARES})
_MPS_STRATEGY = "MPS"
_OF_DEVICE = "memory/"  # begins the name of the limit of one device
_MAX_SHARES = 10_000


class _Part(NamedTuple):
    """One container's part of one result of a claim."""

    device: Device | None
    among: tuple[Device, ...]
    memory_bytes: int | None
    kept: float | None
    shared: bool
    core: float | None = None
    replicas: int = 1
    mps: bool = False
    held: bool = False


_Place = tuple[str, ...]  # the claim, and the device's driver, pool, name and share


def ties(pod: Pod, _grants: Sequence[Grant]) -> Iterator[tuple[Tie, Said]]:
    """Return each container's claims, with the requests of which it has the devices; "": of all."""
    for container in lasting_containers(pod):
        requests: dict[str, set[str]] = {}
        for ref in container.claims:
            requests.setdefault(ref.claim, set()).add(ref.request)
        for claim, asked in requests.items():
            for request in {""} if "" in asked else asked:
                parent, slash, _ = request.partition("/")
                if not (slash and parent in asked):  # else it is counted with the whole request
                    yield (pod.namespace, claim), (request,)


def read(reader: PodReader) -> Iterator[Allocation]:
    """Return the devices of each container's claims.

    What a claim gives is the same for all of a pod's containers, so it is worked out once.
    """
    made: dict[_Place, _Part] = {}
    for container in reader.lasting:
        if container.claims:
            yield from _of_container(reader, container, made)


def _of_container(
    reader: PodReader, container: Container, made: dict[_Place, _Part]
) -> Iterator[Allocation]:
    results = _results(reader, container)
    if not reader.allows(container, len(results)):
        return
    parts: dict[str, list[_Part]] = {}  # a container may have several of one card
    for place, result in results.items():
        known = (*place, result.request)
        if known not in made:
            made[known] = _part(reader, place[0], result)
        part = made[known]
        key = part.device.uuid if part.device else f"{result.driver}/{result.pool}/{result.device}"
        parts.setdefault(key, []).append(part)
    for same in parts.values():
        device = same[0].device
        found = reader.allocate(container, (device,), _share(reader, same), among=same[0].among)
        # What the parts keep of the device's memory together. One that is not known could be any
        # size, so then the sum is not known either.
        kept = [part.kept for part in same if part.kept is not None]
        size = device.memory_bytes if device else None
        is_known = size and len(kept) == len(same)
        kept_bytes = int(min(1.0, sum(kept)) * size) if size and is_known else None
        yield from (replace(one, kept_bytes=kept_bytes) for one in found)


def _kept(reader: PodReader, claim: str, result: ClaimedDevice) -> float | None:
    """Return the part of a device that each user of a claim keeps from others, by its capacities.

    It is the largest of what the claim consumes of each; None if it consumes none of what is known.
    """
    offered = offered_of(reader, result)
    shares = []
    for name in sorted(CAPACITIES):
        used = amount_of(reader, result, result.consumed, name)
        whole = amount_of(reader, result, offered.capacity, name)
        if used and whole:
            shares.append(min(1.0, used / whole))
    return max(shares) / max(_users(reader, claim, result), 1) if shares else None


def _results(reader: PodReader, container: Container) -> dict[_Place, ClaimedDevice]:
    """Return the GPUs of a container, each once."""
    found: dict[_Place, ClaimedDevice] = {}
    for ref in container.claims:
        allocated = reader.node.claims.get((reader.pod.namespace, ref.claim))
        if allocated is None:
            reader.reject(Reason.UNKNOWN_CLAIM, f"{container.name}: {ref.claim}")
        for result in allocated or ():
            # Who has a device for administration looks on while others use it.
            taken = not result.admin_access and ref.request in _requests(result)
            if taken and _is_gpu(reader, ref, result):
                key = (ref.claim, result.driver, result.pool, result.device, result.share_id)
                found.setdefault(key, result)
    return found


def _is_gpu(reader: PodReader, ref: ClaimRef, result: ClaimedDevice) -> bool:
    """Whether a device is a GPU: by its driver, or because it is a card that is read."""
    if result.driver in VENDORS:
        return True
    offered = reader.node.offered.get((result.driver, result.pool, result.device))
    if offered is not None and matched(reader.node, result.driver, offered):
        return True
    stated = texts(result.driver, offered) if offered else {}
    like_a_gpu = not {UUID, PARENT, MEMORY, _CORES}.isdisjoint(stated)
    if like_a_gpu or ref.resource.startswith(_GPUS):
        detail = f"{result.driver}: {result.device} is no card that is read"
        reader.reject(Reason.UNKNOWN_DRIVER, detail)
    return False


def _requests(result: ClaimedDevice) -> frozenset[str]:
    """Return the requests of a claim that have a result: all, its own, and the one it is part of.

    ``<request>/<subrequest>`` is one of a request's ``firstAvailable``.
    """
    return frozenset({"", result.request.partition("/")[0], result.request})


def _part(reader: PodReader, claim: str, result: ClaimedDevice) -> _Part:
    offered = offered_of(reader, result)
    device, others = device_of(reader, result), among(reader, result)
    of_device = _kept(reader, claim, result)
    if result.sharing.get("strategy") == _MPS_STRATEGY:
        text = _memory_with_mps(reader, claim, result)
        limit, percent = parse_quantity(text), parse_natural(result.sharing.get("core", "0"))
        if limit is None or percent is None:
            reader.reject(Reason.BAD_QUANTITY, f"{result.device}: {dict(result.sharing)}")
        size, core = reader.memory(limit or None, 1), reader.core(percent or None)
        return _Part(device, others, size, of_device, shared=True, core=core, mps=True)
    # Containers that share a claim divide its device as they like: none is promised a part.
    if _users(reader, claim, result) > 1:
        return _Part(device, others, None, of_device, shared=True)
    consumable = bool(result.share_id or result.consumed)
    capacity = result.consumed if consumable else offered.capacity
    memory = reader.memory(amount_of(reader, result, capacity, MEMORY) or None, 1)
    if memory is None and not consumable and device and not is_partition(offered):
        memory = device.memory_bytes
    shares = amount_of(reader, result, result.consumed, _SHARES)
    core = _core(reader, result, offered)
    if core is None and not consumable and is_card(result, offered, device, others):
        core = 1.0  # nobody else has any of it
    return _Part(
        *(device, others, memory, of_device),
        shared=consumable,
        core=core,
        replicas=min(shares or 1, _MAX_SHARES),
        held=result.driver in _IN_PERCENT,
    )


def _core(reader: PodReader, result: ClaimedDevice, offered: OfferedDevice) -> float | None:
    """Return the share of the card's cores that a claim consumes; None if it promises none."""
    consumed = amount_of(reader, result, result.consumed, _CORES)
    if result.driver in _IN_PERCENT:
        unstated = _CORES not in result.consumed and result.driver == HAMI
        return reader.core(_HAMI_DEFAULT if unstated else consumed or None)
    whole = amount_of(reader, result, offered.capacity, _CORES)
    if not consumed or not whole:
        return None
    if consumed > whole:
        reader.reject(Reason.CORE_OUT_OF_RANGE, f"{result.device}: {consumed} of {whole} cores")
        return None
    return consumed / whole


def _memory_with_mps(reader: PodReader, claim: str, result: ClaimedDevice) -> str:
    """Return the limit of a device's memory, "0" if none is known."""
    sharing = result.sharing
    limits = {
        key.removeprefix(_OF_DEVICE): text
        for key, text in sharing.items()
        if key.startswith(_OF_DEVICE)
    }
    own = published_uuid(reader, result)
    if own in limits:
        return limits[own]
    # A limit may also be of a number. The driver numbers the devices of one configuration in the
    # order of their UUIDs, so all of them have to be known.
    numbers = {n: text for key, text in limits.items() if (n := parse_natural(key)) is not None}
    if not numbers:
        return sharing.get(MEMORY, "0")
    every = reader.node.claims.get((reader.pod.namespace, claim)) or ()
    alike = [d for d in every if (d.driver, d.sharing) == (result.driver, sharing)]
    uuids = sorted({published_uuid(reader, device) for device in alike})
    if "" in uuids:
        return "0"
    return numbers.get(uuids.index(own)) or sharing.get(MEMORY, "0")


def _users(reader: PodReader, claim: str, result: ClaimedDevice) -> int:
    """Return the number of containers that have this result of a claim, of the pod's namespace."""
    said = reader.node.ties.get((reader.pod.namespace, claim), {})
    return sum(said.get((request,), 0) for request in _requests(result))


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
        MPS if mps else held if shared else "",
        replicas=sum(part.replicas for part in parts) if open_ended or mps else None,
    )


SCHEME = Scheme(
    name="dra",
    resources=(),  # a container's reader leaves out a resource that a claim stands for
    annotations=(),
    index_basis=IndexBasis.UUID,
    read=read,
    ties=ties,
    amounts=(Evidence.CLAIM,),
    placement=(Evidence.CLAIM,),
)
