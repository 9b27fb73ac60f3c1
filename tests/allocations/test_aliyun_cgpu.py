import json

import pytest

from exporter.allocations import registry
from exporter.allocations.scheme import Reason
from exporter.allocations.schemes.aliyun_cgpu import decode
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
CORE = "aliyun.com/gpu-core.percentage"
COUNT = "aliyun.com/gpu-count"
MEMORY_TABLE = "scheduler.framework.gpushare.allocation"
CORE_TABLE = "gpushare.alibabacloud.com/core-percentage"
INDEX = "ALIYUN_COM_GPU_MEM_IDX"
POLICY = "ack.node.gpu.schedule"
A = container("a", {MEMORY: "8", CORE: "60"})
B = container("b", {MEMORY: "2"})
PLAIN = container("plain")


@pytest.mark.parametrize(
    ("memory", "core", "expected"),
    [
        pytest.param(
            {"0": {"1": 8}}, {"0": {"1": 60}}, [("a", "GPU-1", 0.6, 8 * GIB)], id="both tables"
        ),
        pytest.param({"0": {"1": 8}}, None, [("a", "GPU-1", 0.6, 8 * GIB)], id="memory alone"),
        pytest.param(None, {"0": {"1": 60}}, [("a", "GPU-1", 0.6, 8 * GIB)], id="core alone"),
        pytest.param(
            {"0": {"2": 4, "0": 4}},
            {"0": {"0": 30, "2": 30}},
            [("a", "GPU-0", 0.3, 4 * GIB), ("a", "GPU-2", 0.3, 4 * GIB)],
            id="two cards",
        ),
        pytest.param({"0": {"1": "8"}}, None, [("a", "GPU-1", 0.6, 8 * GIB)], id="texts"),
        pytest.param({"0": {"1": 0}}, None, [("a", "GPU-1", 0.6, 8 * GIB)], id="zero"),
    ],
)
def test_tables_tell_amounts_by_container_and_card(
    memory: object, core: object, expected: Told
) -> None:
    tables = {MEMORY_TABLE: memory, CORE_TABLE: core}
    annotations = {key: json.dumps(table) for key, table in tables.items() if table is not None}
    decoded = decode(pod(A, PLAIN, annotations=annotations), node(*FOUR_CARDS))
    assert told(decoded) == expected
    assert decoded.problems == ()


def test_positions_count_app_containers_alone() -> None:
    described = pod(
        container("i", {MEMORY: "1"}, "init"),
        PLAIN,
        B,
        annotations={MEMORY_TABLE: '{"1":{"3":2}}'},
    )
    assert told(decode(described, node(*FOUR_CARDS))) == [("b", "GPU-3", None, 2 * GIB)]


def test_container_that_the_tables_leave_out_has_its_limits() -> None:
    described = pod(A, B, annotations={MEMORY_TABLE: '{"0":{"3":8}}'})
    assert told(decode(described, node(*FOUR_CARDS))) == [
        ("a", "GPU-3", 0.6, 8 * GIB),
        ("b", None, None, 2 * GIB),
    ]


@pytest.mark.parametrize(
    ("index", "count", "expected"),
    [
        ("2", None, [("a", "GPU-2", 0.6, 8 * GIB)]),
        (None, None, [("a", None, 0.6, 8 * GIB)]),
        (None, "2", [("a", None, 0.3, 4 * GIB)] * 2),
    ],
)
def test_without_tables_the_index_and_the_limits_tell(
    index: str | None, count: str | None, expected: Told
) -> None:
    annotations = {} if index is None else {INDEX: index}
    labels = {} if count is None else {COUNT: count}
    decoded = decode(pod(A, annotations=annotations, labels=labels), node(*FOUR_CARDS))
    assert told(decoded) == expected
    assert decoded.problems == ()


def test_units_are_those_of_the_node() -> None:
    facts = node(card(0, 15360 * MIB), allocatable={MEMORY: "15109", COUNT: "1"})
    user = container("a", {MEMORY: "8138"})
    described = pod(user, annotations={MEMORY_TABLE: '{"0":{"0":8138}}'})
    assert told(decode(described, facts)) == [("a", "GPU-0", None, 8138 * MIB)]


