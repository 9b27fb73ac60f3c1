import pytest

from exporter.allocations.scheme import Reason
from exporter.allocations.schemes.volcano_gpushare import decode
from exporter.model import Container
from tests.allocations.build import (
    CARD_MEMORY,
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

MEMORY = "volcano.sh/gpu-memory"
NUMBER = "volcano.sh/gpu-number"
INDEX = "volcano.sh/gpu-index"


@pytest.mark.parametrize(
    ("containers", "index", "expected"),
    [
        ((container("a", {MEMORY: "1k"}),), "2", [("a", "GPU-2", None, 1000 * MIB)]),
        ((container("a", {MEMORY: "1"}),), "", [("a", None, None, MIB)]),
        (
            (container("a", {MEMORY: "1"}), container("side"), container("b", {MEMORY: "2"})),
            "1",
            [("a", "GPU-1", None, MIB), ("b", "GPU-1", None, 2 * MIB)],
        ),
        (
            (container("s", {MEMORY: "3"}, "sidecar"), container("i", {MEMORY: "4"}, "init")),
            "1",
            [("s", "GPU-1", None, 3 * MIB)],
        ),
        (
            (container("a", {NUMBER: "2"}),),
            "3,0",
            [("a", "GPU-3", 1.0, CARD_MEMORY), ("a", "GPU-0", 1.0, CARD_MEMORY)],
        ),
        ((container("a", {NUMBER: "1"}),), "", [("a", None, 1.0, CARD_MEMORY)]),
        (
            (container("a", {NUMBER: "1"}), container("b", {NUMBER: "1"})),
            "0,1",
            [("a", None, 1.0, CARD_MEMORY), ("b", None, 1.0, CARD_MEMORY)],
        ),
        ((container("a", {MEMORY: "0"}),), "1", []),
    ],
)
def test_index_is_the_pods_and_amounts_are_the_containers(
    containers: tuple[Container, ...], index: str, expected: Told
) -> None:
    annotations = {INDEX: index} if index else {}
    decoded = decode(pod(*containers, annotations=annotations), node(*FOUR_CARDS))
    assert told(decoded) == expected
    assert decoded.problems == ()


def test_whole_card_has_the_memory_of_the_card_it_is_on() -> None:
    described = pod(container(limits={NUMBER: "1"}), annotations={INDEX: "1"})
    decoded = decode(described, node(card(0), card(1, memory=24 * GIB)))
    assert told(decoded) == [("a", "GPU-1", 1.0, 24 * GIB)]


@pytest.mark.parametrize(
    ("limits", "index", "reason"),
    [
        ({MEMORY: "1"}, "0,1", Reason.PLACEMENT_MISMATCH),
        ({NUMBER: "2"}, "0", Reason.PLACEMENT_MISMATCH),
        ({NUMBER: "2"}, "0,0", Reason.PLACEMENT_MISMATCH),
        ({MEMORY: "1"}, "4", Reason.UNKNOWN_DEVICE),
        ({MEMORY: "1"}, "GPU-0", Reason.BAD_ANNOTATION),
        ({MEMORY: "1Ti"}, "", Reason.MEMORY_OUT_OF_RANGE),
        ({MEMORY: "1.5"}, "", Reason.BAD_QUANTITY),
        ({NUMBER: "65"}, "", Reason.TOO_MANY_DEVICES),
    ],
)
def test_bad_part_is_counted_and_places_nothing(
    limits: dict[str, str], index: str, reason: Reason
) -> None:
    described = pod(container(limits=limits), annotations={INDEX: index})
    decoded = decode(described, node(*FOUR_CARDS))
    assert reasons(decoded) == [reason]
    assert {a.device for a in decoded.allocations} <= {None}
