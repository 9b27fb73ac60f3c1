"""Reads one NVIDIA device, once a cycle, in a worker thread.

``sources.gpus.window`` and ``sources.gpus.energy`` cut windows and energy. Their cursors survive a
lost handle and a restarted driver: what was missed meanwhile is unobserved, not zero. Windows of a
MIG instance come from ``instance``.
"""

import logging
from dataclasses import replace

from exporter.agent.sources.gpus.energy import with_energy
from exporter.agent.sources.gpus.gpusource import Demand
from exporter.agent.sources.gpus.nvml import errors
from exporter.agent.sources.gpus.nvml.cadence import ReadPhases
from exporter.agent.sources.gpus.nvml.cgrouplimits import CgroupOf
from exporter.agent.sources.gpus.nvml.engines import EngineReader, NvmlEnergy
from exporter.agent.sources.gpus.nvml.errors import HOLES, UUID, CallError, DeviceLostError
from exporter.agent.sources.gpus.nvml.events import NO_XIDS, XID, Xids, XidWatch
from exporter.agent.sources.gpus.nvml.gpm import GPM
from exporter.agent.sources.gpus.nvml.instance import InstanceActivity
from exporter.agent.sources.gpus.nvml.library import Library
from exporter.agent.sources.gpus.nvml.nvmlboard import BoardReader
from exporter.agent.sources.gpus.nvml.nvmldiscovery import MIG, DeviceHandle, instance, made_of
from exporter.agent.sources.gpus.nvml.nvmlprocesses import ResidentReader
from exporter.agent.sources.gpus.nvml.refusals import Backoff, Refusals, listing_of
from exporter.agent.sources.gpus.processpresence import ProcessPresence
from exporter.agent.sources.gpus.window import WindowCursor
from exporter.model import (
    QUANTITIES,
    Clock,
    Device,
    DeviceMemory,
    DeviceReading,
    DeviceState,
    Engines,
    Unmeasured,
    Window,
)

HALF_A_CYCLE_NS = 500_000_000
UNDER_MIG = dict.fromkeys(QUANTITIES, Unmeasured.MIG)
MENDABLE = (Unmeasured.NO_PERMISSION, Unmeasured.READ_FAILED)


logger = logging.getLogger(__name__)


