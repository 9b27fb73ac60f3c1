"""A fleet: the devices of one kind of driver, read in parallel under a deadline.

What every source of real GPUs does is here: it looks for devices now and then, reads those that it
knows, and reports those that hang, fail, are gone or released. What differs between drivers are the
hooks of ``Fleet``.
"""

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import replace
from threading import Lock
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from exporter.agent.sources.door import UnreadError
from exporter.agent.sources.gpus.gpusource import (
    Demand,
    DeviceCgroups,
    NoCgroups,
    RestartRequiredError,
)
from exporter.agent.sources.gpus.pool import DeviceWorkers, Stuck
from exporter.model import Clock, DeviceReading, DeviceState, Reading, SourceStatus

logger = logging.getLogger(__name__)

SECOND = 10**9  # in nanoseconds
LOOK_AGAIN_S = 5.0  # the next look after a device or a look has failed
LOOK_SOON_S = 3.0  # between two looks for a device that somebody names
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 60.0  # between looks without a driver; it doubles each time
LOOK = "look"  # the worker's key for all that concerns the whole driver; no UUID
RELEASED = "released on request, so that the driver can be unloaded"
WAITS = "a driver call has not come back: the driver is opened again as soon as it has"
HANGS = "no device answers: the driver hangs; see the kernel log"
GONE = "it was taken out, or its driver was unloaded; it is used again when it is back"

Readings = tuple[DeviceReading, ...]


class FleetDevice(Protocol):
    """A device of a fleet, with its partitions if its driver reads them together."""

    def unread(self, state: DeviceState, detail: str) -> Readings:
        """Its readings if it was not read, with the reason. Called while a read may hang."""
        ...


FoundT = TypeVar("FoundT")
DeviceT = TypeVar("DeviceT", bound=FleetDevice)


