"""One NVIDIA device, read once a cycle by its own worker thread.

Windows and energy are cut by ``exporter.gpus.window`` and ``exporter.gpus.energy``, whose cursors
outlive a lost handle and a restarted driver: what was missed meanwhile is unobserved, not zero.
"""

import logging
from collections.abc import Mapping
from dataclasses import replace

from exporter.gpus.energy import EnergyMeter
from exporter.gpus.nvml.backoff import SECOND, Backoff
from exporter.gpus.nvml.board import Board
from exporter.gpus.nvml.discovery import MIG, Found
from exporter.gpus.nvml.engines import EngineReader
from exporter.gpus.nvml.errors import DeviceLostError, DriverGoneError, NvmlError
from exporter.gpus.nvml.library import Library
from exporter.gpus.nvml.refusals import Refusals
from exporter.gpus.nvml.residents import Cadence, Residents
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
    Window,
)

logger = logging.getLogger(__name__)

UNDER_MIG: Mapping[str, str] = dict.fromkeys(QUANTITIES, MIG)


class NvmlDevice:
    """Reads one device. ``read`` runs in one thread at a time, and ``attach`` never beside it."""

    def __init__(self, library: Library, found: Found, clock: Clock, cadence: Cadence) -> None:
        self.device = found.device
        self._library = library
        self._clock = clock
        self._cadence = cadence
        self._refusals = Refusals(found.device.uuid)
        self._engines = EngineReader(library, found.handle, self._refusals)
        self._residents = Residents(library, found, self._refusals, clock, cadence)
        self._cursor = WindowCursor(self._engines)
        self._meter = EnergyMeter()
        self._board_end_ns: int | None = None
        self._lost = ""
        self._retry = Backoff(clock)
        self.attach(found)

    def attach(self, found: Found) -> None:
        """Take up another handle: the driver was opened anew, MIG switched, or the device back."""
        self.device = found.device
        self._handle = found.handle
        self._refusals.forget()
        self._engines.attach(found.handle)
        self._residents.attach(found)
        self._board = Board(self._library, found.handle, self._refusals)
        self._sensors = Sensors()
        self._sensors_ns: int | None = None
        self._lost = ""

    def lose(self, detail: str) -> None:
        """Give the handle up. It is looked for again by UUID, less and less often."""
        if not self._lost:
            logger.warning("device %s is lost: %s; looking for it again", self.device.uuid, detail)
        self._lost = detail
        self._retry.failed()

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
            sensors=self._read_sensors(),
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
        if self._parted or self._engines.coreless:
            window = self._window_of_energy()
        else:
            window = self._cursor.next(self._clock.time_ns() // 1000)
        return window and self._with_energy(window)

    def _window_of_energy(self) -> Window | None:
        """Where nothing else can be measured, the window carries the board's energy alone."""
        start, now = self._board_end_ns, self._clock.time_ns()
        self._board_end_ns = now
        if start is None or now <= start:
            return None
        return Window(start, now, observed_ns=now - start, unobserved_ns=0, busy=Engines())

    def _with_energy(self, window: Window) -> Window:
        """Take the energy once a window, so that the energies of all windows add up."""
        try:
            counter_uj = self._engines.energy_uj()
        except (DriverGoneError, DeviceLostError):
            raise
        except NvmlError:
            return window  # the next window's energy holds this one's too
        mono_ns = self._clock.monotonic_ns()
        used_uj, idle_uj = self._meter.take(counter_uj, mono_ns, window.busy.core)
        return replace(window, energy_uj=used_uj, idle_energy_uj=idle_uj)

    def _read_sensors(self) -> Sensors:
        now = self._clock.monotonic_ns()
        every_ns = int(self._cadence.sensors_s * SECOND)
        due = self._sensors_ns is None or now - self._sensors_ns >= every_ns
        if due and not self._instance:
            self._sensors_ns = now
            self._sensors = self._board.read()
        return self._sensors

    def _as_shared(self, memory: DeviceMemory | None) -> Device:
        processes = memory.processes if memory else None
        mps = any("mps" in process.kinds for process in processes or ())
        return replace(self.device, sharing="mps") if mps else self.device

    def _unmeasured(self) -> Mapping[str, str]:
        if self._parted:
            return {**self._refusals.unmeasured(), **UNDER_MIG, "memory": MIG}
        if self._instance:
            return {**self._refusals.unmeasured(), **UNDER_MIG, "energy": MIG}
        return self._refusals.unmeasured()
