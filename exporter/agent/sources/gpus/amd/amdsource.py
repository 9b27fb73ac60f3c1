"""The AMD source: finds the boards and reads them as a fleet."""

import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from exporter.agent.sources.door import Absent, Cut, Failed, Refused, Whole
from exporter.agent.sources.gpus.amd.amdboard import AmdBoard, NodeProcesses
from exporter.agent.sources.gpus.amd.amddiscovery import (
    BoardList,
    BoardNames,
    FoundBoard,
    discover,
    present,
)
from exporter.agent.sources.gpus.amd.kfd import generation
from exporter.agent.sources.gpus.amd.kfdprocesses import KfdProcesses, WorkerLists
from exporter.agent.sources.gpus.drm.holders import WorkerScans
from exporter.agent.sources.gpus.fleet import Fleet, Readings
from exporter.agent.sources.gpus.sysfs import RefusedError, text_in
from exporter.agent.sources.proc import OwnersOfProcesses
from exporter.model import Clock

NO_DRIVER = "neither amdgpu nor KFD is loaded on this node; they are used as soon as they are"
STRANGE = "boards are others than they were, and KFD counts no change: they are taken as they were"
MOST_STRANGE = 3
ON_WSL = "WSL2 has no amdgpu: its GPUs are those of Windows, which shows nobody's use of them here"


class AmdSource(Fleet[BoardList, AmdBoard]):
    """AMD GPUs, as a ``GpuSource``. A file that hangs costs the board it was for."""

    name = "amd"
    no_device = "amdgpu reports no board"
    kernel_log = "amdgpu"

    def __init__(self, sysfs: Path, procfs: Path = Path("/proc"), *, clock: Clock = time) -> None:
        super().__init__(clock)
        self._sysfs, self._procfs = sysfs, procfs
        owners = OwnersOfProcesses(str(procfs), self._cgroup_of)
        self._scans = WorkerScans(str(procfs), clock, self._workers, owners)
        processes = KfdProcesses(sysfs, str(procfs), owners, clock)
        self._lists = WorkerLists(processes, clock, self._workers)
        self._names = BoardNames()
        self._unreadable = ""
        self._generation: int | None = None
        self._looked: int | None = None  # the generation at the last look
        self._strange = 0  # looks in a row at which boards were others, and nothing had changed

    def _absent(self) -> str:
        if present(self._sysfs):
            return ""
        match text_in(self._procfs / "sys/kernel/osrelease"):
            case Whole(kernel) | Cut(kernel) if "microsoft" in kernel.lower():
                return ON_WSL
            case _:
                return NO_DRIVER

    def _changed(self) -> bool:
        match generation(self._sysfs):
            case Whole(newest) | Cut(newest):
                before, self._generation = self._generation, newest
                return newest != before
            case Absent() | Refused() | Failed():  # it is not known now
                return False

    def _look(self) -> BoardList:
        return discover(self._sysfs, self._names, self._procfs)

    def _explain(self, error: Exception) -> str:
        if isinstance(error, RefusedError):
            return f"{error} may not be read; mount the host's sysfs readable"
        return super()._explain(error)

    def _trouble(self) -> str:
        of_clients = self._scans.trouble if self._needs_clients else ""
        return self._unreadable or self._lists.trouble or of_clients

    @property
    def _needs_clients(self) -> bool:
        return any(board.needs_clients for board in self._devices.values())

    def _jobs(self) -> Mapping[str, Callable[[], Readings]]:
        demand, boards = self._demand, self._devices
        if not boards:
            return {}
        # All boards have one list of KFD's processes: each has files for every board.
        kfd = self._lists.newest(demand)
        scan = None
        # A scan looks at all processes of the node, so it is made only if a board has a use for it.
        if any(board.by_clients for board in boards.values()):
            scan = self._scans.newest(demand, needed=self._needs_clients)
        devices = max(sum(board.by_kfd for board in boards.values()), 1)
        lists = NodeProcesses(scan, kfd, devices)
        return {uuid: partial(board.read, demand, lists) for uuid, board in boards.items()}

    def _restart(self) -> None:
        self._scans.restart()

    def _sync(self, found: BoardList) -> None:
        """Keeps unchanged boards with their cursors; creates the others.

        A board that is gone is kept until another one is in its place.
        """
        self._unreadable = found.trouble
        before, self._devices = self._devices, {}
        known = {board.found.folder: board for board in before.values()}
        others = {one.folder for one in found.boards if _is_other(one, known.get(one.folder))}
        # KFD counts each change of its boards. Without one they are as they were, until looks have
        # said otherwise for long.
        is_same = self._generation is not None and self._generation == self._looked
        self._strange = self._strange + 1 if others and is_same else 0
        self._looked = self._generation
        if 0 < self._strange <= MOST_STRANGE:
            self._unreadable = self._unreadable or STRANGE
        else:
            others = set()
        for each in found.boards:
            uuid = each.whole.device.uuid
            board = known.get(each.folder)
            is_unsure = found.unclear or each.folder in found.unsure
            nodes = {*each.nodes} - {None}
            is_less = found.unclear and board is not None and nodes < {*board.found.nodes}
            is_kept = is_less or (board is not None and board.found.nodes == each.nodes)
            if not (each.folder in others or (is_unsure and is_kept)) or board is None:
                board = before.get(uuid) or self._gone.get(uuid)
                if board is None or board.found != each:
                    board = AmdBoard(each, self._procfs, self._clock, board)
            self._devices[board.found.whole.device.uuid] = board
        taken = {board.found.whole.device.pci_bus_id for board in self._devices.values()}
        self._gone = {
            uuid: board
            for uuid, board in {**self._gone, **before}.items()
            if uuid not in self._devices and board.found.whole.device.pci_bus_id not in taken
        }


def _is_other(found: FoundBoard, known: AmdBoard | None) -> bool:
    """Whether a board in the place of a known one has another name, or lacks a node of KFD."""
    if known is None:
        return False
    before = known.found
    lacks = {*before.nodes} - {None, *found.nodes}
    return found.whole.device.uuid != before.whole.device.uuid or bool(lacks)
