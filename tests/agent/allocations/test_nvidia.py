from dataclasses import replace

import pytest

from exporter.agent.allocations.schemes.nvidia import SCHEME
from exporter.agent.allocations.terms import Decoded, Reason
from exporter.model import ClaimRef, NodeFacts
from tests.agent.allocations.build import (
    CARD_MEMORY,
    FOUR_CARDS,
    GIB,
    card,
    container,
    decoder,
    granted,
    instance,
    node,
    pod,
)

decode = decoder(SCHEME)

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


# --- devices that the kubelet's PodResources names ------------------------------------------------

UUID = "0fc3eda5-e98b-a25b-5b0d-cf5c855d1448"
MIG = "nvidia.com/mig-1g.5gb"
SMALL = GIB // 2
PARTED = (card(0), instance(0, 0), instance(0, 1), card(1, SMALL))
Placed = tuple[str | None, float | None, int | None, int | None]


@pytest.mark.parametrize(
    ("labels", "grants", "placed"),
    [
        pytest.param(
            PLAIN,
            {GPU: ["GPU-1", "GPU-0"]},
            [("GPU-1", 1.0, SMALL, None), ("GPU-0", 1.0, CARD_MEMORY, None)],
            id="whole cards, each with its own memory",
        ),
        pytest.param(
            {}, {GPU: ["GPU-1"]}, [("GPU-1", 1.0, SMALL, None)], id="nothing is known of the node"
        ),
        pytest.param(
            SLICED,
            {GPU: ["GPU-0::0", "GPU-1::2"]},
            [("GPU-0", None, None, 1), ("GPU-1", None, None, 1)],
            id="replicas of two cards",
        ),
        pytest.param(
            SLICED,
            {GPU: ["GPU-0::0", "GPU-0::3"]},
            [("GPU-0", None, None, 2)],
            id="two replicas of one card are one allocation",
        ),
        pytest.param(
            MPS, {GPU: ["GPU-0::3"]}, [("GPU-0", 0.25, CARD_MEMORY // 4, 1)], id="mps replica"
        ),
        pytest.param(
            MPS,
            {GPU: ["GPU-0::3", "GPU-0::1"]},
            [("GPU-0", 0.25, CARD_MEMORY // 4, 2)],
            id="two mps replicas of one card",
        ),
        pytest.param(
            {**MPS, REPLICAS: "1"},
            {GPU: ["GPU-0::3", "GPU-0::1"]},
            [("GPU-0", 1.0, CARD_MEMORY, 2)],
            id="more replicas than the label says are no more than the card",
        ),
        pytest.param(
            {**MPS, REPLICAS: "9" * 15},
            {GPU: ["GPU-0::3"]},
            [("GPU-0", 1 / (10**15 - 1), None, 1)],
            id="a part of less than a byte is none",
        ),
        pytest.param(
            PLAIN,
            {GPU + ".shared": ["GPU-0::1"]},
            [("GPU-0", None, None, 1)],
            id="replica of an unknown strategy",
        ),
        pytest.param(PLAIN, {MIG: ["MIG-0-1"]}, [("MIG-0-1", None, 5 * GIB, None)], id="mig mixed"),
        pytest.param(
            PLAIN, {GPU: ["MIG-0-1"]}, [("MIG-0-1", None, 5 * GIB, None)], id="mig single"
        ),
        pytest.param(
            {**SLICED, "nvidia.com/mig-1g.5gb.replicas": "8"},
            {MIG + ".shared": ["MIG-0-1::7"]},
            [("MIG-0-1", None, None, 1)],
            id="sliced mig",
        ),
        pytest.param(
            PLAIN,
            {"nvidia.com/gpu-slow": ["GPU-1"]},
            [("GPU-1", 1.0, SMALL, None)],
            id="renamed by the configuration",
        ),
        pytest.param(
            {**MPS, "nvidia.com/a100.part.replicas": "2"},
            {"nvidia.com/a100.part": ["GPU-0::1"]},
            [("GPU-0", 0.5, CARD_MEMORY // 2, 1)],
            id="renamed and shared",
        ),
    ],
)
def test_granted_ids_place_devices(
    labels: dict[str, str], grants: dict[str, list[str]], placed: list[Placed]
) -> None:
    facts = replace(node(*PARTED, labels=labels), grants=granted(grants))
    limits = {resource: str(len(ids)) for resource, ids in grants.items()}
    decoded = decode(pod(container(limits=limits)), facts)
    found = [(a.device, a.core, a.memory_bytes, a.replicas) for a in decoded.allocations]
    assert found == placed
    assert decoded.problems == ()


def test_grant_counts_where_the_pods_limits_are_not_known() -> None:
    facts = replace(KNOWN, grants=granted({GPU: ["GPU-2"]}))
    assert [a.device for a in decode(pod(container()), facts).allocations] == ["GPU-2"]


@pytest.mark.parametrize("virtual", [f"GPU-{UUID}-3", "GPU-0-3", "0-12", "nvidia0", "", "é" * 999])
def test_ids_of_another_plugin_place_nothing_and_promise_nothing(virtual: str) -> None:
    facts = replace(KNOWN, grants=granted({GPU: [virtual], "nvidia.com/other": [virtual]}))
    decoded = decode(pod(container(limits={GPU: "1", "nvidia.com/other": "1"})), facts)
    (allocation,) = decoded.allocations
    assert (allocation.device, allocation.core, allocation.memory_bytes) == (None, None, None)
    assert decoded.problems == ()


@pytest.mark.parametrize(
    ("device_id", "core"),
    [(f"GPU-{UUID}", 1.0), (f"MIG-{UUID}", None), (f"MIG-GPU-{UUID}/1/0", None)],
)
def test_device_that_the_node_does_not_have_is_not_placed(
    device_id: str, core: float | None
) -> None:
    facts = replace(KNOWN, grants=granted({GPU: [device_id]}))
    decoded = decode(pod(container(limits={GPU: "1"})), facts)
    assert [(a.device, a.core) for a in decoded.allocations] == [(None, core)]
    assert [p.reason for p in decoded.problems] == [Reason.UNKNOWN_DEVICE]


def test_grants_before_any_device_is_known_are_no_problem() -> None:
    facts = replace(node(labels=PLAIN), grants=granted({GPU: [f"GPU-{UUID}"]}))
    decoded = decode(pod(container(limits={GPU: "1"})), facts)
    assert [a.device for a in decoded.allocations] == [None]
    assert decoded.problems == ()


def test_grants_of_others_are_not_read() -> None:
    others = granted({GPU: ["GPU-1"]}, container="b") | granted({GPU: ["GPU-2"]}, pod_uid="other")
    facts = replace(KNOWN, grants=others)
    decoded = decode(pod(container(limits={GPU: "1"})), facts)
    assert [a.device for a in decoded.allocations] == [None]


def test_device_under_two_resources_is_counted_once() -> None:
    facts = replace(KNOWN, grants=granted({GPU: ["GPU-1"], GPU + ".shared": ["GPU-1::0"]}))
    decoded = decode(pod(container(limits={GPU: "1"})), facts)
    assert [a.device for a in decoded.allocations] == ["GPU-1"]
    assert [p.reason for p in decoded.problems] == [Reason.DUPLICATE_DEVICE]


def test_more_devices_than_a_node_can_have_are_not_believed() -> None:
    ids = [f"GPU-{number:08x}-0000-4000-8000-000000000000" for number in range(1000)]
    facts = replace(KNOWN, grants=granted({GPU: ids}))
    decoded = decode(pod(container(limits={GPU: "1000"})), facts)
    assert decoded.allocations == ()
    assert [p.reason for p in decoded.problems] == [Reason.TOO_MANY_DEVICES]


def test_resource_that_a_claim_stands_for_is_left_to_the_claim() -> None:
    claiming = replace(container(limits={GPU: "1"}), claims=(ClaimRef("c", "r", GPU),))
    facts = replace(KNOWN, grants=granted({GPU: ["GPU-1"]}))
    assert decode(pod(claiming), facts) == Decoded()
