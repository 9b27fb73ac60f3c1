"""What a board counts by itself: throttling, memory errors, traffic. NVML's field values.

Counters are those of the driver, since it was loaded or the board reset, and fall only then. PCIe
traffic is summed up here, because the driver's counter wraps.
"""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from exporter.gpus.nvml import errors
from exporter.gpus.nvml.fields import Field, FieldValues
from exporter.gpus.nvml.library import Library
from exporter.gpus.nvml.parts import COUNTERS, SAMPLES, SENSORS, Parts
from exporter.gpus.nvml.refusals import Refusals
from exporter.gpus.nvml.timing import Wanted
from exporter.model import Unmeasured

KIB = 1 << 10
WRAPS_AT = 1 << 32
ALL_LINKS = 0xFFFFFFFF  # a scope: the sum over the links (nvml.h)
PCIE = "pcie"


class Counted(NamedTuple):
    """A field and its place: the entry ``label`` of the mapping ``sensor`` of ``Sensors``."""

    group: str  # of the metric families
    topic: str  # of a refusal, and the quantity that is then unmeasured
    sensor: str
    label: str
    field: Field
    part: str  # of a reading, with which it is asked for
    scale: int = 1


_SW_THERMAL, _HW_THERMAL, _HW_POWER_BRAKE = 269, 270, 271

TABLE = (
    Counted(
        "temperature", "memory_temperature", "temperature_celsius", "memory", Field(82), SENSORS
    ),
    Counted("throttle", "throttle", "throttle_ns", "sw_power_cap", Field(74), SENSORS),
    Counted("throttle", "throttle", "throttle_ns", "sync_boost", Field(76), SENSORS),
    Counted("throttle", "throttle", "throttle_ns", "sw_thermal", Field(_SW_THERMAL), SENSORS),
    Counted("throttle", "throttle", "throttle_ns", "hw_thermal", Field(_HW_THERMAL), SENSORS),
    Counted(
        "throttle", "throttle", "throttle_ns", "hw_power_brake", Field(_HW_POWER_BRAKE), SENSORS
    ),
    Counted("ecc", "ecc_errors", "ecc_errors", "corrected", Field(3), COUNTERS),
    Counted("ecc", "ecc_errors", "ecc_errors", "uncorrected", Field(4), COUNTERS),
    Counted("ecc", "remapped_rows", "remapped_rows", "corrected", Field(142), COUNTERS),
    Counted("ecc", "remapped_rows", "remapped_rows", "uncorrected", Field(143), COUNTERS),
    Counted("ecc", "remapped_rows", "row_remapping", "pending", Field(144), COUNTERS),
    Counted("ecc", "remapped_rows", "row_remapping", "failed", Field(145), COUNTERS),
    Counted("nvlink", "nvlink", "nvlink_bytes", "transmit", Field(138, ALL_LINKS), COUNTERS, KIB),
    Counted("nvlink", "nvlink", "nvlink_bytes", "receive", Field(139, ALL_LINKS), COUNTERS, KIB),
    Counted(PCIE, PCIE, "pcie_bytes", "transmit", Field(197), SAMPLES),
    Counted(PCIE, PCIE, "pcie_bytes", "receive", Field(198), SAMPLES),
)


class Traffic:
    """Bytes in each direction since the start, out of counters of 32 bits or of differences."""

    def __init__(self) -> None:
        self._totals: dict[str, int] = {}
        self._before: dict[str, int] = {}

    def restart(self) -> None:
        """The counters may have been reset: what comes next is where they begin."""
        self._before.clear()

    def count(self, label: str, counter: int) -> int:
        """Take in a counter's value; gives the sum. Between two, it may wrap once."""
        before = self._before.get(label, counter)
        self._before[label] = counter
        moved = counter - before
        if moved < 0:
            moved = moved + WRAPS_AT if before < WRAPS_AT else 0  # one of more bits was reset
        return self.add(label, moved)

    def add(self, label: str, moved: int) -> int:
        """Add what was moved; gives the sum."""
        self._totals[label] = self._totals.get(label, 0) + moved
        return self._totals[label]


