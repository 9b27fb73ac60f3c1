"""All sharing systems, in the order in which they are tried.

A new one is a module of ``allocations.schemes`` and a line here. The order matters where two
systems read the same resource:

* HAMi comes before NVIDIA's and AMD's device plugins, whose resources it uses. A pod with HAMi's
  annotation or resources belongs to HAMi.
* vgpu-manager comes before NVIDIA's plugin: its grants have the form of that one's replicas.
* Koordinator comes before all three: it serves ``nvidia.com/gpu`` too and marks that by annotation.
* ACK's sharing comes before Aliyun's version 1, which has the same resource and fewer annotations.
* KAI and GKE come before NVIDIA's plugin. KAI's reservation pods use nothing. A pod with GKE's
  device ids, or on one of GKE's nodes, belongs to GKE.
"""

from collections.abc import Sequence
from dataclasses import replace

from exporter.agent.allocations.reader import PodReader
from exporter.agent.allocations.registered import AMD_REGISTERS, HAMI_REGISTERS, VOLCANO_REGISTERS
from exporter.agent.allocations.room import MAX_OF_POD, has_too_many
from exporter.agent.allocations.scheme import Scheme
from exporter.agent.allocations.schemes import (
    aliyun_acs,
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
    nvfractions,
    nvidia,
    tke_qgpu,
    vgpu_manager,
    vke_mgpu,
    volcano_gpushare,
    volcano_vgpu,
)
from exporter.agent.allocations.terms import FORGED, Decoded, DecodeProblem, Reason
from exporter.agent.allocations.ties import has_ended
from exporter.model import Allocation, NodeFacts, Pod

SCHEMES: tuple[Scheme, ...] = (
    vke_mgpu.SCHEME,
    tke_qgpu.SCHEME,
    volcano_vgpu.SCHEME,
    volcano_gpushare.SCHEME,
    aliyun_cgpu.SCHEME,
    aliyun_gpushare.SCHEME,
    aliyun_acs.SCHEME,
    gpu_manager.SCHEME,
    elastic_gpu.SCHEME,
    huawei_cce.SCHEME,
    baidu_cce.SCHEME,
    koordinator.SCHEME,
    hami.SCHEME,
    vgpu_manager.SCHEME,
    kai.SCHEME,
    nvfractions.SCHEME,
    gke.SCHEME,
    nvidia.SCHEME,
    dra.SCHEME,
    amd.SCHEME,
    intel.SCHEME,
)

# What the device plugins of some systems say of the node: its annotations, or beginnings of keys.
NODE_ANNOTATION_PREFIXES: tuple[str, ...] = (
    *HAMI_REGISTERS,
    *AMD_REGISTERS,
    *VOLCANO_REGISTERS,
    *vgpu_manager.NODE_ANNOTATIONS,
)


_VENDORS = {"amd.com/": "amd", "gpu.intel.com/": "intel"}  # by the beginning of their resources


def vendor_of(name: str) -> str | None:
    """Return the vendor of the cards that a scheme gives out; None for one that is not known."""
    resources = next((scheme.resources for scheme in SCHEMES if scheme.name == name), None)
    if not resources:
        return None
    return next((v for start, v in _VENDORS.items() if resources[0].startswith(start)), "nvidia")


def decode(pod: Pod, node: NodeFacts, schemes: Sequence[Scheme] = SCHEMES) -> Decoded:
    """Return the allocations of a pod's containers; never raises.

    A pod that has ended or is deleted has no allocations, and neither has one with too many. A
    scheme that finds something in the pod prevents later schemes from counting the same resources
    again. A scheme that only rejected the pod's annotations as forged does not.
    """
    if has_ended(pod) or not may_have_any(pod, node):
        return Decoded()
    granted = (grant.resource for grant in node.grants.get(pod.uid, ()))
    limits = (key for container in pod.containers for key in container.limits)
    keys = {*pod.annotations, *pod.labels, *limits, *granted}
    claimed: set[str] = set()
    allocations: list[Allocation] = []
    problems: list[DecodeProblem] = []
    for scheme in schemes:
        # Most pods have nothing of most schemes: a look at the keys spares the reading.
        beginnings = scheme.beginnings
        knows_none = beginnings and not any(key.startswith(beginnings) for key in keys)
        if knows_none or not claimed.isdisjoint(scheme.resources):
            continue
        # A defect of a decoder may cost one pod, not the exporter.
        try:
            found = read_by(scheme, pod, node)
        except Exception as error:  # noqa: BLE001 - see above
            problem = DecodeProblem(pod.uid, scheme.name, Reason.DECODER_ERROR, repr(error)[:200])
            found = Decoded(problems=(problem,))
        problems += found.problems
        allocations += (
            a if a.policy == (policy := scheme.policy(a)) else replace(a, policy=policy)
            for a in found.allocations
        )
        # Otherwise an annotation that a tenant made up would keep the pod's true system from being
        # read.
        read = any(problem.reason not in FORGED for problem in found.problems)
        if found.allocations or read or not found.consumer:
            claimed.update(scheme.resources)
    if len(allocations) > MAX_OF_POD:
        reason, detail = Reason.TOO_MANY_ALLOCATIONS, f"{len(allocations)} by several systems"
        problems.append(DecodeProblem(pod.uid, allocations[-1].scheme, reason, detail))
    decoded = Decoded(tuple(allocations), tuple(problems))
    return replace(decoded, allocations=()) if has_too_many(decoded) else decoded


def may_have_any(pod: Pod, node: NodeFacts) -> bool:
    """Whether a pod has anything that a scheme reads."""
    if pod.annotations or pod.labels or pod.uid in node.grants:
        return True
    return any(container.limits or container.claims for container in pod.containers)


def read_by(scheme: Scheme, pod: Pod, node: NodeFacts) -> Decoded:
    """Return the allocations of a pod by one scheme alone."""
    reader = PodReader(scheme.name, pod, node, scheme.index_basis)
    return reader.decoded(scheme.read(reader))
