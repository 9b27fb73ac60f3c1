from pathlib import Path

import pytest

from exporter.model import Device, DeviceReading
from exporter.sources.gpus.factory import OptionalSource, never, nvidia_missed
from tests.collector.sources import SetGpus
from tests.gpus.amd.trees import put

DEVICE = DeviceReading(Device("GPU-1", 0, "amd"))


def test_a_source_that_is_down_without_a_device_is_absent() -> None:
    source = SetGpus()
    source.up = False

    assert OptionalSource(source, never).read().status.absent


@pytest.mark.parametrize("up", [True, False])
def test_a_source_that_is_up_or_had_devices_is_not_absent(up: bool) -> None:  # noqa: FBT001 - a parameter of the table
    source = SetGpus()
    source.up = up
    source.devices = () if up else (DEVICE,)

    assert not OptionalSource(source, never).read().status.absent


def test_a_source_that_is_missed_is_down() -> None:
    source = SetGpus()
    source.up = False

    assert not OptionalSource(source, lambda: True).read().status.absent


def module(sysfs: Path, name: str) -> None:
    (sysfs / "module" / name).mkdir(parents=True)


def on_bus(sysfs: Path, vendor: str, kind: str) -> None:
    put(sysfs / "bus/pci/devices/0000:01:00.0/vendor", vendor)
    put(sysfs / "bus/pci/devices/0000:01:00.0/class", kind)


def test_nvidia_is_missed_where_nothing_says_otherwise(tmp_path: Path) -> None:
    assert nvidia_missed(tmp_path)()


def test_nvidia_is_not_missed_among_other_vendors_and_is_as_soon_as_its_module_is_loaded(
    tmp_path: Path,
) -> None:
    module(tmp_path, "amdgpu")
    missed = nvidia_missed(tmp_path)
    before = missed()
    module(tmp_path, "nvidia")

    assert (before, missed()) == (False, True)


@pytest.mark.parametrize(
    ("vendor", "kind", "missed"),
    [
        ("0x10de", "0x030200", True),
        ("0x10de", "0x020700", False),  # a network card of Mellanox's owner
        ("0x1002", "0x030200", False),
    ],
)
def test_nvidia_is_missed_where_a_gpu_of_it_is_on_the_bus(
    tmp_path: Path,
    vendor: str,
    kind: str,
    missed: bool,  # noqa: FBT001 - a parameter of the table
) -> None:
    module(tmp_path, "amdgpu")
    on_bus(tmp_path, vendor, kind)

    assert nvidia_missed(tmp_path)() is missed
