"""The connection to NVIDIA's driver, and the registry of its devices.

The registry has the devices that are there, and those that were there and may come back.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from ctypes import CDLL
from pathlib import Path
from typing import NamedTuple

from exporter.model import Clock, DeviceReading, DeviceState
from exporter.sources.gpus.nvml import errors
from exporter.sources.gpus.nvml.device import NvmlDevice
from exporter.sources.gpus.nvml.discovery import DeviceHandle, DeviceList, discover
from exporter.sources.gpus.nvml.errors import DriverGoneError
from exporter.sources.gpus.nvml.events import XidWatch
from exporter.sources.gpus.nvml.instance import counted_once
from exporter.sources.gpus.nvml.library import SONAME, CallTally, Library, load, searched
from exporter.sources.gpus.nvml.refusals import SECOND
from exporter.sources.gpus.pool import DeviceWorkers, Stuck
from exporter.sources.gpus.source import Demand, RestartRequiredError

logger = logging.getLogger(__name__)

FATAL_TRIES = 3
MOST_DEPARTED = 64
UPGRADED = (
    "the NVIDIA driver was upgraded while the exporter ran: the kernel module and the library in "
    "this process are of different versions; a restart loads the one that fits"
)


class Enumeration(NamedTuple):
    """The devices of an open driver. ``session`` rises each time the driver is opened."""

    library: Library
    session: int
    devices: DeviceList


class DriverConnection:
    """The driver's library, opened and closed. ``enumerate`` and ``shut`` never run at once."""

    def __init__(self, path: str | None, roots: Sequence[Path], clock: Clock) -> None:
        self.tally = CallTally()
        self.is_open = False
        self._path = path
        self._roots = roots
        self._clock = clock
        self._library: Library | None = None
        self._session = 0
        self._blocked = 0
        self._logged = False

    def enumerate(self) -> Enumeration:
        """Opens the driver unless it is open, and lists its devices.

        Raises:
            NvmlError: the driver is not there, or does not answer; try again later.
            RestartRequiredError: only a new process can open it.

        """
        library = self._opened()
        return Enumeration(library, self._session, discover(library))

    def shut(self) -> None:
        """Closes the driver and its device files, with no call in progress. Voids all handles."""
        self.is_open = False
        if self._library:
            self._library.shutdown()

    def _opened(self) -> Library:
        if self._library is None:
            self._library = Library(self._loaded(), self._clock, self.tally)
        if not self.is_open:
            self._initialise(self._library)
            self.is_open = True
            self._session += 1
        return self._library

    def _loaded(self) -> CDLL:
        try:
            return load(self._path, self._roots)
        except errors.LibraryError:
            if not (self._logged or self._path):
                self._logged = True
                logger.info("%s was looked for %s", SONAME, searched(self._roots))
            raise

    def _initialise(self, library: Library) -> None:
        try:
            library.initialise()
        except errors.NvmlError as error:
            self._raise_if_fatal(error)
            raise
        self._blocked = 0

    def _raise_if_fatal(self, error: errors.NvmlError) -> None:
        if error.code == errors.VERSION_MISMATCH:
            raise RestartRequiredError(UPGRADED) from error
        blocked = error.code in {errors.OPERATING_SYSTEM, errors.UNKNOWN}
        self._blocked = self._blocked + 1 if blocked else 0
        if self._blocked >= FATAL_TRIES:
            raise RestartRequiredError(
                f"{error}, {self._blocked} times: this container has lost its access to the device "
                "files (as after systemctl daemon-reload); a restart restores it"
            ) from error


