"""The unit of Volcano's memory follows from what the node says of its own cards."""

import json
from dataclasses import replace

import pytest

from exporter.agent.allocations.registered import VOLCANO_REGISTERS, memory_factor
from exporter.agent.allocations.registry import decode, read_by
from exporter.agent.allocations.rules import make
from exporter.agent.allocations.schemes import volcano_gpushare, volcano_vgpu
from exporter.model import Device, NodeFacts
from tests.agent.allocations.build import MIB, container, node, pod, told

H100 = Device("GPU-0", 0, "nvidia", memory_bytes=81559 * MIB)
T4 = Device("GPU-1", 1, "nvidia", memory_bytes=15360 * MIB)
UNITS = "volcano.sh/vgpu-memory"
[REGISTER] = VOLCANO_REGISTERS


def registering(text: str, *devices: Device) -> NodeFacts:
    return replace(node(*devices), annotations={REGISTER: text})


def plugin_says(factor: int, *devices: Device) -> str:
    """Return the register as the device plugin writes it."""
    parts = (
        f"{d.uuid},10,{(d.memory_bytes or 0) // MIB // factor},NVIDIA-X,true,hami-core:"
        for d in devices
    )
    return "".join(parts)


@pytest.mark.parametrize("factor", [1, 2, 3, 4, 5, 7, 10, 20, 50, 100, 128, 256, 1000, 1024])
@pytest.mark.parametrize("devices", [(H100,), (H100, T4)], ids=["one", "two kinds"])
def test_factor_follows_from_the_registered_memory(factor: int, devices: tuple[Device]) -> None:
    facts = registering(plugin_says(factor, *devices), *devices)
    assert memory_factor(facts, UNITS, VOLCANO_REGISTERS, 0) == factor


@pytest.mark.parametrize("factor", [1, 10, 256])
def test_factor_follows_from_what_the_node_offers(factor: int) -> None:
    offered = str(4 * (81559 // factor))
    cards = tuple(replace(H100, uuid=f"GPU-{n}", index=n) for n in range(4))
    facts = node(*cards, allocatable={"volcano.sh/gpu-memory": offered})
    assert memory_factor(facts, "volcano.sh/gpu-memory", (), 0) == factor


@pytest.mark.parametrize("allocatable", [{"volcano.sh/gpu-number": "4"}, {}])
def test_a_lost_card_changes_no_factor(allocatable: dict[str, str]) -> None:
    offered = {"volcano.sh/gpu-memory": str(4 * (81559 // 10)), **allocatable}
    left = tuple(replace(H100, uuid=f"GPU-{n}", index=n) for n in range(2))
    facts = replace(node(*left, allocatable=offered), labels={"nvidia.com/gpu.count": "4"})
    assert memory_factor(facts, "volcano.sh/gpu-memory", (), 0) == 10


@pytest.mark.parametrize(
    ("facts", "stated", "expected"),
    [
        (node(H100), 0, 1),
        (node(H100), 10, 10),
        (node(), 10, 10),
        (registering(plugin_says(10, H100), H100), 4, 10),  # a node's own word is newer
        (registering(plugin_says(999, H100), H100), 999, 999),  # one of several that fit
        (registering(plugin_says(10, H100), replace(H100, uuid="GPU-9")), 4, 4),
        (registering(plugin_says(10, H100), replace(H100, memory_bytes=None)), 4, 4),
        (node(H100, T4, allocatable={UNITS: "10000"}), 4, 4),  # whose units these are is open
        (registering("GPU-0,10,8100,NVIDIA-X,true,hami-core:", H100), 0, 10),  # rounded elsewhere
        (registering("GPU-0,10,999999999,NVIDIA-X,true,hami-core:", H100), 0, 1),
        (registering("GPU-0,10,1,NVIDIA-X,true,hami-core:", H100), 0, 50000),
        (registering(plugin_says(10, H100) * 2000, H100), 4, 4),  # longer than is read
    ],
)
def test_setting_stands_in_where_the_node_does_not_say(
    facts: NodeFacts, stated: int, expected: int
) -> None:
    assert memory_factor(facts, UNITS, VOLCANO_REGISTERS, stated) == expected


HOSTILE = [
    *("", ",", ":", "x", "GPU-0", "GPU-0,10", "GPU-0,10,0,x,true:", "GPU-0,10,-5,x:"),
    *("GPU-0,10,٣,x:", "GPU-0,10," + "9" * 5000 + ",x:", "GPU-0,10,1,x:" * 20_000, "é,ü,1,x:"),
    *("[" * 5000, "[]", "[1]", '[{"id":"GPU-0"}]', '[{"id":"GPU-0","devmem":true}]', "[null"),
    json.dumps([{"id": "GPU-0", "devmem": -(2**70)}] * 3000),
]


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: f"{text[:12]!a}x{len(text)}")
def test_hostile_register_ends_in_a_factor(text: str) -> None:
    assert 1 <= memory_factor(registering(text, H100), UNITS, VOLCANO_REGISTERS, 0) <= 100_000


def test_setting_is_the_unit_of_limits_and_segments() -> None:
    schemes = make(volcano_factor=10).schemes
    asking = container("a", {"volcano.sh/vgpu-number": "1", UNITS: "100"})
    listed = pod(asking, annotations={"volcano.sh/vgpu-ids-new": "GPU-0,NVIDIA,100,0:"})
    assert told(decode(listed, node(H100), schemes)) == [("a", "GPU-0", None, 1000 * MIB)]
    assert told(decode(pod(asking), node(H100), schemes)) == [("a", None, None, 1000 * MIB)]
    older = pod(container("a", {"volcano.sh/gpu-memory": "100"}))
    assert told(decode(older, node(H100), schemes)) == [("a", None, None, 1000 * MIB)]
    for scheme, described in ((volcano_vgpu.SCHEME, pod(asking)), (volcano_gpushare.SCHEME, older)):
        found = read_by(scheme, described, node(H100))
        assert told(found) == [("a", None, None, 100 * MIB)]


def test_percentage_is_of_the_registered_units() -> None:
    asking = container("a", {"volcano.sh/vgpu-number": "1", f"{UNITS}-percentage": "50"})
    listed = pod(asking, annotations={"volcano.sh/vgpu-ids-new": "GPU-0,NVIDIA,4077,0:"})
    decoded = decode(listed, registering(plugin_says(10, H100), H100))
    assert told(decoded) == [("a", "GPU-0", None, 40770 * MIB)]
    assert decoded.problems == ()
