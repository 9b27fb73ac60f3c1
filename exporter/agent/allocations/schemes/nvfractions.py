"""NVIDIA's memory limits of cgroups (R615, MPS v3), as KAI's NvFractions ask for them.

A pod's annotations ask for memory of a GPU for each container: the request is kept for it, the
limit is the most that it may have, and the allocation here. One fills in the other. Core is the
portion that KAI writes, if it does. What the driver enforces is read from the driver, and has
priority.

Users may write these annotations. They count on a node that `fractiond` has labelled, for a
container that asks for no `nvidia.com/` resource.

Unconfirmed: whether pods of several GPUs have the amount on each of them (assumed).

Sources: ``fractioning-manager/fractiond/internal/annotations/annotations.go``, ``plugin.go`` and
``pkg/driverinfo`` (the node's label) of kai-scheduler/kai-gpu-fractioning; KAI-Scheduler's
``docs/gpu-sharing/nv-fraction`` and ``pkg/binder/plugins/nvfractions``. Quantities are Kubernetes',
rounded up to MiB, of at least 1 MiB. KAI writes the devices: UUIDs, the plugin's CDI devices, or
NVML's indices. In this mode its binder adds the amount to pods that ask for ``gpu-fraction`` too:
such a pod is read here alone. The binder alone may write ``gpu-compute.portion``, a part of one
GPU; ``fractiond`` makes MPS's active threads of it, in both compute modes (KAI-Scheduler#2368,
gpu-fractioning#147).

``environment_limit`` is what ``cmd/nvidia-cdi-hook/apply-cuda-memory-limits`` of
nvidia-container-toolkit sets: it reads whole MiB from two variables, does nothing without both, and
fails where the request is above the limit. ``fractiond`` replaces both.
"""

import re
from dataclasses import replace

from exporter.agent.allocations.quantities import parse_natural, parse_quantity
from exporter.agent.allocations.reader import PodReader, Share, each_container, lasting_containers
from exporter.agent.allocations.scheme import Scheme
from exporter.agent.allocations.terms import MPS, Evidence, IndexBasis, Reason
from exporter.agent.allocations.trust import asks_for
from exporter.model import (
    MEMORY_LIMIT,
    MEMORY_REQUEST,
    MIB,
    Allocation,
    Container,
    Device,
    NodeFacts,
    Pod,
)

_PREFIX = "nvidia.com/container."
_REQUEST, _LIMIT, _DEVICES = "gpu-memory.request", "gpu-memory.limit", "gpus.devices"
_MODE, _PORTION = "gpu-compute.mode", "gpu-compute.portion"
_DOMAIN = "nvidia.com/"
_LABEL = "gpu-fractioning.kai.scheduler/nvidia-driver-version.major"  # of a node
_WHOLE = re.compile(r"\d{1,12}", re.ASCII)  # MiB, as Go's ParseUint reads them
ENDS = frozenset({_REQUEST, _LIMIT, _DEVICES, _MODE, _PORTION})
"""What stands behind the container's name in a key."""


def read(reader: PodReader, container: Container) -> list[Allocation]:
    """Return the allocations of a container, one per device."""
    if not states_amounts(reader.pod, container) or asks_for(container, (_DOMAIN,)):
        return []
    if not _is_at_work(reader.node):
        reader.reject(Reason.UNPROVEN, f"{_PREFIX}, but fractiond has not labelled this node")
        return []
    request, limit = (_memory(reader, container, end) for end in (_REQUEST, _LIMIT))
    if request is None and limit is None:
        return []
    if request and limit and request > limit:
        reader.reject(Reason.LIMITS_DIFFER, f"{container.name}: {_REQUEST} above {_LIMIT}")
    devices = _devices(reader, container)
    if not devices:
        return []
    portion = reader.share(f"{_PREFIX}{container.name}.{_PORTION}")
    policy = "" if portion is None else MPS
    made = reader.allocate(container, devices, Share(portion, limit or request, policy))
    # A container may use up to its limit. No more is kept from others than its request.
    less = request if request and limit and request < limit else None
    return [replace(one, kept_bytes=less) for one in made]


def serves(pod: Pod, node: NodeFacts) -> bool:
    """Whether a container of this pod has memory by these annotations."""
    return _is_at_work(node) and any(states_amounts(pod, one) for one in lasting_containers(pod))


def _is_at_work(node: NodeFacts) -> bool:
    """Whether ``fractiond`` runs on the node. While nothing is known of the node, it may."""
    return _LABEL in node.labels or not (node.labels or node.annotations or node.allocatable)


def environment_limit(reader: PodReader, container: Container, card: int | None) -> int | None:
    """Return the most memory of each device by a container's environment, in bytes.

    ``card`` is the memory of the device, if that is known. None without both variables.
    """
    texts = [container.environment.get(name) for name in (MEMORY_REQUEST, MEMORY_LIMIT)]
    if None in texts:
        return None
    request, limit = (int(text) if text and _WHOLE.fullmatch(text) else None for text in texts)
    if request is None or limit is None or request > limit:
        detail = f"{container.name}: {MEMORY_REQUEST}={texts[0]}, {MEMORY_LIMIT}={texts[1]}"
        reader.reject(Reason.BAD_QUANTITY, detail)
        return None
    if card is not None and limit * MIB > card:
        reader.reject(Reason.MEMORY_OUT_OF_RANGE, f"{container.name}: {MEMORY_LIMIT}={limit}")
        return None
    return reader.memory(limit, MIB)


def states_amounts(pod: Pod, container: Container) -> bool:
    """Whether an annotation asks for memory for a container of this pod."""
    return any(f"{_PREFIX}{container.name}.{end}" in pod.annotations for end in (_REQUEST, _LIMIT))


def _memory(reader: PodReader, container: Container, end: str) -> int | None:
    """Return an amount in bytes of whole MiB; None without one."""
    text = reader.annotation(f"{_PREFIX}{container.name}.{end}")
    if not text:
        return None
    amount = parse_quantity(text)
    if amount is None or amount < MIB:
        reader.reject(Reason.BAD_QUANTITY, f"{container.name}: {end}={text[:50]}")
        return None
    return reader.memory(-(-amount // MIB), MIB)


def _devices(reader: PodReader, container: Container) -> tuple[Device | None, ...]:
    """Return the devices that KAI has chosen, none if they cannot be so many.

    Until it has, that is one that is not known.
    """
    text = reader.annotation(f"{_PREFIX}{container.name}.{_DEVICES}")
    named = [part.strip() for part in text.split(",") if part.strip()]
    if not reader.allows(container, len(named)):
        return ()
    found: list[Device | None] = []
    for one in named:
        name = one.rpartition("=")[2]  # without the kind of a CDI device
        number = parse_natural(name)
        found.append(reader.device(name) if number is None else reader.card(number))
    known = [device.uuid for device in found if device is not None]
    if len(set(known)) < len(known):
        reader.reject(Reason.DUPLICATE_DEVICE, text)
        return (None,)
    return tuple(found) or (None,)


SCHEME = Scheme(
    name="nvfractions",
    resources=(),
    annotations=(_PREFIX,),
    index_basis=IndexBasis.NVML_INDEX,
    read=each_container(read),
    amounts=(Evidence.ANNOTATION,),
    enforcement="",
)
