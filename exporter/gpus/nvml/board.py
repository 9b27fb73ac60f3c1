"""Memory and sensors of a device: NVML's plain queries, through pynvml, at a slow cadence."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeVar

from exporter.gpus.nvml.errors import (
    DeviceLostError,
    DriverGoneError,
    NvmlError,
    UnmeasurableError,
)
from exporter.gpus.nvml.library import Library
from exporter.gpus.nvml.refusals import Refusals
from exporter.model import Sensors

T = TypeVar("T")

ARGUMENT_VERSION_MISMATCH = 25
MEMORY_V2 = 40 | 2 << 24  # nvmlMemory_v2: size of the struct and its version
CLOCKS = {"sm": 1, "memory": 2}  # nvmlClockType_t
GPU_SENSOR = 0  # nvmlTemperatureSensors_t
MEMORY_TEMPERATURE = 82  # NVML_FI_DEV_MEMORY_TEMP


class MemoryInfo(NamedTuple):
    """Bytes of a device. ``reserved`` (the driver's own) is None before driver 510, in ``used``."""

    total: int
    used: int
    reserved: int | None


def memory_info(library: Library, handle: Any) -> MemoryInfo:  # noqa: ANN401 - pynvml's pointer
    """Memory of a device or MIG instance, in bytes.

    Raises:
        NvmlError: the driver's answer.

    """
    try:
        v2 = library.ask("nvmlDeviceGetMemoryInfo", handle, MEMORY_V2)
    except NvmlError as error:
        if not isinstance(error, UnmeasurableError) and error.code != ARGUMENT_VERSION_MISMATCH:
            raise
        v1 = library.ask("nvmlDeviceGetMemoryInfo", handle)
        return MemoryInfo(v1.total, v1.used, None)
    return MemoryInfo(v2.total, v2.used, v2.reserved)


class Board:
    """The sensors of one device."""

    def __init__(
        self,
        library: Library,
        handle: Any,  # noqa: ANN401 - pynvml's pointer
        refusals: Refusals,
    ) -> None:
        self._ask = library.ask
        self._handle = handle
        self._refusals = refusals

    def read(self) -> Sensors:
        """What the board tells; a sensor that fails is left out.

        Raises:
            DriverGoneError: the driver is not there.
            DeviceLostError: the device is not there.

        """
        power = self._try("power", partial(self._ask, "nvmlDeviceGetPowerUsage", self._handle))
        limit = self._try(
            "power_limit", partial(self._ask, "nvmlDeviceGetEnforcedPowerLimit", self._handle)
        )
        temperatures = {
            "gpu": self._try("temperature", self._temperature),
            "memory": self._try("memory_temperature", self._memory_temperature),
        }
        clocks = {
            name: self._try("clock", partial(self._clock, kind)) for name, kind in CLOCKS.items()
        }
        return Sensors(
            power_watts=None if power is None else power / 1000,
            power_limit_watts=None if limit is None else limit / 1000,
            temperature_celsius={k: float(v) for k, v in temperatures.items() if v is not None},
            clock_hertz={name: mhz * 1_000_000 for name, mhz in clocks.items() if mhz is not None},
        )

    def _temperature(self) -> int:
        newer = self._refusals.ask(
            "temperature_v",
            partial(self._ask, "nvmlDeviceGetTemperatureV", self._handle, GPU_SENSOR),
        )
        if newer is not None:
            return int(newer)
        return int(self._ask("nvmlDeviceGetTemperature", self._handle, GPU_SENSOR))

    def _memory_temperature(self) -> int | None:
        (field,) = self._ask("nvmlDeviceGetFieldValues", self._handle, [MEMORY_TEMPERATURE])
        return int(field.value.uiVal) if field.nvmlReturn == 0 else None

    def _clock(self, kind: int) -> int:
        return int(self._ask("nvmlDeviceGetClockInfo", self._handle, kind))

    def _try(self, topic: str, call: Callable[[], T]) -> T | None:
        try:
            return self._refusals.ask(topic, call)
        except (DriverGoneError, DeviceLostError):
            raise
        except NvmlError:
            return None
