from collections.abc import Mapping
from dataclasses import replace

import pytest

from exporter.agent.allocations import registry
from exporter.agent.allocations.rules import Rules, make
from exporter.agent.allocations.schemes.kai import SCHEME
from exporter.agent.allocations.terms import Decoded, Reason
from exporter.model import Allocation, Grant, NodeFacts, Pod
from tests.agent.allocations.build import (
    FOUR_CARDS,
    GIB,
    MIB,
    container,
    decoder,
    node,
    pod,
    reasons,
)

decode = decoder(SCHEME)

FRACTION, MEMORY = "gpu-fraction", "gpu-memory"
COUNT, NAMED = "gpu-fraction-num-devices", "gpu-fraction-container-name"
GPU = {"nvidia.com/gpu": "1"}


def reservation(group: str, uuid: str, namespace: str = "kai-resource-reservation") -> Pod:
    return Pod(
        uid=f"{namespace}/{group}/{uuid}",
        namespace=namespace,
        name=f"gpu-reservation-{group}",
        phase="Running",
        containers=(container("reservation", GPU),),
        labels={"runai-gpu-group": group},
        annotations={"run.ai/reserve_for_gpu_index": uuid},
    )


def knowing(*pods: Pod, rules: Rules | None = None) -> NodeFacts:
    facts = node(*FOUR_CARDS, labels={"kubernetes.io/os": "linux"})
    return (rules or make()).tied(facts, pods)


TWO = knowing(reservation("g", "GPU-2"), reservation("h", "GPU-3"))
BOTH = {"runai-gpu-group/g": "g", "runai-gpu-group/h": "h"}


def fraction_of(
    annotations: Mapping[str, str], labels: Mapping[str, str] | None = None, names: str = "ab"
) -> Pod:
    described = pod(*map(container, names), annotations=annotations)
    return replace(described, labels={"runai-gpu-group": "g"} if labels is None else labels)


def shares(allocations: tuple[Allocation, ...]) -> list[tuple[object, ...]]:
    return [(a.container, a.device, a.core, a.memory_bytes) for a in allocations]


@pytest.mark.parametrize(
    ("annotations", "labels", "expected"),
    [
        ({FRACTION: "0.25"}, None, [("a", "GPU-2", 0.25, 8 * GIB)]),
        ({FRACTION: ".5"}, None, [("a", "GPU-2", 0.5, 16 * GIB)]),
        ({FRACTION: "1"}, None, [("a", "GPU-2", 1.0, 32 * GIB)]),
        ({MEMORY: "2000"}, None, [("a", "GPU-2", None, 2000 * MIB)]),
        ({FRACTION: "0.5", NAMED: "b"}, None, [("b", "GPU-2", 0.5, 16 * GIB)]),
        (
            {FRACTION: "0.5", COUNT: "2"},
            BOTH,
            [("a", "GPU-2", 0.5, 16 * GIB), ("a", "GPU-3", 0.5, 16 * GIB)],
        ),
    ],
)
def test_fraction_is_of_the_device_that_its_group_reserves(
    annotations: dict[str, str],
    labels: dict[str, str] | None,
    expected: list[tuple[object, ...]],
) -> None:
    decoded = decode(fraction_of(annotations, labels), TWO)
    assert shares(decoded.allocations) == expected
    assert {a.policy for a in decoded.allocations} == {"unenforced"}
    assert decoded.problems == ()


@pytest.mark.parametrize(
    "facts",
    [
        knowing(reservation("g", "")),
        knowing(reservation("g", "GPU-2"), reservation("g", "GPU-3")),
    ],
    ids=["not annotated", "two"],
)
def test_device_that_its_reservation_does_not_tell_is_not_known(facts: NodeFacts) -> None:
    decoded = decode(fraction_of({FRACTION: "0.25"}), facts)
    assert shares(decoded.allocations) == [("a", None, 0.25, 8 * GIB)]


