"""HAMi, and 4paradigm's vGPU scheduler that it descends from.

Stands on HAMi's ``docs/develop/protocol.md``, ``pkg/device/devices.go`` and ``docs/dynamic-mig``;
the lists of devices are read by ``vgpu``. ``hami.io/vgpu-devices-allocated`` is the permanent
record; ``vgpu-devices-to-allocate`` is erased while devices are handed out, so it is not read.

Segments stand for init containers and then containers since v2.9.0 (commit 0658b5c8), for the
containers alone before; some older versions dropped empty segments. Their number tells which; where
it does not, the allotment is the pod's, with no container unless only one can have it.

A segment counts only for a container whose limits hold HAMi's resources (``evidence``). Their names
can be configured (``scheme``); a pod under others than those that are set has no allotment. Limits
of ``nvidia.com/gpu`` alone state no amounts, and other plugins hand it out too: the annotation is
believed if HAMi's plugin has registered the node's cards, or the kubelet has granted its ids.
``nvidia.com/vgpu-mode`` is the policy: hami-core, mig or mps. Other vendors' lists have the same
encoding; cores are per cent for NVIDIA and Hygon only (AMD's are compute units).

Unconfirmed: which versions dropped segments; the encoding of ``4pd.io/vgpu-ids``; that other
vendors' ids are the UUIDs that their drivers know; the mode of a pod that leaves the choice.
"""

from functools import partial

from exporter.allocations.devices import device_by_uuid
from exporter.allocations.evidence import asks_for
from exporter.allocations.reader import PodReader, app_containers, lasting_containers
from exporter.allocations.registered import HAMI_REGISTERS, is_registered
from exporter.allocations.scheme import Decoded, Evidence, IndexBasis, Reason, Scheme
from exporter.allocations.schemes.vgpu import (
    MAX_SEGMENTS,
    Names,
    Terms,
    by_limits,
    by_lists,
    read_instances,
    read_mode,
)
from exporter.model import Allocation, Container, NodeFacts, Pod

NAMES = Names(
    count="nvidia.com/gpu",
    memory="nvidia.com/gpumem",
    memory_percentage="nvidia.com/gpumem-percentage",
    core="nvidia.com/gpucores",
    priority="nvidia.com/priority",
)
_NAME = "hami"
_ALLOCATED = ("hami.io/vgpu-devices-allocated", "4pd.io/vgpu-ids-new", "4pd.io/vgpu-ids")
_AMD = Names("amd.com/gpu", "amd.com/gpumem", "", "amd.com/gpucores")
_DCU = Names("hygon.com/", "hygon.com/dcumem", "", "hygon.com/dcucores")
_HCU = Names("hygon.com/", "hygon.com/hcumem", "", "hygon.com/hcucores")
_OTHER_VENDORS = {"amd": _AMD, "dcu": _DCU, "hcu": _HCU} | {
    list_name: Names(f"{domain}/", "", "", "")  # in units of their own: only the request is checked
    for list_name, domain in {
        "mthreads-vgpu": "mthreads.com",
        "cambricon-mlu": "cambricon.com",
        "iluvatar-vgpu": "iluvatar.ai",
        "metax-gpu": "metax-tech.com",
        "metax-sgpu": "metax-tech.com",
        "xpu": "kunlunxin.com",
        "enflame-vgpu": "enflame.com",
        "enflame-gcu": "enflame.com",
    }.items()
}
_OF_OTHER_VENDORS = {f"hami.io/{n}-devices-allocated": own for n, own in _OTHER_VENDORS.items()}
_PERCENT = frozenset({f"hami.io/{name}-devices-allocated" for name in ("dcu", "hcu")})
_INSTANCES = "hami.io/vgpu-mig-allocations"
_MODE = "nvidia.com/vgpu-mode"
_COUNT_OF_AMD = "amd.com/gpu"  # AMD's own plugin hands it out too: a pod of HAMi's is not its


