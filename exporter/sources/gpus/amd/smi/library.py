"""``libamd_smi.so`` by ctypes: found, opened, asked.

Stands on ``include/amd_smi/amdsmi.h`` of AMD SMI 24 to 26 (ROCm 6.1 to 7). The package ``amdsmi``
of PyPI is bound to one version of the library and to the structs of that; the functions that are
called here take numbers by pointer, or fill structs of which the first fields are all that is
taken. They are the same in these versions but for the power, see ``POWER``. A version that is not
known is closed again before it is initialised.
"""

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from ctypes import (
    CDLL,
    Array,
    byref,
    c_char,
    c_float,
    c_int,
    c_int64,
    c_uint32,
    c_uint64,
    c_void_p,
    create_string_buffer,
)
from pathlib import Path
from typing import NamedTuple

from exporter.model import Clock
from exporter.sources.gpus.amd.smi.places import NAME

POWER: Mapping[int, Sequence[tuple[str, int]]] = {  # by version: fields in watts, the best first
    24: (("<I", 0), ("<I", 4)),  # current_socket_power, average_socket_power
    25: (("<I", 8), ("<I", 12)),  # the same, behind socket_power
    26: (("<I", 8), ("<I", 12)),
}
TEMPERATURES = {"gpu": 0, "junction": 1, "memory": 2}  # AMDSMI_TEMPERATURE_TYPE_*
MOST_HANDLES = 256
NAME_LENGTH = 64
_ROOM = 8192  # for a struct; the largest that is filled here has 896 bytes
_INIT_GPUS = 2  # AMDSMI_INIT_AMD_GPUS
_GPU = 1  # AMDSMI_PROCESSOR_TYPE_AMD_GPU
_VRAM = 0  # AMDSMI_MEM_TYPE_VRAM
_CURRENT = 0  # AMDSMI_TEMP_CURRENT
_UNTOLD = {0xFFFF, 0xFFFF_FFFF}
_WHOLE = 100
_WORDS = {  # of amdsmi_status_t, those that say what to do
    2: "NOT_SUPPORTED",
    7: "API_FAILED",
    8: "TIMEOUT",
    10: "NO_PERM",
    12: "IO",
    14: "FILE_ERROR",
    18: "INIT_ERROR",
    30: "BUSY",
    31: "NOT_FOUND",
    32: "NOT_INIT",
    34: "DRIVER_NOT_LOADED",
}


class SmiError(Exception):
    """The library cannot be used; the text says why, and what to do."""


class UnknownVersionError(SmiError):
    """It may answer in structs that are not known here."""


class Processor(NamedTuple):
    """One GPU or partition of the library's, and what it says of it.

    ``partition`` None: it does not tell. ``values``: bytes, watts, degrees, percent, and of energy
    microjoules, by the names of ``compare``. ``read_mono_ns``: when the energy was asked for.
    """

    pci_bus_id: str
    partition: int | None
    name: str
    read_mono_ns: int
    values: Mapping[str, float]