class BoardCounters:
    """The counters of one board; each value stands until its next turn. One thread at a time."""

    def __init__(self, library: Library, refusals: Refusals, wanted: Wanted, parts: Parts) -> None:
        self._library = library
        self._refusals = refusals
        self._turns = parts.turns(COUNTERS)
        self._disabled = wanted.disabled
        self.traffic = Traffic()

    def follow(self, wanted: Wanted) -> None:
        """Ask for this from now on. Sums go on; what is not asked for any more is not shown."""
        before = self._wanted
        self._disabled = wanted.disabled
        self._begin()
        if not any(counted.topic == PCIE for counted in before.values()):
            self.traffic.restart()

    def attach(self, handle: Any) -> None:  # noqa: ANN401 - pynvml's pointer
        """Ask through another handle from now on, and for everything at once."""
        self._values = FieldValues(self._library, handle)
        self._begin()
        self.traffic.restart()

    def _begin(self) -> None:
        """Ask for everything that is wanted at once."""
        version = self._library.driver_version
        enabled = (counted for counted in TABLE if counted.group not in self._disabled)
        self._wanted = {numbered(counted.field, version): counted for counted in enabled}
        self._shown: dict[str, dict[str, float]] = {c.sensor: {} for c in TABLE}
        self._turns.restart()

    def read(self, part: str) -> None:
        """Ask for what belongs to this part of a reading, in one call.

        Raises:
            DriverGoneError: the driver is not there.
            DeviceLostError: the device is not there.

        """
        fields = [field for field, counted in self._wanted.items() if counted.part == part]
        for field, answer in self._ask(fields).items():
            self._take(field, answer)

    @property
    def shown(self) -> Mapping[str, Mapping[str, float]]:
        """What is known now, by field of Sensors."""
        return {sensor: dict(values) for sensor, values in self._shown.items()}

    def _ask(self, fields: list[Field]) -> Mapping[Field, float | errors.NvmlError]:
        try:
            return self._values.read(fields) if fields else {}
        except (errors.DriverGoneError, errors.DeviceLostError):
            raise
        except errors.NvmlError as error:
            return dict.fromkeys(fields, error)

    def _take(self, field: Field, answer: float | errors.NvmlError) -> None:
        counted = self._wanted[field]
        shown = self._shown[counted.sensor]
        if isinstance(answer, errors.DriverGoneError | errors.DeviceLostError):
            raise answer
        if isinstance(answer, errors.NvmlError):
            shown.pop(counted.label, None)
            if isinstance(answer, errors.UnmeasurableError):
                self._drop(field, answer.reason)
        elif counted.topic == PCIE:
            shown[counted.label] = self.traffic.count(counted.label, int(answer))
        else:
            shown[counted.label] = answer * counted.scale

    def _drop(self, field: Field, reason: Unmeasured) -> None:
        """Do not ask for this field again; say so if it was the last of its quantity."""
        topic = self._wanted.pop(field).topic
        if all(counted.topic != topic for counted in self._wanted.values()):
            self._refusals.add(topic, reason)


def numbered(field: Field, driver_version: str) -> Field:
    """Give a field the number that a driver knows it by.

    Drivers from 575 to before 580.82 have the three thermal counters at 251 to 253, and power
    smoothing where they are in all later ones (nvidia-ml-py 12.575.51 to 13.580.65).
    """
    parts = re.match(r"(\d+)\.(\d+)", driver_version)
    early = parts is not None and (575, 0) <= tuple(map(int, parts.groups())) < (580, 82)
    thermal = _SW_THERMAL <= field.number <= _HW_POWER_BRAKE
    return field._replace(number=field.number - 18) if early and thermal else field
