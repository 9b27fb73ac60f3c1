import pytest

from exporter.allocations.nvidia import decode
from exporter.allocations.scheme import Reason
from exporter.model import NodeFacts
from tests.allocations.build import (
    CARD_MEMORY,
    FOUR_CARDS,
    GIB,
    card,
    container,
    instance,
    node,
    pod,
)

GPU = "nvidia.com/gpu"
STRATEGY = "nvidia.com/gpu.sharing-strategy"
REPLICAS = "nvidia.com/gpu.replicas"
MPS = {STRATEGY: "mps", REPLICAS: "4"}
SLICED = {STRATEGY: "time-slicing", REPLICAS: "4"}
Share = tuple[float | None, int | None, int | None]

MIG_NODE = node(card(0), instance(0, 0), instance(0, 1), card(1), labels={STRATEGY: "none"})
MIG_SINGLE = node(card(0), instance(0, 0), instance(0, 1), allocatable={GPU: "2"})
PLAIN = {"kubernetes.io/os": "linux"}
KNOWN = node(*FOUR_CARDS, labels=PLAIN)


@pytest.mark.parametrize(
    ("resource", "count", "facts", "shares"),
    [
        pytest.param(GPU, 2, KNOWN, [(1.0, CARD_MEMORY, None)] * 2, id="whole"),
        pytest.param(GPU, 1, node(labels=PLAIN), [(1.0, None, None)], id="no devices known"),
        pytest.param(
            GPU,
            1,
            node(card(0), card(1, GIB), labels=PLAIN),
            [(1.0, None, None)],
            id="unequal cards",
        ),
        pytest.param(
            GPU, 1, node(labels={"nvidia.com/gpu.memory": "1024"}), [(1.0, GIB, None)], id="label"
        ),
        pytest.param(
            GPU, 3, node(*FOUR_CARDS, labels=SLICED), [(None, None, 3)], id="time-slicing"
        ),
        pytest.param(
            GPU, 1, node(*FOUR_CARDS, labels={REPLICAS: "2"}), [(None, None, 1)], id="no strategy"
        ),
        pytest.param(
            GPU,
            1,
            node(*FOUR_CARDS, labels={STRATEGY: "time-slicing", REPLICAS: "1"}),
            [(1.0, CARD_MEMORY, None)],
            id="only another resource is sliced",
        ),
        pytest.param(
            GPU, 1, node(*FOUR_CARDS, allocatable={GPU: "8"}), [(None, None, 1)], id="no labels"
        ),
        pytest.param(
            GPU,
            1,
            node(*FOUR_CARDS, allocatable={GPU: "4"}),
            [(1.0, CARD_MEMORY, None)],
            id="as many as cards",
        ),
        pytest.param(
            GPU, 1, node(*FOUR_CARDS, labels=MPS), [(0.25, CARD_MEMORY // 4, 1)], id="mps"
        ),
        pytest.param(GPU + ".shared", 2, node(*FOUR_CARDS), [(None, None, 2)], id="renamed"),
        pytest.param(
            GPU + ".shared",
            1,
            node(*FOUR_CARDS, labels=MPS),
            [(0.25, CARD_MEMORY // 4, 1)],
            id="renamed mps",
        ),
        pytest.param("nvidia.com/mig-1g.5gb", 1, MIG_NODE, [(None, 5 * GIB, None)], id="mig"),
        pytest.param(
            "nvidia.com/mig-1g.5gb.me",
            1,
            node(card(0), instance(0, 0, "1g.5gb+me", 4 * GIB), instance(0, 1), labels=PLAIN),
            [(None, 4 * GIB, None)],
            id="mig profile with a plus",
        ),
        pytest.param("nvidia.com/mig-2g.10gb", 1, MIG_NODE, [(None, None, None)], id="mig gone"),
        pytest.param(
            "nvidia.com/mig-1g.5gb.shared", 2, MIG_NODE, [(None, None, 2)], id="sliced mig"
        ),
        pytest.param(
            GPU, 1, MIG_NODE, [(1.0, CARD_MEMORY, None)], id="the undivided card of a mig node"
        ),
        pytest.param(GPU, 2, MIG_SINGLE, [(None, 5 * GIB, None)] * 2, id="mig single"),
        pytest.param(
            GPU,
            1,
            node(labels={"nvidia.com/gpu.product": "A100-MIG-1g.5gb"}),
            [(None, None, None)],
            id="mig single by label",
        ),
    ],
)
def test_request_means_what_the_node_hands_out(
    resource: str, count: int, facts: NodeFacts, shares: list[Share]
) -> None:
    decoded = decode(pod(container(limits={resource: str(count)})), facts)
    assert [(a.core, a.memory_bytes, a.replicas) for a in decoded.allocations] == shares
    assert {a.device for a in decoded.allocations} == {None}
    assert decoded.problems == ()


@pytest.mark.parametrize(
    ("labels", "policy"),
    [(PLAIN, ""), (SLICED, "time-slicing"), (MPS, "mps"), ({REPLICAS: "2"}, "shared")],
)
def test_policy_tells_how_the_device_is_shared(labels: dict[str, str], policy: str) -> None:
    decoded = decode(pod(container(limits={GPU: "1"})), node(*FOUR_CARDS, labels=labels))
    assert decoded.allocations[0].policy == policy


@pytest.mark.parametrize(
    ("count", "labels", "reason", "shares"),
    [
        ("1", {STRATEGY: "mps"}, Reason.UNKNOWN_REPLICAS, [(None, None)]),
        ("2", {}, Reason.NODE_UNKNOWN, [(None, None)] * 2),
        ("1k", {}, Reason.TOO_MANY_DEVICES, []),
        ("-1", {}, Reason.BAD_QUANTITY, []),
    ],
)
def test_bad_part_is_counted(
    count: str, labels: dict[str, str], reason: Reason, shares: list[tuple[None, None]]
) -> None:
    decoded = decode(pod(container(limits={GPU: count})), node(*FOUR_CARDS, labels=labels))
    assert [problem.reason for problem in decoded.problems] == [reason]
    assert [(a.core, a.memory_bytes) for a in decoded.allocations] == shares


def test_absurd_memory_label_is_no_limit() -> None:
    facts = node(labels={"nvidia.com/gpu.memory": "999999999999999"})
    decoded = decode(pod(container(limits={GPU: "1"})), facts)
    assert decoded.allocations[0].memory_bytes is None
    assert decoded.problems[0].reason is Reason.MEMORY_OUT_OF_RANGE


def test_init_container_hands_its_devices_on() -> None:
    described = pod(container("i", {GPU: "1"}, kind="init"), container("a", {GPU: "1"}))
    decoded = decode(described, KNOWN)
    assert [a.container for a in decoded.allocations] == ["a"]
