"""What a tenant can send who may create pods in one namespace: pods that are bound and never start.

At full size each of these inputs once blinded a node for a minute, or had the exporter killed.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.agent.sources.pods.devices import claim_document, result, slice_document
from tests.agent.sources.pods.documents import Document, pod_document

NAMESPACE = "mallory"
CLAIM = "shared"
GPU = {"nvidia.com/gpu": "1"}


@dataclass(frozen=True)
class Attack:
    """So many pods, each made from its number and a size, and the claims that they name.

    ``reason`` is the one for which their allocations are rejected, "" if they have none.
    """

    pods: int
    size: int
    pod: Callable[[int, int], Document]
    reason: str = "too_many_allocations"
    claims: dict[str, Document] = field(default_factory=dict)
    slices: tuple[Document, ...] = ()

    def documents(self) -> list[Document]:
        """All pods at full size."""
        return [self.pod(number, self.size) for number in range(self.pods)]


def pending(number: int, containers: int, **more: Any) -> Document:
    """A pod whose image cannot be pulled: no container of it has an id."""
    names = dict.fromkeys(f"c{each}" for each in range(containers))
    more = {"namespace": NAMESPACE, "phase": "Pending", **more}
    return pod_document(f"m{number}", containers=names, **more)


def _claiming(number: int, size: int) -> Document:
    """A pod all of whose containers have one claim."""
    pod = pending(number, size)
    pod["spec"]["resourceClaims"] = [{"name": "g", "resourceClaimName": CLAIM}]
    for container in pod["spec"]["containers"]:
        container["resources"] = {"claims": [{"name": "g"}]}
    return pod


def _in_groups(number: int, size: int) -> Document:
    """A pod with fractions of KAI's in so many groups."""
    labels = {f"runai-gpu-group/x{each}": f"g{each}" for each in range(size)}
    return pending(number, 1, annotations={"gpu-memory": "1000"}, labels=labels)


def _listing(number: int, size: int) -> Document:
    """A pod whose annotation lists more cards than there are containers."""
    listed = {"ALIYUN_COM_GPU_MEM_IDX": ",".join(["1"] * 60 * size)}
    return pending(number, size, limits={"aliyun.com/gpu-mem": "1"}, annotations=listed)


ATTACKS = {
    "one claim of all containers": Attack(
        *(20, 500, _claiming),
        claims={CLAIM: claim_document(result("gpu-0"))},
        slices=(slice_document({"gpu-0": "GPU-0"}),),
    ),
    "a card for each container": Attack(
        110, 500, lambda number, size: pending(number, size, limits=GPU)
    ),
    "a thousand groups": Attack(110, 1000, _in_groups, "too_many_devices"),
    "a long list of cards": Attack(10, 500, _listing),
    "pods that the kubelet refused": Attack(
        *(1000, 500, lambda number, size: pending(number, size, limits=GPU, phase="Failed")), ""
    ),
}
