"""NVML's return codes as exceptions.

pynvml's ``NVMLError`` cannot be hashed and fails when compared with anything else, so it never
leaves ``library``. The tree::

    NvmlError
    ├── DriverGoneError     1, 9, 12: the driver was unloaded or restarted; open it again
    │   └── OtherVersionError 18: the kernel's driver is of another version than the library
    ├── DeviceLostError     15, 16: this device has fallen off the bus or needs a reset
    ├── CallError           any other code: this call failed, nothing else is known
    │   └── UnmeasurableError 3, 4, 13: this device refuses this call; ask again after minutes
    └── LibraryError        12: no library that can be loaded was found

Only a new process helps a driver that was open after 18, or when 17 or 999 persist at init: that
is ``RestartRequiredError`` of ``exporter.agent.sources.gpus.gpusource``. Codes: ``nvmlReturn_t``
in nvml.h.
"""

from exporter.model import Unmeasured

SUCCESS = 0
UNINITIALIZED = 1
INVALID_ARGUMENT = 2
NOT_SUPPORTED = 3
NO_PERMISSION = 4
NOT_FOUND = 6
INSUFFICIENT_SIZE = 7
DRIVER_NOT_LOADED = 9
TIMEOUT = 10
LIBRARY_NOT_FOUND = 12
FUNCTION_NOT_FOUND = 13
GPU_IS_LOST = 15
RESET_REQUIRED = 16
OPERATING_SYSTEM = 17
VERSION_MISMATCH = 18
UNKNOWN = 999

REASONS = {
    NOT_SUPPORTED: Unmeasured.NOT_SUPPORTED,
    NO_PERMISSION: Unmeasured.NO_PERMISSION,
    FUNCTION_NOT_FOUND: Unmeasured.DRIVER_TOO_OLD,
}
HOLES = {NOT_FOUND, INVALID_ARGUMENT}  # there is none of that name or number
UUID = "nvmlDeviceGetUUID"  # says whose a handle is

MEANINGS: dict[int, str] = {
    **REASONS,
    UNINITIALIZED: "uninitialized",
    INVALID_ARGUMENT: "invalid_argument",
    NOT_FOUND: "not_found",
    INSUFFICIENT_SIZE: "insufficient_size",
    DRIVER_NOT_LOADED: "driver_not_loaded",
    TIMEOUT: "timeout",
    LIBRARY_NOT_FOUND: "library_not_found",
    GPU_IS_LOST: "gpu_is_lost",
    RESET_REQUIRED: "reset_required",
    OPERATING_SYSTEM: "operating_system",
    VERSION_MISMATCH: "version_mismatch",
    UNKNOWN: "unknown",
}


class NvmlError(Exception):
    """An NVML function returned ``code``."""

    def __init__(self, code: int, call: str) -> None:
        super().__init__(f"{call} answered {MEANINGS.get(code, 'error')} ({code})")
        self.code = code
        self.call = call


class DriverGoneError(NvmlError):
    """The driver is not loaded, or is not the one that was opened: every handle is void."""


class OtherVersionError(DriverGoneError):
    """The driver was upgraded while its old library is loaded: a new process is needed."""


class DeviceLostError(NvmlError):
    """This device cannot be used until it is reset or comes back; the others can."""


class CallError(NvmlError):
    """This call failed. That costs what it was to answer, and says nothing of the device."""


class UnmeasurableError(CallError):
    """This device refuses this call, for now or for ever."""

    @property
    def reason(self) -> Unmeasured:
        """The reason for ``unmeasured``."""
        return REASONS[self.code]


class LibraryError(NvmlError):
    """No library could be loaded; ``detail`` says where it was looked for."""

    def __init__(self, detail: str) -> None:
        super().__init__(LIBRARY_NOT_FOUND, "dlopen")
        self.detail = detail


_CLASSES: dict[int, type[NvmlError]] = {
    UNINITIALIZED: DriverGoneError,
    DRIVER_NOT_LOADED: DriverGoneError,
    LIBRARY_NOT_FOUND: DriverGoneError,
    VERSION_MISMATCH: OtherVersionError,
    GPU_IS_LOST: DeviceLostError,
    RESET_REQUIRED: DeviceLostError,
    NOT_SUPPORTED: UnmeasurableError,
    NO_PERMISSION: UnmeasurableError,
    FUNCTION_NOT_FOUND: UnmeasurableError,
}


def error_of(code: int, call: str) -> NvmlError:
    """The exception for a return code other than success."""
    return _CLASSES.get(code, CallError)(code, call)
