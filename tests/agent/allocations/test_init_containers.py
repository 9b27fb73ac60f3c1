"""An init container has what no other container asks for; it hands the rest on."""

from dataclasses import replace

import pytest

from exporter.agent.allocations.registry import decode
from exporter.model import ClaimedDevice, ClaimRef, Container, NodeFacts
from tests.agent.allocations.build import FOUR_CARDS, container, node, pod, told

GPU = {"nvidia.com/gpu": "1"}
RDMA = {"rdma/hca": "1"}
NODE = node(*FOUR_CARDS, labels={"kubernetes.io/os": "linux"})
REGISTERED = replace(NODE, annotations={"hami.io/node-nvidia-register": "[]"})


def init(name: str, limits: dict[str, str], *ids: str) -> Container:
    return replace(container(name, limits, "init"), container_ids=ids)


@pytest.mark.parametrize(
    ("containers", "users"),
    [
        ((init("i", GPU), container("a")), ["i"]),
        ((init("i", GPU), container("a", GPU)), ["a"]),
        ((init("i", GPU), container("s", GPU, "sidecar"), container("a")), ["s"]),
        ((init("i", {**GPU, **RDMA}), container("a", RDMA)), ["i"]),
        ((init("i", GPU), container("a", {"nvidia.com/gpu": "0"})), ["i"]),
        ((init("i", {"nvidia.com/gpu": "0"}), container("a")), []),
        ((init("i", GPU), init("j", GPU), container("a")), ["i"]),
        ((init("i", GPU, "1"), init("j", GPU, "2"), container("a")), ["j"]),
        ((init("i", GPU, "1"), init("j", GPU), container("a")), ["i"]),
        ((init("i", {}, "1"), init("j", GPU), container("a")), ["j"]),
    ],
    ids=[
        "alone",
        "an app too",
        "a sidecar too",
        "an app of another resource",
        "an app for 0",
        "for 0 itself",
        "none has started",
        "the last that has started",
        "the first runs",
        "the first asks for none",
    ],
)
def test_card_that_only_an_init_container_asks_for_is_its_own(
    containers: tuple[Container, ...], users: list[str]
) -> None:
    """The scheduler keeps it until the pod ends."""
    found = decode(pod(*containers), NODE).allocations
    assert [(a.container, a.core) for a in found] == [(user, 1.0) for user in users]


def test_init_container_has_the_vgpu_that_its_segment_names() -> None:
    asking = init("i", {**GPU, "nvidia.com/gpumem": "1000"})
    listed = {"hami.io/vgpu-devices-allocated": "GPU-1,NVIDIA,1000,0:;;"}
    decoded = decode(pod(asking, container("a"), annotations=listed), REGISTERED)
    assert told(decoded) == [("i", "GPU-1", None, 1000 << 20)]


@pytest.mark.parametrize(("other", "users"), [("d", ["i"]), ("c", ["a"])])
def test_claim_that_only_an_init_container_has_is_its_own(other: str, users: list[str]) -> None:
    setup = replace(container("i", kind="init"), claims=(ClaimRef("c"),))
    app = replace(container("a"), claims=(ClaimRef(other),))
    device = ClaimedDevice("r", "gpu.nvidia.com", "n1", "gpu-6")
    claims = {("default", "c"): (device,), ("default", "d"): ()}
    facts: NodeFacts = replace(NODE, claims=claims)
    found = decode(pod(setup, app), facts).allocations
    assert [(a.container, a.device) for a in found] == [(user, "GPU-1") for user in users]
