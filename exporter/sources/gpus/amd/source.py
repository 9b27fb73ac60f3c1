"""The AMD source: finds the boards and reads them in parallel, under a deadline."""

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from itertools import chain, count
from pathlib import Path

from exporter.model import FIRST_INDEX, Clock, DeviceReading, DeviceState, Reading, SourceStatus
from exporter.sources.gpus.amd.board import AmdBoard
from exporter.sources.gpus.amd.discovery import VENDOR, BoardList, FoundBoard, discover, present
from exporter.sources.gpus.amd.files import RefusedError
from exporter.sources.gpus.drm.holders import HandleScan, HandleScanner
from exporter.sources.gpus.pool import DeviceWorkers, Stuck
from exporter.sources.gpus.source import Demand, hangs


class BoardNumbers:
    """The numbers of boards, which stay the same while the exporter runs.

    Boards that are gone keep theirs, because they may come back. A new board in the place of one
    that is gone takes over its number.
    """

    def __init__(self) -> None:
        self._seats: dict[str, tuple[int, str]] = {}  # number and PCI address, by UUID

    def assign(self, boards: Iterable[FoundBoard]) -> list[FoundBoard]:
        """The boards with their numbers; new ones by their place, if that number is free."""
        found = list(boards)
        here = {board.whole.device.uuid for board in found}
        return [_numbered(board, self._of(board, here)) for board in found]

    def _of(self, board: FoundBoard, here: set[str]) -> int:
        device = board.whole.device
        before = [u for u, (_, pci) in self._seats.items() if pci == device.pci_bus_id]
        gone = [uuid for uuid in before if uuid not in here]
        if device.uuid in self._seats:
            number = self._seats[device.uuid][0]
        elif gone:
            number = self._seats.pop(gone[0])[0]
        else:
            taken = {number for number, _ in self._seats.values()}
            wanted = chain((device.index,), count(FIRST_INDEX[VENDOR]))
            number = next(number for number in wanted if number not in taken)
        self._seats[device.uuid] = number, device.pci_bus_id
        return number


def _numbered(board: FoundBoard, number: int) -> FoundBoard:
    whole, parts = board.whole, board.parts
    return board._replace(
        whole=whole._replace(device=replace(whole.device, index=number)),
        parts=tuple(p._replace(device=replace(p.device, index=number)) for p in parts),
    )


logger = logging.getLogger(__name__)

SECOND = 1_000_000_000
LOOK_EVERY_NS = 30 * SECOND  # partitions change, and drivers are loaded
LOOK_AGAIN_NS = 5 * SECOND
SHARE_OF_DEADLINE = 0.5  # for the scan of the processes
LOOK, SCAN = "look", "clients"  # keys of workers, besides UUIDs
HUNG_NS = 5 * SECOND  # so long the last scan stands in for one that hangs
RELEASED = "released on request; it keeps no file open"
NO_DRIVER = "neither amdgpu nor KFD is loaded on this node; they are used as soon as they are"
NO_DEVICE = "amdgpu reports no board"
GONE = "it was taken out, or its driver released it; it is used again when it is back"
HANGS = "no board answers: the driver hangs; see the kernel log for amdgpu"
WITHOUT_DRIVER = Reading(SourceStatus("amd", up=False, detail=NO_DRIVER))