@pytest.mark.parametrize(
    "facts",
    [
        knowing(),
        knowing(reservation("other", "GPU-2")),
        knowing(reservation("g", "GPU-2", namespace="tenant")),
        knowing(replace(reservation("g", "GPU-2"), phase="Succeeded")),
        knowing(replace(reservation("g", "GPU-2"), deleted=True)),
    ],
    ids=["none", "of others", "a tenant's", "ended", "deleted"],
)
def test_fraction_for_which_the_scheduler_reserved_nothing_is_refused(facts: NodeFacts) -> None:
    decoded = registry.decode(fraction_of({FRACTION: "0.25"}), facts)
    assert decoded.allocations == ()
    assert [(p.scheme, p.reason) for p in decoded.problems] == [("kai", Reason.UNPROVEN)]


def test_fraction_counts_once_for_each_reservation_whatever_the_pod_states() -> None:
    labels = {"runai-gpu-group": "g", "runai-gpu-group/x": "x", "runai-gpu-group/y": "y"}
    decoded = decode(fraction_of({FRACTION: "1", COUNT: "3"}, labels), TWO)
    assert shares(decoded.allocations) == [("a", None, 1.0, 32 * GIB)]
    assert [p.reason for p in decoded.problems] == [Reason.PLACEMENT_MISMATCH]


@pytest.mark.parametrize("namespace", ["kai-resource-reservation", "runai-reservation"])
def test_reservation_is_never_a_consumer(namespace: str) -> None:
    reserving = reservation("g", "GPU-2", namespace)
    assert decode(reserving, knowing(reserving)) == Decoded(consumer=False)
    assert registry.decode(reserving, knowing(reserving)) == Decoded()


def test_runai_reservations_place_as_well() -> None:
    facts = knowing(reservation("g", "GPU-1", namespace="runai-reservation"))
    assert decode(fraction_of({FRACTION: "0.25"}), facts).allocations[0].device == "GPU-1"


@pytest.mark.parametrize(
    ("annotations", "labels"),
    [({}, {"runai-gpu-group": "g"}), ({MEMORY: "2000"}, {}), ({MEMORY: "2000"}, {"app": "g"})],
    ids=["nothing asked", "no group", "another label"],
)
def test_pod_that_is_not_kais_is_left_alone(
    annotations: dict[str, str], labels: dict[str, str]
) -> None:
    assert decode(fraction_of(annotations, labels), TWO) == Decoded()


def test_whole_card_cannot_be_hidden_behind_a_fraction() -> None:
    described = replace(fraction_of({FRACTION: "0.01"}), containers=(container("a", GPU),))
    found = registry.decode(described, TWO).allocations
    assert [(a.scheme, a.core) for a in found] == [("nvidia-device-plugin", 1.0)]


@pytest.mark.parametrize(
    ("annotations", "labels", "reason", "expected"),
    [
        ({FRACTION: "1.5"}, None, Reason.CORE_OUT_OF_RANGE, [("a", "GPU-2", None, None)]),
        ({FRACTION: "nan"}, None, Reason.CORE_OUT_OF_RANGE, [("a", "GPU-2", None, None)]),
        ({FRACTION: "-0.5"}, None, Reason.CORE_OUT_OF_RANGE, [("a", "GPU-2", None, None)]),
        ({MEMORY: "2Gi"}, None, Reason.BAD_QUANTITY, [("a", "GPU-2", None, None)]),
        ({MEMORY: "9" * 15}, None, Reason.MEMORY_OUT_OF_RANGE, [("a", "GPU-2", None, None)]),
        (
            {FRACTION: "0.5", NAMED: "z"},
            None,
            Reason.CONTAINER_MISMATCH,
            [("", "GPU-2", 0.5, 16 * GIB)],
        ),
        (
            {FRACTION: "0.5", COUNT: "x"},
            None,
            Reason.BAD_ANNOTATION,
            [("a", "GPU-2", 0.5, 16 * GIB)],
        ),
        (
            {FRACTION: "0.5", COUNT: "2"},
            None,
            Reason.PLACEMENT_MISMATCH,
            [("a", None, 0.5, 16 * GIB)],
        ),
        (
            {FRACTION: "0.5", COUNT: "65"},
            None,
            Reason.TOO_MANY_DEVICES,
            [("a", "GPU-2", 0.5, 16 * GIB)],
        ),
    ],
)
def test_bad_part_is_counted(
    annotations: dict[str, str],
    labels: dict[str, str] | None,
    reason: Reason,
    expected: list[tuple[object, ...]],
) -> None:
    decoded = decode(fraction_of(annotations, labels), TWO)
    assert [p.reason for p in decoded.problems] == [reason]
    assert shares(decoded.allocations) == expected


