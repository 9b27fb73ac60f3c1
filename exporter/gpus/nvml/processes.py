"""Who holds a context on a device, and how much memory: NVML's process lists.

These calls lock the whole driver while they walk all clients, so they are made seldom. There are
three lists and three generations of each, and one driver branch with a struct of its own.
"""

import struct
from collections.abc import Iterable, Iterator, Mapping
from ctypes import POINTER, byref, c_uint, c_void_p, cast
from typing import Any, NamedTuple

from exporter.gpus.nvml import errors
from exporter.gpus.nvml.library import CFunction, Library
from exporter.gpus.nvml.refusals import Refusals, listing_of
from exporter.gpus.nvml.rows import Rows
from exporter.gpus.samples import NO_PID
from exporter.model import ProcessMemory

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
    rows: Rows


def newest(library: Library, kind: str) -> ListCall | None:
    """Give the newest generation of a list that this driver has."""
    for suffix in ("_v3", "_v2", ""):
        name = f"nvmlDeviceGet{LISTS[kind]}RunningProcesses{suffix}"
        function = library.function(name, c_void_p, POINTER(c_uint), c_void_p)
        if function is not None:
            layout = row_of(library, suffix)
            return ListCall(name, function, layout, Rows(layout.size, 1024))
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
