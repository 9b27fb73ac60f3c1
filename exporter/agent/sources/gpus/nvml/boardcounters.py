"""Counters of a board: throttling, memory errors and traffic, read as NVML's field values.

They count since the driver was loaded or the board was reset, and fall only then. PCIe traffic is
summed up here, because the driver's counter wraps. ``nvmlDeviceGetFieldValues`` reads any list of
fields in one call; each value has its own return code.
"""

import re
import struct
from collections.abc import Collection, Iterator, Mapping, Sequence
from ctypes import byref, c_char, c_int, c_void_p, cast
from math import isfinite
from typing import Any, NamedTuple

from exporter.agent.sources.gpus.gpusource import Demand
from exporter.agent.sources.gpus.nvml import errors
from exporter.agent.sources.gpus.nvml.cadence import COUNTERS, SAMPLES, SENSORS, ReadPhases
from exporter.agent.sources.gpus.nvml.calls import VALUE_TYPES
from exporter.agent.sources.gpus.nvml.library import Library
from exporter.agent.sources.gpus.nvml.refusals import Refusals, retry_of
from exporter.metrics.families import BOARD
from exporter.model import KIB

FIELD_VALUES = "nvmlDeviceGetFieldValues"
ROW = struct.Struct("=IIqqIi8s")  # nvmlFieldValue_t: id, scope, µs, latency, type, code, value
VALUES = {kind: struct.Struct(f"={value}") for kind, value in enumerate(VALUE_TYPES)}


class FieldId(NamedTuple):
    """A field's number (``NVML_FI_*``) and its scope, which is a link's number for NVLink."""

    number: int
    scope: int = 0


class Request(NamedTuple):
    """A list of fields: its blank bytes, the bytes that the driver fills, the call's arguments."""

    blank: bytes
    rows: bytearray
    arguments: tuple[object, ...]


class FieldValues:
    """The field values of one device. One thread at a time."""

    def __init__(self, library: Library, handle: Any) -> None:  # noqa: ANN401 - pynvml's pointer
        self._address = cast(handle, c_void_p)
        self._library = library

    def request(self, fields: Collection[FieldId]) -> Request:
        blank = b"".join([ROW.pack(*field, 0, 0, 0, 0, b"") for field in fields])
        rows = bytearray(blank)
        place = (c_char * len(rows)).from_buffer(rows)
        return Request(blank, rows, (self._address, c_int(len(fields)), byref(place)))

    def read(self, request: Request) -> list[float | errors.NvmlError]:
        """The value or the failure of each field, in order.

        Raises:
            NvmlError: the call as a whole failed.

        """
        blank, rows, arguments = request
        rows[:] = blank
        self._library.call(FIELD_VALUES, *arguments)
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


WRAPS_AT = 1 << 32
MAX_COUNTED = 1 << 63  # what is above is no count: the sum does without, for ever
PHASES = (SENSORS, COUNTERS, SAMPLES)  # of a reading, in which fields are read
ALL_LINKS = 0xFFFFFFFF  # a scope: the sum over the links (nvml.h)
PCIE = "pcie"
GROUPS = {family.name: family.group for family in BOARD}
"""By which group each family is switched off: what only such families need is not read."""


class FieldRow(NamedTuple):
    """A row of TABLE: a field, and its place in ``Sensors``. A family may have no label: ""."""

    topic: str  # of a refusal, and the quantity that is then unmeasured
    family: str
    label: str
    field: FieldId
    phase: str  # one of PHASES; the same for all of a topic and all of a family
    scale: int = 1


_SW_THERMAL, _HW_THERMAL, _HW_POWER_BRAKE = 269, 270, 271
THROTTLE = {
    "sw_power_cap": 74,
    "sync_boost": 76,
    "sw_thermal": _SW_THERMAL,
    "hw_thermal": _HW_THERMAL,
    "hw_power_brake": _HW_POWER_BRAKE,
}
LINK_ERRORS = {"crc_flit": 38, "crc_data": 45, "replay": 52, "recovery": 59}


def _errors(corrected: int, uncorrected: int) -> Mapping[str, int]:
    return {"corrected": corrected, "uncorrected": uncorrected}


def _ways(transmit: int, receive: int) -> Mapping[str, int]:
    return {"transmit": transmit, "receive": receive}


def _rows(
    topic: str,
    family: str,
    phase: str,
    numbers: Mapping[str, int],
    scope: int = 0,
    scale: int = 1,
) -> Iterator[FieldRow]:
    for label, number in numbers.items():
        yield FieldRow(topic, family, label, FieldId(number, scope), phase, scale)


TABLE = (
    *_rows("memory_temperature", "temperature_celsius", SENSORS, {"memory": 82}),
    *_rows("throttle", "throttle_seconds_total", COUNTERS, THROTTLE),
    *_rows("ecc_errors", "ecc_errors_total", COUNTERS, _errors(3, 4)),
    *_rows("retired_pages", "retired_pages", COUNTERS, _errors(29, 30)),
    *_rows("retired_pages", "retired_pages_pending", COUNTERS, {"": 31}),
    *_rows("recovery_action", "recovery_action", COUNTERS, {"": 230}),
    *_rows("pcie_replays", "pcie_replays_total", COUNTERS, {"": 94}),
    *_rows("nvlink_errors", "nvlink_errors_total", COUNTERS, LINK_ERRORS),
    *_rows("remapped_rows", "remapped_rows", COUNTERS, _errors(142, 143)),
    *_rows("remapped_rows", "row_remapping", COUNTERS, {"pending": 144, "failed": 145}),
    *_rows("nvlink", "nvlink_bytes_total", COUNTERS, _ways(138, 139), ALL_LINKS, KIB),
    *_rows(PCIE, "pcie_bytes_total", SAMPLES, _ways(197, 198)),
)


