from pathlib import Path

import pytest

from exporter.sources.gpus.amd.source import AmdSource
from exporter.sources.gpus.factory import nvidia_missed
from tests.gpus.amd.trees import MI210, Tree, put


def test_a_source_that_nobody_misses_is_absent_while_it_is_down_without_a_device(
    tmp_path: Path,
) -> None:
    tree = Tree(tmp_path)
    source = AmdSource(tmp_path, tmp_path)
    alone = source.read().status
    source.missed = lambda: False
    unmissed = source.read().status
    tree.load()
    tree.add(MI210)
    up = source.read().status
    source.release(True)
    released = source.read().status
    source.close()

    assert [status.absent for status in (alone, unmissed, up, released)] == [
        *(False, True, False, False)
    ]
    assert [status.up for status in (alone, unmissed, up, released)] == [False, False, True, False]


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
