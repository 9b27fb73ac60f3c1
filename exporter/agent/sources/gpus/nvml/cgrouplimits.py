"""Memory limits of cgroups, by the driver's own word (R615; MPS v3 memory partitioning).

Asked for the cgroup of a container or group, not for one inside of it that a process happens to be
in: what holds for a part is not said of the whole.

``nvmlDeviceGetMemoryLimits_v1`` takes a cgroup's directory and needs no right. Answers other than
success: 6, no limit is set for it; 3, none is set (back end ``misc``) or there is no such back end;
17, the directory cannot be opened. MIG handles are refused. Struct: 32 bytes, as nvml.h of CUDA
13.4 has it.
"""

from collections.abc import Callable
from ctypes import POINTER, Structure, byref, c_char_p, c_ulonglong, c_void_p, cast
from os import fsencode
from typing import Any

from exporter.agent.sources.gpus.nvml import errors
from exporter.agent.sources.gpus.nvml.library import CFunction, Library
from exporter.agent.sources.gpus.nvml.nvmlboard import NOT_AVAILABLE
from exporter.model import CgroupMemory, ProcessMemory

NAME = "nvmlDeviceGetMemoryLimits_v1"

CgroupOf = Callable[[int], str | None]


class _MemoryLimits(Structure):
    """``nvmlGetMemoryLimits_v1_t``."""

    _fields_ = (
        ("name_space", c_char_p),
        ("soft", c_ulonglong),
        ("hard", c_ulonglong),
        ("used", c_ulonglong),
    )


class MemoryLimits:
    """Asks for the limits of the cgroups of a device's processes. One thread at a time."""

    def __init__(self, library: Library, handle: Any, cgroup_of: CgroupOf) -> None:  # noqa: ANN401 - pynvml's pointer
        self._call = library.function(NAME, c_void_p, POINTER(_MemoryLimits))
        self._address = cast(handle, c_void_p)
        self._cgroup_of = cgroup_of

    def marked(self, processes: tuple[ProcessMemory, ...]) -> tuple[ProcessMemory, ...]:
        """The processes with their cgroups' limits; as they are if the driver has no such call.

        Raises:
            DriverGoneError: or DeviceLostError, as any call.

        """
        call = self._call
        if call is None:
            return processes
        folders = {process.pid: self._cgroup_of(process.pid) for process in processes}
        known = {folder: self._ask(call, folder) for folder in set(folders.values()) if folder}
        return tuple([p._replace(cgroup=known.get(folders[p.pid] or "")) for p in processes])

    def _ask(self, call: CFunction, folder: str) -> CgroupMemory:
        limits = _MemoryLimits(fsencode(folder))
        code = call(self._address, byref(limits))
        if code != errors.SUCCESS:
            error = errors.error_of(code, NAME)
            if not isinstance(error, errors.CallError):
                raise error
            return CgroupMemory(refused=errors.MEANINGS.get(code, "unknown"))
        used, soft, hard = (
            None if each == NOT_AVAILABLE else each
            for each in (limits.used, limits.soft, limits.hard)
        )
        return CgroupMemory(used, None if hard is None and not soft else soft, hard, "driver")
