import pytest

from exporter.allocations.scheme import Reason
from exporter.allocations.volcano_vgpu import decode
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
            (ONE,),
            ZERO + NEXT,
            [("one", "GPU-0", 0.1, 1000 * MIB), ("one", "GPU-1", None, 2000 * MIB)],
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
    ("containers", "owner", "devices"),
    [
        ((ONE, TWO), "", ["GPU-0", "GPU-1", "GPU-1"]),
        ((PLAIN, ONE), "one", ["GPU-0", "GPU-1"]),
        ((PLAIN,), "plain", ["GPU-0", "GPU-1"]),
    ],
)
def test_segments_that_fit_nobody_are_the_pods_or_its_only_users(
    containers: tuple[Container, ...], owner: str, devices: list[str]
) -> None:
    decoded = decode(
        pod(*containers, annotations={IDS: f"{ZERO};{NEXT};{NEXT}"}), node(*FOUR_CARDS)
    )
    assert [(a.container, a.device) for a in decoded.allocations] == [(owner, d) for d in devices]
    assert reasons(decoded)[0] is Reason.CONTAINER_MISMATCH


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
        (ZERO + ZERO, "", Reason.DUPLICATE_DEVICE),
        ("GPU-0,NVIDIA,x,1:", "", Reason.BAD_QUANTITY),
        (ZERO * 65, "", Reason.TOO_MANY_DEVICES),
        ("x", "", Reason.BAD_ANNOTATION),
        (ZERO, "turbo", Reason.UNKNOWN_POLICY),
    ],
)
def test_bad_part_is_counted(ids: str, mode: str, reason: Reason) -> None:
    described = pod(ONE, annotations={IDS: ids, MODE: mode})
    assert reasons(decode(described, node(*FOUR_CARDS))) == [reason]
