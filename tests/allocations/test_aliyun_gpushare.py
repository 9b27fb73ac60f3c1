import pytest

from exporter.allocations.scheme import Reason
from exporter.allocations.schemes.aliyun_gpushare import decode
from exporter.model import Container
from tests.allocations.build import (
    FOUR_CARDS,
    GIB,
    MIB,
    Told,
    card,
    container,
    node,
    pod,
    reasons,
    told,
)

MEMORY = "aliyun.com/gpu-mem"
COUNT = "aliyun.com/gpu-count"
INDEX = "ALIYUN_COM_GPU_MEM_IDX"
CARD = "ALIYUN_COM_GPU_MEM_DEV"
T4 = card(0, memory=15360 * MIB)


@pytest.mark.parametrize(
    ("containers", "index", "expected"),
    [
        ((container("a", {MEMORY: "3"}),), "1", [("a", "GPU-1", None, 3 * GIB)]),
        ((container("a", {MEMORY: "3"}),), "", [("a", None, None, 3 * GIB)]),
        (
            (container("a", {MEMORY: "3"}), container("plain"), container("b", {MEMORY: "4"})),
            "2",
            [("a", "GPU-2", None, 3 * GIB), ("b", "GPU-2", None, 4 * GIB)],
        ),
        (
            (container("i", {MEMORY: "5"}, "init"), container("s", {MEMORY: "1"}, "sidecar")),
            "0",
            [("s", "GPU-0", None, GIB)],
        ),
        ((container("a", {MEMORY: "0"}),), "0", []),
        ((container("plain"),), "0", []),
    ],
)
def test_one_card_is_the_pods_and_amounts_are_the_containers(
    containers: tuple[Container, ...], index: str, expected: Told
) -> None:
    annotations = {INDEX: index} if index else {}
    decoded = decode(pod(*containers, annotations=annotations), node(*FOUR_CARDS))
    assert told(decoded) == expected
    assert decoded.problems == ()


@pytest.mark.parametrize(
    ("allocatable", "annotation", "unit"),
    [
        pytest.param({}, "", GIB, id="nothing said"),
        pytest.param({}, "15", GIB, id="the card has 15"),
        pytest.param({}, "14", GIB, id="a driver's reserve off"),
        pytest.param({}, "15109", MIB, id="the card has 15109"),
        pytest.param({MEMORY: "30", COUNT: "2"}, "", GIB, id="the node has 30 on 2"),
        pytest.param({MEMORY: "30720", COUNT: "2"}, "", MIB, id="the node has 30720 on 2"),
        pytest.param({MEMORY: "30720", COUNT: "2"}, "15", MIB, id="the node is believed first"),
        pytest.param({MEMORY: "30720", COUNT: "0"}, "15", GIB, id="no cards"),
        pytest.param({MEMORY: "x", COUNT: "2"}, "15109", MIB, id="the node says nothing usable"),
    ],
)
def test_unit_follows_from_what_a_card_has(
    allocatable: dict[str, str], annotation: str, unit: int
) -> None:
    annotations = {CARD: annotation} if annotation else {}
    described = pod(container(limits={MEMORY: "8"}), annotations=annotations)
    decoded = decode(described, node(T4, allocatable=allocatable))
    assert told(decoded) == [("a", None, None, 8 * unit)]
    assert decoded.problems == ()


@pytest.mark.parametrize(("annotation", "unit"), [("80", GIB), ("81559", MIB), ("", GIB)])
def test_unit_without_nvml_is_the_one_that_a_card_can_have(annotation: str, unit: int) -> None:
    annotations = {CARD: annotation} if annotation else {}
    decoded = decode(pod(container(limits={MEMORY: "8"}), annotations=annotations), node())
    assert told(decoded) == [("a", None, None, 8 * unit)]


@pytest.mark.parametrize(
    ("limit", "annotations", "reason"),
    [
        ("3", {INDEX: "0,1"}, Reason.PLACEMENT_MISMATCH),
        ("3", {INDEX: "4"}, Reason.UNKNOWN_DEVICE),
        ("3", {INDEX: "-1"}, Reason.BAD_ANNOTATION),
        ("3", {CARD: "fifteen"}, Reason.BAD_ANNOTATION),
        ("5000", {}, Reason.MEMORY_OUT_OF_RANGE),
        ("3.5", {}, Reason.BAD_QUANTITY),
    ],
)
def test_bad_part_is_counted(limit: str, annotations: dict[str, str], reason: Reason) -> None:
    decoded = decode(
        pod(container(limits={MEMORY: limit}), annotations=annotations), node(*FOUR_CARDS)
    )
    assert reasons(decoded) == [reason]
    assert {a.device for a in decoded.allocations} <= {None}
