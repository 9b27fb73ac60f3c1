"""Memory of a device and the processes that hold it, at a cadence of its own.

The process lists lock the whole driver while it walks every client of every tenant.
"""

import logging
from operator import attrgetter

from exporter.gpus.nvml.board import memory_info
from exporter.gpus.nvml.discovery import Found
from exporter.gpus.nvml.errors import (
    NOT_FOUND,
    DeviceLostError,
    DriverGoneError,
    NvmlError,
)
from exporter.gpus.nvml.library import Library
from exporter.gpus.nvml.mps import MpsServers
from exporter.gpus.nvml.parts import PROCESSES, Parts
from exporter.gpus.nvml.processes import ProcessLists
from exporter.gpus.nvml.refusals import Refusals
from exporter.gpus.nvml.timing import Timing
from exporter.model import DeviceMemory

PID = attrgetter("pid")

logger = logging.getLogger(__name__)


class Residents:
    """Memory of one device. The last answer stands until the next one is due by ``timing``."""

    def __init__(
        self,
        library: Library,
        found: Found,
        refusals: Refusals,
        timing: Timing,
        parts: Parts,
    ) -> None:
        self._library = library
        self._refusals = refusals
        self._parts = parts
        self._turns = parts.turns(PROCESSES)
        self.timing = timing
        self._known: frozenset[int] = frozenset()
        self._memory: DeviceMemory | None = None
        self._hurried = False  # asked for at once, and too soon after the last time
        self.attach(found)

    def attach(self, found: Found) -> None:
        """Ask through another handle from now on, and at once."""
        self._uuid, self._handle = found.device.uuid, found.handle
        self._servers = MpsServers(self._library)
        self._lists = ProcessLists(self._library, found.handle, self._refusals)
        self._turns.restart()

    def read(self, active: frozenset[int], *, at_once: bool = False) -> DeviceMemory | None:
        """Memory now, or a few seconds old; ``active`` are the pids with samples in this cycle.

        It is the same object as long as nothing of it has changed.

        Where activity has no pid, ``at_once`` says that somebody else may be active.

        Raises:
            DriverGoneError: the driver is not there.
            DeviceLostError: the device is not there.

        """
        self._hurried = self._hurried or at_once
        hurry = self._hurried or not active <= self._known
        if self._turns.take(self.timing.memory_at_most_every_s if hurry else None):
            self._hurried = False
            memory = self._parts.read(PROCESSES, self._asked)
            if memory != self._memory:
                self._memory = memory
            listed = self._memory.processes if self._memory else None
            # A pid that is active but not listed has ended: it is not worth a second look.
            self._known = active.union(map(PID, listed or ()))
        return self._memory

    def _asked(self) -> DeviceMemory | None:
        try:
            return self._refusals.ask("memory", self._ask)
        except (DriverGoneError, DeviceLostError):
            raise
        except NvmlError as error:
            logger.debug("memory of a device was not read this time: %s", error)
            return None

    def _ask(self) -> DeviceMemory:
        self._check_identity()
        info = memory_info(self._library, self._handle)
        processes = self._lists.read()
        if processes is not None:
            processes = self._servers.marked(processes)
        return DeviceMemory(info.total, info.used, info.reserved, processes)

    def _check_identity(self) -> None:
        """The handle of a MIG instance may come to mean another one, once this one is gone."""
        try:
            uuid = self._library.ask("nvmlDeviceGetUUID", self._handle)
        except DriverGoneError:
            raise
        except NvmlError as error:
            raise DeviceLostError(error.code, error.call) from error
        if uuid != self._uuid:
            raise DeviceLostError(NOT_FOUND, "nvmlDeviceGetUUID")