class Traffic:
    """Bytes in each direction since the start, out of counters of 32 bits or of differences."""

    def __init__(self) -> None:
        self._totals: dict[str, int] = {}
        self._before: dict[str, int] = {}

    def restart(self) -> None:
        """Takes the next values as where the counters begin: they may have been reset."""
        self._before.clear()

    def count(self, label: str, counter: int) -> int:
        """Adds a counter's value; returns the sum. Between two values it may wrap once."""
        before = self._before.get(label, counter)
        self._before[label] = counter
        moved = counter - before
        if moved < 0:
            moved = moved + WRAPS_AT if before < WRAPS_AT else 0  # a counter of more bits was reset
        return self.add(label, moved)

    def add(self, label: str, moved: int) -> int:
        self._totals[label] = self._totals.get(label, 0) + moved
        return self._totals[label]


class BoardCounters:
    """The counters of one board. Each is reused until its next read. One thread at a time.

    ``shown``: the values now, by family and label.
    """

    def __init__(
        self, library: Library, refusals: Refusals, demand: Demand, phases: ReadPhases
    ) -> None:
        self._library = library
        self._refusals = refusals
        self._cadence = phases.cadence(COUNTERS)
        self._disabled = demand.disabled
        self._retries = {phase: retry_of(library.clock) for phase in PHASES}
        self.traffic = Traffic()

    def follow(self, demand: Demand) -> None:
        """Applies another demand. Sums go on; values that are not read any more are dropped."""
        before = self._wanted
        self._disabled = demand.disabled
        self._begin()
        # What was moved while it was switched off is not counted: the counter may have wrapped
        # since.
        if not any(row.topic == PCIE for row in before[SAMPLES]):
            self.traffic.restart()

    def bind(self, handle: Any) -> None:  # noqa: ANN401 - pynvml's pointer
        """Uses another handle from now on; everything is due at once."""
        self._values = FieldValues(self._library, handle)
        self._begin()
        self.traffic.restart()

    def _begin(self) -> None:
        version = self._library.driver_version
        self._wanted: dict[str, tuple[FieldRow, ...]] = {}
        self._requests: dict[str, Request] = {}
        wanted = [
            row._replace(field=numbered(row.field, version))
            for row in TABLE
            if GROUPS[row.family] not in self._disabled
        ]
        self._all = {phase: tuple(c for c in wanted if c.phase == phase) for phase in PHASES}
        for phase in PHASES:
            self._retries[phase].reset()
            self._want(phase, self._all[phase])
        self.shown: dict[str, Mapping[str, float]] = {c.family: {} for c in TABLE}
        self._cadence.restart()

    def _want(self, phase: str, wanted: tuple[FieldRow, ...]) -> None:
        self._wanted[phase] = wanted
        self._requests[phase] = self._values.request([row.field for row in wanted])

    def read(self, phase: str) -> None:
        """Reads the fields of this phase in one call."""
        retry = self._retries[phase]
        if len(self._wanted[phase]) < len(self._all[phase]) and retry.due:
            self._want(phase, self._all[phase])
        wanted = self._wanted[phase]
        if not wanted:
            return
        found: dict[str, dict[str, float]] = {}
        answers: Sequence[float | errors.NvmlError]
        try:
            answers = self._values.read(self._requests[phase])
        except errors.CallError as error:  # the call as a whole: no field has an answer
            answers = [error] * len(wanted)
        for row, answer in zip(wanted, answers, strict=True):
            values = found.setdefault(row.family, {})
            if isinstance(answer, errors.NvmlError):
                self._miss(row, answer)
            elif row.topic == PCIE and answer < MAX_COUNTED:
                values[row.label] = self.traffic.count(row.label, int(answer))
            else:
                values[row.label] = answer * row.scale
            if row.label in values:
                self._refusals.drop(row.topic)
        if len(self._wanted[phase]) < len(wanted):  # some were refused now
            retry.failed()
        self.shown.update(found)

    def _miss(self, row: FieldRow, error: errors.NvmlError) -> None:
        """Leaves a refused field out for some minutes. The last of a topic is a refusal of it."""
        if not isinstance(error, errors.CallError):
            raise error
        if isinstance(error, errors.UnmeasurableError):
            left = tuple(other for other in self._wanted[row.phase] if other != row)
            self._want(row.phase, left)
            # The counter may wrap any number of times while it is not read, so what it shows then
            # is where counting begins.
            if row.topic == PCIE:
                self.traffic.restart()
            if all(other.topic != row.topic for other in left):
                self._refusals.add(row.topic, error.reason)
        else:
            self._refusals.fail(row.topic, error)


def numbered(field: FieldId, driver_version: str) -> FieldId:
    """The field with the number that this driver has for it.

    Drivers from 575 to before 580.82 have the three thermal counters at 251 to 253, and power
    smoothing where they are in all later ones (nvidia-ml-py 12.575.51 to 13.580.65).
    """
    parts = re.match(r"(\d+)\.(\d+)", driver_version)
    early = parts is not None and (575, 0) <= tuple(map(int, parts.groups())) < (580, 82)
    thermal = _SW_THERMAL <= field.number <= _HW_POWER_BRAKE
    return field._replace(number=field.number - 18) if early and thermal else field
