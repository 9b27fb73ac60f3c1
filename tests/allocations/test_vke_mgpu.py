import pytest

from exporter.allocations.scheme import Reason
from exporter.allocations.schemes.vke_mgpu import decode
from tests.allocations.build import CARD_MEMORY, FOUR_CARDS, GIB, MIB, card, container, node, pod

CORE = "vke.volcengine.com/mgpu-core"
MEMORY = "vke.volcengine.com/mgpu-memory"
INDEX = "vke.volcengine.com/gpu-index-container-"
COUNTS = "vke.volcengine.com/container-multiple-gpu"
POLICY = "vke.volcengine.com/mgpu-compute-policy"


def test_other_vendors_cards_do_not_blur_the_index() -> None:
    described = pod(container(limits={CORE: "30"}), annotations={INDEX + "a": "0"})
    decoded = decode(described, node(card(0, vendor="intel"), card(0)))
    assert decoded.allocations[0].device == "GPU-0"


def test_whole_card_has_the_memory_of_the_card_it_is_on() -> None:
    described = pod(container(limits={CORE: "200"}), annotations={INDEX + "a": "1,0"})
    decoded = decode(described, node(card(0, memory=16 * GIB), card(1, memory=24 * GIB)))
    assert [(a.device, a.core, a.memory_bytes) for a in decoded.allocations] == [
        ("GPU-1", 1.0, 24 * GIB),
        ("GPU-0", 1.0, 16 * GIB),
    ]


@pytest.mark.parametrize(
    ("memories", "memory"),
    [((CARD_MEMORY, CARD_MEMORY), CARD_MEMORY), ((CARD_MEMORY, 16 * GIB), None)],
)
def test_unplaced_whole_card_has_memory_only_if_all_cards_are_equal(
    memories: tuple[int, int], memory: int | None
) -> None:
    devices = [card(index, size) for index, size in enumerate(memories)]
    decoded = decode(pod(container(limits={CORE: "100"})), node(*devices))
    assert [(a.device, a.memory_bytes) for a in decoded.allocations] == [(None, memory)]


def test_share_over_several_cards_is_divided_rounding_down() -> None:
    decoded = decode(
        pod(container(limits={CORE: "50", MEMORY: "4097"}), annotations={COUNTS: "3"}),
        node(*FOUR_CARDS),
    )
    assert [(a.device, a.core, a.memory_bytes) for a in decoded.allocations] == [
        (None, 0.16, 1365 * MIB)
    ] * 3


@pytest.mark.parametrize(
    ("count", "limits", "shares"),
    [
        ("2", {CORE: "200"}, [(1.0, CARD_MEMORY)] * 2),
        ("2", {CORE: "200", MEMORY: "8192"}, [(1.0, 4 * GIB)] * 2),
        ("4", {CORE: "200", MEMORY: "8192"}, [(0.5, 2 * GIB)] * 4),
    ],
)
def test_multiple_of_100_is_whole_cards_only_if_each_has_100_and_no_memory_is_stated(
    count: str, limits: dict[str, str], shares: list[tuple[float, int]]
) -> None:
    decoded = decode(pod(container(limits=limits), annotations={COUNTS: count}), node(*FOUR_CARDS))
    assert [(a.core, a.memory_bytes) for a in decoded.allocations] == shares


@pytest.mark.parametrize(
    ("core", "memory", "expected"),
    [("400", "8k", 2000 * MIB), ("30", "8k", None), ("0", "0", None), ("x", "8k", None)],
)
def test_memory_of_a_card_can_come_from_the_nodes_totals(
    core: str, memory: str, expected: int | None
) -> None:
    facts = node(allocatable={CORE: core, MEMORY: memory})
    decoded = decode(pod(container(limits={CORE: "100"})), facts)
    assert [a.memory_bytes for a in decoded.allocations] == [expected]


@pytest.mark.parametrize(
    ("annotation", "label", "policy"),
    [
        ("native-burst-share", "fixed-share", "native-burst-share"),
        ("", "guaranteed-burst-share", "guaranteed-burst-share"),
        ("", "", ""),
    ],
)
def test_policy_is_the_pods_or_else_the_nodes(annotation: str, label: str, policy: str) -> None:
    described = pod(container(limits={CORE: "10"}), annotations={POLICY: annotation})
    decoded = decode(described, node(*FOUR_CARDS, labels={POLICY: label}))
    assert (decoded.allocations[0].policy, decoded.problems) == (policy, ())


@pytest.mark.parametrize(
    ("limits", "annotations", "reason"),
    [
        ({CORE: "30"}, {INDEX + "a": "4"}, Reason.UNKNOWN_DEVICE),
        ({CORE: "30"}, {INDEX + "a": "0,1"}, Reason.PLACEMENT_MISMATCH),
        ({CORE: "200"}, {INDEX + "a": "1,1"}, Reason.PLACEMENT_MISMATCH),
        ({CORE: "30"}, {INDEX + "a": "-1"}, Reason.BAD_ANNOTATION),
        ({CORE: "30"}, {INDEX + "a": "1," * 40_000}, Reason.BAD_ANNOTATION),
        ({CORE: "30"}, {COUNTS: "two"}, Reason.BAD_ANNOTATION),
        ({CORE: "30"}, {COUNTS: "1,1"}, Reason.CONTAINER_MISMATCH),
        ({CORE: "30"}, {POLICY: "anything"}, Reason.UNKNOWN_POLICY),
        ({CORE: "30", MEMORY: "-5"}, {}, Reason.BAD_QUANTITY),
        ({CORE: "30", MEMORY: "1Gi"}, {}, Reason.MEMORY_OUT_OF_RANGE),
    ],
)
def test_bad_part_is_counted_and_costs_only_itself(
    limits: dict[str, str], annotations: dict[str, str], reason: Reason
) -> None:
    decoded = decode(pod(container(limits=limits), annotations=annotations), node(*FOUR_CARDS))
    assert [problem.reason for problem in decoded.problems] == [reason]
    assert {a.device for a in decoded.allocations} == {None}
    assert sum(a.core or 0 for a in decoded.allocations) == int(limits[CORE]) / 100


@pytest.mark.parametrize("core", ["150", f"{100 * 65}", "100k", "1"])
def test_core_that_no_card_can_give_is_no_limit(core: str) -> None:
    annotations = {COUNTS: "2"} if core == "1" else {}
    decoded = decode(pod(container(limits={CORE: core}), annotations=annotations), node())
    assert {a.core for a in decoded.allocations} <= {None}
    (problem,) = decoded.problems
    assert problem.reason in {Reason.CORE_OUT_OF_RANGE, Reason.TOO_MANY_DEVICES}


def test_container_of_another_name_keeps_its_key_when_names_match() -> None:
    """A container called "1" is first in the pod: its key is not the second container's."""
    described = pod(
        container("1", {CORE: "10"}), container("b", {CORE: "20"}), annotations={INDEX + "1": "2"}
    )
    decoded = decode(described, node(*FOUR_CARDS))
    assert [(a.container, a.device) for a in decoded.allocations] == [("1", "GPU-2"), ("b", None)]


def test_pod_without_mgpu_resources_is_not_ours() -> None:
    described = pod(container(limits={"nvidia.com/gpu": "1"}), annotations={INDEX + "a": "x"})
    decoded = decode(described, node(labels={POLICY: "x"}))
    assert (decoded.allocations, decoded.problems) == ((), ())