def decode(pod: Pod, node: NodeFacts, names: Names = NAMES) -> Decoded:
    """Return what each container was allotted on each of its devices."""
    reader = PodReader(_NAME, pod, node)
    allocations = _of_nvidia(reader, names)
    for key, own in _OF_OTHER_VENDORS.items():
        if encoded := reader.annotation(key):
            terms = Terms(own, key, percent=key in _PERCENT)
            allocations += _by_annotation(reader, encoded, terms)
    return reader.decoded(_once(reader, allocations))


def _of_nvidia(reader: PodReader, names: Names) -> list[Allocation]:
    key = next((key for key in _ALLOCATED if reader.pod.annotations.get(key)), "")
    asks = any(not names.shares.isdisjoint(c.limits) for c in reader.pod.containers)
    if not (key or asks):
        return []
    if not asks and not _is_at_work(reader, names):
        reader.reject(Reason.UNPROVEN, f"{key}, but HAMi's plugin is not on this node")
        return []
    encoded = reader.annotation(key)
    if not (encoded or asks):
        return []
    terms = Terms(
        names,
        key,
        read_mode(reader, _MODE),
        instances=read_instances(reader, _INSTANCES),
        registers=HAMI_REGISTERS,
    )
    if encoded:
        return _by_annotation(reader, encoded, terms)
    return _by_limits(reader, terms)


def _is_at_work(reader: PodReader, names: Names) -> bool:
    """Whether HAMi serves the pod, by what the kubelet and the node say.

    HAMi's ids are no devices'. While nothing is known of the node, it may be HAMi's.
    """
    node = reader.node
    granted = [i for c in lasting_containers(reader.pod) for i in reader.granted(c, names.count)]
    if granted:
        return not any(device_by_uuid(node, each) for each in granted)
    unknown = not (node.labels or node.annotations or node.allocatable)
    return unknown or names.count != NAMES.count or is_registered(node, HAMI_REGISTERS)


def _by_annotation(reader: PodReader, encoded: str, terms: Terms) -> list[Allocation]:
    segments = encoded.removesuffix(";").split(";", MAX_SEGMENTS)
    apps = app_containers(reader.pod)
    requesting = tuple(app for app in apps if asks_for(app, terms.names.asking))
    owners = _owners(reader.pod, requesting, len(segments))
    if owners is not None:
        return by_lists(reader, owners, segments, terms)
    reader.reject(Reason.CONTAINER_MISMATCH, f"{len(segments)} segments: {encoded}")
    if len(requesting) == 1:
        return by_lists(reader, requesting * len(segments), segments, terms)
    return _by_limits(reader, terms)


def _by_limits(reader: PodReader, terms: Terms) -> list[Allocation]:
    owners = lasting_containers(reader.pod)
    return [found for owner in owners for found in by_limits(reader, owner, terms)]


def _owners(
    pod: Pod, requesting: tuple[Container, ...], segments: int
) -> tuple[Container, ...] | None:
    """Return the containers that so many segments stand for."""
    apps = app_containers(pod)
    before = tuple(c for c in pod.containers if c.kind in {"init", "sidecar"})
    return next((o for o in (before + apps, apps, requesting) if len(o) == segments), None)


def _once(reader: PodReader, allocations: list[Allocation]) -> list[Allocation]:
    """Return the allocations without a device that a container has from two vendors' lists."""
    found: dict[object, Allocation] = {}
    for place, allocation in enumerate(allocations):
        told = allocation.container and allocation.device
        key = (allocation.container, allocation.device) if told else place
        if key in found:
            reader.reject(Reason.DUPLICATE_DEVICE, str(allocation.device))
        found.setdefault(key, allocation)
    return list(found.values())


def scheme(names: Names = NAMES) -> Scheme:
    """Return HAMi under other resource names than its own."""
    return Scheme(
        name=_NAME,
        resources=(*names.all, _COUNT_OF_AMD),
        annotations=(*_ALLOCATED, *_OF_OTHER_VENDORS, _INSTANCES, _MODE),
        index_basis=IndexBasis.UUID,
        decode=partial(decode, names=names),
        amounts=(Evidence.LIMITS, Evidence.ANNOTATION),
    )


SCHEME = scheme()
