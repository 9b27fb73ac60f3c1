"""Who holds a context on a device, and how much memory: NVML's process lists.

These calls lock the whole driver while they walk all clients, so they are made seldom. There are
three lists and three generations of each, and one driver branch with a struct of its own.

Memory of a device and the processes that hold it, at a cadence of its own.

The process lists lock the whole driver while it walks every client of every tenant.

Which of a device's processes is the MPS server: it has no list of its own.

Clients stand in NVML's MPS list. The server stands in the compute list only, as a process that has
nothing to do with MPS does; its name tells it from one.
"""

import logging
import struct
from collections.abc import Iterable, Iterator, Mapping
from ctypes import POINTER, byref, c_char_p, c_uint, c_void_p, cast, create_string_buffer
from operator import attrgetter
from typing import Any, NamedTuple

from exporter.model import DeviceMemory, ProcessMemory
from exporter.sources.gpus.nvml import errors
from exporter.sources.gpus.nvml.board import memory_info
from exporter.sources.gpus.nvml.cadence import PROCESSES, ReadPhases, Timing
from exporter.sources.gpus.nvml.calls import RowBuffer
from exporter.sources.gpus.nvml.discovery import DeviceHandle
from exporter.sources.gpus.nvml.errors import (
    NOT_FOUND,
    DeviceLostError,
    DriverGoneError,
    NvmlError,
)
from exporter.sources.gpus.nvml.library import CFunction, Library
from exporter.sources.gpus.nvml.refusals import Refusals, listing_of
from exporter.sources.gpus.samples import NO_PID

LISTS = {"compute": "Compute", "graphics": "Graphics", "mps": "MPSCompute"}
NOT_AVAILABLE = 0xFFFFFFFFFFFFFFFF  # WDDM, some vGPUs, a MIG parent without privilege

V1_ROW = struct.Struct("=I4xQ")  # pid, bytes used
V2_ROW = struct.Struct("=I4xQ8x")  # and GPU instance, compute instance; of _v3 as well
R535_ROW = struct.Struct("=I4xQ16x")  # and protected memory: _v3 of drivers 535.43-535.98 only


def row_of(library: Library, suffix: str) -> struct.Struct:
    """The layout that this driver writes for functions with this suffix.

    Drivers 535.43 to 535.98 changed the struct without a new name; they alone have the first of
    the two functions below and lack the second (nvitop#88, gpustat#157).
    """
    if not suffix:
        return V1_ROW
    confidential = library.has("nvmlDeviceGetConfComputeMemSizeInfo")
    detailed = library.has("nvmlDeviceGetRunningProcessDetailList")
    if suffix == "_v3" and confidential and not detailed:
        return R535_ROW
    return V2_ROW


class ListCall(NamedTuple):
    """One function that lists processes, what its rows look like, and their buffer."""

    name: str
    function: CFunction
    layout: struct.Struct
    rows: RowBuffer


def newest(library: Library, kind: str) -> ListCall | None:
    """Give the newest generation of a list that this driver has."""
    for suffix in ("_v3", "_v2", ""):
        name = f"nvmlDeviceGet{LISTS[kind]}RunningProcesses{suffix}"
        function = library.function(name, c_void_p, POINTER(c_uint), c_void_p)
        if function is not None:
            layout = row_of(library, suffix)
            return ListCall(name, function, layout, RowBuffer(layout.size, 1024))
    return None


