"""Memory limits that NVIDIA's container toolkit reads from a container's environment."""

from dataclasses import replace

import pytest

from exporter.agent.allocations.registry import decode
from exporter.agent.allocations.terms import Reason
from exporter.model import MEMORY_LIMIT, MEMORY_REQUEST, Container, Grant, NodeFacts
from tests.agent.allocations.build import (
    CARD_MEMORY,
    FOUR_CARDS,
    GIB,
    MIB,
    POD_UID,
    card,
    container,
    instance,
    node,
    pod,
    reasons,
)

GPU = "nvidia.com/gpu"
SLICED = node(
    *FOUR_CARDS,
    labels={"nvidia.com/gpu.sharing-strategy": "time-slicing", "nvidia.com/gpu.replicas": "4"},
)
MPS = node(
    *FOUR_CARDS, labels={"nvidia.com/gpu.sharing-strategy": "mps", "nvidia.com/gpu.replicas": "4"}
)
WHOLE = node(*FOUR_CARDS, labels={"kubernetes.io/os": "linux"})
MIG_ONLY = node(card(0), instance(0, 0), instance(0, 1), allocatable={GPU: "2"})
ID = "00000000-0000-4000-8000-000000000000"


def limited(request: str | None, limit: str | None, resource: str = GPU) -> Container:
    texts = {MEMORY_REQUEST: request, MEMORY_LIMIT: limit}
    stated = {name: text for name, text in texts.items() if text is not None}
    return replace(container("a", {resource: "1"}), environment=stated)


# request, limit, node → memory, why it is refused
CASES: dict[str, tuple[str | None, str | None, NodeFacts, int | None, list[Reason]]] = {
    "both": ("1024", "4096", SLICED, 4 * GIB, []),
    "both the same": ("4096", "4096", SLICED, 4 * GIB, []),
    "soft only: the toolkit does nothing": ("1024", None, SLICED, None, []),
    "hard only: the toolkit does nothing": (None, "4096", SLICED, None, []),
    "none": (None, None, SLICED, None, []),
    "soft 0": ("0", "4096", SLICED, 4 * GIB, []),
    "hard 0": ("0", "0", SLICED, None, [Reason.MEMORY_OUT_OF_RANGE]),
    "soft above hard": ("8192", "4096", SLICED, None, [Reason.BAD_QUANTITY]),
    "hard above the card": ("1024", "32769", SLICED, None, [Reason.MEMORY_OUT_OF_RANGE]),
    "hard is the card": ("1024", "32768", SLICED, CARD_MEMORY, []),
    "cleared": ("", "", SLICED, None, [Reason.BAD_QUANTITY]),
    "a quantity": ("1Gi", "4Gi", SLICED, None, [Reason.BAD_QUANTITY]),
    "a space before it": (" 1024", "4096", SLICED, None, [Reason.BAD_QUANTITY]),
    "below zero": ("-1", "4096", SLICED, None, [Reason.BAD_QUANTITY]),
    "digits of another script": ("\u0661", "4096", SLICED, None, [Reason.BAD_QUANTITY]),
    "all bits set": ("1", "18446744073709551615", SLICED, None, [Reason.BAD_QUANTITY]),
    "of a whole card": ("1024", "4096", WHOLE, 4 * GIB, []),
    "above a part of MPS": ("1024", "16384", MPS, CARD_MEMORY // 4, []),
    "below a part of MPS": ("1024", "4096", MPS, 4 * GIB, []),
    "an instance: the driver refuses it": ("1024", "2048", MIG_ONLY, 5 * GIB, []),
}


@pytest.mark.parametrize("case", CASES)
def test_both_variables_limit_the_memory_of_a_plugins_device(case: str) -> None:
    request, limit, facts, memory, refused = CASES[case]
    decoded = decode(pod(limited(request, limit)), facts)
    assert [a.memory_bytes for a in decoded.allocations] == [memory]
    assert reasons(decoded) == refused


@pytest.mark.parametrize(
    ("uuid", "memory"), [(f"GPU-{ID}::0", 4 * GIB), (f"MIG-{ID}", None)], ids=["card", "instance"]
)
def test_a_granted_device_is_limited_and_a_granted_instance_is_not(
    uuid: str, memory: int | None
) -> None:
    grants = {POD_UID: (Grant("a", GPU, (uuid,)),)}
    decoded = decode(pod(limited("1024", "4096")), replace(SLICED, grants=grants))
    assert [a.memory_bytes for a in decoded.allocations] == [memory]


def test_who_asks_for_no_device_is_promised_nothing_by_his_environment() -> None:
    assert not decode(pod(limited("1024", "4096", "cpu.example/x")), WHOLE).allocations


def test_annotations_come_before_the_environment_which_fractiond_replaces() -> None:
    asked = {"nvidia.com/container.a.gpu-memory.limit": "2Gi"}
    own = replace(container("a"), environment={MEMORY_REQUEST: "1", MEMORY_LIMIT: "1"})
    label = "gpu-fractioning.kai.scheduler/nvidia-driver-version.major"
    decoded = decode(pod(own, annotations=asked), replace(WHOLE, labels={label: "615"}))
    assert [a.memory_bytes for a in decoded.allocations] == [2 * GIB]


def test_another_containers_environment_is_not_read() -> None:
    other = replace(container("b"), environment={MEMORY_REQUEST: "1", MEMORY_LIMIT: "1"})
    decoded = decode(pod(container("a", {GPU: "1"}), other), SLICED)
    assert [(a.container, a.memory_bytes) for a in decoded.allocations] == [("a", None)]


def test_what_a_card_keeps_from_others_does_not_shrink_with_the_limit() -> None:
    """A tenant writes his environment himself: a small limit must not make his part cheap."""
    (allocation,) = decode(pod(limited("1", "1")), SLICED).allocations
    assert (allocation.replicas, allocation.memory_bytes) == (1, MIB)
    (whole,) = decode(pod(limited("1", "1")), WHOLE).allocations
    assert whole.core == 1
