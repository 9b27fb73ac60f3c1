"""All sharing systems in the order in which they are tried. A new one is a module and a line here.

HAMi stands before NVIDIA's and AMD's device plugins: they hand out the same resources, and a pod
with HAMi's annotation or resources is HAMi's. Koordinator stands before both, for it serves
``nvidia.com/gpu`` too and its annotation says so. ACK's sharing stands before version 1, which has
the same resource and knows nothing of what ACK adds. KAI and GKE stand before NVIDIA's plugin: a
reservation of KAI's is nobody's, and a pod whose device ids are GKE's, or which is on one of its
nodes, is GKE's.
"""

from collections.abc import Sequence

from exporter.allocations.registered import HAMI_REGISTERS, VOLCANO_REGISTERS
from exporter.allocations.scheme import FORGED, Decoded, Problem, Reason, Scheme
from exporter.allocations.schemes import (
    aliyun_cgpu,
    aliyun_gpushare,
    amd,
    baidu_cce,
    dra,
    elastic_gpu,
    gke,
    gpu_manager,
    hami,
    huawei_cce,
    intel,
    kai,
    koordinator,
    nvidia,
    tke_qgpu,
    vke_mgpu,
    volcano_gpushare,
    volcano_vgpu,
)
from exporter.model import Allocation, NodeFacts, Pod

SCHEMES: tuple[Scheme, ...] = (
    vke_mgpu.SCHEME,
    tke_qgpu.SCHEME,
    volcano_vgpu.SCHEME,
    volcano_gpushare.SCHEME,
    aliyun_cgpu.SCHEME,
    aliyun_gpushare.SCHEME,
    gpu_manager.SCHEME,
    elastic_gpu.SCHEME,
    huawei_cce.SCHEME,
    baidu_cce.SCHEME,
    koordinator.SCHEME,
    hami.SCHEME,
    kai.SCHEME,
    gke.SCHEME,
    nvidia.SCHEME,
    dra.SCHEME,
    amd.SCHEME,
    intel.SCHEME,
)

# Keys, or beginnings of keys, of all pod annotations that a decoder may read.
ANNOTATION_PREFIXES: tuple[str, ...] = tuple(
    sorted({prefix for scheme in SCHEMES for prefix in scheme.annotations})
)
LABEL_PREFIXES: tuple[str, ...] = tuple(  # the same of pod labels
    sorted({prefix for scheme in SCHEMES for prefix in scheme.labels})
)

# The same of the node's annotations: by what they hold, HAMi and Volcano are known to be at work.
NODE_ANNOTATION_PREFIXES: tuple[str, ...] = (*HAMI_REGISTERS, *VOLCANO_REGISTERS)


def decode(pod: Pod, node: NodeFacts, schemes: Sequence[Scheme] = SCHEMES) -> Decoded:
    """Return what a pod's containers were allotted; never raises.

    A pod that has ended, or is deleted, has no allotment, nor has one of which neither it nor the
    kubelet says anything that a scheme reads. A scheme that found something in the pod keeps those
    after it from counting the same resources once more. One that only refused to believe the pod's
    annotations does not.
    """
    if pod.terminal or pod.deleted or not (pod.uid in node.grants or _asks(pod)):
        return Decoded()
    claimed: set[str] = set()
    allocations: list[Allocation] = []
    problems: list[Problem] = []
    for scheme in schemes:
        if not claimed.isdisjoint(scheme.resources):
            continue
        found = _guarded(scheme, pod, node)
        problems += found.problems
        allocations += found.allocations
        read = any(problem.reason not in FORGED for problem in found.problems)
        if found.allocations or read or not found.consumer:
            claimed.update(scheme.resources)
    return Decoded(tuple(allocations), tuple(problems))


def _asks(pod: Pod) -> bool:
    """Whether it says anything that a scheme reads."""
    if pod.annotations or pod.labels:
        return True
    return any(container.limits or container.claims for container in pod.containers)


def _guarded(scheme: Scheme, pod: Pod, node: NodeFacts) -> Decoded:
    try:
        return scheme.decode(pod, node)
    except Exception as error:  # noqa: BLE001 - a defect here may cost one pod, not the exporter
        problem = Problem(pod.uid, scheme.name, Reason.DECODER_ERROR, repr(error)[:200])
        return Decoded(problems=(problem,))
