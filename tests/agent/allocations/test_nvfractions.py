import pytest

from exporter.agent.allocations import registry
from exporter.agent.allocations.schemes.nvfractions import SCHEME
from exporter.agent.allocations.terms import Reason
from tests.agent.allocations.build import (
    FOUR_CARDS,
    GIB,
    container,
    decoder,
    instance,
    node,
    pod,
    reasons,
)

decode = decoder(SCHEME)

KEY = "nvidia.com/container.a."
ASKED = {f"{KEY}gpu-memory.limit": "4Gi"}
LIMIT, REQUEST, DEVICES = f"{KEY}gpu-memory.limit", f"{KEY}gpu-memory.request", f"{KEY}gpus.devices"

REFUSED = {
    "below 1 MiB": ({LIMIT: "1000k"}, Reason.BAD_QUANTITY, []),
    "not a quantity": ({LIMIT: "much"}, Reason.BAD_QUANTITY, []),
    "request above limit": (
        {**ASKED, REQUEST: "8Gi"},
        Reason.LIMITS_DIFFER,
        [(None, 4 * GIB)],
    ),
    "a device that is not there": (
        {**ASKED, DEVICES: "GPU-9"},
        Reason.UNKNOWN_DEVICE,
        [(None, 4 * GIB)],
    ),
    "a device twice": (
        {**ASKED, DEVICES: "GPU-1,GPU-1"},
        Reason.DUPLICATE_DEVICE,
        [(None, 4 * GIB)],
    ),
    "too many devices": ({**ASKED, DEVICES: "0," * 99}, Reason.TOO_MANY_DEVICES, []),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_is_refused_and_counted(case: str) -> None:
    annotations, reason, expected = REFUSED[case]
    decoded = decode(pod(container("a"), annotations=annotations), node(*FOUR_CARDS))
    assert reason in reasons(decoded)
    assert [(a.device, a.memory_bytes) for a in decoded.allocations] == expected


@pytest.mark.parametrize(
    ("request_", "limit", "kept"),
    [("1Gi", "4Gi", GIB), ("4Gi", "4Gi", None), (None, "4Gi", None), ("4Gi", None, None)],
)
def test_the_request_is_kept_where_the_limit_is_higher(
    request_: str | None, limit: str | None, kept: int | None
) -> None:
    stated = {REQUEST: request_, LIMIT: limit}
    notes = {key: text for key, text in stated.items() if text}
    (one,) = decode(pod(container("a"), annotations=notes), node(*FOUR_CARDS)).allocations
    assert (one.memory_bytes, one.kept_bytes) == (4 * GIB, kept)


def test_another_containers_keys_are_not_read() -> None:
    decoded = decode(pod(container("b"), annotations=ASKED), node(*FOUR_CARDS))
    assert decoded.allocations == ()


@pytest.mark.parametrize(
    ("portion", "core", "found"),
    [
        ("0.5", 0.5, []),
        ("1", 1.0, []),
        ("1.5", None, [Reason.CORE_OUT_OF_RANGE]),
        ("half", None, [Reason.CORE_OUT_OF_RANGE]),
    ],
)
def test_the_portion_that_the_binder_writes_is_the_core(
    portion: str, core: float | None, found: list[Reason]
) -> None:
    """MPS's active threads, in both modes: README of gpu-fractioning#147, "Capping compute"."""
    notes = {**ASKED, f"{KEY}gpu-compute.portion": portion}
    decoded = decode(pod(container("a"), annotations=notes), node(*FOUR_CARDS))
    assert [(a.core, a.memory_bytes) for a in decoded.allocations] == [(core, 4 * GIB)]
    assert reasons(decoded) == found
    alone = {f"{KEY}gpu-compute.portion": portion}
    assert decode(pod(container("a"), annotations=alone), node(*FOUR_CARDS)).allocations == ()


LABEL = "gpu-fractioning.kai.scheduler/nvidia-driver-version.major"


@pytest.mark.parametrize(
    ("labels", "counted", "found"), [({LABEL: "615"}, 1, []), ({"a": "b"}, 0, [Reason.UNPROVEN])]
)
def test_nobody_takes_a_part_of_anothers_instance_where_no_fractiond_runs(
    labels: dict[str, str], counted: int, found: list[Reason]
) -> None:
    part = instance(0, 1)
    facts = node(*FOUR_CARDS, part, labels=labels)
    asking = pod(container("a"), annotations={**ASKED, DEVICES: part.uuid})
    decoded = registry.decode(asking, facts)
    assert [a.device for a in decoded.allocations] == [part.uuid] * counted
    assert reasons(decoded) == found


def test_container_that_asks_for_a_card_itself_has_no_second_one() -> None:
    facts = node(*FOUR_CARDS, labels={LABEL: "615"})
    both = pod(container("a", {"nvidia.com/gpu": "1"}), annotations=ASKED)
    assert [a.scheme for a in registry.decode(both, facts).allocations] == ["nvidia-device-plugin"]
