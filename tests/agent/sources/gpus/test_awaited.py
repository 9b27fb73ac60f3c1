from pathlib import Path

import pytest

from exporter.agent.sources.gpus.amd.amdsource import AmdSource
from exporter.agent.sources.gpus.gpufactory import nvidia_missed
from tests.agent.simulation.clock import ManualClock
from tests.agent.sources.gpus.amd.trees import MI210, Tree, put


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


@pytest.mark.parametrize(
    ("modules", "vendor", "kind", "missed"),
    [
        ((), "", "", True),  # nothing says otherwise
        (("amdgpu",), "", "", False),
        (("amdgpu", "nvidia"), "", "", True),
        (("amdgpu",), "0x10de", "0x030200", True),
        (("amdgpu",), "0x10de", "0x020700", False),  # a network card of Mellanox's owner
        (("amdgpu",), "0x1002", "0x030200", False),
    ],
)
def test_nvidia_is_missed_by_its_module_its_gpus_and_the_other_vendors(
    tmp_path: Path, modules: tuple[str, ...], vendor: str, kind: str, *, missed: bool
) -> None:
    if vendor:
        put(tmp_path / "bus/pci/devices/0000:01:00.0/vendor", vendor)
        put(tmp_path / "bus/pci/devices/0000:01:00.0/class", kind)
    is_missed = nvidia_missed(tmp_path)
    for name in modules:
        (tmp_path / "module" / name).mkdir(parents=True)

    assert is_missed() is missed


def test_a_device_that_is_awaited_is_looked_for_at_once_but_not_all_the_time(
    tmp_path: Path,
) -> None:
    tree, clock = Tree(tmp_path), ManualClock()
    tree.load()
    source = AmdSource(tmp_path, tmp_path, clock=clock)

    def found(after: float, *, awaited: bool) -> int:
        clock.move(after)
        if awaited:
            source.look_soon()
        return len(source.read().devices)

    def appear() -> None:
        """A board comes, of which the kernel's own counter does not tell."""
        tree.add(MI210)
        (tree.kfd / "topology/generation_id").write_text("1")

    appear()
    counts = [found(0, awaited=False)]
    appear()
    counts += [found(4, awaited=False), found(1, awaited=True)]
    appear()
    counts += [found(1, awaited=True) for _ in range(3)]
    source.close()

    assert counts == [1, 1, 2, 2, 2, 3]
