"""The NVML source: opens NVIDIA's driver, lists its devices and reads them as a fleet."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from exporter.agent.sources.gpus.fleet import Fleet, Readings
from exporter.agent.sources.gpus.gpusource import Demand
from exporter.agent.sources.gpus.nvml import errors
from exporter.agent.sources.gpus.nvml.events import XID, XidWatch
from exporter.agent.sources.gpus.nvml.instance import counted_once
from exporter.agent.sources.gpus.nvml.library import (
    ROOTS,
    SONAME,
    CallTally,
    Library,
    load,
    searched,
)
from exporter.agent.sources.gpus.nvml.nvmldevice import NvmlDevice
from exporter.agent.sources.gpus.nvml.nvmldiscovery import (
    BoardPlace,
    DeviceHandle,
    DeviceList,
    discover,
)
from exporter.model import Clock, Reading

logger = logging.getLogger(__name__)

BLOCKED = {errors.OPERATING_SYSTEM, errors.UNKNOWN}
FATAL_TRIES = 3
MAX_DEPARTED = 64
MAX_SAID = 8  # places that cannot be opened, in the source's detail
UPGRADED = (
    "the NVIDIA driver was upgraded while the exporter ran: the kernel module and the library in "
    "this process are of different versions; a restart loads the one that fits"
)
LOST_FILES = (
    "several times: this container has lost its access to the device files (as after systemctl "
    "daemon-reload); a restart restores it"
)
OTHER_VERSION = (
    "the NVIDIA library in this container is not of the kernel module's version; load the module "
    "that fits, or restart the node, and then the exporter"
)
CANNOT_BE_OPENED = (
    "the NVIDIA driver is loaded and cannot be opened; see whether nvidia-smi works on the node, "
    "and whether this container may open /dev/nvidiactl and /dev/nvidia0; it is tried again"
)


class Enumeration(NamedTuple):
    """The devices of an open driver. ``session`` rises each time the driver is opened."""

    library: Library
    session: int
    devices: DeviceList


class DriverConnection:
    """The driver's library, opened and closed. ``enumerate`` and ``shut`` never run at once.

    ``was_open``: it could be opened in this process. ``blocked``: how often it could not lately.
    """

    def __init__(self, path: str | None, roots: Sequence[Path], clock: Clock) -> None:
        self.tally = CallTally()
        self.is_open = False
        self._path = path
        self._roots = roots
        self._clock = clock
        self._library: Library | None = None
        self._session = 0
        self.blocked = 0
        self._logged = False

    @property
    def was_open(self) -> bool:
        return self._session > 0

    def enumerate(self) -> Enumeration:
        """Opens the driver unless it is open, and lists its devices.

        Raises:
            NvmlError: the driver is not there, or does not answer; try again later.

        """
        if self._library is None:
            try:
                loaded = load(self._path, self._roots)
            except errors.LibraryError:
                # A node without NVIDIA's driver is asked again and again. Where it was looked for
                # is said once.
                if not (self._logged or self._path):
                    self._logged = True
                    logger.info("%s was looked for %s", SONAME, searched(self._roots))
                raise
            self._library = Library(loaded, self._clock, self.tally)
        if not self.is_open:
            try:
                self._library.initialise()
            except errors.NvmlError as error:
                # Some failures look like a container that has lost its device files. Several in a
                # row are no moment of trouble.
                self.blocked = self.blocked + 1 if error.code in BLOCKED else 0
                raise
            self.blocked, self.is_open = 0, True
            self._session += 1
        return Enumeration(self._library, self._session, discover(self._library))

    def shut(self) -> None:
        """Closes the driver and its device files, with no call in progress. Voids all handles."""
        self.is_open = False
        if self._library:
            self._library.shutdown()


class NvmlSource(Fleet[Enumeration, NvmlDevice]):
    """NVIDIA GPUs, as a ``GpuSource``: boards and MIG instances by UUID, in NVML's order."""

    name = "nvml"
    no_device = "the driver reports no device"
    kernel_log = "NVRM and Xid"

    def __init__(
        self,
        library_path: str | None = None,
        *,
        roots: Sequence[Path] = ROOTS,
        clock: Clock = time,
        demand: Demand | None = None,
    ) -> None:
        super().__init__(clock, demand)
        self._driver = DriverConnection(library_path, roots, clock)
        self._xids = XidWatch(clock)
        self._departed: dict[str, NvmlDevice] = {}  # their counters go on if they come back
        self._unreadable: Mapping[BoardPlace, str] = {}  # why no device could be opened there
        self._session = 0

    def read(self) -> Reading:
        status, devices, *_ = super().read()
        return Reading(status, counted_once(devices), self._driver.tally.snapshot())

    def _look(self) -> Enumeration:
        if not self._attached and self._driver.is_open:
            self._shut()
        return self._driver.enumerate()

    @property
    def _is_open(self) -> bool:
        return self._driver.is_open

    def _shut(self) -> None:  # the fleet's, too: a driver that is released is closed
        # The thread that waits for events must have ended before the driver is closed.
        for device in self._devices.values():
            device.close()
        self._xids.stop()
        self._driver.shut()

    def _lost(self, error: Exception) -> bool:
        return isinstance(error, errors.DriverGoneError) or not self._devices

    def _fatal(self, error: Exception) -> str:
        # What was never open was not lost: a new process would meet the same, again and again.
        if not self._driver.was_open:
            return ""
        if isinstance(error, errors.OtherVersionError):
            return UPGRADED
        return f"{error}, {LOST_FILES}" if self._driver.blocked >= FATAL_TRIES else ""

    def _explain(self, error: Exception) -> str:
        if isinstance(error, errors.LibraryError):
            return (
                f"no NVIDIA management library: {error.detail}; on a machine with NVIDIA GPUs "
                "install the driver, in a container mount its libraries, or name the file with "
                "--nvml.library"
            )
        if isinstance(error, errors.NvmlError) and error.code == errors.DRIVER_NOT_LOADED:
            return "the NVIDIA kernel driver is not loaded; it is opened as soon as it is"
        if isinstance(error, errors.OtherVersionError):
            return f"{error}: {OTHER_VERSION}"
        if self._driver.blocked:
            return f"{error}: {CANNOT_BE_OPENED}"
        return str(error) if isinstance(error, errors.NvmlError) else super()._explain(error)

    def _trouble(self) -> str:
        wrong = [f"{place} cannot be opened: {why}" for place, why in self._unreadable.items()]
        more = [f"{len(wrong) - MAX_SAID} more"] if len(wrong) > MAX_SAID else []
        return "; ".join(wrong[:MAX_SAID] + more)

    @property
    def _unreadable_devices(self) -> int:
        return len(self._unreadable)

    def _jobs(self) -> Mapping[str, Callable[[], Readings]]:
        return {uuid: partial(each.read, self._demand) for uuid, each in self._devices.items()}

    def _sync(self, found: Enumeration) -> None:
        """Adds new devices, replaces handles, and drops devices that are no longer there."""
        library, session, (devices, unreadable) = found
        reopened, self._session = session != self._session, session
        known, self._unreadable = self._unreadable, unreadable
        if unreadable.keys() - known.keys():
            logger.warning("%s", self._trouble())
        busy = self._hanging
        before, self._devices = self._devices, {}
        for each in devices:
            uuid = each.device.uuid
            device = before.pop(uuid, None)
            if device is None:
                device = self._new(library, each)
            elif (reopened or device.device != each.device) and uuid not in busy:
                device.bind(each)
            device.divided = each.divided
            self._devices[uuid] = device
        listed = frozenset(self._devices)
        for uuid, device in before.items():
            # A device that is not listed may be there all the same: what cannot be opened has no
            # UUID, and its number may have been another's before. So it may be any board that is
            # missing, or any instance of its board.
            among = device.device.parent_uuid if device.device.parent_uuid in listed else ""
            reasons = (why for at, why in self._unreadable.items() if at.parent_uuid == among)
            why = next(reasons, "")
            if why:
                self._devices[uuid] = device
            if uuid in busy:
                continue
            if not why:
                self._depart(device)
            elif reopened:
                device.mark_lost(why)  # its handle is void; otherwise a read finds out
        boards = {f.device.uuid: f.handle for f in devices if not f.device.parent_uuid}
        self._xids.watch(library, None if XID in self._demand.disabled else boards)

    def _new(self, library: Library, found: DeviceHandle) -> NvmlDevice:
        known = self._departed.pop(found.device.uuid, None)
        if known is not None:
            known.bind(found)
            return known
        return NvmlDevice(library, found, self._clock, self._demand, self._xids, self._cgroup_of)

    def _depart(self, device: NvmlDevice) -> None:
        # It may come back, as after a reset. Its sums then go on, instead of beginning at 0 under
        # the same name.
        device.close()
        self._departed[device.device.uuid] = device
        if len(self._departed) > MAX_DEPARTED:
            del self._departed[next(iter(self._departed))]

    def _cgroup_of(self, pid: int) -> str | None:
        return self.cgroups.home_of(pid)
