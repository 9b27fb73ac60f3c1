"""The AMD source with the cross-check beside it, and the check's state as a source of its own."""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from exporter.model import DeviceReading, Reading
from exporter.sources.gpus.amd.files import RefusedError, names_in, read_text
from exporter.sources.gpus.amd.smi.check import SOURCE, SmiCheck, Verdict
from exporter.sources.gpus.source import Demand, GpuSource

RELEASED = "released on request"
DISABLED = "nobody is shown what it finds (--metrics.disable)"
GROUP = "crosscheck"  # of the family
_NAMELESS = re.compile(r"AMD(?: 0x[0-9a-f]{1,6})?", re.ASCII)  # what sysfs has no name for


class CheckedSource:
    """Wraps the AMD source: its readings go through as they are, but for a verdict and a name."""

    def __init__(self, source: GpuSource, check: SmiCheck, sysfs: Path) -> None:
        self._source = source
        self._check = check
        self._cards = sysfs / "class/drm"
        self._demand = Demand()
        self._rest = ""

    @property
    def name(self) -> str:
        """The wrapped source's."""
        return self._source.name

    def read(self) -> Reading:
        """Read it; see ``GpuSource.read``."""
        reading = self._source.read()
        rest = self._rest or (DISABLED if GROUP in self._demand.disabled else "")
        verdicts = self._check.turn(reading.devices, rest, self._asleep)
        if not verdicts:
            return reading
        return reading._replace(devices=tuple(_with(d, verdicts) for d in reading.devices))

    def release(self, released: bool) -> None:  # noqa: FBT001 - a state, not an option
        """Pass it on; the library then closes its device files."""
        self._rest = RELEASED if released else ""
        self._source.release(released)

    def follow(self, demand: Demand) -> None:
        """Pass it on."""
        self._demand = demand
        self._source.follow(demand)

    def close(self) -> None:
        """Pass it on."""
        self._source.close()
        self._check.close()

    def _asleep(self) -> bool:
        """Whether any card sleeps: which of them the library would wake is not told."""
        if self._demand.wake:
            return False
        try:
            cards = [self._cards / name for name in names_in(self._cards)]
            states = [read_text(card / "device/power/runtime_status") for card in cards]
        except RefusedError:
            return True
        return "suspended" in states


def _with(reading: DeviceReading, verdicts: Mapping[str, Verdict]) -> DeviceReading:
    """The reading with what was found of its board."""
    device = reading.device
    verdict = verdicts.get(device.parent_uuid or device.uuid)
    if verdict is None:
        return reading
    if verdict.name and _NAMELESS.fullmatch(device.model):
        reading = reading._replace(device=replace(device, model=verdict.name))
    if device.parent_uuid or not verdict.mismatch:
        return reading
    return reading._replace(sensors=replace(reading.sensors, crosscheck=verdict.mismatch))


class SmiSource:
    """How the cross-check fares. It lists no device, and whoever reads the boards drives it."""

    name = SOURCE

    def __init__(self, check: SmiCheck) -> None:
        self._check = check

    def read(self) -> Reading:
        """The state as of the last turn."""
        return Reading(self._check.status)

    def release(self, released: bool) -> None:  # noqa: FBT001 - a state, not an option
        """The other one is told."""

    def follow(self, demand: Demand) -> None:
        """The other one is told."""

    def close(self) -> None:
        """The other one closes the check."""
