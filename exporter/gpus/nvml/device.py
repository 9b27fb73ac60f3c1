"""One NVIDIA device, read once a cycle by its own worker thread.

Windows and energy are cut by ``exporter.gpus.window`` and ``exporter.gpus.energy``, whose cursors
outlive a lost handle and a restarted driver: what was missed meanwhile is unobserved, not zero.
Those of a MIG instance come from ``instance``.
"""

import logging
from collections.abc import Mapping
from dataclasses import replace

from exporter.gpus.energy import with_energy
from exporter.gpus.nvml.accounting import NO_ACCOUNTING, Accounting, AccountingChoice
from exporter.gpus.nvml.backoff import Backoff
from exporter.gpus.nvml.board import Board
from exporter.gpus.nvml.discovery import MIG, Found
from exporter.gpus.nvml.energy import BoardEnergy
from exporter.gpus.nvml.engines import EngineReader
from exporter.gpus.nvml.errors import DeviceLostError, DriverGoneError, NvmlError
from exporter.gpus.nvml.instance import InstanceActivity
from exporter.gpus.nvml.library import Library
from exporter.gpus.nvml.parts import Parts
from exporter.gpus.nvml.refusals import Refusals
from exporter.gpus.nvml.residents import Residents
from exporter.gpus.nvml.timing import Wanted
from exporter.gpus.window import WindowCursor
from exporter.model import (
    QUANTITIES,
    Clock,
    Device,
    DeviceMemory,
    DeviceReading,
    DeviceState,
    Engines,
    Unmeasured,
    Window,
)

logger = logging.getLogger(__name__)

UNDER_MIG = dict.fromkeys(QUANTITIES, Unmeasured.MIG)


