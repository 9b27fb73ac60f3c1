"""Reads the memory of a device and the processes that hold it: NVML's process lists.

The lists are read seldom, because each call locks the whole driver while it walks every client of
every tenant. There are three lists with three versions each, and one driver branch with a struct of
its own. MPS clients have a list. The MPS server is only in the compute list, like any other
process, and is found by its name.
"""

import struct
from collections import deque
from collections.abc import Iterable
from ctypes import POINTER, byref, c_char_p, c_uint, c_void_p, cast, create_string_buffer
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple

from exporter.agent.sources.aside import Aside
from exporter.agent.sources.gpus.gpusource import Demand
from exporter.agent.sources.gpus.nvml import errors
from exporter.agent.sources.gpus.nvml.cadence import PROCESSES, ReadPhases
from exporter.agent.sources.gpus.nvml.calls import RowBuffer
from exporter.agent.sources.gpus.nvml.cgrouplimits import CgroupOf, MemoryLimits
from exporter.agent.sources.gpus.nvml.errors import NOT_FOUND, UUID, DeviceLostError
from exporter.agent.sources.gpus.nvml.library import CFunction, Library
from exporter.agent.sources.gpus.nvml.nvmlboard import NOT_AVAILABLE, memory_info
from exporter.agent.sources.gpus.nvml.nvmldiscovery import DeviceHandle
from exporter.agent.sources.gpus.nvml.refusals import DEVICE_MEMORY, Refusals, listing_of
from exporter.agent.sources.gpus.samples import NO_PID
from exporter.model import DeviceMemory, ProcessMemory

LISTS = {"compute": "Compute", "graphics": "Graphics", "mps": "MPSCompute"}

V1_ROW = struct.Struct("=I4xQ")  # pid, bytes used
V2_ROW = struct.Struct("=I4xQ8x")  # and GPU instance, compute instance; of _v3 as well
R535_ROW = struct.Struct("=I4xQ16x")  # and protected memory: _v3 of drivers 535.43-535.98 only


def row_of(library: Library, suffix: str) -> struct.Struct:
    """The row layout that this driver writes for functions with this suffix.

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
    """A function that lists processes, with the layout of its rows and their buffer."""

    name: str
    function: CFunction
    layout: struct.Struct
    rows: RowBuffer


def newest(library: Library, kind: str) -> ListCall | None:
    """The newest version of a list that this driver has."""
    for suffix in ("_v3", "_v2", ""):
        name = f"nvmlDeviceGet{LISTS[kind]}RunningProcesses{suffix}"
        function = library.function(name, c_void_p, POINTER(c_uint), c_void_p)
        if function is not None:
            layout = row_of(library, suffix)
            # A list without a process is a success (nvml.h): what is not found is no empty list.
            return ListCall(name, function, layout, RowBuffer(layout.size, 1024, finds=True))
    return None


class ProcessLists:
    """Reads the process lists of one device. One thread at a time."""

    def __init__(
        self,
        library: Library,
        handle: Any,  # noqa: ANN401 - pynvml's pointer
        refusals: Refusals,
    ) -> None:
        self._address = cast(handle, c_void_p)
        self._refusals = refusals
        self._calls = {kind: newest(library, kind) for kind in LISTS}
        self._needed = {"compute"}  # and those that had any

    def read(self, *, look: bool = False) -> tuple[ProcessMemory, ...] | None:
        """Every process once, with the kinds that it is listed under; None: they are not known.

        ``look``: without the lists that never had any.
        A list without an answer costs only itself, unless it had processes before: these would seem
        to hold nothing.
        """
        listed: list[tuple[str, int, int]] = []
        answered: set[str] = set()
        for kind in [each for each in LISTS if not look or each in self._needed]:
            rows = self._refusals.attempt(listing_of(kind), self._list, kind)
            if rows is not None:
                answered.add(kind)
                listed += ((kind, pid, used_bytes) for pid, used_bytes in rows)
            if rows:
                self._needed.add(kind)
        return united(listed) if self._needed <= answered else None

    def _list(self, kind: str) -> list[tuple[int, int]]:
        newest_call = self._calls[kind]
        if newest_call is None:
            raise errors.error_of(errors.FUNCTION_NOT_FOUND, LISTS[kind])
        name, call, layout, rows = newest_call
        written = rows.read(name, call, self._address, byref(rows.count), rows.place)
        return list(layout.iter_unpack(written))


def united(listed: Iterable[tuple[str, int, int]]) -> tuple[ProcessMemory, ...]:
    """One entry for each pid of (kind, pid, bytes): all its kinds and the largest memory.

    A CUDA process with a window, or an MPS client, is in two lists with the same memory.
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
NAME_S = 0.1  # so long a name is waited for
SERVER = b"nvidia-cuda-mps-server"
COMPUTE_ONLY = frozenset({"compute"})
MAX_BYTES = 256


