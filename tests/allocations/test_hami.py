import pytest

from exporter.allocations.hami import decode
from exporter.allocations.scheme import Reason
from exporter.model import Container
from tests.allocations.build import CARD_MEMORY, FOUR_CARDS, MIB, card, container, node, pod

ALLOCATED = "hami.io/vgpu-devices-allocated"
GPU = {"nvidia.com/gpu": "1"}
INIT = container("i", kind="init")
SIDECAR = container("s", kind="sidecar")
PLAIN = container("plain")
FIRST = container("first", GPU)
SECOND = container("second", GPU)
ZERO = "GPU-0,NVIDIA,1000,10:"
ONE = "GPU-1,NVIDIA,2000,0:"


@pytest.mark.parametrize(
    ("containers", "annotation", "expected"),
    [
        pytest.param((INIT, FIRST), f";{ZERO};", [("first", "GPU-0")], id="init first since v2.9"),
        pytest.param((INIT, FIRST), f"{ZERO};", [("first", "GPU-0")], id="containers only before"),
        pytest.param(
            (INIT, PLAIN, FIRST), f"{ZERO};", [("first", "GPU-0")], id="empty segment dropped"
        ),
        pytest.param(
            (FIRST, SIDECAR, SECOND),
            f"{ONE};{ZERO};;",
            [("s", "GPU-1"), ("first", "GPU-0"), ("second", None)],
            id="a sidecar is an init container of the spec",
        ),
        pytest.param(
            (container("i", GPU, "init"), FIRST),
            f"{ZERO};{ONE};",
            [("first", "GPU-1")],
            id="an ordinary init container hands its devices on",
        ),
        pytest.param(
            (FIRST, SECOND),
            f"{ZERO};{ONE};;;",
            [("", "GPU-0"), ("", "GPU-1")],
            id="no rule fits: the pod's",
        ),
    ],
)
def test_segments_find_their_containers(
    containers: tuple[Container, ...], annotation: str, expected: list[tuple[str, str | None]]
) -> None:
    decoded = decode(pod(*containers, annotations={ALLOCATED: annotation}), node(*FOUR_CARDS))
    assert [(a.container, a.device) for a in decoded.allocations] == expected


def test_segments_that_fit_no_rule_are_counted() -> None:
    decoded = decode(pod(FIRST, SECOND, annotations={ALLOCATED: ";;;" + ZERO}), node(*FOUR_CARDS))
    assert [problem.reason for problem in decoded.problems] == [Reason.CONTAINER_MISMATCH]


@pytest.mark.parametrize(
    ("entry", "reason", "shares"),
    [
        ("GPU-9,NVIDIA,1000,10:", Reason.UNKNOWN_DEVICE, [(None, 0.1, 1000 * MIB)]),
        ("GPU-9[7-9],NVIDIA,1000,10:", Reason.UNKNOWN_DEVICE, [(None, None, 1000 * MIB)]),
        ("GPU-0,NVIDIA,1000,101:", Reason.CORE_OUT_OF_RANGE, [("GPU-0", None, 1000 * MIB)]),
        ("GPU-0,NVIDIA,9999999,10:", Reason.MEMORY_OUT_OF_RANGE, [("GPU-0", 0.1, None)]),
        ("GPU-0,NVIDIA,-1,10:", Reason.BAD_QUANTITY, [("GPU-0", 0.1, None)]),
        ("GPU-0,NVIDIA,1000:" + ZERO, Reason.BAD_ANNOTATION, [("GPU-0", 0.1, 1000 * MIB)]),
        (ZERO + ZERO, Reason.DUPLICATE_DEVICE, [("GPU-0", 0.1, 1000 * MIB)]),
        ("nonsense", Reason.BAD_ANNOTATION, [(None, None, None)]),
        (ZERO * 65, Reason.TOO_MANY_DEVICES, [(None, None, None)]),
        (ZERO * 5000, Reason.BAD_ANNOTATION, []),
    ],
)
def test_bad_entry_is_counted_and_costs_only_itself(
    entry: str, reason: Reason, shares: list[tuple[str | None, float | None, int | None]]
) -> None:
    decoded = decode(pod(FIRST, annotations={ALLOCATED: entry + ";"}), node(*FOUR_CARDS))
    assert [(a.device, a.core, a.memory_bytes) for a in decoded.allocations] == shares
    assert [problem.reason for problem in decoded.problems] == [reason]


def test_memory_beyond_the_card_is_kept_as_hami_can_oversubscribe() -> None:
    described = pod(FIRST, annotations={ALLOCATED: "GPU-0,NVIDIA,49152,0:;"})
    decoded = decode(described, node(*FOUR_CARDS))
    assert decoded.allocations[0].memory_bytes == 48 * 1024 * MIB > CARD_MEMORY


@pytest.mark.parametrize(
    ("limits", "shares"),
    [
        ({"nvidia.com/gpu": "2", "nvidia.com/gpumem": "3k"}, [(None, 3000 * MIB)] * 2),
        ({"nvidia.com/gpumem": "500", "nvidia.com/gpucores": "30"}, [(0.3, 500 * MIB)]),
        ({"nvidia.com/gpu": "1", "nvidia.com/gpumem-percentage": "50"}, [(None, CARD_MEMORY // 2)]),
        ({"nvidia.com/gpu": "1", "nvidia.com/gpucores": "0"}, [(None, None)]),
    ],
)
def test_without_annotation_the_limits_tell_all_but_the_device(
    limits: dict[str, str], shares: list[tuple[float | None, int | None]]
) -> None:
    decoded = decode(pod(container(limits=limits)), node(*FOUR_CARDS))
    assert [(a.core, a.memory_bytes) for a in decoded.allocations] == shares
    assert {a.device for a in decoded.allocations} == {None}


def test_percentage_of_unequal_cards_is_unknown() -> None:
    described = pod(container(limits={"nvidia.com/gpu": "1", "nvidia.com/gpumem-percentage": "50"}))
    decoded = decode(described, node(card(0), card(1, memory=1 << 30)))
    assert decoded.allocations[0].memory_bytes is None


@pytest.mark.parametrize(("limit", "priority"), [("0", "high"), ("1", "low"), ("2", "")])
def test_priority_is_named(limit: str, priority: str) -> None:
    owner = container(limits={**GPU, "nvidia.com/priority": limit})
    decoded = decode(pod(owner, annotations={ALLOCATED: ZERO + ";"}), node(*FOUR_CARDS))
    assert [a.priority for a in decoded.allocations] == [priority]
    assert len(decoded.problems) == (priority == "")


def test_the_permanent_record_wins_over_the_older_keys() -> None:
    annotations = {ALLOCATED: ZERO + ";", "4pd.io/vgpu-ids-new": ONE + ";"}
    decoded = decode(pod(FIRST, annotations=annotations), node(*FOUR_CARDS))
    assert [a.device for a in decoded.allocations] == ["GPU-0"]


def test_plain_gpu_request_is_not_ours() -> None:
    decoded = decode(pod(FIRST), node(*FOUR_CARDS))
    assert (decoded.allocations, decoded.problems) == ((), ())
