"""In MIG mode the instance that a scheduler writes is the allocation, whatever was asked for."""

from dataclasses import replace

import pytest

from exporter.agent.allocations.rules import make
from exporter.model import Device
from tests.agent.allocations.build import GIB, MIB, card, container, instance, node, pod, told

A100 = card(0, 80 * GIB)
BOARD = replace(A100, sharing="mig")
OWN, SMALL = instance(0, 1, "1g.10gb", 10240 * MIB), instance(0, 2, "1g.5gb", 5 * GIB)
HAMI = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "8000", "nvidia.com/gpucores": "30"}
VOLCANO = {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "8000"}
LISTS = {"hami.io/vgpu-devices-allocated": HAMI, "volcano.sh/vgpu-ids-new": VOLCANO}


@pytest.mark.parametrize("key", LISTS)
@pytest.mark.parametrize(
    ("entry", "devices", "expected"),
    [
        ("MIG-0-1,NVIDIA,8000,30", (BOARD, OWN, SMALL), ("MIG-0-1", None, 10240 * MIB)),
        ("GPU-0[1-0],NVIDIA,10240,14", (BOARD, OWN, SMALL), (None, None, 10240 * MIB)),
        ("GPU-0[1-0],NVIDIA,10240,14", (BOARD,), (None, None, 10240 * MIB)),
        ("GPU-0[1-0],NVIDIA,10240,14", (A100,), (None, None, 10240 * MIB)),
        ("GPU-0[1-0],NVIDIA,10240,14", (), (None, None, 10240 * MIB)),
        ("GPU-0,NVIDIA,10240,14", (A100, OWN), (None, None, 10240 * MIB)),
    ],
    ids=["named", "seen, not named", "not made yet", "next larger", "node unknown", "its card"],
)
def test_instance_of_a_list_counts_before_the_limits(
    key: str,
    entry: str,
    devices: tuple[Device, ...],
    expected: tuple[str | None, float | None, int],
) -> None:
    described = pod(container(limits=LISTS[key]), annotations={key: f"{entry}:"})
    decoded = make().decode(described, node(*devices))
    assert told(decoded) == [("a", *expected)]
    assert decoded.problems == ()


@pytest.mark.parametrize("key", LISTS)
@pytest.mark.parametrize(
    ("entry", "devices"),
    [
        ("GPU-0[1-0],NVIDIA,4000,14", (BOARD,)),
        ("GPU-0[1-0],NVIDIA,40960,14", (A100,)),
        ("GPU-0[1-0],NVIDIA,90000,14", (BOARD,)),
    ],
    ids=["less than asked for", "too large, not in MIG mode", "above the card"],
)
def test_instance_that_cannot_be_leaves_the_limits(
    key: str, entry: str, devices: tuple[Device, ...]
) -> None:
    described = pod(container(limits=LISTS[key]), annotations={key: f"{entry}:"})
    decoded = make().decode(described, node(*devices))
    assert [a.memory_bytes for a in decoded.allocations] == [8000 * MIB]
    assert [problem.reason for problem in decoded.problems] == ["limits_differ"]