class Fleet(ABC, Generic[FoundT, DeviceT]):
    """Finds and reads the devices of one kind of driver, as a ``GpuSource``.

    The hooks ``_look`` and ``_shut`` and the jobs run in workers: one that hangs costs the device
    that it was for. ``_look`` and ``_shut`` never run at once. All other hooks run in the caller's
    thread, one at a time, and must not wait.

    ``missed`` returns whether the node should have such devices. While it should not, a driver that
    is down and has none is absent.
    """

    name: ClassVar[str]
    look_every_s: ClassVar[float] = 30.0
    no_device: ClassVar[str]  # the status of a driver without a device
    up_if_empty: ClassVar[bool] = True  # whether such a driver is up
    kernel_log: ClassVar[str] = ""  # what to look for there if the driver hangs

    def __init__(self, clock: Clock = time, demand: Demand | None = None) -> None:
        self.missed: Callable[[], bool] = lambda: True
        self.cgroups: DeviceCgroups = NoCgroups()
        self._clock = clock
        self._demand = demand or Demand()
        self._workers = DeviceWorkers(clock, self.name)
        self._devices: dict[str, DeviceT] = {}  # by the key of their jobs
        self._gone: dict[str, DeviceT] = {}  # that are reported as lost
        self._lock = Lock()
        self._attached = False  # whether the devices are those of the driver as it is now
        self._released = False
        self._look_at_ns = self._looked_ns = 0
        self._pause_s = FIRST_PAUSE_S  # until the next look without a driver
        self._failing = 0
        self._changes = DeviceChanges()
        self._detail = ""
        self._last_success: int | None = None

    def read(self) -> Reading:
        with self._lock:
            began_ns = self._clock.monotonic_ns()
            if self._released:
                self._let_go()
                devices = self._all(DeviceState.RELEASED, RELEASED)
            else:
                devices = self.cgroups.charged(self._cycle(began_ns))
            return Reading(self._status(devices, self._clock.monotonic_ns() - began_ns), devices)

    def release(self, released: bool) -> None:  # noqa: FBT001 - a state, not an option
        """Closes the driver (True) as soon as no call is in progress, or opens it again (False)."""
        with self._lock:
            if self._released and not released:
                self._restart()
            self._released = released
            self._look_at_ns, self._pause_s = 0, FIRST_PAUSE_S
            if released:
                self._let_go()

    def follow(self, demand: Demand) -> None:
        with self._lock:
            before, self._demand = self._demand, demand
            # A viewer who comes or goes changes this figure alone: each scrape would cause a look.
            if before != replace(demand, samples_every_ns=before.samples_every_ns):
                self._look_at_ns = 0  # a look may do what it demands

    def look_soon(self) -> None:
        with self._lock:
            if self._attached:
                soon_ns = self._looked_ns + int(LOOK_SOON_S * SECOND)
                self._look_at_ns = min(self._look_at_ns, soon_ns)

    def close(self) -> None:
        """Closes the driver, unless a call hangs in it, and ends the workers."""
        self.release(True)
        self._workers.close()

    @abstractmethod
    def _look(self) -> FoundT:
        """Finds the devices, and opens the driver first if it is not attached.

        Raises:
            Exception: a failure is the source's detail (``_explain``), and is tried again.

        """

    @abstractmethod
    def _sync(self, found: FoundT) -> None:
        """Sets ``_devices`` and ``_gone``. Those of ``_hanging`` stay as they are.

        A new object in ``_devices`` is read in the same cycle, one that stays is not read again.
        """

    @abstractmethod
    def _jobs(self) -> Mapping[str, Callable[[], Readings]]:
        """A read of each device, by its key."""

    def _absent(self) -> str:
        """Why there is no driver, and so no device; "" unless that is certain."""
        return ""

    def _changed(self) -> bool:
        """Whether the driver says that its devices are others now, so that a look is due."""
        return False

    def _lost(self, error: Exception) -> bool:  # noqa: ARG002 - a hook
        """Whether after this failure the driver must be opened again."""
        return False

    def _fatal(self, error: Exception) -> str:  # noqa: ARG002 - a hook
        """Why only a new process can open the driver again, after this failure; "" if not so."""
        return ""

    def _explain(self, error: Exception) -> str:
        """What is wrong if a look failed, and what to do."""
        if isinstance(error, UnreadError):
            return f"devices are taken as they were: {error}"
        return repr(error)[:200]

    def _trouble(self) -> str:
        """What cannot be read although the driver answers, and what to do; "" if nothing."""
        return ""

    @property
    def _unreadable_devices(self) -> int:
        """How many devices the driver counts and cannot open."""
        return 0

    @property
    def _is_open(self) -> bool:
        """Whether there is something for ``_shut`` to close."""
        return False

    def _shut(self) -> None:
        """Closes the driver, with no call in progress."""

    def _restart(self) -> None:
        """Begins again after a release, of which nothing is known."""

    def _cycle(self, began_ns: int) -> Readings:
        if absent := self._absent():
            self._workers.forget((*self._devices, *self._gone))
            self._devices, self._gone = {}, {}
            self._attached, self._detail, self._look_at_ns = False, absent, 0
            return ()
        # As the jobs were made. A look may put others in their places.
        before = dict(self._devices)
        jobs: dict[str, Callable[[], object]] = dict(self._jobs()) if self._attached else {}
        if self._look_due():
            jobs[LOOK] = self._look
            self._looked_ns = began_ns
        results = self._workers.run(jobs, self._left_s(began_ns))
        if LOOK in results and results[LOOK] is None:  # the late end of a release
            results = self._workers.run(jobs, self._left_s(began_ns))
        if LOOK in results and self._apply(results.pop(LOOK)):
            # What the look brought is read in this cycle, too. Its series would else be missing
            # until the next.
            read = {u for u in results if self._devices.get(u) is before[u]}
            fresh = {uuid: job for uuid, job in self._jobs().items() if uuid not in read}
            new = self._workers.run(fresh, self._left_s(began_ns))
            results |= {uuid: _follows(results.get(uuid), each) for uuid, each in new.items()}
        return self._readings(results)

    @property
    def _hanging(self) -> Collection[str]:
        """The devices that a call uses which has not ended. After a restart there is none."""
        return {uuid for uuid in self._devices if self._attached and self._workers.busy([uuid])}

    def _left_s(self, began_ns: int) -> float:
        # All runs of a cycle share one deadline: the other sources wait for its end.
        spent_s = (self._clock.monotonic_ns() - began_ns) / SECOND
        return max(self._demand.deadline_s - spent_s, 0.0)

    def _look_due(self) -> bool:
        due = self._changed() or self._clock.monotonic_ns() >= self._look_at_ns
        # A driver is not opened again while a call of the time before is in it.
        return due and (self._attached or not self._workers.busy(self._devices))

    def _look_in(self, seconds: float) -> None:
        self._look_at_ns = self._clock.monotonic_ns() + int(seconds * SECOND)

    def _apply(self, result: object) -> bool:
        """Applies the result of a look. Returns whether devices were found."""
        if isinstance(result, Stuck):
            self._detail = self._waits(result)
            return False
        if isinstance(result, Exception):
            self._fail(result)
            return False
        before = tuple(self._devices)
        if not self._attached:
            self._workers.forget(before)  # with late results of the driver before
        self._sync(result)  # type: ignore[arg-type] # what _look returned
        self._workers.forget(set(before) - self._devices.keys())
        self._attached, self._detail = True, ""
        self._pause_s = FIRST_PAUSE_S
        self._look_in(self.look_every_s)
        return True

    def _fail(self, error: Exception) -> None:
        fatal = self._fatal(error)
        lost, self._detail = self._lost(error), fatal or self._explain(error)
        self._attached = self._attached and not lost
        if self._attached:
            self._look_in(LOOK_AGAIN_S)
        else:
            self._look_in(self._pause_s)
            self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)
        if fatal:  # whoever reads other vendors' cards too goes on: it is tried again
            raise RestartRequiredError(fatal) from error

    def _waits(self, stuck: Stuck) -> str:
        waited_s = (self._clock.monotonic_ns() - stuck.since_mono_ns) / SECOND
        return f"the driver has not answered for {waited_s:.1f} s; see the kernel log"

    def _readings(self, results: Mapping[str, object]) -> Readings:
        for result in results.values():
            # The first one is enough: all devices have the one driver.
            if isinstance(result, Exception) and self._lost(result):
                self._fail(result)
                break
        if not self._attached:
            return self._all(DeviceState.FAILED, self._detail)
        readings = [r for u, each in self._devices.items() for r in self._of(each, results[u])]
        readings += [r for each in self._gone.values() for r in each.unread(DeviceState.LOST, GONE)]
        self._changes.log(readings)
        failing = sum(reading.state is not DeviceState.UP for reading in readings)
        # Not for as long as any fails: one that stays broken would be looked for each five seconds.
        if failing > self._failing:
            self._look_in(LOOK_AGAIN_S)
        self._failing = failing
        return tuple(readings)

    def _of(self, device: DeviceT, result: object) -> Readings:
        if isinstance(result, Stuck):
            return device.unread(DeviceState.STUCK, self._waits(result))
        if isinstance(result, tuple):
            return result
        return device.unread(DeviceState.FAILED, repr(result)[:200])

    def _all(self, state: DeviceState, detail: str) -> Readings:
        devices = (*self._devices.values(), *self._gone.values())
        return tuple(reading for device in devices for reading in device.unread(state, detail))

    def _let_go(self) -> None:
        """Closes the driver unless a call is in progress: then the next read tries again."""
        self._attached = False
        for _ in range(2):  # the first run may return the late result of a look
            if self._workers.busy(self._devices):
                self._detail = WAITS
                return
            if not self._is_open:
                return
            self._workers.run({LOOK: self._shut}, self._demand.deadline_s)

    def _cgroup_of(self, pid: int) -> Hashable | None:
        """The container or group of a process, for bounds; the cgroups are set later."""
        return self.cgroups.owner_of(pid)

    def _status(self, devices: Readings, duration_ns: int) -> SourceStatus:
        # A lost device says nothing of the driver. If all others hang, it is the driver, and no
        # card.
        hung = {each.state for each in devices} - {DeviceState.LOST} == {DeviceState.STUCK}
        up = self._attached and not hung and (self.up_if_empty or bool(devices))
        detail = self._detail
        if self._released:
            detail = RELEASED
        elif hung:
            detail = HANGS + (self.kernel_log and f" for {self.kernel_log}")
        elif self._attached:
            detail = detail or self._trouble() or ("" if self._devices else self.no_device)
        if up:
            self._last_success = self._clock.time_ns()
        absent = not (up or devices or self.missed())
        unreadable = self._unreadable_devices if self._attached else None
        return SourceStatus(
            *(self.name, up, detail, duration_ns, self._last_success),
            absent=absent,
            unreadable=unreadable,
        )


