from dataclasses import replace

import pytest

from exporter.allocations import registry
from exporter.allocations.scheme import Reason
from exporter.allocations.schemes.vgpu_manager import decode
from exporter.model import NodeFacts, Pod
from tests.allocations.build import (
    CARD_MEMORY,
    FOUR_CARDS,
    GIB,
    MIB,
    Told,
    container,
    granted,
    node,
    pod,
    reasons,
    told,
)

NUMBER, CORES, MEMORY = (f"nvidia.com/vgpu-{name}" for name in ("number", "cores", "memory"))
PLANNED, REAL = "nvidia.com/pre-allocated", "nvidia.com/real-allocated"
NODE = node(*FOUR_CARDS, labels={"kubernetes.io/os": "linux"})
ASKED = {NUMBER: "1", CORES: "10", MEMORY: "1024"}


def listed(text: str, limits: dict[str, str] | None = None, key: str = REAL) -> Pod:
    return pod(container("a", ASKED if limits is None else limits), annotations={key: text})


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({REAL: "a[0_GPU-0_10_1024]"}, "GPU-0"),
        ({PLANNED: "a[0_GPU-0_10_1024]"}, "GPU-0"),
        ({PLANNED: "a[0_GPU-0_10_1024]", REAL: "a[1_GPU-1_10_1024]"}, "GPU-1"),
        ({PLANNED: "a[0_GPU-0_10_1024];b[0_GPU-0_5_9]", REAL: "a[1_GPU-1_10_1024]"}, "GPU-1"),
        ({PLANNED: "b[0_GPU-0_5_9];a[0_GPU-0_10_1024]", REAL: "b[1_GPU-1_10_1024]"}, "GPU-0"),
        ({REAL: " a[0_GPU-0_10_1024 ] ; "}, "GPU-0"),
        ({}, None),
    ],
)
def test_device_plugins_list_counts_before_the_schedulers(
    annotations: dict[str, str], expected: str | None
) -> None:
    both = pod(container("a", ASKED), container("b"), annotations=annotations)
    assert told(decode(both, NODE)) == [("a", expected, 0.1, GIB)]


@pytest.mark.parametrize(
    ("limits", "text", "expected"),
    [
        ({NUMBER: "1"}, "a[0_GPU-0_100_32768]", [("a", "GPU-0", 1.0, CARD_MEMORY)]),
        ({NUMBER: "1"}, "", [("a", None, 1.0, CARD_MEMORY)]),
        ({NUMBER: "1", MEMORY: "512"}, "a[0_GPU-0_0_512]", [("a", "GPU-0", None, 512 * MIB)]),
        ({NUMBER: "1", CORES: "30"}, "a[0_GPU-0_30_32768]", [("a", "GPU-0", 0.3, CARD_MEMORY)]),
        ({NUMBER: "1", CORES: "30"}, "", [("a", None, 0.3, CARD_MEMORY)]),
        (
            {NUMBER: "2", CORES: "30", MEMORY: "512"},
            "a[0_GPU-0_30_512,1_GPU-1_30_512]",
            [("a", "GPU-0", 0.3, 512 * MIB), ("a", "GPU-1", 0.3, 512 * MIB)],
        ),
        ({CORES: "30"}, "", []),  # the scheduler ignores it without a number
    ],
)
def test_amounts_are_each_cards(limits: dict[str, str], text: str, expected: Told) -> None:
    decoded = decode(listed(text, limits), NODE)
    assert told(decoded) == expected
    assert decoded.problems == ()


@pytest.mark.parametrize(
    ("config", "memory"),
    [
        ('{"deviceSplit":10,"coresScaling":1,"memoryFactor":4,"memoryScaling":1}', 4 * GIB),
        ("{}", GIB),
        ("[" * 9000, GIB),
        ('{"memoryFactor":-1}', GIB),
        ('{"memoryFactor":true}', GIB),
        ("null", GIB),
    ],
)
def test_limits_are_in_units_of_the_nodes_factor(config: str, memory: int) -> None:
    facts = replace(NODE, annotations={"nvidia.com/node-config-info": config})
    assert told(decode(listed(""), facts)) == [("a", None, 0.1, memory)]
    mib = memory // MIB
    assert decode(listed(f"a[0_GPU-0_10_{mib}]"), facts).problems == ()


