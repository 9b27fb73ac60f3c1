"""HAMi, and its predecessor, 4paradigm's vGPU scheduler.

Names are as HAMi ships them, or yours (``--allocations.hami``). Other vendors' lists are read too,
with cores for Hygon only. A pod that asks for ``nvidia.com/gpu`` alone belongs to HAMi if HAMi's
plugin has registered the node's cards or the kubelet has granted HAMi's ids. If these name other
cards than the annotation, the limit is where the annotation places it. ``nvidia.com/vgpu-mode`` is
the policy, ``unenforced`` with ``CUDA_DISABLE_CONTROL``.

Unconfirmed: which old versions left out segments; the encoding of ``4pd.io/vgpu-ids``; that other
vendors' ids are their drivers' UUIDs; the mode of a pod that does not state one.

Sources: HAMi's ``docs/develop/protocol.md``, ``pkg/device/devices.go`` and ``docs/dynamic-mig``.
The module ``vgpu`` reads the lists of devices. ``hami.io/vgpu-devices-allocated`` is the permanent
record. ``vgpu-devices-to-allocate`` is erased while devices are assigned, so it is not read.

Since v2.9.0 (commit 0658b5c8) there are segments for the init containers and then the containers,
before that for the containers alone. Some versions leave out empty segments: old ones, and since
commit 9e75c87f (v2.10) all whose cards have a model's name (``pkg/scheduler/score.go`` files empty
ones under it). The number of segments shows which, and which of them are empty. If neither fits the
containers that ask, their order does (v2.10 files a card under an init container that asks for
none: HAMi#2899, #3079), else the allocation is the pod's, without a container, unless only one
container can have it. A segment
counts only for a container whose limits hold HAMi's resources (``evidence``).

The kubelet chooses HAMi's ids (``<uuid>-<n>``) as it likes, and the plugin gives the annotation's
cards. With ``enableGetPreferredAllocation`` it gives those of the ids, without writing them back
(``pkg/device-plugin/nvidiadevice/nvinternal/plugin/server.go``). Nothing on the node shows which.
So an id that contradicts the annotation is counted only when the container is seen on the granted
card, and not on the annotation's.

Other vendors' lists have the same encoding, under ``hami.io/<word>-devices-allocated`` (Kunlun's
whole cards: ``hami.io/kunlun-allocated``). Words for most vendors stand in HAMi's device
configuration (``charts/hami/templates/scheduler/device-configmap.yaml``) and can be changed there.
The shipped words are read, and any that begins as a model of Ascend or Iluvatar does, if a
container's limits hold a resource of the vendor: of AMD's, ``gpumem`` or ``gpucores``, or HAMi has
registered AMD's cards on the node. AMD's cores are compute units.
"""

import re
from collections.abc import Collection
from functools import partial
from itertools import accumulate, repeat

from exporter.agent.allocations.devicenames import device_by_uuid, instances
from exporter.agent.allocations.reader import PodReader, app_containers
from exporter.agent.allocations.registered import AMD_REGISTERS, HAMI_REGISTERS, is_registered
from exporter.agent.allocations.scheme import Scheme
from exporter.agent.allocations.schemes.vgpu import (
    MAX_SEGMENTS,
    ResourceNames,
    Terms,
    by_limits,
    by_lists,
    read_instances,
    read_mode,
)
from exporter.agent.allocations.terms import Evidence, IndexBasis, Reason
from exporter.agent.allocations.trust import asks_for
from exporter.model import Allocation, Container, NodeFacts, Pod