class ProcessLists:
    """The lists of one device. One thread at a time."""

    def __init__(
        self,
        library: Library,
        handle: Any,  # noqa: ANN401 - pynvml's pointer
        refusals: Refusals,
    ) -> None:
        self._address = cast(handle, c_void_p)
        self._refusals = refusals
        self._calls = {kind: newest(library, kind) for kind in LISTS}
        self._told: dict[str, bytes] = {}  # by kind, as the driver wrote it
        self._processes: tuple[ProcessMemory, ...] = ()

    def read(self) -> tuple[ProcessMemory, ...] | None:
        """Every process once, with the kinds it is listed under; None: the device does not tell.

        It is the same object as long as the driver's answer is the same.

        Raises:
            NvmlError: the driver's answer.

        """
        told = {
            kind: self._refusals.ask(listing_of(kind), self._list, kind) or b"" for kind in LISTS
        }
        if told != self._told:
            self._told, self._processes = told, united(self._decoded(told))
        return None if listing_of("compute") in self._refusals else self._processes

    def _list(self, kind: str) -> bytes:
        newest_call = self._calls[kind]
        if newest_call is None:
            raise errors.error_of(errors.FUNCTION_NOT_FOUND, LISTS[kind])
        name, call, _, rows = newest_call
        return bytes(rows.read(name, call, self._address, byref(rows.count), rows.place))

    def _decoded(self, told: Mapping[str, bytes]) -> Iterator[tuple[str, int, int]]:
        for kind, newest_call in self._calls.items():
            if newest_call is not None:
                for pid, used_bytes in newest_call.layout.iter_unpack(told[kind]):
                    yield kind, pid, used_bytes


def united(listed: Iterable[tuple[str, int, int]]) -> tuple[ProcessMemory, ...]:
    """One entry per pid out of (kind, pid, bytes): the kinds united, the most memory told.

    A CUDA process with a window, or an MPS client, stands in two lists with the same memory.
    """
    kinds: dict[int, set[str]] = {}
    used: dict[int, int] = {}
    for kind, pid, used_bytes in listed:
        if pid in NO_PID:
            continue
        kinds.setdefault(pid, set()).add(kind)
        if used_bytes != NOT_AVAILABLE:
            used[pid] = max(used.get(pid, 0), used_bytes)
    return tuple(ProcessMemory(pid, used.get(pid), frozenset(kinds[pid])) for pid in kinds)


NAME = "nvmlSystemGetProcessName"
SERVER = b"nvidia-cuda-mps-server"
COMPUTE_ONLY = frozenset({"compute"})
MOST_BYTES = 256


class MpsServers:
    """Marks the server among the processes of a device. One thread at a time.

    pynvml is no help here: it decodes the name, which a process may have chosen not to be text.
    """

    def __init__(self, library: Library) -> None:
        self._name = library.function(NAME, c_uint, c_char_p, c_uint)
        self._buffer = create_string_buffer(MOST_BYTES)
        self._looked_at: tuple[ProcessMemory, ...] = ()
        self._serving = False  # whether there are clients among those

    def marked(self, processes: tuple[ProcessMemory, ...]) -> tuple[ProcessMemory, ...]:
        """The same processes, with the kind ``mps_server`` where there are clients to serve."""
        if processes is not self._looked_at:
            self._looked_at = processes
            self._serving = any("mps" in process.kinds for process in processes)
        return tuple(self._marked(processes)) if self._serving else processes

    def _marked(self, processes: Iterable[ProcessMemory]) -> Iterable[ProcessMemory]:
        for process in processes:
            server = process.kinds == COMPUTE_ONLY and self._is_server(process.pid)
            yield process._replace(kinds=process.kinds | {"mps_server"}) if server else process

    def _is_server(self, pid: int) -> bool:
        """By the name of its program; a process that has ended meanwhile has none."""
        if self._name is None or self._name(pid, self._buffer, MOST_BYTES) != errors.SUCCESS:
            return False
        program = self._buffer.value.split(b" ", 1)[0]
        return program.rsplit(b"/", 1)[-1] == SERVER


PID = attrgetter("pid")

logger = logging.getLogger(__name__)


class ResidentReader:
    """Memory of one device. The last answer stands until the next one is due by ``timing``."""

    def __init__(
        self,
        library: Library,
        found: DeviceHandle,
        refusals: Refusals,
        timing: Timing,
        parts: ReadPhases,
    ) -> None:
        self._library = library
        self._refusals = refusals
        self._parts = parts
        self._turns = parts.turns(PROCESSES)
        self.timing = timing
        self._known: frozenset[int] = frozenset()
        self._memory: DeviceMemory | None = None
        self._hurried = False  # asked for at once, and too soon after the last time
        self.bind(found)

    def bind(self, found: DeviceHandle) -> None:
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
