import json

import pytest

from exporter.allocations import registry
from exporter.allocations.scheme import Reason
from exporter.allocations.schemes.koordinator import decode
from exporter.model import Container
from tests.allocations.build import (
    CARD_MEMORY,
    FOUR_CARDS,
    GIB,
    Told,
    card,
    container,
    node,
    pod,
    reasons,
    told,
)

ALLOCATED = "scheduling.koordinator.sh/device-allocated"
CORE = "koordinator.sh/gpu-core"
MEMORY = "koordinator.sh/gpu-memory"
RATIO = "koordinator.sh/gpu-memory-ratio"
BOTH = "koordinator.sh/gpu"
SHARED = "koordinator.sh/gpu.shared"
PLAIN = container("plain")
USER = container("user", {CORE: "50", RATIO: "50"})
TENTH, FOUR_TENTHS = {CORE: "10", RATIO: "10"}, {CORE: "40", RATIO: "40"}
HALF = {CORE: "50", MEMORY: "16Gi", RATIO: "50"}


def allocated(*devices: object) -> dict[str, str]:
    return {ALLOCATED: json.dumps({"gpu": devices, "rdma": [{"minor": 0}]})}


def device(minor: object, resources: object) -> dict[str, object]:
    return {"minor": minor, "resources": resources}


