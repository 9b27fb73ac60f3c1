"""vgpu-manager (coldzerofear): parts of NVIDIA cards, by its own scheduler and device plugin.

Cores are per cent of one card; 100 have no limit. A container that asks for neither cores nor
memory has a whole card. ``nvidia.com/vgpu-compute-policy`` of the pod, else of the node, is the
policy: fixed, balance (idle cores are lent) or none (cores are not enforced).

Unconfirmed: another domain than ``nvidia.com`` (its ``--domain``), which is not read.

Sources: coldzerofear/vgpu-manager's ``pkg/util/consts.go`` (names), ``pkg/device/types.go``
(``PodDeviceClaim``, ``GetPodDeviceClaim``), ``pkg/device/allocator/allocator.go`` and
``pkg/config/vgpu/vgpu_config.go`` (what its library enforces). The annotation
``nvidia.com/pre-allocated`` is the scheduler's, ``nvidia.com/real-allocated`` the device plugin's:
``<container>[<number>_<uuid>_<cores>_<MiB>,...];<container>[...]``. The second counts as soon as it
lists as many containers as the first. A list counts only for a container whose limits hold these
resources (``evidence``). ``nvidia.com/vgpu-memory`` of the limits is in units of the node's memory
factor, which stands in the node's annotation ``nvidia.com/node-config-info``; the lists have MiB.

The kubelet's ids are ``<uuid>::<n>``, as those of a replica of NVIDIA's plugin, and the kubelet
chooses them freely: they name a card, and not the one that the container gets.
"""

import json
import re
from collections.abc import Sequence
from typing import NamedTuple

from exporter.agent.allocations.quantities import natural_of, parse_natural
from exporter.agent.allocations.reader import PodReader, Share
from exporter.agent.allocations.scheme import Scheme
from exporter.agent.allocations.terms import Evidence, IndexBasis, Reason
from exporter.agent.allocations.trust import agreed, asks_for, is_backed
from exporter.model import MIB, Allocation, Container
from exporter.model.policies import policies

_NUMBER = "nvidia.com/vgpu-number"
_CORES = "nvidia.com/vgpu-cores"
_MEMORY = "nvidia.com/vgpu-memory"
_RESOURCES = (_NUMBER, _CORES, _MEMORY)
_PLANNED, _ALLOCATED = "nvidia.com/pre-allocated", "nvidia.com/real-allocated"
_POLICY = "nvidia.com/vgpu-compute-policy"
_NODE = "nvidia.com/node-config-info"
NODE_ANNOTATIONS = (_NODE, _POLICY)
_POLICIES = policies("fixed", "balance", "none")
_OWNER = re.compile(r"([^\[\];,]{1,253})\[([^\[\]]*)\]")
_MAX_OWNERS = 512
_CLAIM_FIELDS = 4
_WHOLE = 100


class _Claim(NamedTuple):
    uuid: str
    cores: int
    memory: int  # MiB


def read(reader: PodReader) -> list[Allocation]:
    """Return the allocations of each container, one per card."""
    every = reader.pod.containers
    users = [c for c in reader.lasting if asks_for(c, _RESOURCES)]
    # The device plugin writes what it gave, the scheduler what it planned. The plan counts for
    # containers that have been given nothing yet.
    real, planned = _list(reader, _ALLOCATED), _list(reader, _PLANNED)
    lists = real if len(real) >= len(planned) else {**planned, **real}
    if lists and not any(asks_for(c, _RESOURCES) for c in every):
        reader.reject(Reason.NOT_REQUESTED, f"{_ALLOCATED} without a limit on {_NUMBER}")
    if not users:
        return []
    strangers = lists.keys() - {container.name for container in every}
    if strangers:
        reader.reject(Reason.CONTAINER_MISMATCH, ", ".join(sorted(strangers)))
    stated = reader.annotation(_POLICY) or reader.node.annotations.get(_POLICY, "")
    policy = reader.one_of(_POLICIES, stated.lower()) or "fixed"
    return [
        allocation
        for user in users
        for allocation in _allocations(reader, user, lists.get(user.name, ()), policy)
    ]


def _list(reader: PodReader, key: str) -> dict[str, tuple[_Claim, ...]]:
    parts = reader.annotation(key).replace(" ", "").split(";", _MAX_OWNERS)
    found: dict[str, tuple[_Claim, ...]] = {}
    for part in filter(None, parts):
        owner = _OWNER.fullmatch(part)
        claims: list[_Claim | None] = []
        for text in owner[2].split(",") if owner else ():
            fields = text.split("_")
            if text and len(fields) == _CLAIM_FIELDS:
                cores, memory = parse_natural(fields[2]), parse_natural(fields[3])
                is_known = cores is not None and memory is not None
                claims.append(_Claim(fields[1], cores or 0, memory or 0) if is_known else None)
            elif text:
                claims.append(None)
        if owner is None or None in claims or owner[1] in found:
            reader.reject(Reason.BAD_ANNOTATION, f"{key}: {part}")
        else:
            found[owner[1]] = tuple(claim for claim in claims if claim)
    return found


def _allocations(
    reader: PodReader, user: Container, claims: Sequence[_Claim], policy: str
) -> list[Allocation]:
    count = reader.quantity(user, _NUMBER)
    if not count or not reader.allows(user, count) or not reader.allows(user, len(claims)):
        return []
    # Of one card; core is 0 if the limits ask for none.
    cores, memory = reader.quantity(user, _CORES), reader.quantity(user, _MEMORY)
    core = (reader.core(cores) if cores else None) or 0.0
    # The unit of memory is what the node's own plugin says it is, else MiB.
    try:
        config = json.loads(reader.node.annotations.get(_NODE, "{}"))
    except (ValueError, RecursionError):
        config = {}
    stated = config.get("memoryFactor") if isinstance(config, dict) else None
    asked = Share(core, reader.memory(memory, (natural_of(stated) or 1) * MIB))
    all_memory = memory is None
    whole = all_memory and not asked.core
    uuids = [claim.uuid for claim in claims]
    if claims and len(claims) != count:
        reader.reject(Reason.PLACEMENT_MISMATCH, f"{user.name}: {len(claims)} of {count} cards")
    elif len(set(uuids)) < len(uuids):
        reader.reject(Reason.DUPLICATE_DEVICE, ", ".join(uuids))
    elif claims and is_backed(reader, user, _RESOURCES, _ALLOCATED):
        # Without amounts in the limits it is a whole card, or as much as the annotation has.
        if not asked.core and asked.memory_bytes is None:
            asked = asked._replace(core=None)
        allocations: list[Allocation] = []
        for claim in claims:
            core_share, size = (
                reader.core(claim.cores or None),
                reader.memory(claim.memory or None, MIB),
            )
            share = agreed(reader, (Share(core_share, size, policy),), asked)[0]
            allocations += reader.allocate(user, (reader.device(claim.uuid),), share)
        return allocations
    share = Share(1.0 if whole else asked.core or None, asked.memory_bytes, policy)
    return reader.allocate(user, (None,) * count, share, whole=all_memory)


SCHEME = Scheme(
    name="vgpu-manager",
    resources=_RESOURCES,
    annotations=(_PLANNED, _ALLOCATED, _POLICY),
    index_basis=IndexBasis.UUID,
    read=read,
    amounts=(Evidence.LIMITS, Evidence.ANNOTATION),
)
