from dataclasses import replace

import pytest

from exporter.allocations.scheme import Reason
from exporter.allocations.schemes.elastic_gpu import decode
from tests.allocations.build import (
    CARD_MEMORY,
    MIB,
    Told,
    card,
    container,
    node,
    pod,
    reasons,
    told,
)

CORE = "elasticgpu.io/gpu-core"
MEMORY = "elasticgpu.io/gpu-memory"
PLACEMENT = "elasticgpu.io/container-"
# By PCI address the order is GPU-2, GPU-0, GPU-1.
CARDS = tuple(
    replace(card(index), pci_bus_id=address)
    for index, address in enumerate(("00000000:0A:00.0", "00000000:b0:00.0", "00000000:04:00.0"))
)


@pytest.mark.parametrize(
    ("limits", "place", "expected"),
    [
        ({CORE: "25", MEMORY: "1024"}, "0", [("a", "GPU-2", 0.25, 1024 * MIB)]),
        ({CORE: "25", MEMORY: "1024"}, "1", [("a", "GPU-0", 0.25, 1024 * MIB)]),
        ({CORE: "25"}, None, [("a", None, 0.25, None)]),
        ({MEMORY: "8k"}, "2", [("a", "GPU-1", None, 8000 * MIB)]),
        ({CORE: "100", MEMORY: "5"}, "2", [("a", "GPU-1", 1.0, CARD_MEMORY)]),
        (
            {CORE: "200"},
            "2,0",
            [("a", "GPU-1", 1.0, CARD_MEMORY), ("a", "GPU-2", 1.0, CARD_MEMORY)],
        ),
        (
            {"elasticgpu.com/gpu-core": "10", "elasticgpu.com/gpu-memory": "2"},
            "0",
            [("a", "GPU-2", 0.1, 2 * MIB)],
        ),
        ({CORE: "0"}, "0", []),
    ],
)
def test_cards_are_known_by_pci_order_under_both_domains(
    limits: dict[str, str], place: str | None, expected: Told
) -> None:
    annotations = {} if place is None else {PLACEMENT + "a": place}
    decoded = decode(pod(container(limits=limits), annotations=annotations), node(*CARDS))
    assert told(decoded) == expected
    assert decoded.problems == ()


@pytest.mark.parametrize(
    ("limits", "place", "reason"),
    [
        ({CORE: "150"}, "0", Reason.CORE_OUT_OF_RANGE),
        ({CORE: "1M"}, "0", Reason.TOO_MANY_DEVICES),
        ({CORE: "20"}, "0,1", Reason.PLACEMENT_MISMATCH),
        ({CORE: "20"}, "3", Reason.UNKNOWN_DEVICE),
        ({CORE: "20"}, "0;1", Reason.BAD_ANNOTATION),
        ({CORE: "20", MEMORY: "-1"}, "0", Reason.BAD_QUANTITY),
    ],
)
def test_bad_part_is_counted(limits: dict[str, str], place: str, reason: Reason) -> None:
    described = pod(container(limits=limits), annotations={PLACEMENT + "a": place})
    assert reasons(decode(described, node(*CARDS))) == [reason]
