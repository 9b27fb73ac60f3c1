"""The interface of every GPU source, as the collector uses it."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Protocol

from exporter.agent.settings import Settings
from exporter.metrics.families import groups_without
from exporter.model import SECOND_NS, DeviceReading, Reading

DEADLINE_OF_INTERVAL = 0.8
LONGEST_S = 5.0
VIEWED_NS = 2 * SECOND_NS  # between two reads of rings while somebody looks, as the page is made


class DeviceCgroups(Protocol):
    """The cgroups of processes."""

    def home_of(self, pid: int) -> str | None:
        """The directory of the container or group of a process; None: unknown. Thread-safe."""
        ...

    def owner_of(self, pid: int) -> Hashable | None:
        """The container or group of a process, for bounds; None: unknown. Thread-safe."""
        ...

    def charged(self, readings: Sequence[DeviceReading]) -> tuple[DeviceReading, ...]:
        """The readings of a source with what the kernel says of their processes' cgroups."""
        ...


class NoCgroups:
    """None is known."""

    def home_of(self, pid: int) -> str | None:
        """None."""

    def owner_of(self, pid: int) -> Hashable | None:
        """None."""

    def charged(self, readings: Sequence[DeviceReading]) -> tuple[DeviceReading, ...]:
        """The readings as they are."""
        return tuple(readings)


@dataclass(frozen=True, slots=True)
class Demand:
    """The run-time settings of a source. A source ignores what does not apply to it.

    ``deadline_s`` is for a whole read, whatever the driver does. ``samples_every_ns``: how often
    rings and energy are read; 0: in each cycle. In between, a device is looked at for new
    processes, and for whether it is there. Process lists are read at once
    when an unknown process is active, but no sooner than ``processes_soonest_ns`` after the last:
    they lock the whole driver of NVIDIA. ``disabled`` are groups of metric families that are not
    shown: what only they need is not read. ``wake``: a read may wake a device and keep it awake.
    """

    deadline_s: float = 0.8
    samples_every_ns: int = 0
    processes_every_ns: int = 5 * SECOND_NS
    processes_soonest_ns: int = SECOND_NS
    sensors_every_ns: int = 5 * SECOND_NS
    disabled: frozenset[str] = frozenset()
    wake: bool = False


def demand_of(settings: Settings) -> Demand:
    """The demand of these settings.

    A cycle waits for the driver no longer than most of its interval, however it hangs.
    """
    deadline_s = min(DEADLINE_OF_INTERVAL * settings.collection_interval_ns / SECOND_NS, LONGEST_S)
    # A gauge is the average of some windows, also just before the next reading.
    every_ns = min(settings.collection_samples_interval_ns, settings.collection_window_ns // 3)
    return Demand(
        deadline_s=deadline_s,
        samples_every_ns=every_ns if every_ns > settings.collection_interval_ns else 0,
        processes_every_ns=settings.collection_processes_interval_ns,
        sensors_every_ns=settings.collection_sensors_interval_ns,
        disabled=groups_without(settings.metrics_left_out),
        wake=settings.drm_wake,
    )


class GpuSource(Protocol):
    """A way to read GPUs: a vendor's library, a kernel interface, or a simulation."""

    @property
    def name(self) -> str:
        """The label value of ``mgpu_exporter_source_up``."""
        ...

    def read(self) -> Reading:
        """Reads every device within the source's own deadline, whatever the driver does.

        A failure of the driver or of a device raises nothing: the state is in the Reading. A device
        that hangs is reported as stuck and is read again when its call has returned.

        Raises:
            RestartRequiredError: only a new process can help (library and driver do not match).
                Who goes on without one may read again.

        """
        ...

    def release(self, released: bool) -> None:  # noqa: FBT001 - a state, not an option
        """Closes the driver (True) so that it can be unloaded, or opens it again (False)."""
        ...

    def follow(self, demand: Demand) -> None:
        """Applies settings from the next read on; counters go on. Not called during ``read``."""
        ...

    def look_soon(self) -> None:
        """Looks for new devices at the next read, if the last look is some seconds past."""
        ...

    def close(self) -> None:
        """Frees all resources. Never waits for a call that hangs."""
        ...


class RestartRequiredError(Exception):
    """The exporter must be restarted; the message says why."""