class DeviceRegistry:
    """The NVIDIA devices of this node by UUID, in NVML's order.

    ``jobs``: the reads of one cycle. ``trouble``: which boards cannot be opened, and why; "" if all
    can.
    """

    def __init__(
        self,
        workers: DeviceWorkers,
        clock: Clock,
        demand: Demand,
        xids: XidWatch,
    ) -> None:
        self._workers = workers
        self._clock = clock
        self._demand = demand
        self._xids = xids
        self._devices: dict[str, NvmlDevice] = {}
        self._departed: dict[str, NvmlDevice] = {}  # their counters go on if they come back
        self._states: dict[str, DeviceState] = {}
        self._unreadable: Mapping[int, str] = {}
        self._session = 0
        self.jobs: Mapping[str, Callable[[], object]] = {}
        self.trouble = ""

    @property
    def busy(self) -> bool:
        """Whether a call for one of the devices is in progress."""
        return self._workers.busy(self._devices)

    def follow(self, demand: Demand) -> None:
        """Applies another demand to every device, from its next read on."""
        self._demand = demand
        for device in self._devices.values():
            device.follow(demand)

    def sync(self, enumeration: Enumeration) -> None:
        """Adds new devices, replaces handles, and drops devices that are no longer there."""
        reopened = enumeration.session != self._session
        self._session = enumeration.session
        if reopened:
            self._workers.forget(self._devices)  # with late results of void handles
        if enumeration.devices.unreadable.keys() - self._unreadable.keys():
            logger.warning("GPUs that cannot be opened: %s", dict(enumeration.devices.unreadable))
        self._unreadable = enumeration.devices.unreadable
        before, self._devices = self._devices, {}
        for found in enumeration.devices.found:
            uuid = found.device.uuid
            device = before.pop(uuid, None)
            if device is None:
                device = self._new(enumeration.library, found)
            elif (reopened or device.device != found.device) and not self._workers.busy([uuid]):
                device.bind(found)
            device.divided = found.divided
            self._devices[uuid] = device
        for device in before.values():
            self._miss(device)
        self.jobs = {uuid: device.read for uuid, device in self._devices.items()}
        unreadable = sorted(self._unreadable.items())
        self.trouble = "; ".join(
            f"GPU {index} cannot be opened: {why}" for index, why in unreadable
        )

    def readings(self, results: Mapping[str, object]) -> tuple[DeviceReading, ...]:
        """The readings of the workers. A device found in this cycle is read in the next one.

        Raises:
            DriverGoneError: a device reported it.

        """
        readings = counted_once(
            [
                self._reading(device, results[uuid])
                for uuid, device in self._devices.items()
                if uuid in results
            ]
        )
        self._log_changes(readings)
        return readings

    def all(self, state: DeviceState, detail: str) -> tuple[DeviceReading, ...]:
        """Unread readings of every device, all in one state."""
        return tuple(device.unread(state, detail) for device in self._devices.values())

    @property
    def failing(self) -> int:
        """The number of devices that could not be read the last time."""
        return sum(self._states.get(uuid) is not DeviceState.UP for uuid in self._devices)

    def close(self) -> None:
        """Frees what the driver's library holds for the devices. No call may be in progress."""
        for device in self._devices.values():
            device.close()

    def _new(self, library: Library, found: DeviceHandle) -> NvmlDevice:
        known = self._departed.pop(found.device.uuid, None)
        if known is not None:
            known.follow(self._demand)
            known.bind(found)
            return known
        return NvmlDevice(library, found, self._clock, self._demand, self._xids)

    def _miss(self, device: NvmlDevice) -> None:
        """Keeps a device whose board did not answer; drops one that is not there any more."""
        uuid, index = device.device.uuid, device.device.index
        if index in self._unreadable:
            self._devices[uuid] = device
            if not self._workers.busy([uuid]):
                device.mark_lost(self._unreadable[index])
        else:
            if not self._workers.busy([uuid]):
                device.close()
                self._departed[uuid] = device
                if len(self._departed) > MOST_DEPARTED:
                    del self._departed[next(iter(self._departed))]
            self._workers.forget([uuid])
            self._states.pop(uuid, None)
            logger.info("device %s is no longer there", uuid)

    def _reading(self, device: NvmlDevice, result: object) -> DeviceReading:
        if isinstance(result, DeviceReading):
            return result
        if isinstance(result, DriverGoneError):
            raise result
        if isinstance(result, Stuck):
            waited_s = (self._clock.monotonic_ns() - result.since_mono_ns) / SECOND
            detail = f"a driver call has not come back for {waited_s:.1f} s"
            return device.unread(DeviceState.STUCK, detail)
        return device.unread(DeviceState.FAILED, repr(result))

    def _log_changes(self, readings: tuple[DeviceReading, ...]) -> None:
        """Logs the devices that can or cannot be read any more: one line for all of one cause."""
        failed: dict[DeviceState, list[DeviceReading]] = {}
        back: dict[DeviceState, list[DeviceReading]] = {}  # by the state before
        for reading in readings:
            uuid, state = reading.device.uuid, reading.state
            before = self._states.get(uuid, DeviceState.UP)
            self._states[uuid] = state
            if state is not DeviceState.UP and state is not before:
                failed.setdefault(state, []).append(reading)
            elif state is not before:
                back.setdefault(before, []).append(reading)
        for before, changed in back.items():
            logger.info("%s read again (before: %s)", _are(changed), before)
        for state, changed in failed.items():
            logger.warning(
                "%s not read (%s): %s; series are withheld until this ends",
                *(_are(changed), state, changed[0].detail),
            )


def _are(readings: Sequence[DeviceReading]) -> str:
    uuids = ", ".join(reading.device.uuid for reading in readings)
    return f"device {uuids} is" if len(readings) == 1 else f"devices {uuids} are"