class MpsServers:
    """Marks the MPS server among the processes of a device. One thread at a time.

    It does not use pynvml, which decodes the name as text: a process may have chosen other bytes.
    A name is asked aside, because it is asked only to find the server: where the driver never
    returns it, nothing else waits for it.
    """

    def __init__(self, library: Library) -> None:
        self._name = library.function(NAME, c_uint, c_char_p, c_uint)
        self._aside: Aside[int, bool] = Aside("names of processes")

    def marked(self, processes: tuple[ProcessMemory, ...]) -> tuple[ProcessMemory, ...]:
        """The processes, with the kind ``mps_server`` for the server if there are MPS clients."""
        if not any("mps" in process.kinds for process in processes):
            return processes
        return tuple(
            [
                one._replace(kinds=one.kinds | {"mps_server"}) if self._is_server(one) else one
                for one in processes
            ]
        )

    def _is_server(self, process: ProcessMemory) -> bool:
        """Whether the program's name is the server's. A process that has ended has no name."""
        if process.kinds != COMPUTE_ONLY or self._name is None:
            return False
        asked = partial(self._is_named_server, self._name, process.pid)
        is_server = self._aside.ask(process.pid, NAME, asked, NAME_S)
        self._aside.drop(process.pid)
        return bool(is_server)

    @staticmethod
    def _is_named_server(name: CFunction, pid: int) -> bool:
        buffer = create_string_buffer(MAX_BYTES)
        if name(pid, buffer, MAX_BYTES) != errors.SUCCESS:
            return False
        program = buffer.value.split(b" ", 1)[0]
        return program.rsplit(b"/", 1)[-1] == SERVER


PID = attrgetter("pid")
CHEAP_NS = 1_000_000  # of driver time for all lists: rows of processes cost half as much again
LOOKS = 5
LOOK_NS = 500_000_000  # in each second, however late a cycle was


class ResidentReader:
    """Reads the memory and processes of one device. Reused until due by ``demand``."""

    def __init__(
        self,
        library: Library,
        found: DeviceHandle,
        refusals: Refusals,
        demand: Demand,
        phases: ReadPhases,
        cgroup_of: CgroupOf,
    ) -> None:
        self._library = library
        self._cgroup_of = cgroup_of
        self._refusals = refusals
        self._phases = phases
        self._cadence = phases.cadence(PROCESSES)
        self.demand = demand
        self._known: frozenset[int] = frozenset()
        self._memory: DeviceMemory | None = None
        self._looks = 0  # since all lists were read
        self.reads = 0  # how often the lists were read, or nothing had changed since
        self.is_steady = False  # no process has come or gone lately
        self._is_urgent = False  # to be read at once, but too soon after the last read
        self._costs_ns: deque[int] = deque(maxlen=2)  # of lists: one alone may be the machine's
        self.bind(found)

    def bind(self, found: DeviceHandle) -> None:
        self._device, self._handle = found.device, found.handle
        self._servers = MpsServers(self._library)
        self._lists = ProcessLists(self._library, found.handle, self._refusals)
        self._limits = MemoryLimits(self._library, found.handle, self._cgroup_of)
        self._has_limits = not found.device.parent_uuid  # MIG handles are refused
        self._cadence.restart()

    @property
    def looks(self) -> bool:
        """Whether the list is cheap enough here to look for new processes in each second.

        A driver takes long for many processes: rows of those at work then cost less.
        """
        memory = self._memory
        is_listed = memory is not None and memory.processes is not None
        return is_listed and min(self._costs_ns) <= CHEAP_NS

    def read(
        self, active: frozenset[int], *, at_once: bool = False, look: bool = False
    ) -> DeviceMemory | None:
        """Memory, at most some seconds old; ``look``: of this second, if it ``looks``.

        ``active`` are the pids with samples in this cycle: an unknown one makes the read due.
        ``at_once`` does the same for activity without a pid.
        """
        self._is_urgent = self._is_urgent or at_once
        urgent = self._is_urgent or not active <= self._known
        every_ns = self.demand.processes_soonest_ns if urgent else None
        if look and self.looks:
            every_ns = LOOK_NS
        if self._cadence.begin_if_due(every_ns):
            self._is_urgent = False
            self.reads += 1
            # Each look restarts the interval, so that each fifth one asks for everything.
            self._looks = (self._looks + 1) % LOOKS if every_ns == LOOK_NS else 0
            before = self._memory
            self._memory = self._phases.read(PROCESSES, self._ask, self._looks > 0, urgent)
            if self._memory is not before:
                self._costs_ns.append(self._cadence.cost_ns)
            # A pid that is active but not listed has ended: it is not looked for again.
            self._known = active.union(map(PID, self._memory.processes or ()))
        return self._memory

    def _ask(self, look: bool, urgent: bool) -> DeviceMemory:  # noqa: FBT001 - passed on as they are
        """The memory, and who holds it: each is known without the other.

        A look asks for the lists that have any, and for all lists if a process is new.
        Boards that share their host's memory list holders only.
        """
        before = self._memory
        # No process comes or goes without memory of the device, and the sum of that costs much less
        # than a list. While they do come and go, one may have just as much as the one before it.
        is_quick = look and not urgent and self.is_steady
        if is_quick and before is not None and before.used_bytes is not None:
            # The older call, the cheapest of all, counts what the driver reserves for itself.
            ask = self._library.ask, "nvmlDeviceGetMemoryInfo", self._handle
            now = self._refusals.attempt("memory_in_use", *ask)
            if now is not None and now.used == before.used_bytes + (before.reserved_bytes or 0):
                return before
        self._check_identity()
        info = self._refusals.attempt(DEVICE_MEMORY, memory_info, self._library, self._handle)
        processes = self._lists.read(look=look)
        if look and processes is not None and not self._known.issuperset(map(PID, processes)):
            processes = self._lists.read()
        if processes is not None:
            processes = self._servers.marked(processes)
            processes = self._limits.marked(processes) if self._has_limits else processes
        if info is None:
            return DeviceMemory(self._device.memory_bytes, None, None, processes)
        return DeviceMemory(info.total, info.used, info.reserved, processes)

    def _check_identity(self) -> None:
        """Raises if the handle is another MIG instance's now: handles are reused."""
        if self._library.ask(UUID, self._handle) != self._device.uuid:
            raise DeviceLostError(NOT_FOUND, UUID)
