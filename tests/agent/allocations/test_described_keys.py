"""Amounts that a described scheme reads from annotations and labels."""

import json
from collections.abc import Mapping

import pytest

from exporter.agent.allocations import registry
from exporter.agent.allocations.described import scheme_of
from exporter.agent.allocations.registry import read_by
from exporter.agent.allocations.rules import RulesError, make
from exporter.agent.allocations.terms import Reason
from exporter.model import SchemeDescription
from tests.agent.allocations.build import (
    CARD_MEMORY,
    FOUR_CARDS,
    GIB,
    MIB,
    Told,
    container,
    node,
    pod,
    reasons,
    told,
)

NODE = node(*FOUR_CARDS)
ACME = SchemeDescription(
    name="acme",
    core_key="acme.example/share",
    core_units=1,
    memory_key="acme.example/memory",
    count_key="acme.example/count",
    container_key="acme.example/containers",
    placement_annotation="acme.example/cards",
    index_basis="uuid",
)
GUARDED = SchemeDescription(
    name="acme", memory_key="acme.example/memory", evidence_resource="acme.example/index_"
)
BOTH = SchemeDescription(
    name="acme", core_resource="acme.example/core", core_key="acme.example/share", core_units=100
)


def of(values: Mapping[str, str]) -> dict[str, str]:
    return {f"acme.example/{name}": value for name, value in values.items()}


@pytest.mark.parametrize(
    ("stated", "expected"),
    [
        ({"share": "0.25"}, [("a", None, 0.25, None)]),
        ({"share": "1.0"}, [("a", None, 1.0, CARD_MEMORY)]),
        ({"share": "1.5"}, [("a", None, 0.75, None)] * 2),
        ({"share": "1", "count": "2"}, [("a", None, 0.5, None)] * 2),
        ({"memory": "2.5"}, [("a", None, None, 2621440)]),
        ({"memory": "4Gi"}, [("a", None, None, 4 * GIB)]),
        ({"memory": "4Gi", "count": "2"}, [("a", None, None, 2 * GIB)] * 2),
        ({"count": "1"}, [("a", None, None, None)]),
        ({"share": "0.5", "cards": "GPU-2"}, [("a", "GPU-2", 0.5, None)]),
        ({"share": "0.5", "cards": "gpu-2"}, [("a", "GPU-2", 0.5, None)]),
        ({}, []),
    ],
)
def test_amounts_are_those_that_the_pod_states(stated: dict[str, str], expected: Told) -> None:
    described = pod(container("a"), annotations=of(stated))
    assert told(read_by(scheme_of(ACME), described, NODE)) == expected
    assert read_by(scheme_of(ACME), described, NODE).problems == ()


def test_label_states_what_no_annotation_does() -> None:
    described = pod(container("a"), labels=of({"share": "0.5"}), annotations=of({"memory": "8"}))
    assert told(read_by(scheme_of(ACME), described, NODE)) == [("a", None, 0.5, 8 * MIB)]


@pytest.mark.parametrize(
    ("names", "owners", "problems"),
    [
        ("", [""], []),
        ("b", ["b"], []),
        ("a, b", ["a", "b"], []),
        ("b,z", ["b"], [Reason.CONTAINER_MISMATCH]),
        ("z", [], [Reason.CONTAINER_MISMATCH]),
        (",,", [""], []),
    ],
)
def test_amounts_are_the_named_containers(
    names: str, owners: list[str], problems: list[Reason]
) -> None:
    annotations = of({"share": "0.5", "containers": names})
    decoded = read_by(
        scheme_of(ACME), pod(container("a"), container("b"), annotations=annotations), NODE
    )
    assert [a.container for a in decoded.allocations] == owners
    assert reasons(decoded) == problems


def test_amounts_count_for_who_asks_for_the_evidence() -> None:
    asking = container("b", {"acme.example/index_7": "1"})
    described = pod(container("a"), asking, annotations=of({"memory": "8"}))
    assert told(read_by(scheme_of(GUARDED), described, NODE)) == [("b", None, None, 8 * MIB)]
    forged = pod(container("a"), annotations=of({"memory": "8"}))
    assert reasons(read_by(scheme_of(GUARDED), forged, NODE)) == [Reason.NOT_REQUESTED]
    assert read_by(scheme_of(GUARDED), forged, NODE).allocations == ()


def test_resource_counts_before_the_annotation() -> None:
    limits = {"acme.example/core": "30"}
    described = pod(container("a", limits), container("b"), annotations=of({"share": "90"}))
    assert told(read_by(scheme_of(BOTH), described, NODE)) == [("a", None, 0.3, None)]
    forged = pod(container("a"), annotations=of({"share": "90"}))
    assert reasons(read_by(scheme_of(BOTH), forged, NODE)) == [Reason.NOT_REQUESTED]


def test_evidence_of_a_shipped_scheme_needs_its_replacement() -> None:
    taken = SchemeDescription(name="x", core_key="a.b/c", evidence_resource="nvidia.com/gpu")
    with pytest.raises(RulesError, match="nvidia-device-plugin"):
        make((taken,))


HOSTILE = [
    *("-1", "nan", "inf", "1e9", "9" * 5000, "0." + "1" * 5000, "\u0663", "ü", "\0", "1/2", "½"),
    *("[" * 5000, "{}", "1Zi", "-4Gi", "1.1.1", json.dumps(["x"] * 3000), ",".join("x" * 3000)),
]


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: f"{text[:8]!a}x{len(text)}")
@pytest.mark.parametrize("key", ["share", "memory", "count", "cards", "containers"])
def test_hostile_text_costs_its_part(key: str, text: str) -> None:
    annotations = of({"share": "0.5", "memory": "8", key: text})
    decoded = read_by(scheme_of(ACME), pod(container("a"), annotations=annotations), NODE)
    assert reasons(decoded)
    assert len(decoded.allocations) <= 1
    assert all(a.core in {None, 0.5} for a in decoded.allocations)
    assert all(a.memory_bytes in {None, 8 * MIB} for a in decoded.allocations)


@pytest.mark.parametrize(
    ("stated", "reason"),
    [
        ({"share": "65"}, Reason.TOO_MANY_DEVICES),
        ({"share": "0.5", "count": "1000"}, Reason.TOO_MANY_DEVICES),
        ({"share": "3", "count": "2"}, Reason.CORE_OUT_OF_RANGE),
        ({"memory": "1Ei"}, Reason.MEMORY_OUT_OF_RANGE),
        ({"share": "0.5", "count": "1.5"}, Reason.BAD_QUANTITY),
        ({"share": "0.5", "cards": "GPU-0,GPU-1"}, Reason.PLACEMENT_MISMATCH),
    ],
)
def test_amount_that_cannot_be_true_is_counted(stated: dict[str, str], reason: Reason) -> None:
    decoded = read_by(scheme_of(ACME), pod(container("a"), annotations=of(stated)), NODE)
    assert reason in reasons(decoded)


def test_described_scheme_is_read_before_the_shipped_ones() -> None:
    rules = make((ACME,))
    assert {"acme.example/share", "acme.example/memory"} <= {*rules.annotations, *rules.labels}
    described = pod(container("a"), annotations=of({"share": "0.5"}))
    assert [a.scheme for a in registry.decode(described, NODE, rules.schemes).allocations] == [
        "acme"
    ]
