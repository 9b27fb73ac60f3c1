import pytest

from exporter.allocations.scheme import Reason
from exporter.allocations.schemes.huawei_cce import decode
from tests.allocations.build import (
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

MEMORY = "volcano.sh/gpu-mem.128Mi"
CORE = "volcano.sh/gpu-core.percentage"
COUNT = "volcano.sh/gpu-num"


@pytest.mark.parametrize(
    ("limits", "count", "expected"),
    [
        ({MEMORY: "40", CORE: "25"}, None, [("a", None, 0.25, 5 * GIB)]),
        ({MEMORY: "40"}, None, [("a", None, None, 5 * GIB)]),
        ({MEMORY: "64"}, "2", [("a", None, None, 4 * GIB)] * 2),
        ({MEMORY: "64", CORE: "50"}, "2", [("a", None, 0.25, 4 * GIB)] * 2),
        ({MEMORY: "3", CORE: "25"}, "2", [("a", None, 0.12, 128 * MIB)] * 2),
        ({MEMORY: "256", CORE: "100"}, None, [("a", None, 1.0, 32 * GIB)]),
        ({MEMORY: "0"}, None, []),
    ],
)
def test_memory_counts_128_mib_and_is_divided_over_the_cards(
    limits: dict[str, str], count: str | None, expected: Told
) -> None:
    labels = {} if count is None else {COUNT: count}
    decoded = decode(pod(container(limits=limits), labels=labels), node(*FOUR_CARDS))
    assert told(decoded) == expected
    assert decoded.problems == ()


@pytest.mark.parametrize(
    ("limits", "count", "reason"),
    [
        ({MEMORY: "1"}, "2", Reason.MEMORY_OUT_OF_RANGE),
        ({MEMORY: "8", CORE: "300"}, "2", Reason.CORE_OUT_OF_RANGE),
        ({MEMORY: "8"}, "65", Reason.TOO_MANY_DEVICES),
        ({MEMORY: "8"}, "two", Reason.BAD_QUANTITY),
        ({MEMORY: "8"}, "0", Reason.BAD_QUANTITY),
        ({MEMORY: "8.5"}, "1", Reason.BAD_QUANTITY),
    ],
)
def test_bad_part_is_counted(limits: dict[str, str], count: str, reason: Reason) -> None:
    decoded = decode(pod(container(limits=limits), labels={COUNT: count}), node(*FOUR_CARDS))
    assert reasons(decoded) == [reason]
