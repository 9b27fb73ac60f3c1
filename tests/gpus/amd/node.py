"""A composed tree with the source over it and a clock that is moved."""

from pathlib import Path

from exporter.gpus.amd.source import AmdSource
from exporter.gpus.source import Demand
from exporter.model import DeviceReading, Reading, Window
from tests.collector.sources import ManualClock
from tests.gpus.amd.trees import Tree

DEMAND = Demand(deadline_s=10.0)


class Node:
    """What the tests of this room have in common."""

    def __init__(self, sysfs: Path) -> None:
        self.tree = Tree(sysfs)
        self.clock = ManualClock()
        self.source = AmdSource(sysfs, clock=self.clock)
        self.source.follow(DEMAND)

    def read(self, after: float = 1.0) -> Reading:
        """A reading so many seconds later."""
        self.clock.move(after)
        return self.source.read()

    def device(self, uuid: str, after: float = 1.0) -> DeviceReading:
        """The reading of one device."""
        reading = self.read(after)
        [found] = [device for device in reading.devices if device.device.uuid == uuid]
        return found

    def window(self, uuid: str, after: float = 1.0) -> Window:
        """The window of one device."""
        window = self.device(uuid, after).window
        assert window is not None
        return window
