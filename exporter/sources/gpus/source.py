"""The seam of this room: what every GPU source offers to the collector."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from exporter.model import DeviceReading, DeviceState, Reading


@dataclass(frozen=True, slots=True)
class Demand:
    """What is wanted of a source at run time. One that has no use for a part of it ignores that.

    ``deadline_s`` is for a whole read; ``disabled`` are groups of metric families that nobody is
    shown, so that what only they need is not to be asked for. ``wake``: a device may be woken, and
    kept awake, by being read.
    """

    deadline_s: float = 0.8
    processes_every_s: float = 5.0
    sensors_every_s: float = 5.0
    disabled: frozenset[str] = frozenset()
    wake: bool = False


class GpuSource(Protocol):
    """One way to read GPUs: a vendor's library, a kernel interface, a simulation."""

    @property
    def name(self) -> str:
        """The label value of ``mgpu_exporter_source_up``."""
        ...

    def read(self) -> Reading:
        """Read every device, within the source's own deadline, whatever the driver does.

        Never raises for the driver's or a device's failure: the state is in the Reading. A device
        that hangs is reported stuck and read again when its call has come back.

        Raises:
            RestartRequiredError: only a new process can help (library and driver disagree).

        """
        ...

    def release(self, released: bool) -> None:  # noqa: FBT001 - a state, not an option
        """Let go of the driver (True) so that it can be unloaded, or take it up again (False)."""
        ...

    def follow(self, demand: Demand) -> None:
        """Read by this from the next read on; never called beside ``read``. Counters go on."""
        ...

    def close(self) -> None:
        """Give everything back. A hung call is left behind, never waited for."""
        ...


class RestartRequiredError(Exception):
    """Only a restart of the exporter helps; the message says why."""


def hangs(devices: Iterable[DeviceReading]) -> bool:
    """Whether none answers of those that are there: one that is lost says nothing of the others."""
    return {device.state for device in devices} - {DeviceState.LOST} == {DeviceState.STUCK}
