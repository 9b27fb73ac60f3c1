"""The driver calls of each cycle, made directly through ctypes.

pynvml calls twice, for the size and for the rows, which fails if a process starts in between. It
also takes ten times as long, because it makes a Python object for each row. Here each call is made
once, its buffers are allocated once, and ``struct.iter_unpack`` decodes all rows together. Struct
layouts: nvml.h (64-bit).
"""

import ctypes
import mmap
import struct
from bisect import bisect_left
from collections.abc import Callable
from ctypes import Structure, byref, c_int, c_uint, c_ulonglong, c_void_p, cast
from functools import partial
from typing import Any

from exporter.agent.sources.gpus.nvml import errors
from exporter.agent.sources.gpus.nvml.library import Library
from exporter.agent.sources.gpus.samples import BusySample, ProcessRow

FIRST_CAPACITY = 4096  # what recent drivers ask for, whatever the number of processes
MAX_ROWS = 1 << 16


class RowBuffer:
    """A buffer for up to ``capacity`` structs of ``size`` bytes. One caller at a time.

    ``place`` and ``count`` are arguments of the driver call; they stay the same objects.
    ``finds``: "not found" is a failure, and not the normal answer of an idle device.
    """

    def __init__(self, size: int, capacity: int = FIRST_CAPACITY, *, finds: bool = False) -> None:
        self._finds = finds
        self.count = ctypes.c_uint(0)
        self.place = ctypes.c_void_p()
        self._size = size
        self._filled = 0  # bytes of the last answer
        self._allocate(capacity)

    def read(self, name: str, call: Callable[..., int], *arguments: object) -> bytes:
        """Calls the driver, which writes rows; returns their bytes.

        A buffer that is too small grows, within bounds. So does one that was filled: functions
        that fill what there is call that a success, and the rest is missing. The size is not asked
        for first: a process may start in between, and functions answer it differently.

        Raises:
            NvmlError: of the function ``name``, by its return code.

        """
        if self._filled:
            # Some drivers count rows that they have not written (nvtop#110): old rows must go.
            self._buffer[: self._filled] = bytes(self._filled)
        self.count.value = self.capacity
        code = call(*arguments)
        while self._may_be_cut_off(code) and self.capacity < MAX_ROWS:
            self._allocate(min(max(self.count.value + 1, 2 * self.capacity), MAX_ROWS))
            self.count.value = self.capacity
            code = call(*arguments)
        if code != errors.SUCCESS:
            if code == errors.NOT_FOUND and not self._finds:
                return b""
            raise errors.error_of(code, name)
        self._filled = min(self.count.value, self.capacity) * self._size
        return self._buffer[: self._filled]

    def _may_be_cut_off(self, code: int) -> bool:
        """Whether the answer of this return code had more rows than there was room for.

        A last row of zeros was not written: some drivers count rows that they do not write.
        """
        if code != errors.SUCCESS:
            return code == errors.INSUFFICIENT_SIZE
        end = self.capacity * self._size
        return self.count.value >= self.capacity and any(self._buffer[end - self._size : end])

    def _allocate(self, capacity: int) -> None:
        self.capacity = capacity
        # An anonymous mapping: pages that the driver never writes to take no memory.
        self._buffer = mmap.mmap(-1, capacity * self._size)
        # It is never resized, so its address stays valid.
        self.place.value = ctypes.addressof(ctypes.c_char.from_buffer(self._buffer))
        self._filled = 0


LEGACY = "nvmlDeviceGetProcessUtilization"
NEWER = "nvmlDeviceGetProcessesUtilizationInfo"
SAMPLES = "nvmlDeviceGetSamples"
ENERGY = "nvmlDeviceGetTotalEnergyConsumption"

LEGACY_ROW = struct.Struct("=I4xQ4I")  # pid, µs, sm, memory, encoder, decoder
NEWER_ROW = struct.Struct("=Q5I12x")  # µs, pid, sm, memory, encoder, decoder; jpeg, ofa
VALUE_TYPES = ("d", "I4x", "Q", "Q", "q", "i4x", "H6x")  # by nvmlValueType_t: a union of 8 bytes
SAMPLE_ROWS = {k: struct.Struct(f"=Q{value}") for k, value in enumerate(VALUE_TYPES)}  # µs, value
UNSIGNED_INT = 1
UNSIGNED_ROW = SAMPLE_ROWS[UNSIGNED_INT]
SAMPLING_TYPES = {"core": 1, "memory_active": 2, "encoder": 3, "decoder": 4}

ProcessCall = Callable[[int], list[ProcessRow]]


def _missing(*_: object) -> int:
    """The answer of a function that this driver lacks."""
    return errors.FUNCTION_NOT_FOUND


