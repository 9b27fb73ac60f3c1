"""A composed tree with the source over it and a clock that is moved."""

from pathlib import Path

from exporter.agent.sources.gpus.amd.amdsource import AmdSource
from exporter.agent.sources.gpus.gpusource import Demand
from exporter.model import DeviceReading, Reading, Window
from tests.agent.simulation.clock import ManualClock
from tests.agent.sources.gpus.amd.trees import Board, Tree
from tests.agent.sources.gpus.drm.machine import Machine

DEMAND = Demand(deadline_s=10.0)


class Node:
    """What the tests of this room have in common."""

    def __init__(self, sysfs: Path) -> None:
        self.tree = Tree(sysfs)
        self.machine = Machine(sysfs.parent)
        self.clock = ManualClock()
        self.source = AmdSource(sysfs, self.machine.proc, clock=self.clock)
        self.source.follow(DEMAND)

    def read(self, after: float = 1.0) -> Reading:
        self.clock.move(after)
        return self.source.read()

    def device(self, uuid: str, after: float = 1.0) -> DeviceReading:
        reading = self.read(after)
        [found] = [device for device in reading.devices if device.device.uuid == uuid]
        return found

    def window(self, uuid: str, after: float = 1.0) -> Window:
        window = self.device(uuid, after).window
        assert window is not None
        return window

    def client(
        self, pid: int, board: Board, number: int = 1, vram: int = 0, gtt: int = 0, **ns: int
    ) -> None:
        """Let a process have a DRM client on a board, whose engines have been busy for so long."""
        if not (self.machine.proc / str(pid)).is_dir():
            self.machine.process(pid)
        told = "".join(f"drm-engine-{name}:\t{used} ns\n" for name, used in ns.items())
        self.machine.open(
            *(pid, 4 + number),
            f"drm-driver:\tamdgpu\ndrm-client-id:\t{number}\ndrm-pdev:\t{board.pci}\n"
            f"pasid:\t32771\ndrm-memory-vram:\t{vram >> 10} KiB\n"
            f"drm-memory-gtt: \t{gtt >> 10} KiB\ndrm-memory-cpu: \t4 KiB\n{told}",
            board.render,
        )