class NvmlDevice:
    """Reads one device. ``read`` runs in one thread at a time, and ``attach`` never beside it."""

    def __init__(
        self,
        library: Library,
        found: Found,
        clock: Clock,
        wanted: Wanted,
        accounting: AccountingChoice = NO_ACCOUNTING,
    ) -> None:
        self.device = found.device
        self._parts = Parts(library.tally, clock, wanted.timing)
        self._library = library = library.counted_by(self._parts)
        self._clock = clock
        self._wanted = self._followed = wanted
        self._refusals = Refusals(found.device.uuid)
        self._engines = EngineReader(library, found.handle, self._refusals)
        self._residents = Residents(library, found, self._refusals, wanted.timing, self._parts)
        self._board = Board(library, found.handle, self._refusals, wanted, self._parts)
        self._cursor = WindowCursor(self._engines)
        self._accounting = Accounting(library, accounting, clock)
        self._activity = InstanceActivity(library, self._refusals, clock, wanted)
        self._energy = BoardEnergy(self._engines, self._refusals, clock)
        self._end_ns: int | None = None
        self._lost = ""
        self._mps = False
        self._retry = Backoff(clock)
        self.attach(found)

    def attach(self, found: Found) -> None:
        """Take up another handle: the driver was opened anew, MIG switched, or the device back."""
        if self._blind:
            # The old cursor stands where the windows of energy began: it would give them out again.
            self._cursor = WindowCursor(self._engines)
        self.device = found.device
        self._refusals.forget()
        self._engines.attach(found.handle)
        self._accounting.attach(found.handle, found.device.uuid)
        self._activity.attach(found)
        self._residents.attach(found)
        self._board.attach(found.handle)
        self._lost = ""

    def follow(self, wanted: Wanted) -> None:
        """Read this from the next read on. For any thread."""
        self._wanted = wanted

    def lose(self, detail: str) -> None:
        """Give the handle up. It is looked for again by UUID, less and less often."""
        if not self._lost:
            logger.warning("device %s is lost: %s; looking for it again", self.device.uuid, detail)
        self._lost = detail
        self._retry.failed()

    def close(self) -> None:
        """Give back what the driver's library holds for this device."""
        self._board.close()
        self._activity.close()

    def read(self) -> DeviceReading:
        """Read everything that is due.

        Raises:
            DriverGoneError: the driver is not there; the handle is void.

        """
        try:
            if self._lost and not self._found_again():
                return self.unread(DeviceState.LOST, self._lost)
            reading = self._read()
        except DriverGoneError:
            raise
        except DeviceLostError as error:
            self.lose(str(error))
            return self.unread(DeviceState.LOST, self._lost)
        except NvmlError as error:
            return self.unread(DeviceState.FAILED, str(error))
        self._retry.reset()
        return reading

    def unread(self, state: DeviceState, detail: str) -> DeviceReading:
        """Say that the device was not read, and why. For any thread."""
        return DeviceReading(self.device, state, detail, costs=self._parts.costs)

    def _found_again(self) -> bool:
        if not self._retry.due:
            return False
        try:
            handle = self._library.ask("nvmlDeviceGetHandleByUUID", self.device.uuid)
            self._library.ask("nvmlDeviceGetUUID", handle)  # a handle alone proves nothing
        except DriverGoneError:
            raise
        except NvmlError as error:
            self.lose(str(error))
            return False
        logger.info("device %s is back", self.device.uuid)
        self.attach(Found(self.device, handle))
        return True

    def _adopt(self, wanted: Wanted) -> None:
        self._followed = wanted
        self._parts.follow(wanted.timing)
        self._residents.timing = wanted.timing
        self._board.follow(wanted)
        self._activity.follow(wanted)

    def _read(self) -> DeviceReading:
        if self._wanted is not self._followed:
            self._adopt(self._wanted)
        if self._instance:
            return self._read_instance()
        window = self._window()
        memory = None if self._parted else self._residents.read(self._engines.pids)
        return DeviceReading(
            device=self._as_shared(memory),
            window=window,
            memory=memory,
            sensors=self._board.read(),
            unmeasured=self._unmeasured(),
            costs=self._parts.costs,
        )

    def _read_instance(self) -> DeviceReading:
        woken = self._activity.read()
        memory = self._residents.read(frozenset(), at_once=woken)
        listed = memory is not None and memory.processes is not None
        # Without its processes nobody can be given the window: it goes on into the next cycle.
        window = self._activity.take() if listed or "memory" in self._unmeasured() else None
        return DeviceReading(
            device=self._as_shared(memory),
            window=window,
            memory=memory,
            sensors=self._activity.sensors,
            unmeasured=self._unmeasured(),
            costs=self._parts.costs,
        )

    @property
    def _parted(self) -> bool:
        """Whether MIG is on: the board keeps power and energy, the instances all the rest."""
        return self.device.sharing == MIG

    @property
    def _instance(self) -> bool:
        return bool(self.device.parent_uuid)

    def _window(self) -> Window | None:
        now_ns = self._clock.time_ns()
        mono_us = self._clock.monotonic_ns() // 1000
        window = None if self._parted else self._cursor.next(now_ns // 1000, mono_us)
        if self._blind:
            window = self._window_of_energy(now_ns)
        if self._end_ns is None:
            self._end_ns = now_ns
            self._energy.take(None)  # where the first window's energy is counted from
        if window is None:
            return None
        self._end_ns = window.end_unix_ns
        window = with_energy(window, self._energy.take(window.busy.core), self._energy.method)
        summed = None if self._blind else self._accounting.processes(window)
        if summed is None:
            return window
        methods = replace(window.methods, shares="accounting")
        return replace(window, processes=summed, methods=methods, told_apart=False, unclaimed_ns=0)

    @property
    def _blind(self) -> bool:
        return self._parted or self._engines.coreless

    def _window_of_energy(self, now_ns: int) -> Window | None:
        """Where no engine can be measured, the window carries the board's energy alone."""
        start = self._end_ns
        if start is None or now_ns <= start:
            return None
        return Window(start, now_ns, observed_ns=now_ns - start, unobserved_ns=0, busy=Engines())

    def _as_shared(self, memory: DeviceMemory | None) -> Device:
        if memory is not None:  # after a read that failed, it is shared as it was
            self._mps = any("mps" in process.kinds for process in memory.processes or ())
        return replace(self.device, sharing="mps") if self._mps else self.device

    def _unmeasured(self) -> Mapping[str, Unmeasured]:
        reasons = dict(self._refusals.unmeasured(self._followed.disabled))
        if self._parted or self._instance:
            reasons |= UNDER_MIG
        if self._parted:
            reasons["memory"] = Unmeasured.MIG
        if self._instance:
            reasons["energy"] = Unmeasured.MIG
            if self._activity.measured:
                del reasons["core"]
            if "memory" in reasons:  # then nobody knows whose the instance is
                reasons["core"] = reasons["memory"]
        elif self._energy.method == "power":
            reasons.pop("energy", None)
        return reasons