NAMES = ResourceNames(
    count="nvidia.com/gpu",
    memory="nvidia.com/gpumem",
    memory_percentage="nvidia.com/gpumem-percentage",
    core="nvidia.com/gpucores",
    priority="nvidia.com/priority",
)
_ALLOCATED = ("hami.io/vgpu-devices-allocated", "4pd.io/vgpu-ids-new", "4pd.io/vgpu-ids")
_AMD = ResourceNames("amd.com/gpu", "amd.com/gpumem", "", "amd.com/gpucores")
_DCU = ResourceNames("hygon.com/", "hygon.com/dcumem", "", "hygon.com/dcucores")
_CARD_OF_ID = re.compile(r"-\d{1,4}$", re.ASCII)  # GPU-<uuid>-<n>
_OWN_NAMES = {"amd": _AMD, "dcu": _DCU}
_LIST = re.compile(r"hami\.io/(?P<word>[A-Za-z0-9._-]{1,63}?)-(?:devices-)?allocated", re.ASCII)
_DOMAINS = {  # by the word in the annotation; its configuration may have others
    "mthreads-vgpu": "mthreads.com/",
    "cambricon-mlu": "cambricon.com/",
    "metax-gpu": "metax-tech.com/",
    "metax-sgpu": "metax-tech.com/",
    "xpu": "kunlunxin.com/",
    "kunlun": "kunlunxin.com/",
    "enflame-vgpu": "enflame.com/",
    "enflame-gcu": "enflame.com/",
    "aws-neuron": "aws.amazon.com/",
    "Biren": "birentech.com/",
    "Vastai": "vastaitech.com/",
    **dict.fromkeys(("MR-V100", "MR-V50", "BI-V150", "BI-V100"), "iluvatar.ai/"),
    **dict.fromkeys(("Ascend910A", "Ascend910B2", "Ascend910B3"), "huawei.com/"),
    **dict.fromkeys(("Ascend910B4", "Ascend910B4-1", "Ascend310P", "Ascend910C"), "huawei.com/"),
}
OTHER_RESOURCES = frozenset((*_AMD.all, *_DCU.all, *_DOMAINS.values()))
"""What containers ask for beside NVIDIA's cards: resources, and beginnings of resources."""

_OTHER_LISTS = (
    *(
        f"hami.io/{word}-devices-allocated"
        for word in ("amd", "dcu", *_DOMAINS)
        if word != "kunlun"
    ),
    "hami.io/kunlun-allocated",
)
_MORE_LISTS = tuple(f"hami.io/{begin}" for begin in ("Ascend", "MR-", "BI-"))  # newer models
_MAX_LISTS = 32
_INSTANCES = "hami.io/vgpu-mig-allocations"
_MODE = "nvidia.com/vgpu-mode"
_COUNT_OF_AMD = "amd.com/gpu"  # AMD's own plugin has it too; a pod of HAMi's is not AMD's


def read(reader: PodReader, names: ResourceNames = NAMES) -> list[Allocation]:
    """Return the allocations of each container, one per device."""
    pod, node = reader.pod, reader.node
    allocations = _of_nvidia(reader, names)
    lists = sorted(key for key in pod.annotations if _LIST.fullmatch(key) and key not in _ALLOCATED)
    asked = {name.partition("/")[0] + "/" for each in pod.containers for name in each.limits}
    for key in lists[:_MAX_LISTS]:
        own = _other_names(key, asked)
        if not _asks_for_others(reader, own):
            reader.reject(Reason.NOT_REQUESTED, f"{key} without a limit on {own.count}")
        elif encoded := reader.annotation(key):
            allocations += _by_annotation(reader, encoded, Terms(own, key, percent=own is _DCU))
    # A container has a device once. A second entry of it is one too many of the annotation.
    once: dict[object, Allocation] = {}
    for place, allocation in enumerate(allocations):
        known = allocation.container and allocation.device
        device = (allocation.container, allocation.device) if known else place
        if device in once:
            reader.reject(Reason.DUPLICATE_DEVICE, str(allocation.device))
        once.setdefault(device, allocation)
    found = list(once.values())
    placed: dict[str, set[str]] = {}
    for allocation in found:
        if allocation.device:
            placed.setdefault(allocation.container, set()).add(allocation.device)
    for container in reader.lasting:
        # A tenant may write the annotation, but not the kubelet's grants. Where the grants name
        # other cards, the annotation is suspect.
        named = placed.get(container.name)
        if named and named.isdisjoint(part.uuid for part in instances(node)):
            granted = map(_CARD_OF_ID.sub, repeat(""), reader.granted(container, names.count))
            cards = {d.uuid for each in granted if (d := device_by_uuid(node, each))}
            reader.suspect(container.name, named, cards)
    return found


def _other_names(key: str, asked: Collection[str]) -> ResourceNames:
    """Return the resources of another vendor's list. Of most vendors only their domain is known.

    Their amounts have units of their own, so the limits only show that devices were asked for:
    ``asked`` are the domains of these.
    """
    match = _LIST.fullmatch(key)
    word = match["word"] if match else ""
    if word in _OWN_NAMES:
        return _OWN_NAMES[word]
    domains = [_DOMAINS[word]] if word in _DOMAINS else {*_DOMAINS.values()}
    found = [domain for domain in sorted(domains) if domain in asked]
    return ResourceNames((found or sorted(domains))[0], "", "", "")


def _asks_for_others(reader: PodReader, names: ResourceNames) -> bool:
    """Whether a pod may have devices of another vendor's from HAMi."""
    # AMD's own plugin has the same resource that counts cards. A pod with that alone has them from
    # HAMi only where HAMi has registered AMD's cards.
    containers = reader.pod.containers
    if names is _AMD and not _may_be_registered(reader.node, AMD_REGISTERS):
        return any(map(names.share, containers))
    return any(asks_for(each, names.asking) for each in containers)


