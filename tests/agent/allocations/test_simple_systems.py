"""Systems that state amounts in limits, and cards or their number in one key of the pod."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

import pytest

from exporter.agent.allocations.schemes import (
    baidu_cce,
    elastic_gpu,
    gpu_manager,
    huawei_cce,
    volcano_gpushare,
)
from exporter.agent.allocations.terms import Decoded, Reason
from exporter.model import Container, NodeFacts, Pod
from tests.agent.allocations.build import (
    CARD_MEMORY,
    FOUR_CARDS,
    GIB,
    MIB,
    Told,
    card,
    container,
    decoder,
    node,
    pod,
    reasons,
    told,
)

FOUR = node(*FOUR_CARDS)
# By PCI address the order is GPU-2, GPU-0, GPU-1.
BY_ADDRESS = node(
    *(
        replace(card(index), pci_bus_id=address)
        for index, address in enumerate(
            ("00000000:0A:00.0", "00000000:b0:00.0", "00000000:04:00.0")
        )
    )
)


class System(NamedTuple):
    """A decoder, its node, and the annotation or label that it reads beside the limits."""

    decode: Callable[[Pod, NodeFacts], Decoded]
    node: NodeFacts = FOUR
    annotation: str = ""
    label: str = ""


ELASTIC = System(decoder(elastic_gpu.SCHEME), BY_ADDRESS, "elasticgpu.io/container-a")
HUAWEI = System(decoder(huawei_cce.SCHEME), label="volcano.sh/gpu-num")
BAIDU = System(decoder(baidu_cce.SCHEME))
MANAGER = System(decoder(gpu_manager.SCHEME), annotation="tencent.com/predicate-gpu-idx-0")
VOLCANO = System(decoder(volcano_gpushare.SCHEME), annotation="volcano.sh/gpu-index")

SYSTEMS = {
    "elastic-gpu": ELASTIC,
    "huawei-cce": HUAWEI,
    "baidu-cce": BAIDU,
    "gpu-manager": MANAGER,
    "volcano-gpushare": VOLCANO,
}

E_CORE, E_MEMORY = "elasticgpu.io/gpu-core", "elasticgpu.io/gpu-memory"
H_CORE, H_MEMORY = "volcano.sh/gpu-core.percentage", "volcano.sh/gpu-mem.128Mi"
A10, T4 = "baidu.com/a10_24g_cgpu", "baidu.com/t4_16g_cgpu"
M_CORE, M_MEMORY = "tencent.com/vcuda-core", "tencent.com/vcuda-memory"
V_NUMBER, V_MEMORY = "volcano.sh/gpu-number", "volcano.sh/gpu-memory"

WHOLE = ("a", None, 1.0, CARD_MEMORY)
Has = Mapping[str, str] | tuple[Container, ...]
"""The limits of container a, or several containers."""

# What a pod asks for, what its key says (None: it has none), and what it gets.
READ: Mapping[str, list[tuple[Has, str | None, Told]]] = {
    "elastic-gpu": [
        ({E_CORE: "25", E_MEMORY: "1024"}, "0", [("a", "GPU-2", 0.25, 1024 * MIB)]),
        ({E_CORE: "25", E_MEMORY: "1024"}, "1", [("a", "GPU-0", 0.25, 1024 * MIB)]),
        ({E_CORE: "25"}, None, [("a", None, 0.25, None)]),
        ({E_MEMORY: "8k"}, "2", [("a", "GPU-1", None, 8000 * MIB)]),
        ({E_CORE: "100", E_MEMORY: "5"}, "2", [("a", "GPU-1", 1.0, CARD_MEMORY)]),
        ({E_CORE: "200"}, "2,0", [("a", g, 1.0, CARD_MEMORY) for g in ("GPU-1", "GPU-2")]),
        (
            {"elasticgpu.com/gpu-core": "10", "elasticgpu.com/gpu-memory": "2"},
            "0",
            [("a", "GPU-2", 0.1, 2 * MIB)],
        ),
        ({E_CORE: "0"}, "0", []),
    ],
    "huawei-cce": [
        ({H_MEMORY: "40", H_CORE: "25"}, None, [("a", None, 0.25, 5 * GIB)]),
        ({H_MEMORY: "40"}, None, [("a", None, None, 5 * GIB)]),
        ({H_MEMORY: "64"}, "2", [("a", None, None, 4 * GIB)] * 2),
        ({H_MEMORY: "64", H_CORE: "50"}, "2", [("a", None, 0.25, 4 * GIB)] * 2),
        ({H_MEMORY: "3", H_CORE: "25"}, "2", [("a", None, 0.125, 192 * MIB)] * 2),
        ({H_MEMORY: "1"}, "2", [("a", None, None, 64 * MIB)] * 2),
        ({H_MEMORY: "256", H_CORE: "100"}, None, [("a", None, 1.0, 32 * GIB)]),
        ({H_MEMORY: "0"}, None, []),
    ],
    "baidu-cce": [
        ({A10: "1"}, None, [WHOLE]),
        ({A10: "2"}, None, [WHOLE] * 2),
        ({A10: "1", A10 + "_memory": "10"}, None, [("a", None, None, 10 * GIB)]),
        (
            {A10: "1", A10 + "_core": "50", A10 + "_memory": "10"},
            None,
            [("a", None, 0.5, 10 * GIB)],
        ),
        (
            {A10: "2", A10 + "_core": "50", A10 + "_memory": "10"},
            None,
            [("a", None, 0.25, 5 * GIB)] * 2,
        ),
        ({A10: "1", A10 + "_memory_percent": "25"}, None, [("a", None, None, CARD_MEMORY // 4)]),
        ({A10 + "_core": "5", A10 + "_memory": "1"}, None, [("a", None, 0.05, GIB)]),
        ({T4: "1", A10: "1", A10 + "_memory": "1"}, None, [("a", None, None, GIB), WHOLE]),
        ({A10: "0"}, None, []),
        ({"baidu.com/rdma": "1", A10 + "_other": "1"}, None, []),
    ],
    "gpu-manager": [
        ({M_CORE: "30", M_MEMORY: "4"}, "7", [("a", "GPU-0", 0.3, 1024 * MIB)]),
        ({M_CORE: "30", M_MEMORY: "4"}, None, [("a", None, 0.3, 1024 * MIB)]),
        ({M_CORE: "30"}, "7", [("a", "GPU-0", 0.3, None)]),
        ({M_MEMORY: "1"}, "7", [("a", "GPU-0", None, 256 * MIB)]),
        ({M_CORE: "100", M_MEMORY: "1"}, "6", [("a", "GPU-1", 1.0, CARD_MEMORY)]),
        ({M_CORE: "200"}, "4,5", [("a", g, 1.0, CARD_MEMORY) for g in ("GPU-3", "GPU-2")]),
        ({M_CORE: "0", M_MEMORY: "0"}, "7", []),
    ],
    "volcano-gpushare": [
        ({V_MEMORY: "1k"}, "2", [("a", "GPU-2", None, 1000 * MIB)]),
        ({V_MEMORY: "1"}, None, [("a", None, None, MIB)]),
        (
            (container("a", {V_MEMORY: "1"}), container("side"), container("b", {V_MEMORY: "2"})),
            "1",
            [("a", "GPU-1", None, MIB), ("b", "GPU-1", None, 2 * MIB)],
        ),
        (
            (container("s", {V_MEMORY: "3"}, "sidecar"), container("i", {V_MEMORY: "4"}, "init")),
            "1",
            [("s", "GPU-1", None, 3 * MIB)],
        ),
        ({V_NUMBER: "2"}, "3,0", [("a", g, 1.0, CARD_MEMORY) for g in ("GPU-3", "GPU-0")]),
        ({V_NUMBER: "1"}, None, [WHOLE]),
        (
            (container("a", {V_NUMBER: "1"}), container("b", {V_NUMBER: "1"})),
            "0,1",
            [WHOLE, ("b", None, 1.0, CARD_MEMORY)],
        ),
        ({V_MEMORY: "0"}, "1", []),
    ],
}
REFUSED: Mapping[str, list[tuple[Has, str | None, Reason]]] = {
    "elastic-gpu": [
        ({E_CORE: "150"}, "0", Reason.CORE_OUT_OF_RANGE),
        ({E_CORE: "1M"}, "0", Reason.TOO_MANY_DEVICES),
        ({E_CORE: "20"}, "0,1", Reason.PLACEMENT_MISMATCH),
        ({E_CORE: "20"}, "3", Reason.UNKNOWN_DEVICE),
        ({E_CORE: "20"}, "0;1", Reason.BAD_ANNOTATION),
        ({E_CORE: "20", E_MEMORY: "-1"}, "0", Reason.BAD_QUANTITY),
    ],
    "huawei-cce": [
        ({H_MEMORY: "8", H_CORE: "300"}, "2", Reason.CORE_OUT_OF_RANGE),
        ({H_MEMORY: "8"}, "65", Reason.TOO_MANY_DEVICES),
        ({H_MEMORY: "8"}, "two", Reason.BAD_QUANTITY),
        ({H_MEMORY: "8"}, "0", Reason.BAD_QUANTITY),
        ({H_MEMORY: "8.5"}, "1", Reason.BAD_QUANTITY),
    ],
    "baidu-cce": [
        ({A10: "1", A10 + "_core": "101"}, None, Reason.CORE_OUT_OF_RANGE),
        ({A10: "65"}, None, Reason.TOO_MANY_DEVICES),
        ({A10: "all"}, None, Reason.BAD_QUANTITY),
        ({A10: "1", A10 + "_memory_percent": "200"}, None, Reason.MEMORY_OUT_OF_RANGE),
    ],
    "gpu-manager": [
        ({M_CORE: "150"}, "7", Reason.CORE_OUT_OF_RANGE),
        ({M_CORE: "6500"}, "7", Reason.TOO_MANY_DEVICES),
        ({M_CORE: "200"}, "7", Reason.PLACEMENT_MISMATCH),
        ({M_CORE: "200"}, "7,7", Reason.PLACEMENT_MISMATCH),
        ({M_CORE: "20"}, "0", Reason.UNKNOWN_DEVICE),
        ({M_CORE: "20"}, "-1", Reason.BAD_ANNOTATION),
        ({M_CORE: "20", M_MEMORY: "16385"}, "7", Reason.MEMORY_OUT_OF_RANGE),
    ],
    "volcano-gpushare": [
        ({V_MEMORY: "1"}, "0,1", Reason.PLACEMENT_MISMATCH),
        ({V_NUMBER: "2"}, "0", Reason.PLACEMENT_MISMATCH),
        ({V_NUMBER: "2"}, "0,0", Reason.PLACEMENT_MISMATCH),
        ({V_MEMORY: "1"}, "4", Reason.UNKNOWN_DEVICE),
        ({V_MEMORY: "1"}, "GPU-0", Reason.BAD_ANNOTATION),
        ({V_MEMORY: "1Ti"}, None, Reason.MEMORY_OUT_OF_RANGE),
        ({V_MEMORY: "1.5"}, None, Reason.BAD_QUANTITY),
        ({V_NUMBER: "65"}, None, Reason.TOO_MANY_DEVICES),
    ],
}
OF_PLACES = {Reason.PLACEMENT_MISMATCH, Reason.UNKNOWN_DEVICE, Reason.BAD_ANNOTATION}


def decoded_by(system: System, has: Has, says: str | None) -> Decoded:
    containers = has if isinstance(has, tuple) else (container(limits=dict(has)),)
    annotations = {system.annotation: says} if says is not None and system.annotation else {}
    labels = {system.label: says} if says is not None and system.label else {}
    return system.decode(pod(*containers, annotations=annotations, labels=labels), system.node)


@pytest.mark.parametrize(
    ("system", "has", "says", "expected"),
    [(system, *row) for system, rows in READ.items() for row in rows],
)
def test_amounts_and_cards_are_read(
    system: str, has: Has, says: str | None, expected: Told
) -> None:
    decoded = decoded_by(SYSTEMS[system], has, says)

    assert told(decoded) == expected
    assert decoded.problems == ()


@pytest.mark.parametrize(
    ("system", "has", "says", "reason"),
    [(system, *row) for system, rows in REFUSED.items() for row in rows],
)
def test_what_cannot_be_is_counted_and_places_nothing(
    system: str, has: Has, says: str | None, reason: Reason
) -> None:
    decoded = decoded_by(SYSTEMS[system], has, says)

    assert reasons(decoded) == [reason]
    assert reason not in OF_PLACES or {a.device for a in decoded.allocations} <= {None}


def test_whole_card_with_an_unreadable_share_is_not_taken_for_a_whole_one() -> None:
    assert told(decoded_by(BAIDU, {A10: "1", A10 + "_memory": "x"}, None)) == [
        ("a", None, None, None)
    ]


def test_whole_card_has_the_memory_of_the_card_it_is_on() -> None:
    system = VOLCANO._replace(node=node(card(0), card(1, memory=24 * GIB)))

    assert told(decoded_by(system, {V_NUMBER: "1"}, "1")) == [("a", "GPU-1", 1.0, 24 * GIB)]


def test_position_counts_app_containers_alone() -> None:
    described = pod(
        container("i", {M_CORE: "50"}, "init"),
        container("side"),
        container("a", {M_CORE: "50"}),
        annotations={
            "tencent.com/predicate-gpu-idx-0": "6",
            "tencent.com/predicate-gpu-idx-1": "7",
        },
    )
    assert told(decoder(gpu_manager.SCHEME)(described, FOUR)) == [("a", "GPU-0", 0.5, None)]