def test_grant_of_the_kubelets_choice_places_nothing() -> None:
    facts = replace(NODE, grants=granted({NUMBER: ["GPU-3::1"], CORES: ["GPU-2::0", "GPU-2::1"]}))
    decoded = registry.decode(listed("a[0_GPU-0_10_1024]"), facts)
    assert told(decoded) == [("a", "GPU-0", 0.1, GIB)]
    assert {a.scheme for a in decoded.allocations} == {"vgpu-manager"}
    unlisted = registry.decode(listed(""), facts)
    assert told(unlisted) == [("a", None, 0.1, GIB)]


@pytest.mark.parametrize(
    ("pods", "nodes", "policy", "problems"),
    [
        ("", "", "fixed", []),
        ("Balance", "", "balance", []),
        ("", "none", "none", []),
        ("fixed", "none", "fixed", []),
        ("x" * 999, "", "fixed", [Reason.UNKNOWN_POLICY]),
    ],
)
def test_policy_is_the_pods_else_the_nodes(
    pods: str, nodes: str, policy: str, problems: list[Reason]
) -> None:
    key = "nvidia.com/vgpu-compute-policy"
    described = pod(container("a", ASKED), annotations={key: pods})
    decoded = decode(described, replace(NODE, annotations={key: nodes}))
    assert ({a.policy for a in decoded.allocations}, reasons(decoded)) == ({policy}, problems)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a", Reason.BAD_ANNOTATION),
        ("a[0_GPU-0_10]", Reason.BAD_ANNOTATION),
        ("a[0_GPU-0_10_1024_9]", Reason.BAD_ANNOTATION),
        ("a[0_GPU-0_-1_1024]", Reason.BAD_ANNOTATION),
        ("a[0_GPU-0_10_" + "9" * 5000 + "]", Reason.BAD_ANNOTATION),
        ("a[0_GPU-0_10_1024];a[1_GPU-1_10_1024]", Reason.BAD_ANNOTATION),
        ("a[[0_GPU-0_10_1024]]", Reason.BAD_ANNOTATION),
        ("a[0_GPU-0_10_٣]", Reason.BAD_ANNOTATION),
        ("é[0_GPU-0_10_1024]", Reason.CONTAINER_MISMATCH),
        ("a[0_GPU-9_10_1024]", Reason.UNKNOWN_DEVICE),
        ("a[0_GPU-0_90_1024]", Reason.LIMITS_DIFFER),
        ("a[0_GPU-0_10_9999]", Reason.LIMITS_DIFFER),
        ("a[0_GPU-0_10_1024,0_GPU-1_10_1024]", Reason.PLACEMENT_MISMATCH),
        ("a[" + "0_GPU-0_10_1024," * 4000 + "]", Reason.TOO_MANY_DEVICES),
        ("a[" + "0_GPU-0_10_1024," * 5000 + "]", Reason.BAD_ANNOTATION),
        ("b[0_GPU-0_10_1024];" * 2000, Reason.BAD_ANNOTATION),
    ],
    ids=lambda value: str(value)[:24],
)
def test_bad_list_is_counted_and_the_limits_stand(text: str, reason: Reason) -> None:
    decoded = decode(listed(text), NODE)
    assert reason in reasons(decoded)
    assert {(a.core, a.memory_bytes) for a in decoded.allocations} <= {(0.1, GIB)}


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        ({NUMBER: "65"}, Reason.TOO_MANY_DEVICES),
        ({NUMBER: "9" * 40}, Reason.BAD_QUANTITY),
        ({NUMBER: "1", CORES: "101"}, Reason.CORE_OUT_OF_RANGE),
        ({NUMBER: "1", MEMORY: str(2**50)}, Reason.MEMORY_OUT_OF_RANGE),
    ],
)
def test_limits_that_cannot_be_true_are_counted(limits: dict[str, str], reason: Reason) -> None:
    assert reasons(decode(listed("", limits), NODE)) == [reason]


def test_list_without_a_limit_is_refused() -> None:
    decoded = registry.decode(listed("a[0_GPU-0_10_1024]", {}), NODE)
    assert (decoded.allocations, reasons(decoded)) == ((), [Reason.NOT_REQUESTED])


def test_list_of_two_cards_that_are_one_is_refused() -> None:
    limits = {**ASKED, NUMBER: "2"}
    decoded = decode(listed("a[0_GPU-0_10_1024,0_GPU-0_10_1024]", limits), NODE)
    assert told(decoded) == [("a", None, 0.1, GIB)] * 2
    assert reasons(decoded) == [Reason.DUPLICATE_DEVICE]


def test_nothing_is_known_of_the_node() -> None:
    assert told(decode(listed("a[0_GPU-0_10_1024]"), NodeFacts())) == [("a", None, 0.1, GIB)]
