"""What NVML tells by number: any list of field values in one call.

Stands on ``nvmlDeviceGetFieldValues``, which asks the driver once for all fields that come from the
same place. Each value has its own return code.
"""

import struct
from collections.abc import Collection
from ctypes import byref, c_char, c_int, c_void_p, cast
from math import isfinite
from typing import Any, NamedTuple

from exporter.gpus.nvml import errors
from exporter.gpus.nvml.library import Library

FIELD_VALUES = "nvmlDeviceGetFieldValues"
ROW = struct.Struct("=IIqqIi8s")  # nvmlFieldValue_t: id, scope, µs, latency, type, code, value
VALUES = {  # by nvmlValueType_t
    kind: struct.Struct(f"={value}")
    for kind, value in enumerate(("d", "I4x", "Q", "Q", "q", "i4x", "H6x"))
}


class Field(NamedTuple):
    """A field's number (``NVML_FI_*``) and its scope, which is a link's number for NVLink."""

    number: int
    scope: int = 0


class Request(NamedTuple):
    """A list of fields: its bytes before it is asked, those that the driver fills, the call's."""

    blank: bytes
    rows: bytearray
    arguments: tuple[object, ...]


class FieldValues:
    """The field values of one device. One thread at a time."""

    def __init__(self, library: Library, handle: Any) -> None:  # noqa: ANN401 - pynvml's pointer
        self._address = cast(handle, c_void_p)
        self._call = library.function(FIELD_VALUES)

    def request(self, fields: Collection[Field]) -> Request:
        """What asks for these fields, as often as it is read."""
        blank = b"".join([ROW.pack(*field, 0, 0, 0, 0, b"") for field in fields])
        rows = bytearray(blank)
        place = (c_char * len(rows)).from_buffer(rows)
        return Request(blank, rows, (self._address, c_int(len(fields)), byref(place)))

    def read(self, request: Request) -> list[float | errors.NvmlError]:
        """Ask for all of its fields at once; each has its value or its own failure, in order.

        Raises:
            NvmlError: the call as a whole failed.

        """
        if self._call is None:
            raise errors.error_of(errors.FUNCTION_NOT_FOUND, FIELD_VALUES)
        blank, rows, arguments = request
        rows[:] = blank
        code = self._call(*arguments)
        if code != errors.SUCCESS:
            raise errors.error_of(code, FIELD_VALUES)
        return [_value(row) for row in ROW.iter_unpack(rows)]


def _value(row: tuple[Any, ...]) -> float | errors.NvmlError:
    number, _, _, _, kind, code, raw = row
    if code != errors.SUCCESS:
        if code == errors.INVALID_ARGUMENT:  # a number that this driver does not know yet
            code = errors.FUNCTION_NOT_FOUND
        return errors.error_of(code, f"{FIELD_VALUES}({number})")
    if kind not in VALUES:
        return errors.error_of(errors.UNKNOWN, f"{FIELD_VALUES}({number})")
    value: float = VALUES[kind].unpack(raw)[0]
    return value if isfinite(value) else errors.error_of(errors.UNKNOWN, FIELD_VALUES)