class NvmlDevice:
    """Reads one device. ``read`` runs in one thread at a time, and never beside ``bind``."""

    def __init__(
        self,
        library: Library,
        found: DeviceHandle,
        clock: Clock,
        demand: Demand,
        xids: XidWatch,
        cgroup_of: CgroupOf,
    ) -> None:
        self.device = self._under_mps = found.device
        self._phases = ReadPhases(clock, demand)
        self._library = library = library.noted_by(self._phases.note_call)
        self._clock = clock
        self._demand = demand
        self._watch = xids
        self._refusals = Refusals(found.device.uuid, clock)
        self._engines = EngineReader(library, found.handle, self._refusals)
        self._residents = ResidentReader(
            library, found, self._refusals, demand, self._phases, cgroup_of
        )
        self._board = BoardReader(library, found.handle, self._refusals, demand, self._phases)
        self._energy = NvmlEnergy(self._engines, self._refusals, clock, found.device.model)
        self._cursor = self._new_cursor()
        self._cut: tuple[Window, ...] = ()  # windows that no reading has had yet
        self._presence, self._lists = ProcessPresence(), 0
        self._activity = InstanceActivity(library, self._refusals, clock, demand)
        self._end_ns: int | None = None
        self._ended_mono_ns = 0
        self._lost, self._lost_as = "", DeviceState.LOST
        self._mps = False
        self.divided = found.divided
        self._retry = Backoff(clock)
        self.bind(found)

    def bind(self, found: DeviceHandle) -> None:
        """Uses another handle: the driver was reopened, MIG was switched, or the device is back."""
        if self._coreless:
            # The old cursor is where the energy windows began: it would return their time again.
            self._cursor = self._new_cursor()
        self._found, self.device = found, found.device
        self._under_mps = replace(found.device, sharing="mps")
        self._refusals.forget()
        self._engines.bind(found.handle)
        self._activity.bind(found)
        self._residents.bind(found)
        self._board.bind(found.handle)
        self._lost = ""

    def _new_cursor(self) -> WindowCursor:
        return WindowCursor(self._engines, self._clock, self._energy)

    def mark_lost(self, detail: str, state: DeviceState = DeviceState.LOST) -> None:
        """Drops the handle. The device is looked for by UUID, with a back-off."""
        if not self._lost:
            what = "is lost" if state is DeviceState.LOST else "has no name now"
            logger.warning("device %s %s: %s; looking for it again", self.device.uuid, what, detail)
        if not self._lost or state is DeviceState.LOST:  # a refused name is no loss
            self._lost_as = state
        self._lost = detail
        self._retry.failed()

    def close(self) -> None:
        """Frees what the driver's library holds for this device."""
        self._board.close()
        self._activity.close()

    def read(self, demand: Demand) -> tuple[DeviceReading, ...]:
        """Reads everything that is due by this demand.

        Raises:
            DriverGoneError: the driver is not there; the handle is void.

        """
        failed = ""
        try:
            if not self._lost or self._found_again():
                if demand is not self._demand:
                    self._demand = demand
                    self._phases.follow(demand)
                    self._residents.demand = demand
                    self._board.follow(demand)
                    self._activity.follow(demand)
                reading = self._read_instance() if self.device.parent_uuid else self._read()
                self._retry.reset()
                return (reading,)
        except (DeviceLostError, CallError) as error:
            if error.call == UUID:
                # The handle may be another board's by now, and so may be what was cut by it.
                self._cut = ()
            if error.call == UUID or isinstance(error, DeviceLostError):
                self._lose(error)
            else:
                failed = str(error)
        finally:
            self._phases.add_up()
        if failed:
            return self.unread(DeviceState.FAILED, failed)
        return self.unread(self._lost_as, self._lost)

    def _lose(self, error: DeviceLostError | CallError) -> None:
        is_gone = isinstance(error, DeviceLostError) or error.code in HOLES
        self.mark_lost(str(error), DeviceState.LOST if is_gone else DeviceState.FAILED)

    def unread(self, state: DeviceState, detail: str) -> tuple[DeviceReading, ...]:
        xids = self._xids()
        reading = DeviceReading(
            *(self.device, state, detail),
            unmeasured={XID: xids.refusal} if xids.refusal else {},
            xids=xids.counts,
            costs=self._phases.costs,
        )
        return (reading,)

    def _found_again(self) -> bool:
        if not self._retry.due:
            return False
        try:
            handle = self._library.ask("nvmlDeviceGetHandleByUUID", self.device.uuid)
            self._library.ask(UUID, handle)  # a handle alone proves nothing
        except (DeviceLostError, CallError) as error:
            self._lose(error)
            return False
        logger.info("device %s is back", self.device.uuid)
        self.bind(self._found._replace(handle=handle))
        return True

    def _read(self) -> DeviceReading:
        is_seldom = bool(self._demand.samples_every_ns)
        holds = not (self._in_mig_mode and self.divided)
        self._residents.is_steady = self._presence.is_steady(self._clock.monotonic_ns() // 1000)
        if holds and is_seldom and self._residents.looks:
            # Before the rings: a process that came or went makes them due in this cycle.
            self._note(self._residents.read(frozenset(), look=True))
        is_due = self._is_due()
        if not is_due:
            self._energy.look()
            self._cursor.note_rates()
        self._cursor.absent_until_us = self._presence.absent_until_us
        # If a later call fails, the next reading has what was cut here.
        self._cut += self._windows() if is_due else ()
        active = frozenset([one.pid for window in self._cut for one in window.processes])
        seen, memory = frozenset[int](), None
        if holds:
            if not is_due and not self._coreless:
                active = seen = self._look()
            memory = self._residents.read(active, look=is_seldom)
            self._note(memory)
        if self._refusals.has_nothing:
            return self.unread(DeviceState.FAILED, "its calls fail; see the log")[0]
        sensors = self._board.read()
        xids = self._xids()
        no_xids = {XID: xids.refusal} if xids.refusal else {}
        # A rate above 100 % is no rate: the engine has none now, and how often that was is counted.
        impossible = self._engines.take_impossible()
        rejected = dict.fromkeys(impossible, Unmeasured.REJECTED_SAMPLES)
        self._phases.add_up()  # for their costs
        windows, self._cut = self._cut, ()
        return DeviceReading(
            device=self._as_shared(memory),
            window=windows[-1] if windows else None,
            earlier=windows[:-1],
            seen=seen,
            memory=memory,
            sensors=sensors,
            unmeasured={**self._unmeasured(), **no_xids, **rejected},
            xids=xids.counts,
            costs=self._phases.costs,
            rejected={"utilization": len(impossible)} if impossible else {},
            raw=self._cursor.raw if is_due else None,
        )

    def _look(self) -> frozenset[int]:
        """Reads the rows alone. Returns who worked, where lists are too costly to say who is there.

        Where they are not, it is done while a young process may end.
        """
        mono_us = self._clock.monotonic_ns() // 1000
        if not self._residents.looks:
            seen = self._cursor.look()
            self._presence.see(seen, mono_us)
            return seen
        if self._presence.may_lose(self._cursor.rows_read_us, mono_us):
            self._cursor.look()
        return frozenset()

    def _note(self, memory: DeviceMemory | None) -> None:
        """Takes the list of processes, if it was just read."""
        if memory is None or memory.processes is None or self._lists == self._residents.reads:
            return
        self._lists = self._residents.reads
        pids = frozenset([process.pid for process in memory.processes])
        self._presence.list(pids, self._clock.monotonic_ns() // 1000)

    def _renew(self) -> None:
        """Binds an instance again that was made again meanwhile.

        Its UUID is a hash of the chip and of the instance's numbers, which the next one with these
        numbers has too, whatever its profile. So the UUID alone does not say that it is the same.
        """
        handle, board = self._found.handle, self._found.board
        ask = self._library.ask
        attributes = self._refusals.attempt("attributes", ask, "nvmlDeviceGetAttributes", handle)
        if board is None or attributes is None:
            return
        if made_of(attributes, board) == (self.device.profile, self.device.core_share):
            return
        found = instance(self._library, board, handle)
        if found.device.uuid != self.device.uuid:  # the handle is another instance's now
            raise DeviceLostError(errors.NOT_FOUND, UUID)
        logger.info("device %s was made again, as %s", found.device.uuid, found.device.profile)
        self.bind(found)

    def _read_instance(self) -> DeviceReading:
        self._renew()
        woken = self._activity.read()
        memory = self._residents.read(frozenset(), at_once=woken)
        listed = memory is not None and memory.processes is not None
        unmeasured = self._unmeasured()
        # Without its processes the window has no owner: it goes on into the next cycle, unless they
        # are refused for long.
        is_refused = listing_of("compute") in self._refusals
        window = self._activity.take() if listed or is_refused else None
        self._phases.add_up()
        return DeviceReading(
            device=self._as_shared(memory),
            window=window,
            memory=memory,
            sensors=self._activity.sensors,
            unmeasured=unmeasured,
            costs=self._phases.costs,
        )

    @property
    def _in_mig_mode(self) -> bool:
        """Whether MIG is on: the board has power and energy, the instances have the rest.

        While it is not ``divided``, its processes hold memory of the board itself.
        """
        return self.device.sharing == MIG

    def _is_due(self) -> bool:
        """Whether rings and energy are read now; otherwise this cycle only looks."""
        every_ns = self._demand.samples_every_ns
        if not every_ns:
            return True
        if not self._coreless:
            return self._cursor.is_due(every_ns)
        if self._end_ns is None:
            return True
        is_due = self._clock.monotonic_ns() - self._ended_mono_ns >= every_ns - HALF_A_CYCLE_NS
        if not is_due:
            self._engines.power_mw()  # the cheapest question to which a lost board says so
        return is_due

    def _windows(self) -> tuple[Window, ...]:
        mono_ns = self._clock.monotonic_ns()
        if not self._in_mig_mode and self._engines.coreless and self._engines.try_core():
            self._cursor = self._new_cursor()  # see bind
        windows = () if self._coreless else self._cursor.next()
        if self._engines.trafficless:
            windows = tuple(w._replace(busy=w.busy._replace(memory_active=None)) for w in windows)
        if self._coreless:  # it may have found out just now
            windows = self._window_of_energy(mono_ns)
        if self._end_ns is None:
            self._end_ns, self._ended_mono_ns = self._clock.time_ns(), mono_ns
            self._energy.take(None)  # where the first window's energy is counted from
        if windows:
            self._end_ns, self._ended_mono_ns = windows[-1].end_unix_ns, mono_ns
        return windows

    @property
    def _coreless(self) -> bool:
        return self._in_mig_mode or self._engines.coreless

    def _window_of_energy(self, mono_ns: int) -> tuple[Window, ...]:
        """A window with the board's energy alone, if no engine can be measured."""
        start, passed_ns = self._end_ns, mono_ns - self._ended_mono_ns
        if start is None or passed_ns <= 0:
            return ()
        window = Window(start, start + passed_ns, passed_ns, 0, Engines())
        return (with_energy(window, self._energy.take(None), self._energy.method),)

    def _as_shared(self, memory: DeviceMemory | None) -> Device:
        if memory is not None and memory.processes is not None:  # else it stays as it was
            self._mps = any("mps" in process.kinds for process in memory.processes)
        return self._under_mps if self._mps else self.device

    def _unmeasured(self) -> dict[str, Unmeasured]:
        """Reason by unmeasured quantity, without those of families that are not shown.

        A board in MIG mode that is not ``divided`` has the memory of its processes itself.
        """
        reasons = dict(self._refusals.unmeasured(self._demand.disabled))
        if self.device.parent_uuid:
            return self._of_instance(reasons)
        if self._in_mig_mode:
            reasons |= UNDER_MIG
            if self.divided:
                reasons["memory"] = Unmeasured.MIG
        elif self._engines.coreless:  # also by a rate that is not refused, and says nothing
            reasons.setdefault("core", Unmeasured.NOT_SUPPORTED)
        if self._engines.trafficless:
            reasons.setdefault("memory_active", Unmeasured.NOT_SUPPORTED)
        if self._energy.method == "power":
            reasons.pop("energy", None)
        return {**self._energy.unmeasured, **reasons}

    def _of_instance(self, reasons: dict[str, Unmeasured]) -> dict[str, Unmeasured]:
        reasons |= {**UNDER_MIG, "energy": Unmeasured.MIG}
        if self._activity.measured:
            del reasons["core"]
        elif (why := self._refusals.reason(GPM)) in MENDABLE:
            reasons["core"] = why
        if "memory" in reasons:  # then the owner of the instance is unknown
            reasons["core"] = reasons["memory"]
        return reasons

    def _xids(self) -> Xids:
        if self.device.parent_uuid or XID in self._demand.disabled:
            return NO_XIDS
        return self._watch.of(self.device.uuid)
