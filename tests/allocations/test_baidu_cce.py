import pytest

from exporter.allocations.scheme import Reason
from exporter.allocations.schemes.baidu_cce import decode
from tests.allocations.build import (
    CARD_MEMORY,
    FOUR_CARDS,
    GIB,
    Told,
    container,
    node,
    pod,
    reasons,
    told,
)

A10 = "baidu.com/a10_24g_cgpu"
T4 = "baidu.com/t4_16g_cgpu"


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        pytest.param({A10: "1"}, [("a", None, 1.0, CARD_MEMORY)], id="whole"),
        pytest.param({A10: "2"}, [("a", None, 1.0, CARD_MEMORY)] * 2, id="two whole"),
        pytest.param(
            {A10: "1", A10 + "_memory": "10"}, [("a", None, None, 10 * GIB)], id="memory only"
        ),
        pytest.param(
            {A10: "1", A10 + "_core": "50", A10 + "_memory": "10"},
            [("a", None, 0.5, 10 * GIB)],
            id="core and memory",
        ),
        pytest.param(
            {A10: "2", A10 + "_core": "50", A10 + "_memory": "10"},
            [("a", None, 0.25, 5 * GIB)] * 2,
            id="divided over two cards",
        ),
        pytest.param(
            {A10: "1", A10 + "_memory_percent": "25"},
            [("a", None, None, CARD_MEMORY // 4)],
            id="per cent of the card",
        ),
        pytest.param(
            {A10 + "_core": "5", A10 + "_memory": "1"}, [("a", None, 0.05, GIB)], id="no count"
        ),
        pytest.param(
            {T4: "1", A10: "1", A10 + "_memory": "1"},
            [("a", None, None, GIB), ("a", None, 1.0, CARD_MEMORY)],
            id="two models",
        ),
        pytest.param({A10: "0"}, [], id="none"),
        pytest.param({"baidu.com/rdma": "1", A10 + "_other": "1"}, [], id="other resources"),
    ],
)
def test_amounts_are_divided_over_the_cards(limits: dict[str, str], expected: Told) -> None:
    decoded = decode(pod(container(limits=limits)), node(*FOUR_CARDS))
    assert told(decoded) == expected
    assert decoded.problems == ()


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        ({A10: "1", A10 + "_core": "101"}, Reason.CORE_OUT_OF_RANGE),
        ({A10: "2", A10 + "_memory": "1"}, Reason.MEMORY_OUT_OF_RANGE),
        ({A10: "65"}, Reason.TOO_MANY_DEVICES),
        ({A10: "all"}, Reason.BAD_QUANTITY),
        ({A10: "1", A10 + "_memory_percent": "200"}, Reason.MEMORY_OUT_OF_RANGE),
    ],
)
def test_bad_part_is_counted(limits: dict[str, str], reason: Reason) -> None:
    decoded = decode(pod(container(limits=limits)), node(*FOUR_CARDS))
    assert reasons(decoded) == [reason]


def test_whole_card_with_an_unreadable_share_is_not_taken_for_a_whole_one() -> None:
    decoded = decode(pod(container(limits={A10: "1", A10 + "_memory": "x"})), node(*FOUR_CARDS))
    assert told(decoded) == [("a", None, None, None)]
