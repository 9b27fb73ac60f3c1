from dataclasses import replace

import pytest

from exporter.agent.allocations.described import scheme_of
from exporter.agent.allocations.registry import read_by
from exporter.agent.allocations.terms import Decoded, Reason
from exporter.model import NodeFacts, Pod, SchemeDescription
from tests.agent.allocations.build import (
    CARD_MEMORY,
    FOUR_CARDS,
    GIB,
    MIB,
    card,
    container,
    node,
    pod,
)

CORE, MEMORY, COUNT = "acme.example/core", "acme.example/memory", "acme.example/cards"
CARDS = "acme.example/cards-of-"
ACME = SchemeDescription(
    name="acme",
    core_resource=CORE,
    memory_resource=MEMORY,
    count_resource=COUNT,
    placement_annotation=CARDS + "{container}",
)
NODE = node(*FOUR_CARDS)


def decode(pod: Pod, facts: NodeFacts = NODE, /, **more: object) -> Decoded:
    about = replace(ACME, **more)  # type: ignore[arg-type] # each test names fields with their types
    return read_by(scheme_of(about), pod, facts)


def shares(decoded: Decoded) -> list[tuple[float | None, int | None]]:
    return [(a.core, a.memory_bytes) for a in decoded.allocations]


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({CORE: "30", MEMORY: "1024"}, [(0.3, GIB)]),
        ({CORE: "30"}, [(0.3, None)]),
        ({MEMORY: "1024"}, [(None, GIB)]),
        ({CORE: "100"}, [(1.0, CARD_MEMORY)]),
        ({CORE: "100", MEMORY: "1024"}, [(1.0, GIB)]),
        ({CORE: "200"}, [(1.0, CARD_MEMORY)] * 2),
        ({CORE: "121", MEMORY: "31"}, [(0.605, 31 * MIB // 2)] * 2),
        ({CORE: "100", COUNT: "3", MEMORY: "10"}, [(1 / 3, 10 * MIB // 3)] * 3),
        ({CORE: "1", MEMORY: "1", COUNT: "2"}, [(0.005, MIB // 2)] * 2),
        ({COUNT: "2"}, [(None, None)] * 2),
        ({CORE: "0"}, []),
        ({"nvidia.com/gpu": "1"}, []),
    ],
)
def test_totals_are_divided_over_the_cards(
    limits: dict[str, str], expected: list[tuple[float | None, int | None]]
) -> None:
    decoded = decode(pod(container(limits=limits)))
    assert (shares(decoded), decoded.problems) == (expected, ())


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({CORE: "30", MEMORY: "1024", COUNT: "2"}, [(0.3, GIB)] * 2),
        ({CORE: "100", COUNT: "2"}, [(1.0, CARD_MEMORY)] * 2),
        ({CORE: "30"}, [(0.3, None)]),
    ],
)
def test_each_card_can_have_what_is_asked_for(
    limits: dict[str, str], expected: list[tuple[float | None, int | None]]
) -> None:
    assert shares(decode(pod(container(limits=limits)), amounts="each")) == expected


def test_cards_asked_for_by_number_alone_are_whole_where_that_is_said() -> None:
    whole = decode(pod(container(limits={COUNT: "2"})), count_alone="whole-cards")
    shared = decode(pod(container(limits={COUNT: "2", CORE: "60"})), count_alone="whole-cards")
    assert shares(whole) == [(1.0, CARD_MEMORY)] * 2
    assert shares(shared) == [(0.3, None)] * 2


@pytest.mark.parametrize(
    ("more", "limits", "expected"),
    [
        ({"core_units": 1}, {CORE: "2"}, [(1.0, CARD_MEMORY)] * 2),
        ({"core_units": 1000}, {CORE: "250"}, [(0.25, None)]),
        ({"memory_unit": 256 * MIB}, {MEMORY: "4"}, [(None, GIB)]),
        ({"memory_unit": 1}, {MEMORY: "16Gi"}, [(None, 16 * GIB)]),
        ({"memory_unit": GIB}, {MEMORY: "5"}, [(None, 5 * GIB)]),
    ],
)
def test_units_are_those_of_the_description(
    more: dict[str, object],
    limits: dict[str, str],
    expected: list[tuple[float | None, int | None]],
) -> None:
    assert shares(decode(pod(container(limits=limits)), **more)) == expected


@pytest.mark.parametrize(
    ("template", "key", "devices"),
    [
        (CARDS + "{container}", CARDS + "b", [None, "GPU-2"]),
        (CARDS + "{container}-x", CARDS + "b-x", [None, "GPU-2"]),
        (CARDS + "{index}", CARDS + "1", [None, "GPU-2"]),
        (CARDS + "{index}", CARDS + "b", [None, None]),
        ("acme.example/card", "acme.example/card", ["GPU-2", "GPU-2"]),
        ("", "", [None, None]),
    ],
)
def test_placement_is_the_containers_or_the_pods(
    template: str, key: str, devices: list[str | None]
) -> None:
    described = pod(
        container("a", {CORE: "10"}), container("b", {CORE: "20"}), annotations={key: "2"}
    )
    decoded = decode(described, placement_annotation=template)
    assert [a.device for a in decoded.allocations] == devices
    assert decoded.problems == ()


def test_place_is_counted_among_the_app_containers() -> None:
    described = pod(
        container("first", {CORE: "5"}, kind="sidecar"),
        container("setup", {CORE: "5"}, kind="init"),
        container("a", {CORE: "10"}),
        annotations={CARDS + "0": "3"},
    )
    decoded = decode(described, placement_annotation=CARDS + "{index}")
    assert [(a.container, a.device) for a in decoded.allocations] == [
        ("first", None),
        ("a", "GPU-3"),
    ]


@pytest.mark.parametrize(
    ("basis", "device"), [("nvml_index", "GPU-1"), ("minor", "GPU-6"), ("pci", "GPU-6")]
)
def test_numbers_mean_what_the_description_says(basis: str, device: str) -> None:
    cards = [replace(card(n), pci_bus_id=f"0000:{0x80 - n:02x}:00.0") for n in range(8)]
    described = pod(container(limits={CORE: "10"}), annotations={CARDS + "a": "1"})
    decoded = decode(described, node(*cards), index_basis=basis)
    assert [a.device for a in decoded.allocations] == [device]


@pytest.mark.parametrize(
    ("text", "devices", "reasons"),
    [
        ("GPU-1,GPU-0", ["GPU-1", "GPU-0"], []),
        ("GPU-1, GPU-9", ["GPU-1", None], [Reason.UNKNOWN_DEVICE]),
        ("GPU-1", [None, None], [Reason.PLACEMENT_MISMATCH]),
        ("GPU-1,GPU-1", [None, None], [Reason.PLACEMENT_MISMATCH]),
        ("0,1", [None, None], [Reason.UNKNOWN_DEVICE]),
        ("", [None, None], []),
    ],
)
def test_cards_can_be_listed_by_uuid(
    text: str, devices: list[str | None], reasons: list[Reason]
) -> None:
    described = pod(container(limits={COUNT: "2"}), annotations={CARDS + "a": text})
    decoded = decode(described, index_basis="uuid")
    assert [a.device for a in decoded.allocations] == devices
    assert [problem.reason for problem in decoded.problems] == reasons


@pytest.mark.parametrize(
    ("annotation", "label", "policy", "reasons"),
    [
        ("burst", "fixed", "burst", []),
        ("", "fixed", "fixed", []),
        ("", "", "", []),
        ("x" * 64, "fixed", "", [Reason.UNKNOWN_POLICY]),
        ("a\nb", "", "", [Reason.UNKNOWN_POLICY]),
        ("\ud800", "", "", [Reason.UNKNOWN_POLICY]),
    ],
)
def test_policy_is_the_pods_or_else_the_nodes(
    annotation: str, label: str, policy: str, reasons: list[Reason]
) -> None:
    described = pod(container(limits={CORE: "10"}), annotations={"acme.example/policy": annotation})
    decoded = decode(
        described,
        node(*FOUR_CARDS, labels={"acme.example/node-policy": label}),
        policy_annotation="acme.example/policy",
        policy_node_label="acme.example/node-policy",
    )
    assert [a.policy for a in decoded.allocations] == [policy]
    assert [problem.reason for problem in decoded.problems] == reasons


@pytest.mark.parametrize(
    ("limits", "annotation", "reason"),
    [
        ({CORE: "x"}, "", Reason.BAD_QUANTITY),
        ({CORE: "-1"}, "", Reason.BAD_QUANTITY),
        ({CORE: "100k"}, "", Reason.TOO_MANY_DEVICES),
        ({COUNT: "65"}, "", Reason.TOO_MANY_DEVICES),
        ({CORE: "300", COUNT: "2"}, "", Reason.CORE_OUT_OF_RANGE),
        ({MEMORY: "8Ei"}, "", Reason.BAD_QUANTITY),
        ({MEMORY: "1Ei"}, "", Reason.MEMORY_OUT_OF_RANGE),
        ({CORE: "10"}, "9", Reason.UNKNOWN_DEVICE),
        ({CORE: "10"}, "0,1", Reason.PLACEMENT_MISMATCH),
        ({CORE: "10"}, "-1", Reason.BAD_ANNOTATION),
        ({CORE: "10"}, "1," * 40_000, Reason.BAD_ANNOTATION),
    ],
)
def test_bad_part_is_counted_and_costs_only_itself(
    limits: dict[str, str], annotation: str, reason: Reason
) -> None:
    described = pod(
        container("a", limits), container("b", {CORE: "20"}), annotations={CARDS + "a": annotation}
    )
    decoded = decode(described)
    assert [problem.reason for problem in decoded.problems] == [reason]
    assert [a.core for a in decoded.allocations if a.container == "b"] == [0.2]
    assert {a.device for a in decoded.allocations} == {None}