def _follows(before: object, now: object) -> object:
    """The result of a device that replaces another one in this cycle, as when it is divided again.

    It has no window yet. The last one of the other is its: so no time and no energy is lost.
    """
    if not isinstance(before, tuple) or not isinstance(now, tuple):
        return now
    last = {each.device.uuid: each for each in before}
    return tuple(
        each._replace(window=last[each.device.uuid].window, earlier=last[each.device.uuid].earlier)
        if each.device.uuid in last and not each.windows
        else each
        for each in now
    )


class DeviceChanges:
    """Logs each change of a device's state once: one line for all of one cause."""

    def __init__(self) -> None:
        self._states: Mapping[str, DeviceState] = {}

    def log(self, readings: Sequence[DeviceReading]) -> None:
        """Compares these readings with those before. A device that is new counts as read before."""
        before, self._states = self._states, {r.device.uuid: r.state for r in readings}
        for uuid in before.keys() - self._states.keys():
            logger.info("device %s is no longer there", uuid)
        changed: dict[tuple[DeviceState, DeviceState], list[DeviceReading]] = {}
        for reading in readings:
            was = before.get(reading.device.uuid, DeviceState.UP)
            if reading.state is not was:
                changed.setdefault((was, reading.state), []).append(reading)
        for (was, state), of_these in changed.items():
            uuids = ", ".join(reading.device.uuid for reading in of_these)
            if state is DeviceState.UP:
                logger.info("devices are read again (before: %s): %s", was, uuids)
            else:
                logger.warning(
                    "devices are not read (%s): %s: %s; series are withheld until this ends",
                    *(state, uuids, of_these[0].detail),
                )


AnyFleet = Fleet[Any, Any]