@pytest.mark.parametrize(
    ("labels", "policy", "scheme"),
    [
        ({POLICY: "cgpu"}, "cgpu", "aliyun-ack"),
        ({POLICY: "core_mem", "cgpu": "true"}, "core_mem", "aliyun-ack"),
        ({"gpushare": "true"}, "unenforced", "aliyun-gpushare-v1"),
        ({}, "unenforced", "aliyun-gpushare-v1"),
    ],
)
def test_node_label_tells_acks_sharing_from_version_1(
    labels: dict[str, str], policy: str, scheme: str
) -> None:
    decoded = registry.decode(pod(B), node(*FOUR_CARDS, labels=labels))
    assert [(a.policy, a.scheme) for a in decoded.allocations] == [(policy, scheme)]
    assert decoded.problems == ()


@pytest.mark.parametrize(
    ("labels", "policy"),
    [({"cgpu": "true"}, "cgpu"), ({"gpushare": "true"}, "share"), ({"cgpu": "false"}, "")],
)
def test_older_node_labels_are_the_policy_too(labels: dict[str, str], policy: str) -> None:
    decoded = decode(pod(A), node(*FOUR_CARDS, labels=labels))
    assert [a.policy for a in decoded.allocations] == [policy]


@pytest.mark.parametrize(
    ("annotations", "reason"),
    [
        ({MEMORY_TABLE: "{"}, Reason.BAD_ANNOTATION),
        ({MEMORY_TABLE: "[" * 60_000}, Reason.BAD_ANNOTATION),
        ({MEMORY_TABLE: '{"0":{"1":' + "9" * 5000 + "}}"}, Reason.BAD_ANNOTATION),
        ({MEMORY_TABLE: '{"0":{"1":1e400}}'}, Reason.BAD_ANNOTATION),
        ({MEMORY_TABLE: '{"0":{"1":true}}'}, Reason.BAD_ANNOTATION),
        ({MEMORY_TABLE: '{"0":{"1":-8}}'}, Reason.BAD_ANNOTATION),
        ({MEMORY_TABLE: '{"0":[1]}'}, Reason.BAD_ANNOTATION),
        ({MEMORY_TABLE: "[]"}, Reason.BAD_ANNOTATION),
        ({MEMORY_TABLE: '{"a":{"1":8}}'}, Reason.BAD_ANNOTATION),
        ({MEMORY_TABLE: '{"0":{"1":8,"01":8}}'}, Reason.BAD_ANNOTATION),
        ({MEMORY_TABLE: '{"1":{"1":8}}'}, Reason.CONTAINER_MISMATCH),
        ({MEMORY_TABLE: '{"0":{"4":8}}'}, Reason.UNKNOWN_DEVICE),
        ({MEMORY_TABLE: '{"0":{"1":5000}}'}, Reason.MEMORY_OUT_OF_RANGE),
        ({MEMORY_TABLE: '{"0":{"1":80}}'}, Reason.LIMITS_DIFFER),
        ({CORE_TABLE: '{"0":{"1":6}}'}, Reason.LIMITS_DIFFER),
        ({MEMORY_TABLE: '{"0":{"1":' + str(2**80) + "}}"}, Reason.BAD_ANNOTATION),
        ({CORE_TABLE: '{"0":{"1":101}}'}, Reason.CORE_OUT_OF_RANGE),
        (
            {MEMORY_TABLE: json.dumps({"0": {str(n): 1 for n in range(65)}})},
            Reason.TOO_MANY_DEVICES,
        ),
    ],
    ids=lambda value: str(value)[:60],
)
def test_bad_part_is_counted_and_costs_only_itself(
    annotations: dict[str, str], reason: Reason
) -> None:
    decoded = decode(pod(A, annotations=annotations), node(*FOUR_CARDS))
    assert reasons(decoded) == [reason]
    assert {a.container for a in decoded.allocations} == {"a"}


@pytest.mark.parametrize("count", ["0", "many", ""])
def test_unusable_number_of_cards_is_one_card(count: str) -> None:
    decoded = decode(pod(A, labels={COUNT: count}), node(*FOUR_CARDS))
    assert told(decoded) == [("a", None, 0.6, 8 * GIB)]
    assert reasons(decoded) == [Reason.BAD_QUANTITY]