@pytest.mark.parametrize(
    ("limits", "resources", "core", "memory"),
    [
        ({CORE: "50", RATIO: "50"}, HALF, 0.5, 16 * GIB),
        ({CORE: "50", RATIO: "25"}, {CORE: "50", RATIO: "25"}, 0.5, CARD_MEMORY // 4),
        ({MEMORY: "12508288Ki"}, {MEMORY: "12508288Ki", RATIO: "37"}, None, 12508288 << 10),
        ({BOTH: "100"}, {CORE: "100", MEMORY: "32Gi", RATIO: "100"}, 1.0, 32 * GIB),
        ({"nvidia.com/gpu": "1"}, {CORE: "100"}, 1.0, CARD_MEMORY),
        ({CORE: "50", RATIO: "50"}, {CORE: 50}, 0.5, CARD_MEMORY // 2),
        ({RATIO: "50"}, {CORE: "0"}, None, CARD_MEMORY // 2),
        ({RATIO: "50"}, {}, None, CARD_MEMORY // 2),
        ({CORE: "50", RATIO: "50"}, {CORE: "50", MEMORY: "16300Mi"}, 0.5, 16300 << 20),
    ],
)
def test_devices_are_known_by_minor_and_memory_in_quantities(
    limits: dict[str, str], resources: dict[str, object], core: float | None, memory: int | None
) -> None:
    described = pod(PLAIN, container("user", limits), annotations=allocated(device(6, resources)))
    decoded = decode(described, node(*FOUR_CARDS))
    assert told(decoded) == [("user", "GPU-1", core, memory)]
    assert decoded.problems == ()


@pytest.mark.parametrize(
    ("containers", "owner"),
    [
        ((USER,), "user"),
        ((PLAIN, USER, container("i", {CORE: "1"}, "init")), "user"),
        ((container("b", TENTH), container("c", FOUR_TENTHS)), ""),
        ((container("b", TENTH), container("s", FOUR_TENTHS, "sidecar")), ""),
    ],
)
def test_devices_are_the_only_users_or_else_the_pods(
    containers: tuple[Container, ...], owner: str
) -> None:
    decoded = decode(pod(*containers, annotations=allocated(device(7, HALF))), node(*FOUR_CARDS))
    assert told(decoded) == [(owner, "GPU-0", 0.5, 16 * GIB)]
    assert decoded.problems == ()


def test_devices_of_a_pod_that_asks_for_none_are_refused() -> None:
    described = pod(PLAIN, annotations=allocated(device(7, HALF)))
    decoded = decode(described, node(*FOUR_CARDS))
    assert (decoded.allocations, reasons(decoded)) == ((), [Reason.NOT_REQUESTED])


@pytest.mark.parametrize(
    ("limits", "resources", "expected"),
    [
        pytest.param(
            {CORE: "10", RATIO: "10"},
            {CORE: "100", MEMORY: "32Gi", RATIO: "100"},
            (0.1, CARD_MEMORY // 10),
            id="over-asker",
        ),
        pytest.param(
            {BOTH: "100"},
            {CORE: "1", MEMORY: "1Gi", RATIO: "1"},
            (1.0, CARD_MEMORY),
            id="underpayer",
        ),
        pytest.param(
            {"nvidia.com/gpu": "1"}, {CORE: "1", RATIO: "1"}, (1.0, CARD_MEMORY), id="whole card"
        ),
        pytest.param({RATIO: "50"}, {**HALF, CORE: "90"}, (None, 16 * GIB), id="core of nothing"),
        pytest.param(
            {CORE: "50", RATIO: "50"}, {**HALF, MEMORY: "1Gi"}, (0.5, 16 * GIB), id="ratio told"
        ),
        pytest.param({MEMORY: "1Gi"}, {MEMORY: "9Gi", RATIO: "3"}, (None, GIB), id="bytes"),
    ],
)
def test_limits_win_where_the_annotation_states_other_amounts(
    limits: dict[str, str], resources: dict[str, object], expected: tuple[float | None, int]
) -> None:
    described = pod(container(limits=limits), annotations=allocated(device(7, resources)))
    decoded = decode(described, node(*FOUR_CARDS))
    assert told(decoded) == [("a", "GPU-0", *expected)]
    assert reasons(decoded) == [Reason.LIMITS_DIFFER]


@pytest.mark.parametrize("minors", [(7, 6), (7, 6, 5)])
def test_list_of_another_number_of_devices_places_nothing(minors: tuple[int, ...]) -> None:
    described = pod(USER, annotations=allocated(*(device(minor, HALF) for minor in minors)))
    decoded = decode(described, node(*FOUR_CARDS))
    assert told(decoded) == [("user", None, 0.5, CARD_MEMORY // 2)]
    assert reasons(decoded) == [Reason.PLACEMENT_MISMATCH]


def test_ratio_is_of_the_card_that_it_is_on() -> None:
    facts = node(card(0, 16 * GIB), card(1, 80 * GIB))
    described = pod(
        container("user", {SHARED: "2", RATIO: "100"}),
        annotations=allocated(device(7, {RATIO: "50"}), device(6, {RATIO: "50"})),
    )
    assert told(decode(described, facts)) == [
        ("user", "GPU-0", None, 8 * GIB),
        ("user", "GPU-1", None, 40 * GIB),
    ]


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({CORE: "50", RATIO: "25"}, [("a", None, 0.5, CARD_MEMORY // 4)]),
        ({CORE: "50", MEMORY: "4Gi"}, [("a", None, 0.5, 4 * GIB)]),
        ({SHARED: "2", CORE: "100", RATIO: "100"}, [("a", None, 0.5, CARD_MEMORY // 2)] * 2),
        ({SHARED: "2", MEMORY: "8Gi"}, [("a", None, None, 4 * GIB)] * 2),
        ({SHARED: "1", MEMORY: "8Gi"}, [("a", None, None, 8 * GIB)]),
        ({CORE: "200", RATIO: "200"}, [("a", None, 1.0, CARD_MEMORY)] * 2),
        ({BOTH: "50"}, [("a", None, 0.5, CARD_MEMORY // 2)]),
        ({BOTH: "200"}, [("a", None, 1.0, CARD_MEMORY)] * 2),
        ({MEMORY: "8Gi"}, [("a", None, None, 8 * GIB)]),
        ({CORE: "0"}, []),
    ],
)
def test_without_the_annotation_the_limits_tell_all_but_the_device(
    limits: dict[str, str], expected: Told
) -> None:
    decoded = decode(pod(container(limits=limits)), node(*FOUR_CARDS))
    assert told(decoded) == expected
    assert decoded.problems == ()


@pytest.mark.parametrize(
    ("annotations", "reason"),
    [
        ({ALLOCATED: "{"}, Reason.BAD_ANNOTATION),
        ({ALLOCATED: '{"gpu":{}}'}, Reason.BAD_ANNOTATION),
        ({ALLOCATED: '{"gpu":' + "[" * 500 + "]" * 500 + "}"}, Reason.BAD_ANNOTATION),
        (allocated(device(-1, HALF)), Reason.BAD_ANNOTATION),
        (allocated(device(None, HALF)), Reason.BAD_ANNOTATION),
        (allocated(device(2**80, HALF)), Reason.BAD_ANNOTATION),
        (allocated(device(7, None)), Reason.BAD_ANNOTATION),
        (allocated("GPU-0"), Reason.BAD_ANNOTATION),
        (allocated(device(0, HALF)), Reason.UNKNOWN_DEVICE),
        (allocated(device(7, HALF), device(7, HALF)), Reason.DUPLICATE_DEVICE),
        (allocated(device(7, {CORE: "ten"})), Reason.BAD_QUANTITY),
        (allocated(device(7, {CORE: ["50"]})), Reason.BAD_QUANTITY),
        (allocated(device(7, {CORE: "101"})), Reason.CORE_OUT_OF_RANGE),
        (allocated(device(7, {MEMORY: "5Ti"})), Reason.MEMORY_OUT_OF_RANGE),
        (allocated(device(7, {RATIO: "101"})), Reason.LIMITS_DIFFER),
        (allocated(*[device(7, HALF)] * 65), Reason.TOO_MANY_DEVICES),
    ],
    ids=lambda value: str(value)[:150],
)
def test_bad_part_is_counted(annotations: dict[str, str], reason: Reason) -> None:
    assert reasons(decode(pod(USER, annotations=annotations), node(*FOUR_CARDS))) == [reason]


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        ({CORE: "150", RATIO: "50"}, Reason.CORE_OUT_OF_RANGE),
        ({SHARED: "65"}, Reason.TOO_MANY_DEVICES),
        ({CORE: "50", MEMORY: "4.5"}, Reason.BAD_QUANTITY),
    ],
)
def test_bad_limit_is_counted(limits: dict[str, str], reason: Reason) -> None:
    assert reasons(decode(pod(container(limits=limits)), node(*FOUR_CARDS))) == [reason]


def test_other_devices_alone_leave_the_pod_to_other_schemes() -> None:
    described = pod(
        container(limits={"nvidia.com/gpu": "1"}), annotations={ALLOCATED: '{"rdma":[{"minor":0}]}'}
    )
    facts = node(*FOUR_CARDS, labels={"kubernetes.io/os": "linux"})
    assert [a.scheme for a in registry.decode(described, facts).allocations] == [
        "nvidia-device-plugin"
    ]


def test_nvidia_resource_that_koordinator_serves_is_counted_once() -> None:
    described = pod(
        container(limits={"nvidia.com/gpu": "1"}), annotations=allocated(device(7, {CORE: "100"}))
    )
    facts = node(*FOUR_CARDS, labels={"kubernetes.io/os": "linux"})
    decoded = registry.decode(described, facts)
    assert [(a.scheme, a.device) for a in decoded.allocations] == [("koordinator", "GPU-0")]
