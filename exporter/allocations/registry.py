"""All sharing systems in the order in which they are tried. A new one is a module and a line here.

HAMi stands before NVIDIA's device plugin: both hand out ``nvidia.com/gpu``, and a pod with HAMi's
annotation or resources is HAMi's.
"""

from collections.abc import Sequence

from exporter.allocations import hami, nvidia, tke_qgpu, vke_mgpu
from exporter.allocations.scheme import Decoded, Problem, Reason, Scheme
from exporter.model import Allocation, NodeFacts, Pod

SCHEMES: tuple[Scheme, ...] = (
    vke_mgpu.SCHEME,
    tke_qgpu.SCHEME,
    hami.SCHEME,
    nvidia.SCHEME,
)

# Keys, or beginnings of keys, of all pod annotations that a decoder may read.
ANNOTATION_PREFIXES: tuple[str, ...] = tuple(
    sorted({prefix for scheme in SCHEMES for prefix in scheme.annotations})
)


def decode(pod: Pod, node: NodeFacts, schemes: Sequence[Scheme] = SCHEMES) -> Decoded:
    """Return what a pod's containers were allotted; never raises.

    A pod that has ended, or is deleted, has no allotment. A scheme that found something in the pod
    keeps those after it from counting the same resources once more.
    """
    if pod.terminal or pod.deleted:
        return Decoded()
    claimed: set[str] = set()
    allocations: list[Allocation] = []
    problems: list[Problem] = []
    for scheme in schemes:
        if not claimed.isdisjoint(scheme.resources):
            continue
        found = _guarded(scheme, pod, node)
        if found.allocations or found.problems:
            claimed.update(scheme.resources)
            allocations += found.allocations
            problems += found.problems
    return Decoded(tuple(allocations), tuple(problems))


def _guarded(scheme: Scheme, pod: Pod, node: NodeFacts) -> Decoded:
    try:
        return scheme.decode(pod, node)
    except Exception as error:  # noqa: BLE001 - a defect here may cost one pod, not the exporter
        problem = Problem(pod.uid, scheme.name, Reason.DECODER_ERROR, repr(error)[:200])
        return Decoded(problems=(problem,))
