"""A composed tree with the AMD source over it, and AMD's library beside it that says the same."""

import ctypes
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from exporter.model import DeviceReading, SourceStatus
from exporter.sources.gpus.amd.smi.check import ASK_EVERY_NS, TIMES, SmiCheck
from exporter.sources.gpus.amd.smi.source import CheckedSource, SmiSource
from tests.fakeamdsmi.build import library
from tests.gpus.amd.node import DEMAND, Node
from tests.gpus.amd.trees import Board

MINUTE = ASK_EVERY_NS / 1e9
PATIENCE_S = 60.0  # a job is waited for, so that nothing depends on who is quicker


class Checked:
    """The node of the other tests, with its source wrapped."""

    def __init__(self, node: Node, folder: Path, major: int = 26, path: Path | None = None) -> None:
        self.node = node
        self.library = path or library(folder, major)
        self.check = SmiCheck(self.library, node.clock, PATIENCE_S)
        self.source = CheckedSource(node.source, self.check, node.tree.sysfs)
        self.state = SmiSource(self.check)
        self.source.follow(DEMAND)
        self.devices: Mapping[str, DeviceReading] = {}

    def follow(self, **demand: object) -> None:
        """Let it be read so."""
        self.source.follow(replace(DEMAND, **demand))  # type: ignore[arg-type] # a test's

    def read(self, after: float = 1.0) -> Mapping[str, float]:
        """A cycle so many seconds later; gives what is said of the only board, or the first."""
        self.node.clock.move(after)
        reading = self.source.read()
        self.devices = {d.device.uuid: d for d in reading.devices}
        return (
            self.devices[self.node.tree.boards[0].uuid].sensors.crosscheck if self.devices else {}
        )

    def settle(self) -> Mapping[str, float]:
        """So many asks that a figure that differs is said to."""
        self.read()
        for _ in range(TIMES):
            self.read(MINUTE - 1)
            found = self.read()
        return found

    @property
    def status(self) -> SourceStatus:
        """How the check fares."""
        return self.state.read().status

    def initialised(self) -> bool:
        """Whether the library holds its device files."""
        return bool(ctypes.CDLL(str(self.library)).fakeamdsmi_initialised())

    def close(self) -> None:
        """End the worker."""
        self.source.close()


def wait_for_hung(check: SmiCheck) -> None:
    """Wait until a call that hung has come back: the next cycle then takes its result in."""
    workers = check._workers
    assert workers._wait(list(workers._tasks.values()), PATIENCE_S)


def same(board: Board, **other: object) -> str:
    """The line of a processor that says of a board what its files say, but for these."""
    told: dict[str, object] = {
        "bdf": board.pci,
        "total": board.kind.vram,
        "used": 0,
        "power": 100,
        "junction": 52,
        "memory": 47,
        "activity": 0,
    }
    if board.kind.edge:
        told["edge"] = 41
    told |= other
    return "processor " + " ".join(f"{k}={v}" for k, v in told.items() if v is not None)