def _of_nvidia(reader: PodReader, names: ResourceNames) -> list[Allocation]:
    key = next((key for key in _ALLOCATED if reader.pod.annotations.get(key)), "")
    if not key and not any(map(names.states_share, reader.pod.containers)):
        return []
    if not _is_at_work(reader, names):
        reader.reject(
            Reason.UNPROVEN, f"{key or names.count}, but HAMi's plugin is not on this node"
        )
        return []
    encoded = reader.annotation(key)
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


def _is_at_work(reader: PodReader, names: ResourceNames) -> bool:
    """Whether HAMi serves the pod, by the kubelet's grants and the node's annotations.

    HAMi's ids are not ids of devices.
    """
    # NVIDIA's plugin has the same resource, and a tenant may write HAMi's annotation. Ids that are
    # UUIDs of devices were granted by that plugin.
    granted = [i for c in reader.lasting for i in reader.granted(c, names.count)]
    if granted:
        return not any(device_by_uuid(reader.node, each) for each in granted)
    if names.count != NAMES.count or any(map(names.share, reader.pod.containers)):
        return True
    return _may_be_registered(reader.node, HAMI_REGISTERS)


def _may_be_registered(node: NodeFacts, keys: tuple[str, ...]) -> bool:
    """Whether HAMi has registered cards on the node. While nothing is known of it, it may have."""
    unknown = not (node.labels or node.annotations or node.allocatable)
    return unknown or is_registered(node, keys)


def _by_annotation(reader: PodReader, encoded: str, terms: Terms) -> list[Allocation]:
    listed = encoded.removesuffix(";").split(";", MAX_SEGMENTS)
    # Some versions write a slot without a device as ``,,0,0:``.
    segments = [segment if segment.strip(",0:") else "" for segment in listed]
    owners = _owners(reader.pod, terms.names.asking, segments)
    if owners is not None:
        return by_lists(reader, owners, segments, terms)
    reader.reject(Reason.CONTAINER_MISMATCH, f"{len(segments)} segments: {encoded}")
    requesting = tuple(a for a in reader.apps if asks_for(a, terms.names.asking))
    if len(requesting) == 1:
        return by_lists(reader, requesting * len(segments), segments, terms)
    return _by_limits(reader, terms)


def _by_limits(reader: PodReader, terms: Terms) -> list[Allocation]:
    owners = reader.lasting
    return [found for owner in owners for found in by_limits(reader, owner, terms)]


def _owners(pod: Pod, asking: tuple[str, ...], segments: list[str]) -> tuple[Container, ...] | None:
    """Return the containers of the segments; None if their number matches no known rule.

    If it matches several, the segments that are empty show which: those of containers without vGPU.
    A device in the segment of a container without vGPU is misplaced: versions that shift segments
    keep their order, so those with devices are of the containers that ask, if they are as many.
    """
    apps = app_containers(pod)
    every = tuple(c for c in pod.containers if c.kind in {"init", "sidecar"}) + apps
    requesting = tuple(container for container in every if asks_for(container, asking))
    of_apps = tuple(each for each in requesting if each.kind == "app")
    rules = (every, apps, requesting, of_apps)
    matching = [owners for owners in rules if len(owners) == len(segments)]
    # HAMi's versions have segments for all containers, the app's, those with a vGPU, or the app's
    # among these. Their number alone may fit several rules.
    filled = [bool(segment) for segment in segments]
    for owners in matching:
        if [asks_for(owner, asking) for owner in owners] == filled:
            return owners
    found = matching[0] if matching else ()
    if any(full and owner not in requesting for full, owner in zip(filled, found, strict=False)):
        for owners in (requesting, of_apps):
            if owners and len(owners) == sum(filled):
                places = list(accumulate(filled))  # how many have devices, up to each
                return tuple(owners[max(place, 1) - 1] for place in places)
    return found or None


def scheme(names: ResourceNames = NAMES) -> Scheme:
    """Return HAMi's scheme with these resource names."""
    return Scheme(
        name="hami",
        resources=(*names.all, _COUNT_OF_AMD),
        annotations=(*_ALLOCATED, *_OTHER_LISTS, *_MORE_LISTS, _INSTANCES, _MODE),
        index_basis=IndexBasis.UUID,
        read=partial(read, names=names),
        amounts=(Evidence.LIMITS, Evidence.ANNOTATION),
    )


SCHEME = scheme()
