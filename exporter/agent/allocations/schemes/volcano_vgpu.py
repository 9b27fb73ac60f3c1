"""Volcano's vGPU.

Memory is in units of the device plugin's ``gpuMemoryFactor`` (MiB), known by the cards that the
plugin registers; otherwise set ``--allocations.volcano-memory-factor``.
``volcano.sh/vgpu-mode`` is the policy.

Unconfirmed: whether the factor can differ from node to node (it is read for each).

Sources: ``pkg/scheduler/api/devices/nvidia/vgpu`` (``type.go``, ``utils.go``) and
``pkg/scheduler/api/devices/util.go`` of volcano-sh/volcano. Its lists of devices have HAMi's format
and are read by ``vgpu``. Unlike HAMi's, the segments of ``volcano.sh/vgpu-ids-new`` are for those
of ``spec.containers`` that ask for ``vgpu-number`` or ``vgpu-memory``, and none is closed by ``;``.
``vgpu-memory`` is for each vGPU; without ``vgpu-number`` it means one. The mode is hami-core or
mig. ``vgpu-memory-percentage`` counts before ``vgpu-memory``. No plugin offers it, so such a pod is
scheduled only where an operator adds it to the node. The plugin (``pkg/util/util.go``,
``getOldestPod``) refuses pods with two containers that have vGPUs, and those with an init container
that has one. A container is held to the segment's memory times the factor
(Project-HAMi/volcano-vgpu-device-plugin, ``pkg/plugin/server.go``).
"""

from dataclasses import replace
from functools import partial

from exporter.agent.allocations.reader import PodReader
from exporter.agent.allocations.registered import VOLCANO_REGISTERS, memory_factor
from exporter.agent.allocations.scheme import Scheme
from exporter.agent.allocations.schemes.vgpu import (
    MAX_SEGMENTS,
    ResourceNames,
    Terms,
    by_limits,
    by_lists,
    read_mode,
)
from exporter.agent.allocations.terms import Evidence, IndexBasis, Reason
from exporter.agent.allocations.trust import asks_for
from exporter.model import MIB, Allocation

_NAMES = ResourceNames(
    count="volcano.sh/vgpu-number",
    memory="volcano.sh/vgpu-memory",
    memory_percentage="volcano.sh/vgpu-memory-percentage",
    core="volcano.sh/vgpu-cores",
)
_ALLOCATED = "volcano.sh/vgpu-ids-new"
_MODE = "volcano.sh/vgpu-mode"


def read(reader: PodReader, stated_factor: int = 0) -> list[Allocation]:
    """Return the allocations of each container, one per device."""
    asking = (_NAMES.count, _NAMES.memory)
    users = [app for app in reader.apps if asks_for(app, asking)]
    encoded = reader.annotation(_ALLOCATED)
    if encoded and not users:
        reader.reject(Reason.NOT_REQUESTED, f"{_ALLOCATED} without a limit on {_NAMES.count}")
    if not users:
        return []
    factor = memory_factor(reader.node, _NAMES.memory, VOLCANO_REGISTERS, stated_factor)
    terms = Terms(
        replace(_NAMES, memory_factor=factor),
        _ALLOCATED,
        read_mode(reader, _MODE),
        registers=VOLCANO_REGISTERS,
        unit=factor * MIB,
        percentage_first=True,
    )
    segments = encoded.split(";", MAX_SEGMENTS) if encoded else []
    if len(segments) == len(users) + 1 and not segments[-1]:
        del segments[-1]
    if segments and len(segments) != len(users):
        reader.reject(Reason.CONTAINER_MISMATCH, f"{len(segments)} segments: {encoded}")
        users *= len(segments) if len(users) == 1 else 1
    if len(segments) != len(users):
        return [found for user in users for found in by_limits(reader, user, terms)]
    return by_lists(reader, users, segments, terms)


def scheme(stated_factor: int = 0) -> Scheme:
    """Return the scheme; ``stated_factor`` is the memory factor of the settings, 0 for none."""
    return Scheme(
        name="volcano-vgpu",
        resources=_NAMES.all,
        annotations=(_ALLOCATED, _MODE),
        index_basis=IndexBasis.UUID,
        read=partial(read, stated_factor=stated_factor),
        amounts=(Evidence.LIMITS, Evidence.ANNOTATION),
    )


SCHEME = scheme()