@pytest.mark.parametrize(
    ("annotations", "memory", "problems"),
    [
        ({FRACTION: "25e-2", "gpu-fraction-limit": "0.75"}, 24 * GIB, []),
        ({FRACTION: "+0.25", "gpu-fraction-limit": "0.25"}, 8 * GIB, []),
        ({FRACTION: "0.5", "gpu-fraction-limit": "0.25"}, 16 * GIB, [Reason.LIMITS_DIFFER]),
        ({FRACTION: "0.5", "gpu-fraction-limit": "9e9"}, 16 * GIB, [Reason.CORE_OUT_OF_RANGE]),
        ({MEMORY: "2000", "gpu-memory-limit": "4000"}, 4000 * MIB, []),
        ({MEMORY: "2000", "gpu-memory-limit": "1000"}, 2000 * MIB, [Reason.LIMITS_DIFFER]),
        ({MEMORY: "2000", "gpu-memory-limit": "ü"}, 2000 * MIB, [Reason.BAD_QUANTITY]),
        ({FRACTION: "1e-30"}, None, [Reason.MEMORY_OUT_OF_RANGE]),
        ({FRACTION: "0x1p-1"}, None, [Reason.CORE_OUT_OF_RANGE]),
        ({FRACTION: "9" * 5000}, None, [Reason.CORE_OUT_OF_RANGE]),
    ],
)
def test_dynamic_fraction_may_grow_to_its_limit(
    annotations: dict[str, str], memory: int | None, problems: list[Reason]
) -> None:
    decoded = decode(fraction_of(annotations), TWO)
    assert [a.memory_bytes for a in decoded.allocations] == [memory]
    assert [p.reason for p in decoded.problems] == problems


@pytest.mark.parametrize(
    ("annotations", "kept"),
    [
        ({FRACTION: "0.25", "gpu-fraction-limit": "0.75"}, 8 * GIB),
        ({MEMORY: "2000", "gpu-memory-limit": "4000"}, 2000 * MIB),
        ({FRACTION: "0.25"}, None),
    ],
)
def test_of_a_dynamic_fraction_the_request_is_kept(
    annotations: dict[str, str], kept: int | None
) -> None:
    (one,) = decode(fraction_of(annotations), TWO).allocations
    assert one.kept_bytes == kept


def chosen(namespace: str, **changes: object) -> Pod:
    """Return a reservation, as the chart makes it, in a namespace of the operator's."""
    own = replace(reservation("g", "GPU-2", namespace), containers=(container(HOLDER, GPU),))
    return replace(own, **changes)  # type: ignore[arg-type] # fields of a pod


HOLDER = "resource-reservation"


def test_reservation_in_a_namespace_of_the_operators_is_found_by_its_name() -> None:
    facts = knowing(chosen("gpu-reservations"))
    assert decode(fraction_of({FRACTION: "0.5"}), facts).allocations[0].device == "GPU-2"


@pytest.mark.parametrize(
    ("namespace", "fraction", "users"),
    [
        ("gpu-reservations", {}, 0),
        ("default", {}, 1),
        ("gpu-reservations", {"labels": {}}, 1),
        ("gpu-reservations", {"labels": {"runai-gpu-group": "h"}}, 1),
        ("gpu-reservations", {"phase": "Failed"}, 1),
    ],
    ids=["of another namespace", "of its own namespace", "none", "another group's", "ended"],
)
def test_reservation_found_by_its_name_holds_its_card_for_a_fraction(
    namespace: str, fraction: dict[str, object], users: int
) -> None:
    """A tenant of one namespace could hide a whole card behind such names."""
    reserving = chosen(namespace)
    neighbour = replace(fraction_of({FRACTION: "0.5"}), **fraction)  # type: ignore[arg-type]
    known = make().tied(TWO, (reserving, neighbour))
    assert len(registry.decode(reserving, known).allocations) == users