class AmdSource:
    """AMD GPUs, as a ``GpuSource``. A file that hangs costs the board it was for."""

    name = "amd"

    def __init__(self, sysfs: Path, procfs: Path = Path("/proc"), *, clock: Clock = time) -> None:
        self._sysfs, self._procfs = sysfs, procfs
        self._clock = clock
        self._workers = DeviceWorkers(clock, self.name)
        self._holders = HandleScanner(str(procfs), clock)
        self._boards: dict[str, AmdBoard] = {}
        self._gone: dict[str, AmdBoard] = {}  # boards that were there
        self._numbers = BoardNumbers()
        self._doubled: frozenset[str] = frozenset()
        self._demand = Demand()
        self._released = False
        self._trouble = ""
        self._states: dict[str, DeviceState] = {}
        self._look_at_ns = 0
        self._last_success: int | None = None

    def read(self) -> Reading:
        """Reads every board within the deadline; see ``GpuSource.read``."""
        began_ns = self._clock.monotonic_ns()
        if self._released:
            self._holders = HandleScanner(str(self._procfs), self._clock)
            devices = self._all(DeviceState.RELEASED, RELEASED)
            return self._reading(began_ns, devices, up=False, detail=RELEASED)
        if not present(self._sysfs):
            self._forget()
            return WITHOUT_DRIVER
        devices = self._cycle(began_ns)
        hung, any_there = hangs(devices), any(d.state is not DeviceState.LOST for d in devices)
        detail = HANGS if hung else self._missing() if any_there else self._trouble or NO_DEVICE
        return self._reading(began_ns, devices, up=not hung, detail=detail)

    def release(self, released: bool) -> None:  # noqa: FBT001 - a state, not an option
        """Stops reading, or begins again. No file is kept open either way."""
        self._released = released

    def follow(self, demand: Demand) -> None:
        """Applies a demand from the next read on."""
        self._demand = demand

    def close(self) -> None:
        """Ends the workers without waiting for a file that hangs."""
        self._workers.close()

    def _forget(self) -> None:
        """Drops all boards: their driver was unloaded, so that they are not lost."""
        if self._boards:
            self._sync(BoardList(()))
        self._gone.clear()
        self._look_at_ns = 0

    def _cycle(self, began_ns: int) -> tuple[DeviceReading, ...]:
        before, jobs = dict(self._boards), self._jobs()
        if began_ns >= self._look_at_ns:
            jobs[LOOK] = partial(discover, self._sysfs, self._doubled)
        results = self._workers.run(jobs, self._demand.deadline_s)
        if LOOK in results:
            self._apply(results[LOOK], began_ns)
            known = {u for u, board in self._boards.items() if before.get(u) is board}
            fresh = {uuid: job for uuid, job in self._jobs().items() if uuid not in known}
            spent_s = (self._clock.monotonic_ns() - began_ns) / SECOND
            results |= self._workers.run(fresh, max(self._demand.deadline_s - spent_s, 0.0))
        devices = tuple(
            reading
            for uuid, board in self._boards.items()
            for reading in self._of(board, results[uuid])
        )
        devices += tuple(r for b in self._gone.values() for r in b.all(DeviceState.LOST, GONE))
        self._log_changes(devices)
        if any(reading.state is not DeviceState.UP for reading in devices):
            self._look_at_ns = min(self._look_at_ns, began_ns + LOOK_AGAIN_NS)
        return devices

    def _jobs(self) -> dict[str, Callable[[], object]]:
        demand, scan = self._demand, self._scan()
        return {uuid: partial(board.read, demand, scan) for uuid, board in self._boards.items()}

    def _scan(self) -> HandleScan | None:
        """The scan of processes with open devices, if a board needs it to find its processes.

        A worker does it, because a file of /proc may hang. The last scan is stale if one hangs.
        """
        if not any(board.by_clients for board in self._boards.values()):
            return None
        budget_s = SHARE_OF_DEADLINE * self._demand.deadline_s
        scan_job = partial(self._holders.look, self._demand.processes_every_ns, budget_s)
        result = self._workers.run({SCAN: scan_job}, 2 * budget_s)[SCAN]
        if isinstance(result, Exception):
            raise result
        scan = self._holders.newest
        hung = result is not None and self._clock.monotonic_ns() - result.since_mono_ns >= HUNG_NS
        return replace(scan, stale=True) if scan and hung else scan

    def _missing(self) -> str:
        """What may not be read, and what to do; "" if nothing is missing."""
        by_clients = any(board.by_clients for board in self._boards.values())
        return self._trouble or (self._holders.trouble if by_clients else "")

    def _apply(self, result: object, now_ns: int) -> None:
        """Applies the result of ``discover``."""
        self._look_at_ns = now_ns + LOOK_EVERY_NS
        if isinstance(result, BoardList):
            self._trouble = result.trouble
            for uuid in sorted(result.doubled - self._doubled):
                logger.warning("several boards are %s: they are known by their PCI address", uuid)
            self._doubled = result.doubled
            self._sync(result)
        elif isinstance(result, RefusedError):
            self._trouble = f"{result} may not be read; mount the host's sysfs readable"
        elif isinstance(result, Stuck):
            self._trouble = "looking for boards has not come back; see the kernel log for amdgpu"
        else:
            self._trouble = repr(result)[:200]

    def _sync(self, discovery: BoardList) -> None:
        """Keeps unchanged boards with their cursors; creates the others."""
        before, self._boards = self._boards, {}
        known = {b.found.folder: b for b in before.values() if b.found.folder in discovery.unsure}
        for found in self._numbers.assign(discovery.boards):
            uuid = found.whole.device.uuid
            board = known.get(found.folder)
            if board is None or board.found.nodes != found.nodes:
                board = before.get(uuid) or self._gone.get(uuid)
                if board is None or board.found != found:
                    board = AmdBoard(found, self._sysfs, self._procfs, self._clock, board)
            uuid = board.found.whole.device.uuid
            before.pop(uuid, None)
            self._boards[uuid] = board
        self._workers.forget(before)
        self._mark_lost(before)

    def _mark_lost(self, boards: Mapping[str, AmdBoard]) -> None:
        """Keeps boards that are gone until another one is in their place."""
        taken = {board.found.whole.device.pci_bus_id for board in self._boards.values()}
        self._gone = {
            uuid: board
            for uuid, board in {**self._gone, **boards}.items()
            if uuid not in self._boards and board.found.whole.device.pci_bus_id not in taken
        }

    def _all(self, state: DeviceState, detail: str) -> tuple[DeviceReading, ...]:
        boards = (*self._boards.values(), *self._gone.values())
        return tuple(reading for board in boards for reading in board.all(state, detail))

    def _of(self, board: AmdBoard, result: object) -> tuple[DeviceReading, ...]:
        """The readings of a board by its worker's result."""
        if isinstance(result, Stuck):
            waited_s = (self._clock.monotonic_ns() - result.since_mono_ns) / SECOND
            return board.all(DeviceState.STUCK, f"a file has not been read for {waited_s:.1f} s")
        if isinstance(result, tuple):
            return result
        return board.all(DeviceState.FAILED, repr(result)[:200])

    def _log_changes(self, devices: tuple[DeviceReading, ...]) -> None:
        before, self._states = self._states, {d.device.uuid: d.state for d in devices}
        for reading in devices:
            uuid, state = reading.device.uuid, reading.state
            if state is before.get(uuid, DeviceState.UP):
                continue
            if state is DeviceState.UP:
                logger.info("device %s is read again (it was %s)", uuid, before[uuid])
            else:
                logger.warning(
                    "device %s is not read (%s): %s; its series are withheld until it is",
                    *(uuid, state, reading.detail),
                )

    def _reading(
        self, began_ns: int, devices: tuple[DeviceReading, ...], *, up: bool, detail: str
    ) -> Reading:
        if up:
            self._last_success = self._clock.time_ns()
        took_ns = self._clock.monotonic_ns() - began_ns
        status = SourceStatus(self.name, up, detail, took_ns, self._last_success)
        return Reading(status, devices)
