import pytest

from exporter.allocations.scheme import Reason
from exporter.allocations.schemes.tke_qgpu import decode
from tests.allocations.build import CARD_MEMORY, FOUR_CARDS, GIB, container, node, pod

CORE = "tke.cloud.tencent.com/qgpu-core"
GREEDY = "tke.cloud.tencent.com/qgpu-core-greedy"
MEMORY = "tke.cloud.tencent.com/qgpu-memory"
PLACEMENT = "tke.cloud.tencent.com/qgpu-pgpu-"
CLASS = "tke.cloud.tencent.com/app-class"
POLICY = "tke.cloud.tencent.com/qgpu-schedule-policy"


@pytest.mark.parametrize(
    ("limits", "shares"),
    [
        ({CORE: "40", MEMORY: "5"}, [(0.4, 5 * GIB)]),
        ({CORE: "100"}, [(1.0, CARD_MEMORY)]),
        ({CORE: "300"}, [(1.0, CARD_MEMORY)] * 3),
        ({CORE: "121", MEMORY: "31"}, [(0.6, 15 * GIB)] * 2),
        ({CORE: "160"}, [(0.8, None)] * 2),
        ({GREEDY: "100", MEMORY: "2"}, [(1.0, 2 * GIB)]),
        ({CORE: "20", GREEDY: "50", MEMORY: "2"}, [(0.2, 2 * GIB)]),
        ({CORE: "0", MEMORY: "2"}, [(None, 2 * GIB)]),
        ({CORE: "0"}, []),
    ],
)
def test_request_is_split_over_its_cards(
    limits: dict[str, str], shares: list[tuple[float | None, int | None]]
) -> None:
    decoded = decode(pod(container(limits=limits)), node(*FOUR_CARDS))
    assert [(a.core, a.memory_bytes) for a in decoded.allocations] == shares
    assert {a.device for a in decoded.allocations} <= {None}
    assert decoded.problems == ()


@pytest.mark.parametrize(
    ("label", "policy"),
    [
        ("be", "best-effort"),
        ("best-effort", "best-effort"),
        ("fs", "fixed-share"),
        ("bs", "burst-share"),
    ],
)
def test_policy_is_the_nodes_in_its_long_form(label: str, policy: str) -> None:
    decoded = decode(pod(container(limits={CORE: "10"})), node(labels={POLICY: label}))
    assert decoded.allocations[0].policy == policy


def test_placement_of_one_container_is_not_another_ones() -> None:
    described = pod(
        container("a", {CORE: "10"}),
        container("b", {CORE: "20"}, kind="sidecar"),
        container("i", {CORE: "30"}, kind="init"),
        annotations={PLACEMENT + "b": "1"},
    )
    decoded = decode(described, node(*FOUR_CARDS))
    assert [(a.container, a.device) for a in decoded.allocations] == [("a", None), ("b", "GPU-1")]


@pytest.mark.parametrize(
    ("limits", "annotations", "reason"),
    [
        ({GREEDY: "150", MEMORY: "2"}, {}, Reason.CORE_OUT_OF_RANGE),
        ({CORE: "10", MEMORY: "2e9"}, {}, Reason.MEMORY_OUT_OF_RANGE),
        ({CORE: "ten", MEMORY: "2"}, {}, Reason.BAD_QUANTITY),
        ({CORE: "1M"}, {}, Reason.TOO_MANY_DEVICES),
        ({CORE: "10"}, {CLASS: "Online"}, Reason.UNKNOWN_POLICY),
        ({CORE: "10"}, {PLACEMENT + "a": "9"}, Reason.UNKNOWN_DEVICE),
    ],
)
def test_bad_part_is_counted(
    limits: dict[str, str], annotations: dict[str, str], reason: Reason
) -> None:
    decoded = decode(pod(container(limits=limits), annotations=annotations), node(*FOUR_CARDS))
    assert [problem.reason for problem in decoded.problems] == [reason]
    assert all(a.device is None and a.priority == "" for a in decoded.allocations)


@pytest.mark.parametrize(
    ("labels", "card_policies", "policies"),
    [
        ({POLICY: "fs"}, {0: "best-effort\n", 1: "bs"}, ["burst-share", "best-effort"]),
        ({POLICY: "fs"}, {0: "be"}, ["fixed-share", "best-effort"]),
        ({POLICY: "fs", "mixed-qgpu-enable": "enable"}, {0: "be"}, ["mixed", "mixed"]),
        ({"mixed-qgpu-enable": "disable"}, {}, ["", ""]),
    ],
)
def test_policy_is_the_cards_own_or_else_the_nodes(
    labels: dict[str, str], card_policies: dict[int, str], policies: list[str]
) -> None:
    described = pod(container(limits={CORE: "200"}), annotations={PLACEMENT + "a": "1,0"})
    facts = node(*FOUR_CARDS, labels=labels, card_policies=card_policies)
    decoded = decode(described, facts)
    assert [a.policy for a in decoded.allocations] == policies
    assert decoded.problems == ()


def test_policy_of_an_unplaced_card_is_the_nodes() -> None:
    facts = node(*FOUR_CARDS, labels={POLICY: "fs"}, card_policies={0: "be"})
    decoded = decode(pod(container(limits={CORE: "20"})), facts)
    assert [a.policy for a in decoded.allocations] == ["fixed-share"]


def test_policies_are_by_the_number_that_the_placement_means() -> None:
    facts = node(*FOUR_CARDS, index_bases={"tke-qgpu": "minor"}, card_policies={7: "bs", 0: "be"})
    described = pod(container(limits={CORE: "20"}), annotations={PLACEMENT + "a": "7"})
    decoded = decode(described, facts)
    assert [(a.device, a.policy) for a in decoded.allocations] == [("GPU-0", "burst-share")]


def test_unreadable_policy_of_a_card_is_counted() -> None:
    described = pod(container(limits={CORE: "20"}), annotations={PLACEMENT + "a": "0"})
    decoded = decode(described, node(*FOUR_CARDS, card_policies={0: "?"}))
    assert [problem.reason for problem in decoded.problems] == [Reason.UNKNOWN_POLICY]