class _ProcessesUtilizationInfo(Structure):
    """``nvmlProcessesUtilizationInfo_v1_t``."""

    _fields_ = (
        ("version", c_uint),
        ("count", c_uint),
        ("newer_than_us", c_ulonglong),
        ("rows", c_void_p),
    )

    VERSION = 24 | 1 << 24


class DeviceCalls:
    """The frequent calls for one device handle, with prepared arguments. One thread at a time."""

    def __init__(self, library: Library, handle: Any) -> None:  # noqa: ANN401 - pynvml's pointer
        self._address = cast(handle, c_void_p)
        self._library = library
        self._newer_than_us = c_ulonglong(0)
        samples = library.function(SAMPLES) or _missing
        self._sample_rows = rows = RowBuffer(16, 256)
        self._value_type = c_int(UNSIGNED_INT)
        self._sampling_type = c_uint()
        self._samples = partial(
            samples,
            *(self._address, self._sampling_type, self._newer_than_us),
            *(byref(self._value_type), byref(rows.count), rows.place),
        )
        self._energy = library.function(ENERGY) or _missing
        self._millijoules = c_ulonglong(0)
        self._energy_arguments = self._address, byref(self._millijoules)
        # Some Blackwell drivers return nothing from the older call (HAMi-core#218): both are made
        # until one of them has returned a row.
        ways = (self._legacy(), self._newer())
        self._ways = [way for way in ways if way is not None]

    def process_samples(self, newer_than_us: int) -> list[ProcessRow]:
        """Rows of the processes active since then, in microseconds of the samples' clock.

        Raises:
            NvmlError: UnmeasurableError if no call of this driver returns them (MIG, vGPU guests).

        """
        if len(self._ways) == 1:
            return self._ways[0](newer_than_us)
        failure: errors.NvmlError | None = None
        answered: list[ProcessCall] = []
        rows: list[ProcessRow] = []
        for way in self._ways:
            try:
                rows = way(newer_than_us)
            except errors.CallError as error:
                failure = error
                continue
            answered.append(way)
            if rows:
                break
        if not answered:
            raise failure or errors.error_of(errors.FUNCTION_NOT_FOUND, LEGACY)
        if rows:
            self._ways = answered[-1:]
        return rows

    def samples(self, engine: str, newer_than_us: int) -> list[BusySample]:
        """Samples of the whole device for one engine, oldest first, in percent, blank ones too.

        Raises:
            NvmlError: UnmeasurableError if the device keeps none.

        """
        self._newer_than_us.value = newer_than_us
        self._sampling_type.value = SAMPLING_TYPES[engine]
        rows = self._sample_rows.read(SAMPLES, self._samples)
        layout = SAMPLE_ROWS.get(self._value_type.value, UNSIGNED_ROW)
        samples = sorted(layout.iter_unpack(rows))
        if not samples or samples[0][0] > newer_than_us:  # the usual answer
            return samples
        return samples[bisect_left(samples, (newer_than_us + 1,)) :]

    def energy_uj(self) -> int:
        """Microjoules that the board used since the driver was loaded.

        Raises:
            NvmlError: UnmeasurableError before Volta.

        """
        code = self._energy(*self._energy_arguments)
        if code != errors.SUCCESS:
            raise errors.error_of(code, ENERGY)
        return self._millijoules.value * 1000

    def _legacy(self) -> ProcessCall | None:
        call = self._library.function(LEGACY)
        if call is None:
            return None
        buffer = RowBuffer(LEGACY_ROW.size)
        since = self._newer_than_us
        arguments = self._address, buffer.place, byref(buffer.count), since

        def ask(newer_than_us: int) -> list[ProcessRow]:
            since.value = newer_than_us
            rows = buffer.read(LEGACY, call, *arguments)
            return list(LEGACY_ROW.iter_unpack(rows))

        return ask

    def _newer(self) -> ProcessCall | None:
        call = self._library.function(NEWER)
        if call is None:
            return None
        buffer = RowBuffer(NEWER_ROW.size)
        info = _ProcessesUtilizationInfo(version=_ProcessesUtilizationInfo.VERSION)
        arguments = self._address, byref(info)

        def fill() -> int:
            info.count, info.rows = buffer.capacity, buffer.place.value
            code = call(*arguments)
            buffer.count.value = info.count
            return code

        def ask(newer_than_us: int) -> list[ProcessRow]:
            info.newer_than_us = newer_than_us
            rows = buffer.read(NEWER, fill)
            return [
                (pid, timestamp_us, core, memory, encoder, decoder)
                for timestamp_us, pid, core, memory, encoder, decoder in NEWER_ROW.iter_unpack(rows)
            ]

        return ask
