"""Systems whose annotations place and divide what the limits ask for, in one format of cases."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

import pytest

from exporter.agent.allocations.schemes import (
    aliyun_cgpu,
    aliyun_gpushare,
    koordinator,
    tke_qgpu,
    vgpu_manager,
    vke_mgpu,
    volcano_vgpu,
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
PLAIN = container("plain")

Has = Mapping[str, str] | tuple[Container, ...]
"""The limits of container a, or several containers."""


class Case(NamedTuple):
    """What a pod asks for, what its annotations say, and what it gets."""

    has: Has
    says: Mapping[str, str]
    gets: Told
    node: NodeFacts = FOUR
    labels: Mapping[str, str] = {}


class Refused(NamedTuple):
    """What is wrong with a pod; ``gets`` is left out where only places are lost."""

    has: Has
    says: Mapping[str, str]
    reason: Reason
    gets: Told | None = None
    node: NodeFacts = FOUR
    labels: Mapping[str, str] = {}


DECODERS: Mapping[str, Callable[[Pod, NodeFacts], Decoded]] = {
    "aliyun-gpushare-v1": decoder(aliyun_gpushare.SCHEME),
    "aliyun-ack": decoder(aliyun_cgpu.SCHEME),
    "vke-mgpu": decoder(vke_mgpu.SCHEME),
    "tke-qgpu": decoder(tke_qgpu.SCHEME),
    "volcano-vgpu": decoder(volcano_vgpu.SCHEME),
    "vgpu-manager": decoder(vgpu_manager.SCHEME),
    "koordinator": decoder(koordinator.SCHEME),
}

# --- Aliyun ---------------------------------------------------------------------------------------

A_MEMORY, A_CORE = "aliyun.com/gpu-mem", "aliyun.com/gpu-core.percentage"
A_COUNT, A_INDEX = "aliyun.com/gpu-count", "ALIYUN_COM_GPU_MEM_IDX"
A_CARD = "ALIYUN_COM_GPU_MEM_DEV"
M_TABLE = "scheduler.framework.gpushare.allocation"
C_TABLE = "gpushare.alibabacloud.com/core-percentage"
THREE = {A_MEMORY: "3"}
T4 = card(0, memory=15360 * MIB)
SHARED = (container("a", {A_MEMORY: "8", A_CORE: "60"}),)
TWO_GIB = container("b", {A_MEMORY: "2"})
UNPLACED: Told = [("a", None, 0.6, 8 * GIB)]


def eight(unit: int, says: str = "", has: NodeFacts | None = None, **allocatable: str) -> Case:
    """Eight of a unit that follows from what a card is said to have, or the node offers."""
    offers = {f"aliyun.com/gpu-{name}": text for name, text in allocatable.items()}
    facts = has or node(T4, allocatable=offers)
    return Case(
        {A_MEMORY: "8"}, {A_CARD: says} if says else {}, [("a", None, None, 8 * unit)], facts
    )


def tables(memory: object = None, core: object = None) -> dict[str, str]:
    told = {M_TABLE: memory, C_TABLE: core}
    return {key: json.dumps(table) for key, table in told.items() if table is not None}


# --- the others -----------------------------------------------------------------------------------

VKE = "vke.volcengine.com/"
V_CORE, V_MEMORY = f"{VKE}mgpu-core", f"{VKE}mgpu-memory"
V_INDEX, V_COUNTS = f"{VKE}gpu-index-container-", f"{VKE}container-multiple-gpu"
UNEQUAL = node(card(0, memory=16 * GIB), card(1, memory=24 * GIB))
THIRTY = {V_CORE: "30"}
UNDIVIDED: Told = [("a", None, 0.3, None)]

TKE = "tke.cloud.tencent.com/qgpu-"
T_CORE, T_GREEDY, T_MEMORY = f"{TKE}core", f"{TKE}core-greedy", f"{TKE}memory"

VOLCANO = "volcano.sh/vgpu-"
O_NUMBER, O_MEMORY, O_PERCENT = (
    f"{VOLCANO}number",
    f"{VOLCANO}memory",
    f"{VOLCANO}memory-percentage",
)
O_CORES, O_IDS = f"{VOLCANO}cores", f"{VOLCANO}ids-new"
ONE, TWO = container("one", {O_NUMBER: "1"}), container("two", {O_MEMORY: "2000"})
PAIR = container("pair", {O_NUMBER: "2"})
ZERO, NEXT = "GPU-0,NVIDIA,1000,10:", "GPU-1,NVIDIA,2000,0:"
AT_0 = ("one", "GPU-0", 0.1, 1000 * MIB)
AT_1 = ("two", "GPU-1", None, 2000 * MIB)

G_NUMBER, G_CORES, G_MEMORY = (f"nvidia.com/vgpu-{name}" for name in ("number", "cores", "memory"))
PLANNED, REAL = "nvidia.com/pre-allocated", "nvidia.com/real-allocated"
ASKED = {G_NUMBER: "1", G_CORES: "10", G_MEMORY: "1024"}
BESIDE = (container("a", ASKED), container("b"))
OF_ZERO, OF_ONE = "a[0_GPU-0_10_1024]", "a[1_GPU-1_10_1024]"
LIMITED: Told = [("a", None, 0.1, GIB)]

KOORDINATOR = "koordinator.sh/gpu"
K_CORE, K_MEMORY, K_RATIO = (
    f"{KOORDINATOR}-core",
    f"{KOORDINATOR}-memory",
    f"{KOORDINATOR}-memory-ratio",
)
K_SHARED, K_LIST = f"{KOORDINATOR}.shared", "scheduling.koordinator.sh/device-allocated"
BOTH_HALVES = {K_CORE: "50", K_RATIO: "50"}
HALF = {K_CORE: "50", K_MEMORY: "16Gi", K_RATIO: "50"}
TENTH, FOUR_TENTHS = {K_CORE: "10", K_RATIO: "10"}, {K_CORE: "40", K_RATIO: "40"}
HALF_UNPLACED: Told = [("a", None, 0.5, CARD_MEMORY // 2)]


def listed(*devices: object) -> dict[str, str]:
    return {K_LIST: json.dumps({"gpu": devices, "rdma": [{"minor": 0}]})}


def on(minor: object, resources: object) -> dict[str, object]:
    return {"minor": minor, "resources": resources}


def at_7(resources: object) -> dict[str, str]:
    return listed(on(7, resources))


READ: Mapping[str, list[Case]] = {
    "aliyun-gpushare-v1": [
        Case(THREE, {A_INDEX: "1"}, [("a", "GPU-1", None, 3 * GIB)]),
        Case(THREE, {}, [("a", None, None, 3 * GIB)]),
        Case(
            (container("a", THREE), PLAIN, TWO_GIB),
            {A_INDEX: "2"},
            [("a", "GPU-2", None, 3 * GIB), ("b", "GPU-2", None, 2 * GIB)],
        ),
        Case(
            (container("i", {A_MEMORY: "5"}, "init"), container("s", THREE, "sidecar")),
            {A_INDEX: "0"},
            [("s", "GPU-0", None, 3 * GIB)],
        ),
        Case({A_MEMORY: "0"}, {A_INDEX: "0"}, []),
        Case((PLAIN,), {A_INDEX: "0"}, []),
        eight(GIB),
        eight(GIB, "15"),
        eight(GIB, "14"),  # a driver's reserve off
        eight(MIB, "15109"),
        eight(GIB, mem="30", count="2"),
        eight(MIB, mem="30720", count="2"),
        eight(MIB, "15", mem="30720", count="2"),  # the node is believed first
        eight(GIB, "15", mem="30720", count="0"),
        eight(MIB, "15109", mem="x", count="2"),
        # Without NVML it is the unit that a card can have.
        *(eight(unit, says, node()) for says, unit in (("80", GIB), ("81559", MIB), ("", GIB))),
    ],
    "aliyun-ack": [
        Case(SHARED, tables({"0": {"1": 8}}, {"0": {"1": 60}}), [("a", "GPU-1", 0.6, 8 * GIB)]),
        Case(SHARED, tables({"0": {"1": "8"}}), [("a", "GPU-1", 0.6, 8 * GIB)]),
        Case(SHARED, tables(core={"0": {"1": 60}}), [("a", "GPU-1", 0.6, 8 * GIB)]),
        Case(
            SHARED,
            tables({"0": {"2": 4, "0": 4}}, {"0": {"0": 30, "2": 30}}),
            [("a", "GPU-0", 0.3, 4 * GIB), ("a", "GPU-2", 0.3, 4 * GIB)],
        ),
        Case(SHARED, tables({"0": {"1": 0}}), [("a", "GPU-1", 0.6, 8 * GIB)]),
        # Places are counted among the app containers alone.
        Case(
            (container("i", {A_MEMORY: "1"}, "init"), PLAIN, TWO_GIB),
            tables({"1": {"3": 2}}),
            [("b", "GPU-3", None, 2 * GIB)],
        ),
        # A container that the tables leave out has its limits.
        Case(
            (*SHARED, TWO_GIB),
            tables({"0": {"3": 8}}),
            [("a", "GPU-3", 0.6, 8 * GIB), ("b", None, None, 2 * GIB)],
        ),
        # Without tables the index and the limits tell.
        Case(SHARED, {A_INDEX: "2"}, [("a", "GPU-2", 0.6, 8 * GIB)]),
        Case(SHARED, {}, UNPLACED),
        Case(SHARED, {}, [("a", None, 0.3, 4 * GIB)] * 2, labels={A_COUNT: "2"}),
        Case(
            {A_MEMORY: "8138"},
            tables({"0": {"0": 8138}}),
            [("a", "GPU-0", None, 8138 * MIB)],
            node(T4, allocatable={A_MEMORY: "15109", A_COUNT: "1"}),
        ),
    ],
    "vke-mgpu": [
        # Another vendor's card does not blur the index.
        Case(
            THIRTY,
            {V_INDEX + "a": "0"},
            [("a", "GPU-0", 0.3, None)],
            node(card(0, vendor="intel"), card(0)),
        ),
        Case(
            {V_CORE: "200"},
            {V_INDEX + "a": "1,0"},
            [("a", "GPU-1", 1.0, 24 * GIB), ("a", "GPU-0", 1.0, 16 * GIB)],
            UNEQUAL,
        ),
        # An unplaced whole card has memory only if all cards are equal.
        Case({V_CORE: "100"}, {}, [("a", None, 1.0, CARD_MEMORY)]),
        Case({V_CORE: "100"}, {}, [("a", None, 1.0, None)], UNEQUAL),
        # A share over several cards is divided, whatever the remainder.
        Case(
            {V_CORE: "50", V_MEMORY: "4097"},
            {V_COUNTS: "3"},
            [("a", None, 50 / 300, 4097 * MIB // 3)] * 3,
        ),
        Case({V_CORE: "1"}, {V_COUNTS: "2"}, [("a", None, 0.005, None)] * 2),
        # A multiple of 100 is whole cards only if each has 100 and no memory is stated.
        Case({V_CORE: "200"}, {V_COUNTS: "2"}, [("a", None, 1.0, CARD_MEMORY)] * 2),
        Case({V_CORE: "200", V_MEMORY: "8192"}, {V_COUNTS: "2"}, [("a", None, 1.0, 4 * GIB)] * 2),
        Case({V_CORE: "200", V_MEMORY: "8192"}, {V_COUNTS: "4"}, [("a", None, 0.5, 2 * GIB)] * 4),
        # The memory of a card can come from the node's totals.
        *(
            Case(
                {V_CORE: "100"},
                {},
                [("a", None, 1.0, memory)],
                node(allocatable={V_CORE: core, V_MEMORY: whole}),
            )
            for core, whole, memory in (
                *(("400", "8k", 2000 * MIB), ("30", "8k", None)),
                *(("0", "0", None), ("x", "8k", None)),
            )
        ),
        # The key of a container called "1" is not the second container's.
        Case(
            (container("1", {V_CORE: "10"}), container("b", {V_CORE: "20"})),
            {V_INDEX + "1": "2"},
            [("1", "GPU-2", 0.1, None), ("b", None, 0.2, None)],
        ),
        Case({"nvidia.com/gpu": "1"}, {V_INDEX + "a": "x"}, []),
    ],
    "tke-qgpu": [
        Case({T_CORE: "100"}, {}, [("a", None, 1.0, CARD_MEMORY)]),
        Case({T_CORE: "300"}, {}, [("a", None, 1.0, CARD_MEMORY)] * 3),
        Case({T_CORE: "160"}, {}, [("a", None, 0.8, None)] * 2),
        Case({T_GREEDY: "100", T_MEMORY: "2"}, {}, [("a", None, 1.0, 2 * GIB)]),
        Case({T_CORE: "20", T_GREEDY: "50", T_MEMORY: "2"}, {}, [("a", None, 0.2, 2 * GIB)]),
        Case({T_CORE: "0", T_MEMORY: "2"}, {}, [("a", None, None, 2 * GIB)]),
        Case({T_CORE: "0"}, {}, []),
        # The placement of one container is not another's.
        Case(
            (
                container("a", {T_CORE: "10"}),
                container("b", {T_CORE: "20"}, kind="sidecar"),
                container("i", {T_CORE: "30"}, kind="init"),
            ),
            {f"{TKE}pgpu-b": "1"},
            [("a", None, 0.1, None), ("b", "GPU-1", 0.2, None)],
        ),
    ],
    "volcano-vgpu": [
        # Segments stand for the containers that ask: not for init ones.
        Case((PLAIN, ONE), {O_IDS: ZERO}, [AT_0]),
        Case(
            (container("i", {O_NUMBER: "1"}, "init"), PLAIN, ONE, TWO),
            {O_IDS: f"{ZERO};{NEXT}"},
            [AT_0, AT_1],
        ),
        Case((ONE,), {O_IDS: f"{ZERO};"}, [AT_0]),
        Case((ONE, TWO), {O_IDS: f";{NEXT}"}, [("one", None, None, None), AT_1]),
        Case((PAIR,), {O_IDS: ZERO + NEXT}, [("pair", *AT_0[1:]), ("pair", *AT_1[1:])]),
        Case({O_MEMORY: "2000"}, {}, [("a", None, None, 2000 * MIB)]),
        Case({O_NUMBER: "2", O_MEMORY: "10", O_CORES: "30"}, {}, [("a", None, 0.3, 10 * MIB)] * 2),
        Case({O_NUMBER: "1", O_CORES: "100"}, {}, [("a", None, 1.0, CARD_MEMORY)]),
        Case({O_NUMBER: "1", O_CORES: "100", O_MEMORY: "10"}, {}, [("a", None, 1.0, 10 * MIB)]),
        Case({O_NUMBER: "1"}, {}, [("a", None, None, None)]),
        Case({O_NUMBER: "0"}, {}, []),
        Case({O_CORES: "30"}, {}, []),
        # With a memory factor of 10 the scheduler counts a card of 32 GiB as 3276 units.
        Case(
            {O_NUMBER: "1", O_PERCENT: "50"},
            {O_IDS: "GPU-0,NVIDIA,1638,0:"},
            [("a", "GPU-0", None, 16380 * MIB)],
            replace(
                FOUR,
                annotations={"volcano.sh/node-vgpu-register": "GPU-0,10,3276,NVIDIA-V100,true,x:"},
            ),
        ),
    ],
    "vgpu-manager": [
        # The device plugin's list counts before the scheduler's.
        Case(BESIDE, {REAL: OF_ZERO}, [("a", "GPU-0", 0.1, GIB)]),
        Case(BESIDE, {PLANNED: OF_ZERO}, [("a", "GPU-0", 0.1, GIB)]),
        Case(
            BESIDE,
            {PLANNED: f"{OF_ZERO};b[0_GPU-0_5_9]", REAL: OF_ONE},
            [("a", "GPU-1", 0.1, GIB)],
        ),
        Case(
            BESIDE,
            {PLANNED: f"b[0_GPU-0_5_9];{OF_ZERO}", REAL: "b[1_GPU-1_10_1024]"},
            [("a", "GPU-0", 0.1, GIB)],
        ),
        Case(BESIDE, {REAL: " a[0_GPU-0_10_1024 ] ; "}, [("a", "GPU-0", 0.1, GIB)]),
        Case(BESIDE, {}, LIMITED),
        # Amounts are each card's.
        Case({G_NUMBER: "1"}, {REAL: "a[0_GPU-0_100_32768]"}, [("a", "GPU-0", 1.0, CARD_MEMORY)]),
        Case({G_NUMBER: "1"}, {}, [("a", None, 1.0, CARD_MEMORY)]),
        Case(
            {G_NUMBER: "1", G_MEMORY: "512"},
            {REAL: "a[0_GPU-0_0_512]"},
            [("a", "GPU-0", None, 512 * MIB)],
        ),
        Case(
            {G_NUMBER: "1", G_CORES: "30"},
            {REAL: "a[0_GPU-0_30_32768]"},
            [("a", "GPU-0", 0.3, CARD_MEMORY)],
        ),
        Case({G_NUMBER: "1", G_CORES: "30"}, {}, [("a", None, 0.3, CARD_MEMORY)]),
        Case(
            {G_NUMBER: "2", G_CORES: "30", G_MEMORY: "512"},
            {REAL: "a[0_GPU-0_30_512,1_GPU-1_30_512]"},
            [("a", "GPU-0", 0.3, 512 * MIB), ("a", "GPU-1", 0.3, 512 * MIB)],
        ),
        Case({G_CORES: "30"}, {}, []),  # the scheduler ignores it without a number
        Case(ASKED, {REAL: OF_ZERO}, LIMITED, NodeFacts()),
    ],
    "koordinator": [
        # Devices are known by their minor, memory in quantities.
        Case(BOTH_HALVES, listed(on(6, HALF)), [("a", "GPU-1", 0.5, 16 * GIB)]),
        Case(
            {K_MEMORY: "12508288Ki"},
            at_7({K_MEMORY: "12508288Ki", K_RATIO: "37"}),
            [("a", "GPU-0", None, 12508288 << 10)],
        ),
        Case(
            {KOORDINATOR: "100"},
            at_7({K_CORE: "100", K_MEMORY: "32Gi", K_RATIO: "100"}),
            [("a", "GPU-0", 1.0, 32 * GIB)],
        ),
        Case({"nvidia.com/gpu": "1"}, at_7({K_CORE: "100"}), [("a", "GPU-0", 1.0, CARD_MEMORY)]),
        Case(BOTH_HALVES, at_7({K_CORE: 50}), [("a", "GPU-0", 0.5, CARD_MEMORY // 2)]),
        Case({K_RATIO: "50"}, at_7({K_CORE: "0"}), [("a", "GPU-0", None, CARD_MEMORY // 2)]),
        Case({K_RATIO: "50"}, at_7({}), [("a", "GPU-0", None, CARD_MEMORY // 2)]),
        Case(
            BOTH_HALVES,
            at_7({K_CORE: "50", K_MEMORY: "16300Mi"}),
            [("a", "GPU-0", 0.5, 16300 << 20)],
        ),
        # They are the only user's, or else the pod's.
        Case(
            (PLAIN, container("u", BOTH_HALVES), container("i", {K_CORE: "1"}, "init")),
            at_7(HALF),
            [("u", "GPU-0", 0.5, 16 * GIB)],
        ),
        *(
            Case(
                (container("b", TENTH), container("c", FOUR_TENTHS, kind)),
                at_7(HALF),
                [("", "GPU-0", 0.5, 16 * GIB)],
            )
            for kind in ("app", "sidecar")
        ),
        # A ratio is of the card that it is on.
        Case(
            {K_SHARED: "2", K_RATIO: "100"},
            listed(on(7, {K_RATIO: "50"}), on(6, {K_RATIO: "50"})),
            [("a", "GPU-0", None, 8 * GIB), ("a", "GPU-1", None, 40 * GIB)],
            node(card(0, 16 * GIB), card(1, 80 * GIB)),
        ),
        # Without the annotation the limits tell all but the device.
        Case({K_CORE: "50", K_RATIO: "25"}, {}, [("a", None, 0.5, CARD_MEMORY // 4)]),
        Case({K_CORE: "50", K_MEMORY: "4Gi"}, {}, [("a", None, 0.5, 4 * GIB)]),
        Case({K_SHARED: "2", K_MEMORY: "8Gi"}, {}, [("a", None, None, 4 * GIB)] * 2),
        Case({K_SHARED: "1", K_MEMORY: "8Gi"}, {}, [("a", None, None, 8 * GIB)]),
        Case({K_CORE: "200", K_RATIO: "200"}, {}, [("a", None, 1.0, CARD_MEMORY)] * 2),
        Case({KOORDINATOR: "50"}, {}, [("a", None, 0.5, CARD_MEMORY // 2)]),
        Case({KOORDINATOR: "200"}, {}, [("a", None, 1.0, CARD_MEMORY)] * 2),
        Case({K_MEMORY: "8Gi"}, {}, [("a", None, None, 8 * GIB)]),
        Case({K_CORE: "0"}, {}, []),
    ],
}
REFUSED: Mapping[str, list[Refused]] = {
    "aliyun-gpushare-v1": [
        Refused(THREE, {A_INDEX: "0,1"}, Reason.PLACEMENT_MISMATCH),
        Refused(THREE, {A_INDEX: "4"}, Reason.UNKNOWN_DEVICE),
        Refused(THREE, {A_INDEX: "-1"}, Reason.BAD_ANNOTATION),
        Refused(THREE, {A_CARD: "fifteen"}, Reason.BAD_ANNOTATION),
        Refused({A_MEMORY: "5000"}, {}, Reason.MEMORY_OUT_OF_RANGE),
        Refused({A_MEMORY: "3.5"}, {}, Reason.BAD_QUANTITY),
    ],
    "aliyun-ack": [
        *(
            Refused(SHARED, {M_TABLE: text}, Reason.BAD_ANNOTATION, UNPLACED)
            for text in (
                *("{", "[" * 60_000, '{"0":{"1":' + "9" * 5000 + "}}", '{"0":{"1":1e400}}'),
                *('{"0":{"1":true}}', '{"0":{"1":-8}}', '{"0":[1]}', "[]", '{"a":{"1":8}}'),
                '{"0":{"1":' + str(2**80) + "}}",
            )
        ),
        Refused(
            SHARED,
            {M_TABLE: '{"0":{"1":8,"01":8}}'},
            Reason.BAD_ANNOTATION,
            [("a", "GPU-1", 0.6, 8 * GIB)],
        ),
        Refused(SHARED, tables({"1": {"1": 8}}), Reason.CONTAINER_MISMATCH, UNPLACED),
        Refused(SHARED, tables({"0": {"4": 8}}), Reason.UNKNOWN_DEVICE, UNPLACED),
        Refused(SHARED, tables({"0": {"1": 5000}}), Reason.MEMORY_OUT_OF_RANGE),
        Refused(
            SHARED,
            tables({"0": {"1": 80}}),
            Reason.LIMITS_DIFFER,
            [("a", "GPU-1", 0.6, 8 * GIB)],
        ),
        Refused(
            SHARED,
            tables(core={"0": {"1": 6}}),
            Reason.LIMITS_DIFFER,
            [("a", "GPU-1", 0.6, 8 * GIB)],
        ),
        Refused(SHARED, tables(core={"0": {"1": 101}}), Reason.CORE_OUT_OF_RANGE),
        Refused(SHARED, tables({"0": {str(n): 1 for n in range(65)}}), Reason.TOO_MANY_DEVICES),
        *(
            Refused(SHARED, {}, Reason.BAD_QUANTITY, UNPLACED, labels={A_COUNT: count})
            for count in ("0", "many", "")
        ),
    ],
    "vke-mgpu": [
        Refused(THIRTY, {V_INDEX + "a": "4"}, Reason.UNKNOWN_DEVICE, UNDIVIDED),
        Refused(THIRTY, {V_INDEX + "a": "0,1"}, Reason.PLACEMENT_MISMATCH, UNDIVIDED),
        Refused({V_CORE: "200"}, {V_INDEX + "a": "1,1"}, Reason.PLACEMENT_MISMATCH),
        Refused(THIRTY, {V_INDEX + "a": "-1"}, Reason.BAD_ANNOTATION, UNDIVIDED),
        Refused(THIRTY, {V_INDEX + "a": "1," * 40_000}, Reason.BAD_ANNOTATION, UNDIVIDED),
        Refused(THIRTY, {V_COUNTS: "two"}, Reason.BAD_ANNOTATION, UNDIVIDED),
        Refused(THIRTY, {V_COUNTS: "1,1"}, Reason.CONTAINER_MISMATCH, UNDIVIDED),
        Refused({**THIRTY, V_MEMORY: "-5"}, {}, Reason.BAD_QUANTITY, UNDIVIDED),
        Refused({**THIRTY, V_MEMORY: "1Gi"}, {}, Reason.MEMORY_OUT_OF_RANGE, UNDIVIDED),
        Refused({V_CORE: "150"}, {}, Reason.CORE_OUT_OF_RANGE, [("a", None, None, None)]),
        Refused({V_CORE: "6500"}, {}, Reason.TOO_MANY_DEVICES, []),
        Refused({V_CORE: "100k"}, {}, Reason.TOO_MANY_DEVICES, []),
    ],
    "tke-qgpu": [
        Refused({T_GREEDY: "150", T_MEMORY: "2"}, {}, Reason.CORE_OUT_OF_RANGE),
        Refused({T_CORE: "10", T_MEMORY: "2e9"}, {}, Reason.MEMORY_OUT_OF_RANGE),
        Refused({T_CORE: "ten", T_MEMORY: "2"}, {}, Reason.BAD_QUANTITY),
        Refused({T_CORE: "1M"}, {}, Reason.TOO_MANY_DEVICES, []),
        Refused({T_CORE: "10"}, {f"{TKE}pgpu-a": "9"}, Reason.UNKNOWN_DEVICE),
    ],
    "volcano-vgpu": [
        Refused((ONE,), {O_IDS: "GPU-9,NVIDIA,1,1:"}, Reason.UNKNOWN_DEVICE),
        Refused((ONE,), {O_IDS: ZERO + ZERO}, Reason.PLACEMENT_MISMATCH),
        Refused((ONE,), {O_IDS: "GPU-0,NVIDIA,x,1:"}, Reason.BAD_QUANTITY),
        Refused((ONE,), {O_IDS: ZERO * 65}, Reason.TOO_MANY_DEVICES),
        Refused((ONE,), {O_IDS: "x"}, Reason.BAD_ANNOTATION),
        Refused((PLAIN,), {O_IDS: ZERO}, Reason.NOT_REQUESTED, []),
        # Segments that fit nobody are the only user's, or nobody's.
        Refused(
            (ONE, TWO),
            {O_IDS: f"{ZERO};{NEXT};;"},
            Reason.CONTAINER_MISMATCH,
            [("one", None, None, None), ("two", None, None, 2000 * MIB)],
        ),
        Refused(
            (PLAIN, PAIR),
            {O_IDS: f"{ZERO};{NEXT};;"},
            Reason.CONTAINER_MISMATCH,
            [("pair", *AT_0[1:]), ("pair", *AT_1[1:])],
        ),
        # The limits win where the annotation states other amounts.
        *(
            Refused(limits, {O_IDS: entry}, Reason.LIMITS_DIFFER, [("a", "GPU-0", core, 10 * MIB)])
            for limits, entry, core in (
                ({O_MEMORY: "10"}, "GPU-0,NVIDIA,2000,10:", 0.1),
                ({O_MEMORY: "10", O_CORES: "100"}, "GPU-0,NVIDIA,10,1:", 1.0),
                ({O_MEMORY: "10", O_CORES: "0"}, "GPU-0,NVIDIA,10,50:", None),
            )
        ),
    ],
    "vgpu-manager": [
        *(
            Refused(ASKED, {REAL: text}, Reason.BAD_ANNOTATION, LIMITED)
            for text in (
                *("a", "a[0_GPU-0_10]", "a[0_GPU-0_10_1024_9]", "a[0_GPU-0_-1_1024]"),
                "a[0_GPU-0_10_" + "9" * 5000 + "]",
                *(
                    "a[[0_GPU-0_10_1024]]",
                    "a[0_GPU-0_10_٣]",
                    "a[" + "0_GPU-0_10_1024," * 5000 + "]",
                ),
            )
        ),
        Refused(
            ASKED, {REAL: f"{OF_ZERO};{OF_ONE}"}, Reason.BAD_ANNOTATION, [("a", "GPU-0", 0.1, GIB)]
        ),
        Refused(ASKED, {REAL: "é[0_GPU-0_10_1024]"}, Reason.CONTAINER_MISMATCH, LIMITED),
        Refused(ASKED, {REAL: "a[0_GPU-9_10_1024]"}, Reason.UNKNOWN_DEVICE, LIMITED),
        *(
            Refused(ASKED, {REAL: text}, Reason.LIMITS_DIFFER, [("a", "GPU-0", 0.1, GIB)])
            for text in ("a[0_GPU-0_90_1024]", "a[0_GPU-0_10_9999]")
        ),
        Refused(
            ASKED, {REAL: "a[0_GPU-0_10_1024,0_GPU-1_10_1024]"}, Reason.PLACEMENT_MISMATCH, LIMITED
        ),
        Refused(ASKED, {REAL: "a[" + "0_GPU-0_10_1024," * 4000 + "]"}, Reason.TOO_MANY_DEVICES, []),
        # Two cards that are one.
        Refused(
            {**ASKED, G_NUMBER: "2"},
            {REAL: "a[0_GPU-0_10_1024,0_GPU-0_10_1024]"},
            Reason.DUPLICATE_DEVICE,
            LIMITED * 2,
        ),
        Refused({G_NUMBER: "65"}, {}, Reason.TOO_MANY_DEVICES),
        Refused({G_NUMBER: "9" * 40}, {}, Reason.BAD_QUANTITY),
        Refused({G_NUMBER: "1", G_CORES: "101"}, {}, Reason.CORE_OUT_OF_RANGE),
        Refused({G_NUMBER: "1", G_MEMORY: str(2**50)}, {}, Reason.MEMORY_OUT_OF_RANGE),
    ],
    "koordinator": [
        Refused((PLAIN,), at_7(HALF), Reason.NOT_REQUESTED, []),
        # The limits win where the annotation states other amounts.
        *(
            Refused(limits, at_7(stated), Reason.LIMITS_DIFFER, [("a", "GPU-0", core, memory)])
            for limits, stated, core, memory in (
                (TENTH, {K_CORE: "100", K_MEMORY: "32Gi", K_RATIO: "100"}, 0.1, CARD_MEMORY // 10),
                ({KOORDINATOR: "100"}, {K_CORE: "1", K_MEMORY: "1Gi"}, 1.0, CARD_MEMORY),
                ({"nvidia.com/gpu": "1"}, {K_CORE: "1", K_RATIO: "1"}, 1.0, CARD_MEMORY),
                ({K_RATIO: "50"}, {**HALF, K_CORE: "90"}, None, 16 * GIB),
                (BOTH_HALVES, {**HALF, K_MEMORY: "1Gi"}, 0.5, 16 * GIB),
                ({K_MEMORY: "1Gi"}, {K_MEMORY: "9Gi", K_RATIO: "3"}, None, GIB),
            )
        ),
        # A list of another number of devices places nothing.
        *(
            Refused(
                BOTH_HALVES,
                listed(*(on(minor, HALF) for minor in minors)),
                Reason.PLACEMENT_MISMATCH,
                HALF_UNPLACED,
            )
            for minors in ((7, 6), (7, 6, 5))
        ),
        *(
            Refused(BOTH_HALVES, says, Reason.BAD_ANNOTATION)
            for says in (
                {K_LIST: "{"},
                {K_LIST: '{"gpu":{}}'},
                {K_LIST: '{"gpu":' + "[" * 500 + "]" * 500 + "}"},
                *(listed(on(minor, HALF)) for minor in (-1, None, 2**80)),
                at_7(None),
                listed("GPU-0"),
            )
        ),
        Refused(BOTH_HALVES, listed(on(0, HALF)), Reason.UNKNOWN_DEVICE),
        Refused(BOTH_HALVES, listed(on(7, HALF), on(7, HALF)), Reason.DUPLICATE_DEVICE),
        Refused(BOTH_HALVES, at_7({K_CORE: "ten"}), Reason.BAD_QUANTITY),
        Refused(BOTH_HALVES, at_7({K_CORE: ["50"]}), Reason.BAD_QUANTITY),
        Refused(BOTH_HALVES, at_7({K_CORE: "101"}), Reason.CORE_OUT_OF_RANGE),
        Refused(BOTH_HALVES, at_7({K_MEMORY: "5Ti"}), Reason.MEMORY_OUT_OF_RANGE),
        Refused(BOTH_HALVES, at_7({K_RATIO: "101"}), Reason.LIMITS_DIFFER),
        Refused(BOTH_HALVES, listed(*[on(7, HALF)] * 65), Reason.TOO_MANY_DEVICES),
        Refused({K_CORE: "150", K_RATIO: "50"}, {}, Reason.CORE_OUT_OF_RANGE),
        Refused({K_SHARED: "65"}, {}, Reason.TOO_MANY_DEVICES),
        Refused({K_CORE: "50", K_MEMORY: "4.5"}, {}, Reason.BAD_QUANTITY),
    ],
}
OF_PLACES = {Reason.PLACEMENT_MISMATCH, Reason.UNKNOWN_DEVICE}


def decoded(system: str, case: Case | Refused) -> Decoded:
    containers = case.has if isinstance(case.has, tuple) else (container(limits=case.has),)
    described = pod(*containers, annotations=case.says, labels=case.labels)
    return DECODERS[system](described, case.node)


def numbered(
    table: Mapping[str, list[Case]] | Mapping[str, list[Refused]],
) -> list[tuple[str, int]]:
    return [(system, number) for system, cases in table.items() for number in range(len(cases))]


@pytest.mark.parametrize(("system", "number"), numbered(READ))
def test_amounts_and_cards_are_read(system: str, number: int) -> None:
    case = READ[system][number]
    found = decoded(system, case)
    assert told(found) == case.gets
    assert found.problems == ()


@pytest.mark.parametrize(("system", "number"), numbered(REFUSED))
def test_what_cannot_be_is_counted_and_costs_only_itself(system: str, number: int) -> None:
    case = REFUSED[system][number]
    found = decoded(system, case)
    assert set(reasons(found)) == {case.reason}
    assert case.gets is None or told(found) == case.gets
    assert (
        case.gets is not None
        or case.reason not in OF_PLACES
        or {a.device for a in found.allocations} <= {None}
    )
