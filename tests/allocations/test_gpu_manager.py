import pytest

from exporter.allocations.scheme import Reason
from exporter.allocations.schemes.gpu_manager import decode
from tests.allocations.build import (
    CARD_MEMORY,
    FOUR_CARDS,
    MIB,
    Told,
    container,
    node,
    pod,
    reasons,
    told,
)

CORE = "tencent.com/vcuda-core"
MEMORY = "tencent.com/vcuda-memory"
INDEX = "tencent.com/predicate-gpu-idx-"


@pytest.mark.parametrize(
    ("limits", "index", "expected"),
    [
        ({CORE: "30", MEMORY: "4"}, "7", [("a", "GPU-0", 0.3, 1024 * MIB)]),
        ({CORE: "30", MEMORY: "4"}, None, [("a", None, 0.3, 1024 * MIB)]),
        ({CORE: "30"}, "7", [("a", "GPU-0", 0.3, None)]),
        ({MEMORY: "1"}, "7", [("a", "GPU-0", None, 256 * MIB)]),
        ({CORE: "100", MEMORY: "1"}, "6", [("a", "GPU-1", 1.0, CARD_MEMORY)]),
        (
            {CORE: "200"},
            "4,5",
            [("a", "GPU-3", 1.0, CARD_MEMORY), ("a", "GPU-2", 1.0, CARD_MEMORY)],
        ),
        ({CORE: "0", MEMORY: "0"}, "7", []),
    ],
)
def test_memory_counts_256_mib_and_cards_are_known_by_minor(
    limits: dict[str, str], index: str | None, expected: Told
) -> None:
    annotations = {} if index is None else {INDEX + "0": index}
    decoded = decode(pod(container(limits=limits), annotations=annotations), node(*FOUR_CARDS))
    assert told(decoded) == expected
    assert decoded.problems == ()


def test_position_counts_app_containers_alone() -> None:
    described = pod(
        container("i", {CORE: "50"}, "init"),
        container("side"),
        container("a", {CORE: "50"}),
        annotations={INDEX + "0": "6", INDEX + "1": "7"},
    )
    assert told(decode(described, node(*FOUR_CARDS))) == [("a", "GPU-0", 0.5, None)]


@pytest.mark.parametrize(
    ("limits", "index", "reason"),
    [
        ({CORE: "150"}, "7", Reason.CORE_OUT_OF_RANGE),
        ({CORE: "6500"}, "7", Reason.TOO_MANY_DEVICES),
        ({CORE: "200"}, "7", Reason.PLACEMENT_MISMATCH),
        ({CORE: "200"}, "7,7", Reason.PLACEMENT_MISMATCH),
        ({CORE: "20"}, "0", Reason.UNKNOWN_DEVICE),
        ({CORE: "20"}, "-1", Reason.BAD_ANNOTATION),
        ({CORE: "20", MEMORY: "16385"}, "7", Reason.MEMORY_OUT_OF_RANGE),
    ],
)
def test_bad_part_is_counted(limits: dict[str, str], index: str, reason: Reason) -> None:
    described = pod(container(limits=limits), annotations={INDEX + "0": index})
    assert reasons(decode(described, node(*FOUR_CARDS))) == [reason]