class SmiLibrary:
    """The library, initialised. One caller at a time; any call may take for ever."""

    def __init__(self, path: Path) -> None:
        try:
            self._cdll = CDLL(str(path))
        except OSError as error:
            raise SmiError(f"cannot be loaded: {error}") from None
        numbers = self._version()
        self.version = ".".join(map(str, numbers))
        self._major = numbers[0]
        if self._major not in POWER:
            known = f"{min(POWER)} to {max(POWER)}"
            raise UnknownVersionError(f"version {self.version} is not known; {known} are")
        self._refusals: dict[str, str] = {}
        if not self._call("amdsmi_init", c_uint64(_INIT_GPUS)):
            raise SmiError(f"{self._said()}; see the kernel log for amdgpu, and docs/vendors.md")

    def close(self) -> None:
        """Let it close its device files."""
        self._call("amdsmi_shut_down")

    def ask(self, clock: Clock) -> tuple[Processor, ...]:
        """Ask for everything.

        Raises:
            SmiError: it lists no GPU, or tells nothing of any.

        """
        self._refusals = {}
        processors = tuple(
            processor for handle in self._handles() if (processor := self._read(handle, clock))
        )
        if not any(processor.values for processor in processors):
            raise SmiError(f"it tells of no GPU: {self._said() or 'it lists none'}")
        return processors

    def _version(self) -> list[int]:
        """Three numbers; before 25 the first is the year. Needs no initialised library."""
        into = create_string_buffer(_ROOM)
        self._refusals = {}
        if not self._call("amdsmi_get_lib_version", into):
            raise SmiError(f"is no {NAME}, or too old: {self._said()}")
        numbers = list(struct.unpack_from("<4I", into))
        return (numbers if numbers[0] else numbers[1:])[:3]

    def _handles(self) -> Iterator[c_void_p]:
        for socket in self._listed("amdsmi_get_socket_handles"):
            yield from self._listed("amdsmi_get_processor_handles", socket)

    def _listed(self, name: str, *of: c_void_p) -> list[c_void_p]:
        count = c_uint32(0)
        if not self._call(name, *of, byref(count), None):
            return []
        room = min(count.value, MOST_HANDLES)
        handles: Array[c_void_p] = (c_void_p * room)()
        count = c_uint32(room)
        if not room or not self._call(name, *of, byref(count), handles):
            return []
        return [c_void_p(each) for each in list(handles)[: count.value] if each]

    def _read(self, handle: c_void_p, clock: Clock) -> Processor | None:
        kind, place = c_int(0), c_uint64(0)
        if not self._call("amdsmi_get_processor_type", handle, byref(kind)) or kind.value != _GPU:
            return None
        if not self._call("amdsmi_get_gpu_device_bdf", handle, byref(place)):
            return None
        read_mono_ns = clock.monotonic_ns()
        told: dict[str, float | None] = {"energy": self._energy(handle)}
        told["power"] = self._power(handle)
        told["core"] = self._activity(handle)
        told |= self._memory(handle)
        told |= self._temperatures(handle)
        return Processor(
            pci_bus_id=_address(place.value),
            partition=self._partition(handle),
            name=self._name(handle),
            read_mono_ns=read_mono_ns,
            values={name: value for name, value in told.items() if value is not None},
        )

    def _energy(self, handle: c_void_p) -> float | None:
        count, resolution, stamp = c_uint64(0), c_float(0), c_uint64(0)
        references = byref(count), byref(resolution), byref(stamp)
        if not self._call("amdsmi_get_energy_count", handle, *references):
            return None
        told = resolution.value > 0 and 0 < count.value < 1 << 63
        return count.value * resolution.value if told else None

    def _power(self, handle: c_void_p) -> float | None:
        into = self._filled("amdsmi_get_power_info", handle)
        if into is None:
            return None
        told = (int(struct.unpack_from(kind, into, at)[0]) for kind, at in POWER[self._major])
        return next((float(watts) for watts in told if watts and watts not in _UNTOLD), None)

    def _activity(self, handle: c_void_p) -> float | None:
        into = self._filled("amdsmi_get_gpu_activity", handle)
        percent = None if into is None else int(struct.unpack_from("<I", into)[0])
        return float(percent) if percent is not None and percent <= _WHOLE else None

    def _memory(self, handle: c_void_p) -> Iterator[tuple[str, float]]:
        for key, name in (
            ("memory_total", "amdsmi_get_gpu_memory_total"),
            ("memory_used", "amdsmi_get_gpu_memory_usage"),
        ):
            size = c_uint64(0)
            if self._call(name, handle, c_int(_VRAM), byref(size)):
                yield key, float(size.value)

    def _temperatures(self, handle: c_void_p) -> Iterator[tuple[str, float]]:
        """Whole degrees; 0 is what the library makes of a sensor that is not there."""
        for key, sensor in TEMPERATURES.items():
            degrees = c_int64(0)
            given = c_int(sensor), c_int(_CURRENT), byref(degrees)
            if self._call("amdsmi_get_temp_metric", handle, *given) and degrees.value:
                yield f"temperature_{key}", float(degrees.value)

    def _partition(self, handle: c_void_p) -> int | None:
        into = self._filled("amdsmi_get_gpu_kfd_info", handle)  # since ROCm 6.3
        number = None if into is None else int(struct.unpack_from("<I", into, 12)[0])
        return None if number in _UNTOLD else number

    def _name(self, handle: c_void_p) -> str:
        into = self._filled("amdsmi_get_gpu_asic_info", handle)
        text = "" if into is None else into.value.decode("utf-8", "replace").strip()
        return text[:NAME_LENGTH] if text.isprintable() and text != "N/A" else ""

    def _filled(self, name: str, handle: c_void_p) -> "Array[c_char] | None":
        into = create_string_buffer(_ROOM)
        return into if self._call(name, handle, into) else None

    def _call(self, name: str, *given: object) -> bool:
        function: Callable[..., int] | None = getattr(self._cdll, name, None)
        if function is None:
            self._refusals[name] = "is not there"
            return False
        code = function(*given)
        if code:
            self._refusals[name] = f"answers {code} ({_WORDS.get(code, 'see amdsmi.h')})"
        return not code

    def _said(self) -> str:
        return "; ".join(f"{name} {said}" for name, said in self._refusals.items())


def _address(place: int) -> str:
    """``amdsmi_bdf_t``: function, device, bus and domain from the lowest bit on."""
    function, device, bus = place & 7, place >> 3 & 0x1F, place >> 8 & 0xFF
    return f"{place >> 16 & 0xFFFF_FFFF:04x}:{bus:02x}:{device:02x}.{function}"
