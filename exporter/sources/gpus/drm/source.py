"""The DRM source: finds the devices and their processes, and reads them in parallel."""

import logging
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from threading import Lock

from exporter.model import (
    Clock,
    DeviceReading,
    DeviceState,
    Reading,
    SourceStatus,
)
from exporter.sources.gpus.drm.device import DrmDevice
from exporter.sources.gpus.drm.discovery import DrmCard, discover
from exporter.sources.gpus.drm.holders import HandleScanner
from exporter.sources.gpus.pool import DeviceWorkers, Stuck
from exporter.sources.gpus.source import Demand, hangs

logger = logging.getLogger(__name__)

SECOND_NS = 10**9
LOOK = "look"  # the worker's key; no UUID
HUNG_NS = 5 * SECOND_NS  # so long the last scan stands in for one that hangs
LOOK_EVERY_S = 10.0  # for devices that came or went
SHARE_OF_DEADLINE = 0.5  # for the scan of the processes
RELEASED = "released on request"
NO_DEVICE = "no device of a DRM driver that reports its clients, or another source has it"
HANGS = "looking for devices and who has them open has not come back; see the kernel log"
UNANSWERED = "no device answers: the driver hangs; see the kernel log"
GONE = "its driver was unloaded, or it was taken out"


class DrmSource:
    """GPUs of the kernel's DRM drivers, as a ``GpuSource``.

    ``taken`` returns the PCI addresses of devices that other sources read; they are left out.
    ``computing`` returns the pids of processes with queues of KFD, whose time amdgpu does not
    count. ``any_driver``: also devices of drivers that are not known to report their clients.
    """

    name = "drm"

    def __init__(
        self,
        sys_root: str = "/sys",
        proc_root: str = "/proc",
        *,
        clock: Clock = time,
        taken: Callable[[], Collection[str]] = tuple,
        computing: Callable[[], Collection[int]] = tuple,
        any_driver: bool = False,
    ) -> None:
        self._sys, self._proc = sys_root, proc_root
        self._clock = clock
        self._taken = taken
        self._computing = computing
        self._any_driver = any_driver
        self._demand = Demand()
        self._holders = HandleScanner(proc_root, clock)
        self._workers = DeviceWorkers(clock, self.name)
        self._devices: dict[str, DrmDevice] = {}
        self._gone: set[str] = set()
        self._look_at_ns: int | None = None
        self._hangs = False
        self._lock = Lock()
        self._released = False
        self._last_success: int | None = None
        self._said = ""

    def read(self) -> Reading:
        """Reads every device within the deadline; see ``GpuSource.read``."""
        with self._lock:
            begun_ns = self._clock.monotonic_ns()
            self._look(begun_ns)
            if self._released:
                devices = tuple(self._off(d, DeviceState.RELEASED, RELEASED) for d in self._all())
            else:
                devices = self._read(begun_ns)
            return Reading(self._status(devices, self._clock.monotonic_ns() - begun_ns), devices)

    def release(self, released: bool) -> None:  # noqa: FBT001 - a state, not an option
        """Stops reading (True), or begins again (False)."""
        with self._lock:
            if self._released and not released:
                self._holders = HandleScanner(self._proc, self._clock)
                for device in self._devices.values():
                    device.restart()
            self._released = released

    def follow(self, demand: Demand) -> None:
        """Applies a demand from the next read on."""
        with self._lock:
            self._demand = demand

    def close(self) -> None:
        """Ends the workers; no device is open."""
        self._workers.close()

    def _look(self, now_ns: int) -> None:
        """Finds the devices, if due, and their processes. A worker does it, because it may hang."""
        is_due = self._look_at_ns is None or now_ns >= self._look_at_ns
        if not is_due and not self._devices:
            return
        job = partial(self._seek, self._holders, is_due=is_due, released=self._released)
        result = self._workers.run({LOOK: job}, self._demand.deadline_s)[LOOK]
        self._hangs = isinstance(result, Stuck) and now_ns - result.since_mono_ns >= HUNG_NS
        if isinstance(result, Exception):
            raise result
        if isinstance(result, tuple) and not isinstance(result, Stuck):
            self._look_at_ns = now_ns + int(LOOK_EVERY_S * SECOND_NS)
            self._sync(*result)

    def _seek(
        self, holders: HandleScanner, *, is_due: bool, released: bool
    ) -> tuple[tuple[DrmCard, ...], Collection[str]] | None:
        """Scans the processes; the devices, and those of other sources, if due."""
        found: tuple[DrmCard, ...] = ()
        taken: Collection[str] = ()
        if is_due:
            taken = self._taken()
            found = discover(self._sys, self._proc, taken=taken, any_driver=self._any_driver)
        if (found or self._devices) and not released:
            demand = self._demand
            holders.look(demand.processes_every_ns, SHARE_OF_DEADLINE * demand.deadline_s)
        return (found, taken) if is_due else None

    def _sync(self, found: tuple[DrmCard, ...], taken: Collection[str]) -> None:
        """Updates the devices. Devices that are gone are remembered."""
        here = {each.device.uuid: each for each in found}
        for uuid, each in here.items():
            known = self._devices.get(uuid)
            if known is None or known.found != each:
                logger.info("device %s: %s, %s", uuid, each.device.model, each.driver)
                uncounted = self._computing if each.driver == "amdgpu" else tuple
                self._devices[uuid] = DrmDevice(each, self._proc, self._clock, uncounted)
            elif uuid in self._gone:
                known.restart()
        for uuid in [u for u, d in self._devices.items() if d.found.device.pci_bus_id in taken]:
            del self._devices[uuid]
        self._gone = self._devices.keys() - here.keys()

    def _all(self) -> tuple[DrmDevice, ...]:
        return tuple(self._devices.values())

    def _read(self, begun_ns: int) -> tuple[DeviceReading, ...]:
        demand = self._demand
        scan = self._holders.newest
        if scan is None:  # the first scan is not finished
            return tuple(DeviceReading(device.found.device) for device in self._all())
        if self._hangs:
            scan = replace(scan, stale=True)
        jobs = {
            uuid: partial(device.read, scan, demand)
            for uuid, device in self._devices.items()
            if uuid not in self._gone
        }
        spent_s = (self._clock.monotonic_ns() - begun_ns) / SECOND_NS
        results = self._workers.run(jobs, max(demand.deadline_s - spent_s, 0.0))
        return tuple(self._reading(device, results) for device in self._all())

    def _reading(self, device: DrmDevice, results: Mapping[str, object]) -> DeviceReading:
        result = results.get(device.found.device.uuid)
        if isinstance(result, DeviceReading):
            return result
        if result is None:
            return self._off(device, DeviceState.LOST, GONE)
        if isinstance(result, Stuck):
            waited_s = (self._clock.monotonic_ns() - result.since_mono_ns) / SECOND_NS
            detail = f"the driver has not answered for {waited_s:.1f} s"
            return self._off(device, DeviceState.STUCK, detail)
        return self._off(device, DeviceState.FAILED, repr(result)[:200])

    @staticmethod
    def _off(device: DrmDevice, state: DeviceState, detail: str) -> DeviceReading:
        return DeviceReading(device.found.device, state, detail)

    def _status(self, devices: tuple[DeviceReading, ...], duration_ns: int) -> SourceStatus:
        hung = hangs(devices)
        up = bool(devices) and not hung and not self._released
        seen = NO_DEVICE if not devices else HANGS if self._hangs else self._holders.trouble
        detail = RELEASED if self._released else UNANSWERED if hung else seen
        if up:
            self._log(HANGS if self._hangs else "")
            self._last_success = self._clock.time_ns()
        return SourceStatus(self.name, up, detail, duration_ns, self._last_success)

    def _log(self, detail: str) -> None:
        """Logs a hang of a source that is up, once. ``HandleScanner`` logs missing processes."""
        if detail and detail != self._said:
            logger.warning("source drm: %s", detail)
        self._said = detail
