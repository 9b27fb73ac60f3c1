"""HAMi, and 4paradigm's vGPU scheduler that it descends from.

Stands on HAMi's ``docs/develop/protocol.md``, ``pkg/device/devices.go`` and ``docs/dynamic-mig``;
the lists of devices are read by ``vgpu``. ``hami.io/vgpu-devices-allocated`` is the permanent
record; ``vgpu-devices-to-allocate`` is erased while devices are handed out, so it is not read.

Segments stand for init containers and then containers since v2.9.0 (commit 0658b5c8), for the
containers alone before; some older versions dropped empty segments. Their number tells which; where
it does not, the allotment is the pod's, with no container unless only one can have it.

Resource names can be configured (``scheme``). A pod under others is known by its annotations, and
its amounts are theirs. ``nvidia.com/vgpu-mode`` is the policy: hami-core, mig or mps. Other
vendors' lists have the same encoding; cores are per cent for NVIDIA and Hygon only (AMD's are
compute units).

Unconfirmed: which versions dropped segments; the encoding of ``4pd.io/vgpu-ids``; that other
vendors' ids are the UUIDs that their drivers know; the mode of a pod that leaves the choice.
"""

from functools import partial

from exporter.allocations.reader import PodReader, app_containers, lasting_containers
from exporter.allocations.scheme import Decoded, IndexBasis, Reason, Scheme
from exporter.allocations.vgpu import (
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
_NO_NAMES = Names("", "", "", "")
_NAME = "hami"
_ALLOCATED = ("hami.io/vgpu-devices-allocated", "4pd.io/vgpu-ids-new", "4pd.io/vgpu-ids")
_OF_OTHER_VENDORS = tuple(
    f"hami.io/{vendor}-devices-allocated"
    for vendor in (
        *("amd", "dcu", "hcu", "mthreads-vgpu", "cambricon-mlu", "iluvatar-vgpu"),
        *("metax-gpu", "metax-sgpu", "xpu", "enflame-vgpu", "enflame-gcu"),
    )
)
_PERCENT = "hami.io/dcu-devices-allocated"
_INSTANCES = "hami.io/vgpu-mig-allocations"
_MODE = "nvidia.com/vgpu-mode"
_COUNT_OF_AMD = "amd.com/gpu"  # AMD's own plugin hands it out too: a pod of HAMi's is not its


def decode(pod: Pod, node: NodeFacts, names: Names = NAMES) -> Decoded:
    """Return what each container was allotted on each of its devices."""
    reader = PodReader(_NAME, pod, node)
    allocations = _of_nvidia(reader, names)
    for key in _OF_OTHER_VENDORS:
        if encoded := reader.annotation(key):
            terms = Terms(_NO_NAMES, percent=key == _PERCENT)
            allocations += _by_annotation(reader, encoded, terms)
    return reader.decoded(_once(reader, allocations))


def _of_nvidia(reader: PodReader, names: Names) -> list[Allocation]:
    encoded = next((text for key in _ALLOCATED if (text := reader.annotation(key))), "")
    asks = any(not names.shares.isdisjoint(c.limits) for c in reader.pod.containers)
    if not (encoded or asks):
        return []
    terms = Terms(names, read_mode(reader, _MODE), instances=read_instances(reader, _INSTANCES))
    if encoded:
        return _by_annotation(reader, encoded, terms)
    owners = lasting_containers(reader.pod)
    return [found for owner in owners for found in by_limits(reader, owner, terms)]


def _by_annotation(reader: PodReader, encoded: str, terms: Terms) -> list[Allocation]:
    segments = encoded.removesuffix(";").split(";", MAX_SEGMENTS)
    apps = app_containers(reader.pod)
    requesting = tuple(app for app in apps if not app.limits.keys().isdisjoint(terms.names.all))
    owners = _owners(reader.pod, requesting, len(segments))
    if owners is None:
        reader.reject(Reason.CONTAINER_MISMATCH, f"{len(segments)} segments: {encoded}")
        owners = (reader.owner(requesting),) * len(segments)
    return by_lists(reader, owners, segments, terms)


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
    )


SCHEME = scheme()
