"""The part of a GPU that an allocation keeps from others."""

from dataclasses import replace

import pytest

from exporter.agent.allocations.kept import kept
from exporter.model import Allocation, Device

CARD = Device("GPU-0", 0, "nvidia", memory_bytes=80)
HALF = Device(
    "MIG-3", 0, "nvidia", memory_bytes=40, parent_uuid="GPU-0", core_share=3 / 7, profile="3g.40gb"
)
ORPHAN = replace(HALF, uuid="MIG-9", parent_uuid="GPU-9")
UNIFIED = replace(CARD, uuid="GPU-2", memory_bytes=None)
DEVICES = {device.uuid: device for device in (CARD, HALF, ORPHAN, UNIFIED)}


def allocation(
    core: float | None = None,
    memory: int | None = None,
    device: str | None = "GPU-0",
    replicas: int | None = None,
    kept_bytes: int | None = None,
) -> Allocation:
    return Allocation(
        "u", "c", device, core, memory, "test", replicas=replicas, kept_bytes=kept_bytes
    )


@pytest.mark.parametrize(
    ("of", "sharers", "part"),
    [
        pytest.param(allocation(0.3, 40), 2, 0.5, id="the larger share"),
        pytest.param(allocation(0.3), 2, 0.3, id="core alone"),
        pytest.param(allocation(None, 20), 2, 0.25, id="memory alone"),
        pytest.param(allocation(None, 60, kept_bytes=20), 2, 0.25, id="less is kept than it may"),
        pytest.param(allocation(0.5, 60, kept_bytes=20), 2, 0.5, id="and the core is more"),
        pytest.param(allocation(1.0, 80), 1, 1.0, id="whole card"),
        pytest.param(allocation(None, 160), 1, 1.0, id="no more than the card"),
        pytest.param(allocation(3 / 7, 40, "MIG-3"), 1, 0.5, id="instance"),
        pytest.param(allocation(device="MIG-3"), 2, 0.25, id="instance of two"),
        pytest.param(allocation(device="MIG-9"), 1, 3 / 7, id="instance of a board not known yet"),
        pytest.param(allocation(0.0), 2, 0.5, id="a promise of nothing is none"),
        pytest.param(allocation(replicas=1), 4, 0.25, id="replicas"),
        pytest.param(allocation(replicas=2), 4, 0.5, id="two replicas"),
        pytest.param(allocation(), 3, 1 / 3, id="nothing promised"),
        pytest.param(allocation(0.4, 40, None), 1, 0.4, id="device not known yet"),
        pytest.param(allocation(None, 40, None), 1, None, id="memory of an unknown device"),
        pytest.param(allocation(None, 40, "GPU-2"), 1, None, id="memory of an unknown size"),
        pytest.param(allocation(0.4, 40, "GPU-2"), 1, 0.4, id="the core of such a card"),
        pytest.param(allocation(device="GPU-2"), 2, 0.5, id="nothing promised of such a card"),
    ],
)
def test_part_kept(of: Allocation, sharers: int, part: float | None) -> None:
    assert kept(of, DEVICES, {"GPU-0": 4}, sharers) == pytest.approx(part)


@pytest.mark.parametrize(
    ("of", "among", "part"),
    [
        pytest.param(allocation(0.4, 40, None), ("GPU-0",), 0.5, id="a share of memory"),
        pytest.param(allocation(device=None), ("MIG-3",), 0.5, id="an instance"),
        pytest.param(allocation(device=None), ("MIG-3", "MIG-9"), None, id="instances that differ"),
        pytest.param(
            allocation(0.4, device=None), ("GPU-0", "MIG-3"), 0.4, id="its share at least"
        ),
        pytest.param(allocation(device=None, replicas=1), ("GPU-0",), 0.25, id="a replica"),
        pytest.param(allocation(device=None, replicas=1), ("GPU-0", "MIG-3"), None, id="of others"),
        pytest.param(allocation(device=None), ("GPU-0",), None, id="nothing promised"),
        pytest.param(allocation(device=None), ("GPU-7",), None, id="none that is known"),
    ],
)
def test_of_one_of_some_devices_it_is_what_it_would_be_of_each(
    of: Allocation, among: tuple[str, ...], part: float | None
) -> None:
    assert kept(replace(of, among=among), DEVICES, {"GPU-0": 4}, 2) == pytest.approx(part)


def test_replicas_of_a_device_that_does_not_say_how_many_it_has_are_those_in_use() -> None:
    assert kept(allocation(replicas=1), DEVICES, {}, 4) == 0.25
