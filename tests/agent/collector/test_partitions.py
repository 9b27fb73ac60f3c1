"""AMD's partitions, from composed sysfs to what is allocated of them."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from exporter.agent.sources.gpus.amd.amdsource import AmdSource
from exporter.model import Container, DeviceAllocation, Grant, NodeFacts
from tests.agent.collector.bench import POD, SECOND, Bench
from tests.agent.collector.sources import SetNode
from tests.agent.sources.gpus.amd.trees import MI300X, Board, Tree

GPU = "amd.com/gpu"
HOLDER = replace(POD, containers=(Container("main", limits={GPU: "1"}),))


class Dpx(Bench):
    """An MI300X in two partitions. A pod holds the second by its name in sysfs, and is idle."""

    def __init__(self, folder: Path) -> None:
        self.node = SetNode()
        super().__init__(nodes=(self.node,))
        self.node.known = NodeFacts(grants={POD.uid: (Grant("main", GPU, ("amdgpu_xcp_30",)),)})
        self.tree = Tree(folder / "sys")
        self.tree.load()
        self.board: Board = self.tree.add(MI300X, parts=2)

    def allocated(self) -> dict[str, DeviceAllocation]:
        """What is allocated of each device ten seconds later."""
        source = AmdSource(self.tree.sysfs, clock=self.clock)
        self.name_pod(HOLDER)
        self.gpus.devices = source.read().devices
        source.close()
        for _ in range(11):
            snapshot = self.cycle()
        return {d.uuid: d.allocated for d in snapshot.measured().devices}


@pytest.fixture
def node(tmp_path: Path) -> Dpx:
    return Dpx(tmp_path)


def test_a_partition_that_is_held_and_idle_is_its_holders(node: Dpx) -> None:
    allocated = node.allocated()

    assert allocated[f"{node.board.uuid}-1"].core == 0.5
    assert allocated[node.board.uuid].free_ns == pytest.approx(5 * SECOND, rel=0.11)


def test_a_partition_that_cannot_be_told_is_nobodys_no_more(node: Dpx) -> None:
    """As where sysfs has no platform devices: which one it is, its processes will show."""
    shutil.rmtree(node.tree.sysfs / "devices/platform")

    allocated = node.allocated()

    assert allocated[f"{node.board.uuid}-1"].core is None
    assert allocated[node.board.uuid].free_ns == pytest.approx(5 * SECOND, rel=0.11)