@pytest.mark.parametrize(
    ("reserving", "grants"),
    [
        (chosen("default"), {}),
        (chosen("x", name="mine"), {}),
        (chosen("x", containers=(container("mine", GPU),)), {}),
        (chosen("x"), {"x/g/GPU-2": (Grant(HOLDER, "nvidia.com/gpu", ("GPU-3",)),)}),
    ],
    ids=["of the fraction's namespace", "another name", "another container", "another device"],
)
def test_pod_that_poses_as_a_reservation_proves_nothing(
    reserving: Pod, grants: dict[str, tuple[Grant, ...]]
) -> None:
    facts = make().tied(replace(TWO, grants=grants), [reserving])
    decoded = decode(fraction_of({FRACTION: "0.5"}), facts)
    assert (decoded.allocations, reasons(decoded)) == ((), [Reason.UNPROVEN])


def test_named_namespaces_are_the_only_ones() -> None:
    named = make(kai_namespaces=("ours",))
    fraction = fraction_of({FRACTION: "0.5"})
    ours = knowing(chosen("ours"), rules=named)
    assert named.decode(fraction, ours).allocations[0].device
    for other in (chosen("x"), reservation("g", "GPU-2")):
        known = knowing(other, rules=named)
        assert reasons(named.decode(fraction, known)) == [Reason.UNPROVEN]
        assert named.decode(other, known).allocations


@pytest.mark.parametrize(
    ("annotations", "card", "held"),
    [
        ({FRACTION: "0.3"}, "32607", 9782),
        ({FRACTION: "0.333"}, "32607", 10760),  # 0.33 of it
        ({MEMORY: "1000"}, "4096", 1024),  # 0.25 of 4096: 1000 of 4000
        ({MEMORY: "1001"}, "4096", 1064),  # 0.26 of 4096: rounded up
        ({MEMORY: "1000"}, "0", 1000),
        ({MEMORY: "40"}, "99", 40),
    ],
)
def test_limit_is_what_hami_core_is_told_where_it_is_loaded_from_the_host(
    annotations: dict[str, str], card: str, held: int
) -> None:
    """The scheduler hands on a share of two decimals, and that share of the card is the limit."""
    fraction = fraction_of(annotations)
    hooked = replace(fraction, containers=(replace(container("a"), memory_hook=True),))
    facts = replace(TWO, labels={"nvidia.com/gpu.memory": card})
    [allocation] = decode(hooked, facts).allocations
    assert (allocation.policy, allocation.memory_bytes) == ("enforced", held * MIB)
    [allocation] = decode(fraction, replace(facts, labels={})).allocations
    asked = int(annotations[MEMORY]) * MIB if MEMORY in annotations else None
    assert allocation.policy == "unenforced"
    assert asked in {None, allocation.memory_bytes}


@pytest.mark.parametrize(
    ("uuids", "reason"),
    [(("GPU-2", "GPU-2"), Reason.DUPLICATE_DEVICE), (("GPU-2", "x"), Reason.UNKNOWN_DEVICE)],
)
def test_reservations_that_cannot_be_true_are_not_believed(
    uuids: tuple[str, str], reason: Reason
) -> None:
    facts = knowing(reservation("g", uuids[0]), reservation("h", uuids[1]))
    decoded = decode(fraction_of({FRACTION: "0.5", COUNT: "2"}, BOTH), facts)
    assert [p.reason for p in decoded.problems] == [reason]
    assert [a.device for a in decoded.allocations].count("GPU-2") <= 1
    assert len(decoded.allocations) == 2
