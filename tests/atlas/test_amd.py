"""A real AMD board's files, read by the AMD source."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from exporter.agent.sources.gpus.amd.amdsource import AmdSource
from exporter.agent.sources.gpus.amd.kfd import read_topology
from tests.agent.simulation.clock import ManualClock
from tests.agent.sources.gpus.amd.node import DEMAND
from tests.agent.sources.gpus.amd.trees import put
from tests.agent.sources.gpus.drm.machine import Machine

MI350X: Mapping[str, Any] = json.loads((Path(__file__).parent / "amd/mi350x-vf.json").read_text())
PCI = "0000:83:00.0"


def board(sysfs: Path) -> None:
    """The recorded files, where the kernel has them. ``vendor`` and ``device`` are uevent's."""
    folder = sysfs / "devices/pci0000:00" / PCI
    for name, text in MI350X["device"].items():
        put(folder / name, text)
    put(folder / "vendor", "0x1002")
    put(folder / "device", "0x75b0")
    for name, text in MI350X["hwmon"].items():
        put(folder / "hwmon/hwmon0" / name, text)
    for node in ("card1", "renderD129"):
        (folder / "drm" / node).mkdir(parents=True)
    (sysfs / "module/amdgpu").mkdir(parents=True, exist_ok=True)
    (sysfs / "class/drm/card1").mkdir(parents=True, exist_ok=True)
    (sysfs / "class/drm/card1/device").symlink_to(folder)
    kfd = sysfs / "class/kfd/kfd"
    (kfd / "proc").mkdir(parents=True, exist_ok=True)
    put(kfd / "topology/nodes/0/gpu_id", 0)
    for name, text in MI350X["kfd"].items():
        put(kfd / "topology/nodes/1" / name, text)


def test_kfds_node_of_an_mi350x_is_its_board(tmp_path: Path) -> None:
    board(tmp_path / "sys")

    [node] = read_topology(tmp_path / "sys").nodes

    assert (node.gpu_id, node.pci_bus_id, node.gfx) == (29921, PCI, 90500)
    assert (node.cus, node.memory_bytes) == (256, 308_902_100_992)


def test_an_mi350x_is_one_device_whose_activity_is_unknown_and_not_zero(tmp_path: Path) -> None:
    sysfs = tmp_path / "sys"
    machine = Machine(tmp_path)
    board(sysfs)
    clock = ManualClock()
    source = AmdSource(sysfs, machine.proc, clock=clock)
    source.follow(DEMAND)

    source.read()
    clock.move(1)
    [reading] = source.read().devices

    assert (reading.device.uuid, reading.device.pci_bus_id) == ("GPU-00c0ffee00c0ffee", PCI)
    assert (reading.device.model, reading.device.memory_bytes) == ("AMD 0x75b0", 308_902_100_992)
    assert reading.memory
    assert reading.memory.used_bytes == 299_544_576
    assert reading.sensors.value("power_watts") == 254
    assert reading.sensors.by_label("clock_hertz") == {"sm": 85_000_000}
    assert reading.window is None or reading.window.busy.core is None
    assert "core" in reading.unmeasured
