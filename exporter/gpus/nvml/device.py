"""One NVIDIA device, read once a cycle by its own worker thread.

Windows and energy are cut by ``exporter.gpus.window`` and ``exporter.gpus.energy``, whose cursors
outlive a lost handle and a restarted driver: what was missed meanwhile is unobserved, not zero.
"""

import logging
from collections.abc import Collection, Mapping
from dataclasses import replace

from exporter.gpus.energy import EnergyMeter
from exporter.gpus.nvml.backoff import Backoff
from exporter.gpus.nvml.board import Board
from exporter.gpus.nvml.discovery import MIG, Found
from exporter.gpus.nvml.engines import EngineReader
from exporter.gpus.nvml.errors import DeviceLostError, DriverGoneError, NvmlError
from exporter.gpus.nvml.library import Library
from exporter.gpus.nvml.refusals import Refusals
from exporter.gpus.nvml.residents import Residents
from exporter.gpus.nvml.timing import Timing
from exporter.gpus.window import WindowCursor
from exporter.model import (
    QUANTITIES,
    Clock,
    Device,
    DeviceMemory,
    DeviceReading,
    DeviceState,
    Engines,
    Sensors,
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
        timing: Timing,
        disabled: Collection[str] = (),
    ) -> None:
        self.device = found.device
        self._library = library
        self._clock = clock
        self._refusals = Refusals(found.device.uuid)
        self._engines = EngineReader(library, found.handle, self._refusals)
        self._residents = Residents(library, found, self._refusals, clock, timing)
        self._board = Board(library, found.handle, self._refusals, timing, disabled)
        self._cursor = WindowCursor(self._engines)
        self._meter = EnergyMeter()
        self._end_ns: int | None = None
        self._lost = ""
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
        self._residents.attach(found)
        self._board.attach(found.handle)
        self._lost = ""

    def lose(self, detail: str) -> None:
        """Give the handle up. It is looked for again by UUID, less and less often."""
        if not self._lost:
            logger.warning("device %s is lost: %s; looking for it again", self.device.uuid, detail)
        self._lost = detail
        self._retry.failed()

    def close(self) -> None:
        """Give back what the driver's library holds for this device."""
        self._board.close()

    def read(self) -> DeviceReading:
        """Read everything that is due.

        Raises:
            DriverGoneError: the driver is not there; the handle is void.

        """
        try:
            if self._lost and not self._found_again():
                return DeviceReading(self.device, DeviceState.LOST, self._lost)
            reading = self._read()
        except DriverGoneError:
            raise
        except DeviceLostError as error:
            self.lose(str(error))
            return DeviceReading(self.device, DeviceState.LOST, self._lost)
        except NvmlError as error:
            return DeviceReading(self.device, DeviceState.FAILED, str(error))
        self._retry.reset()
        return reading

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

    def _read(self) -> DeviceReading:
        window = self._window()
        memory = None if self._parted else self._residents.read(self._engines.pids)
        return DeviceReading(
            device=self._as_shared(memory),
            window=window,
            memory=memory,
            sensors=Sensors() if self._instance else self._board.read(),
            unmeasured=self._unmeasured(),
        )

    @property
    def _parted(self) -> bool:
        """Whether MIG is on: the board keeps power and energy, the instances all the rest."""
        return self.device.sharing == MIG

    @property
    def _instance(self) -> bool:
        return bool(self.device.parent_uuid)

    def _window(self) -> Window | None:
        if self._instance:
            return None
        now_ns = self._clock.time_ns()
        mono_us = self._clock.monotonic_ns() // 1000
        window = None if self._parted else self._cursor.next(now_ns // 1000, mono_us)
        if self._blind:
            window = self._window_of_energy(now_ns)
        if self._end_ns is None:
            self._end_ns = now_ns
            self._energy(None)  # where the first window's energy is counted from
        if window is None:
            return None
        self._end_ns = window.end_unix_ns
        used_uj, idle_uj = self._energy(window.busy.core)
        return replace(window, energy_uj=used_uj, idle_energy_uj=idle_uj)

    @property
    def _blind(self) -> bool:
        return self._parted or self._engines.coreless

    def _window_of_energy(self, now_ns: int) -> Window | None:
        """Where no engine can be measured, the window carries the board's energy alone."""
        start = self._end_ns
        if start is None or now_ns <= start:
            return None
        return Window(start, now_ns, observed_ns=now_ns - start, unobserved_ns=0, busy=Engines())

    def _energy(self, core_ns: int | None) -> tuple[int | None, int | None]:
        """Microjoules since the last window and their idle part; asked once a window."""
        try:
            counter_uj = self._engines.energy_uj()
        except (DriverGoneError, DeviceLostError):
            raise
        except NvmlError:
            return None, None  # the next window's energy holds this one's too
        return self._meter.take(counter_uj, self._clock.monotonic_ns(), core_ns)

    def _as_shared(self, memory: DeviceMemory | None) -> Device:
        processes = memory.processes if memory else None
        mps = any("mps" in process.kinds for process in processes or ())
        return replace(self.device, sharing="mps") if mps else self.device

    def _unmeasured(self) -> Mapping[str, Unmeasured]:
        if self._parted:
            return {**self._refusals.unmeasured(), **UNDER_MIG, "memory": Unmeasured.MIG}
        if self._instance:
            return {**self._refusals.unmeasured(), **UNDER_MIG, "energy": Unmeasured.MIG}
        return self._refusals.unmeasured()
