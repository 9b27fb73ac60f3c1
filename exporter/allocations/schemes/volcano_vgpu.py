"""Volcano's vGPU.

Sources: ``pkg/scheduler/api/devices/nvidia/vgpu`` (``type.go``, ``utils.go``) and
``pkg/scheduler/api/devices/util.go`` of volcano-sh/volcano. Its lists of devices have HAMi's format
and are read by ``vgpu``. Unlike HAMi's, the segments of ``volcano.sh/vgpu-ids-new`` are for those
of ``spec.containers`` that ask for ``vgpu-number`` or ``vgpu-memory``, and none is closed by ``;``.
``vgpu-memory`` is MiB for each vGPU; without ``vgpu-number`` it means one. ``volcano.sh/vgpu-mode``
is the policy: hami-core or mig. A segment counts only for a container whose limits hold these
resources (``evidence``); limits and segments have the same units.

Unconfirmed: the memory factor of the scheduler's configuration (assumed 1 if only the limits are
known; segments have MiB).
"""

from exporter.allocations.reader import PodReader, app_containers
from exporter.allocations.registered import VOLCANO_REGISTERS
from exporter.allocations.scheme import Decoded, Evidence, IndexBasis, Reason, Scheme
from exporter.allocations.schemes.vgpu import (
    MAX_SEGMENTS,
    ResourceNames,
    Terms,
    by_limits,
    by_lists,
    read_mode,
)
from exporter.model import NodeFacts, Pod

_NAME = "volcano-vgpu"
_NAMES = ResourceNames(
    count="volcano.sh/vgpu-number",
    memory="volcano.sh/vgpu-memory",
    memory_percentage="volcano.sh/vgpu-memory-percentage",
    core="volcano.sh/vgpu-cores",
)
_ALLOCATED = "volcano.sh/vgpu-ids-new"
_MODE = "volcano.sh/vgpu-mode"


def decode(pod: Pod, node: NodeFacts) -> Decoded:
    """Return the allocations of each container, one per device."""
    reader = PodReader(_NAME, pod, node)
    asking = {_NAMES.count, _NAMES.memory}
    users = [app for app in app_containers(pod) if not asking.isdisjoint(app.limits)]
    encoded = reader.annotation(_ALLOCATED)
    if encoded and not users:
        reader.reject(Reason.NOT_REQUESTED, f"{_ALLOCATED} without a limit on {_NAMES.count}")
    if not users:
        return reader.decoded(())
    terms = Terms(_NAMES, _ALLOCATED, read_mode(reader, _MODE), registers=VOLCANO_REGISTERS)
    segments = encoded.split(";", MAX_SEGMENTS) if encoded else []
    if len(segments) == len(users) + 1 and not segments[-1]:
        del segments[-1]
    if segments and len(segments) != len(users):
        reader.reject(Reason.CONTAINER_MISMATCH, f"{len(segments)} segments: {encoded}")
        users *= len(segments) if len(users) == 1 else 1
    if len(segments) != len(users):
        return reader.decoded(found for user in users for found in by_limits(reader, user, terms))
    return reader.decoded(by_lists(reader, users, segments, terms))


SCHEME = Scheme(
    name=_NAME,
    resources=_NAMES.all,
    annotations=(_ALLOCATED, _MODE),
    index_basis=IndexBasis.UUID,
    decode=decode,
    amounts=(Evidence.LIMITS, Evidence.ANNOTATION),
)
