"""The NVML source: opens the driver and reads its devices in parallel, under a deadline."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Lock

from exporter.model import Clock, DeviceReading, DeviceState, Reading, SourceStatus
from exporter.sources.gpus.nvml import errors
from exporter.sources.gpus.nvml.device_registry import (
    UPGRADED,
    DeviceRegistry,
    DriverConnection,
    Enumeration,
)
from exporter.sources.gpus.nvml.events import XID, XidWatch
from exporter.sources.gpus.nvml.library import ROOTS
from exporter.sources.gpus.nvml.refusals import SECOND, Backoff
from exporter.sources.gpus.pool import DeviceWorkers, Stuck
from exporter.sources.gpus.source import Demand, RestartRequiredError, hangs

LOOK_EVERY_S = 30.0  # devices are enumerated: MIG instances come and go, and handles are reused
LOOK_AGAIN_S = 5.0  # the same after a device has failed
DRIVER = "driver"
NO_DEVICE = "the driver reports no device"
RELEASED = "released on request, so that the driver can be unloaded"
WAITS = "a driver call has not come back: the driver is opened again as soon as it has"


class NvmlSource:
    """NVIDIA GPUs, as a ``GpuSource``.

    Workers open, enumerate and close the driver, and read each device: a call that hangs costs the
    device that it was for. Devices are remembered, so that lost, stuck and released ones are
    reported.
    """

    name = "nvml"

    def __init__(
        self,
        library_path: str | None = None,
        *,
        roots: Sequence[Path] = ROOTS,
        clock: Clock = time,
        demand: Demand | None = None,
    ) -> None:
        self._clock = clock
        self._demand = demand or Demand()
        self._driver = DriverConnection(library_path, roots, clock)
        self._workers = DeviceWorkers(clock, self.name)
        self._xids = XidWatch(clock)
        self._registry = DeviceRegistry(self._workers, clock, self._demand, self._xids)
        self._lock = Lock()
        self._retry = Backoff(clock)
        self._attached = (
            False  # whether the devices' handles belong to the driver as it is open now
        )
        self._released = False
        self._look_at_ns = 0
        self._failing = 0
        self._detail = ""
        self._last_success: int | None = None

    def read(self) -> Reading:
        """Reads every device within the deadline; see ``GpuSource.read``."""
        with self._lock:
            began_ns = self._clock.monotonic_ns()
            if self._released:
                self._let_go()
                devices = self._registry.all(DeviceState.RELEASED, RELEASED)
            else:
                devices = self._cycle(began_ns)
            status = self._status(devices, self._clock.monotonic_ns() - began_ns)
            return Reading(status, devices, self._driver.tally.snapshot())

    def release(self, released: bool) -> None:  # noqa: FBT001 - a state, not an option
        """Closes the driver (True) as soon as no call is in progress, or reopens it (False)."""
        with self._lock:
            self._released = released
            self._retry.reset()
            if released:
                self._let_go()

    def follow(self, demand: Demand) -> None:
        """Applies a demand from the next read on."""
        with self._lock:
            self._demand = demand
            self._registry.follow(demand)
            self._look_at_ns = (
                0  # at once, because that is also when boards are registered for XIDs
            )

    def close(self) -> None:
        """Closes the driver, unless a call hangs in it, and ends the workers."""
        self.release(True)
        self._workers.close()

    def _cycle(self, began_ns: int) -> tuple[DeviceReading, ...]:
        jobs = dict(self._registry.jobs) if self._attached else {}
        if self._look_due():
            reopen = self._driver.is_open and not self._attached
            jobs[DRIVER] = self._reopen if reopen else self._driver.enumerate
        results = self._workers.run(jobs, self._demand.deadline_s)
        if DRIVER in results and results[DRIVER] is None:  # the late end of a release
            results = self._workers.run(jobs, self._demand.deadline_s)
        if DRIVER in results:
            attached_before = self._attached
            self._apply(results[DRIVER])
            if self._attached and not attached_before:
                spent_s = (self._clock.monotonic_ns() - began_ns) / SECOND
                left_s = max(self._demand.deadline_s - spent_s, 0.0)
                results = self._workers.run(self._registry.jobs, left_s)
        return self._readings(results)

    def _look_due(self) -> bool:
        if self._attached:
            return self._clock.monotonic_ns() >= self._look_at_ns
        return self._retry.due and not self._registry.busy

    def _look_in(self, seconds: float) -> None:
        self._look_at_ns = self._clock.monotonic_ns() + int(seconds * SECOND)

    def _apply(self, result: object) -> None:
        """Applies the result of opening and enumerating the driver."""
        if isinstance(result, RestartRequiredError):
            raise result
        if isinstance(result, Enumeration):
            self._registry.sync(result)
            self._watch(result)
            self._attached, self._detail = True, ""
            self._retry.reset()
            self._look_in(LOOK_EVERY_S)
        elif isinstance(result, Stuck):
            waited_s = (self._clock.monotonic_ns() - result.since_mono_ns) / SECOND
            self._detail = f"the driver has not answered for {waited_s:.1f} s"
        elif isinstance(result, errors.DriverGoneError) or not self._driver.is_open:
            self._mark_driver_lost(result)
        else:  # the enumeration failed, reading may go on
            self._detail = explain(result)
            self._look_in(LOOK_AGAIN_S)

    def _mark_driver_lost(self, reason: object) -> None:
        if isinstance(reason, errors.OtherVersionError):
            raise RestartRequiredError(UPGRADED) from reason
        self._attached, self._detail = False, explain(reason)
        self._retry.failed()

    def _readings(self, results: Mapping[str, object]) -> tuple[DeviceReading, ...]:
        if self._attached:
            try:
                devices = self._registry.readings(results)
            except errors.DriverGoneError as error:
                self._mark_driver_lost(error)
            else:
                failing = self._registry.failing
                if failing > self._failing:
                    self._look_in(LOOK_AGAIN_S)
                self._failing = failing
                return devices
        return self._registry.all(DeviceState.FAILED, self._detail)

    def _watch(self, enumeration: Enumeration) -> None:
        boards = (f for f in enumeration.devices.found if not f.device.parent_uuid)
        wanted = None if XID in self._demand.disabled else {f.device.uuid: f.handle for f in boards}
        self._xids.watch(enumeration.library, wanted)

    def _shut(self) -> None:
        """Closes the driver after the thread that waits for events has ended."""
        self._xids.stop()
        self._driver.shut()

    def _reopen(self) -> Enumeration:
        self._shut()
        return self._driver.enumerate()

    def _let_go(self) -> None:
        """Closes the driver unless a call is in progress: then the next read tries again."""
        self._attached = False
        for _ in range(2):  # the first run may return the late result of an enumeration
            if self._registry.busy:
                self._detail = WAITS
                return
            if not self._driver.is_open:
                return
            self._registry.close()
            self._workers.run({DRIVER: self._shut}, self._demand.deadline_s)

    def _status(self, devices: Sequence[DeviceReading], duration_ns: int) -> SourceStatus:
        hung = hangs(devices)
        detail = self._detail
        if self._released:
            detail = RELEASED
        elif hung:
            detail = "no device answers: the driver hangs; see the kernel log for NVRM and Xid"
        elif self._attached:
            detail = detail or self._registry.trouble or ("" if devices else NO_DEVICE)
        up = self._attached and not hung
        if up:
            self._last_success = self._clock.time_ns()
        return SourceStatus(self.name, up, detail, duration_ns, self._last_success)


def explain(reason: object) -> str:
    """Why there is no driver, and what to do about it, as text."""
    if isinstance(reason, errors.LibraryError):
        return (
            f"no NVIDIA management library: {reason.detail}; on a machine with NVIDIA GPUs "
            "install the driver, in a container mount its libraries, or name the file with "
            "--nvml.library"
        )
    if isinstance(reason, errors.NvmlError) and reason.code == errors.DRIVER_NOT_LOADED:
        return "the NVIDIA kernel driver is not loaded; it is opened as soon as it is"
    if isinstance(reason, errors.NvmlError):
        return str(reason)
    return repr(reason)
