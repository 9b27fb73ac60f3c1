from dataclasses import replace

import pytest

from exporter.allocations.scheme import Reason
from exporter.allocations.schemes.volcano_vgpu import decode
from exporter.model import Container
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

NUMBER = "volcano.sh/vgpu-number"
MEMORY = "volcano.sh/vgpu-memory"
PERCENTAGE = "volcano.sh/vgpu-memory-percentage"
CORES = "volcano.sh/vgpu-cores"
IDS = "volcano.sh/vgpu-ids-new"
MODE = "volcano.sh/vgpu-mode"
ONE = container("one", {NUMBER: "1"})
TWO = container("two", {MEMORY: "2000"})
PLAIN = container("plain")
ZERO = "GPU-0,NVIDIA,1000,10:"
NEXT = "GPU-1,NVIDIA,2000,0:"


@pytest.mark.parametrize(
    ("containers", "ids", "expected"),
    [
        pytest.param(
            (PLAIN, ONE), ZERO, [("one", "GPU-0", 0.1, 1000 * MIB)], id="the plain one has none"
        ),
        pytest.param(
            (container("i", {NUMBER: "1"}, "init"), PLAIN, ONE, TWO),
            f"{ZERO};{NEXT}",
            [("one", "GPU-0", 0.1, 1000 * MIB), ("two", "GPU-1", None, 2000 * MIB)],
            id="init containers have none",
        ),
        pytest.param((ONE,), f"{ZERO};", [("one", "GPU-0", 0.1, 1000 * MIB)], id="closed by ;"),
        pytest.param(
            (ONE, TWO),
            f";{NEXT}",
            [("one", None, None, None), ("two", "GPU-1", None, 2000 * MIB)],
            id="an empty one falls back on the limits",
        ),
        pytest.param(
            (container("pair", {NUMBER: "2"}),),
            ZERO + NEXT,
            [("pair", "GPU-0", 0.1, 1000 * MIB), ("pair", "GPU-1", None, 2000 * MIB)],
            id="two cards",
        ),
    ],
)
def test_segments_stand_for_the_containers_that_ask(
    containers: tuple[Container, ...], ids: str, expected: Told
) -> None:
    decoded = decode(pod(*containers, annotations={IDS: ids}), node(*FOUR_CARDS))
    assert told(decoded) == expected
    assert decoded.problems == ()


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({MEMORY: "2000"}, [("a", None, None, 2000 * MIB)]),
        ({NUMBER: "2", MEMORY: "10", CORES: "30"}, [("a", None, 0.3, 10 * MIB)] * 2),
        ({NUMBER: "1", PERCENTAGE: "25"}, [("a", None, None, CARD_MEMORY // 4)]),
        ({NUMBER: "1", CORES: "100"}, [("a", None, 1.0, CARD_MEMORY)]),
        ({NUMBER: "1", CORES: "100", MEMORY: "10"}, [("a", None, 1.0, 10 * MIB)]),
        ({NUMBER: "1"}, [("a", None, None, None)]),
        ({NUMBER: "0"}, []),
        ({CORES: "30"}, []),
    ],
)
def test_without_ids_the_limits_tell_all_but_the_device(
    limits: dict[str, str], expected: Told
) -> None:
    assert told(decode(pod(container(limits=limits)), node(*FOUR_CARDS))) == expected


@pytest.mark.parametrize(
    ("containers", "expected"),
    [
        ((ONE, TWO), [("one", None), ("two", None)]),
        ((PLAIN, container("pair", {NUMBER: "2"})), [("pair", "GPU-0"), ("pair", "GPU-1")]),
    ],
)
def test_segments_that_fit_nobody_are_the_only_users_or_nobodys(
    containers: tuple[Container, ...], expected: list[tuple[str, str | None]]
) -> None:
    described = pod(*containers, annotations={IDS: f"{ZERO};{NEXT};;"})
    decoded = decode(described, node(*FOUR_CARDS))
    assert [(a.container, a.device) for a in decoded.allocations] == expected
    assert reasons(decoded) == [Reason.CONTAINER_MISMATCH]


def test_segments_of_containers_that_ask_for_nothing_are_refused() -> None:
    decoded = decode(pod(PLAIN, annotations={IDS: ZERO}), node(*FOUR_CARDS))
    assert (decoded.allocations, reasons(decoded)) == ((), [Reason.NOT_REQUESTED])


@pytest.mark.parametrize(
    ("limits", "entry", "expected"),
    [
        ({MEMORY: "10"}, "GPU-0,NVIDIA,2000,10:", ("a", "GPU-0", 0.1, 10 * MIB)),
        ({MEMORY: "10", CORES: "100"}, "GPU-0,NVIDIA,10,1:", ("a", "GPU-0", 1.0, 10 * MIB)),
        ({MEMORY: "10", CORES: "0"}, "GPU-0,NVIDIA,10,50:", ("a", "GPU-0", None, 10 * MIB)),
    ],
)
def test_limits_win_where_the_annotation_states_other_amounts(
    limits: dict[str, str], entry: str, expected: tuple[str, str, float | None, int]
) -> None:
    decoded = decode(pod(container(limits=limits), annotations={IDS: entry}), node(*FOUR_CARDS))
    assert told(decoded) == [expected]
    assert reasons(decoded) == [Reason.LIMITS_DIFFER]


def test_percentage_is_one_of_the_memory_that_the_plugin_registered() -> None:
    """With a memory factor of 10 the scheduler counts a card of 32 GiB as 3276 units."""
    facts = replace(
        node(*FOUR_CARDS),
        annotations={"volcano.sh/node-vgpu-register": "GPU-0,10,3276,NVIDIA-V100,true,hami-core:"},
    )
    described = pod(
        container(limits={NUMBER: "1", PERCENTAGE: "50"}), annotations={IDS: "GPU-0,NVIDIA,1638,0:"}
    )
    assert decode(described, facts).problems == ()


@pytest.mark.parametrize(
    ("ids", "mode", "policy"),
    [
        (ZERO, "hami-core", "hami-core"),
        (ZERO, "", ""),
        ("GPU-0[0-1],NVIDIA,1000,10:", "", "mig"),
    ],
)
def test_mode_is_the_policy(ids: str, mode: str, policy: str) -> None:
    described = pod(ONE, annotations={IDS: ids, MODE: mode})
    decoded = decode(described, node(*FOUR_CARDS))
    assert ([a.policy for a in decoded.allocations], decoded.problems) == ([policy], ())


@pytest.mark.parametrize(
    ("ids", "mode", "reason"),
    [
        ("GPU-9,NVIDIA,1,1:", "", Reason.UNKNOWN_DEVICE),
        (ZERO + ZERO, "", Reason.PLACEMENT_MISMATCH),
        ("GPU-0,NVIDIA,x,1:", "", Reason.BAD_QUANTITY),
        (ZERO * 65, "", Reason.TOO_MANY_DEVICES),
        ("x", "", Reason.BAD_ANNOTATION),
        (ZERO, "turbo", Reason.UNKNOWN_POLICY),
    ],
)
def test_bad_part_is_counted(ids: str, mode: str, reason: Reason) -> None:
    described = pod(ONE, annotations={IDS: ids, MODE: mode})
    assert reasons(decode(described, node(*FOUR_CARDS))) == [reason]
