"""The DRM source: finds the devices and their processes, and reads them as a fleet."""

import logging
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial

from exporter.agent.sources import door
from exporter.agent.sources.gpus.drm.drmboard import DrmBoard, PowerState, RuntimeSleep
from exporter.agent.sources.gpus.drm.drmclients import ClientUse, DeviceClients, activities_of
from exporter.agent.sources.gpus.drm.drmdiscovery import (
    COPY,
    CORE,
    DECODER,
    DRIVERS,
    ENCODER,
    DriverTraits,
    DrmCard,
    DrmCards,
    discover,
    role_of,
)
from exporter.agent.sources.gpus.drm.fdinfo import LOCAL, OF_AN_APU, held_by
from exporter.agent.sources.gpus.drm.holders import HandleScan, WorkerScans
from exporter.agent.sources.gpus.energy import with_energy
from exporter.agent.sources.gpus.fleet import GONE, Fleet, Readings
from exporter.agent.sources.gpus.gpusource import Demand
from exporter.agent.sources.gpus.sysfs import NotedReads
from exporter.agent.sources.proc import OwnersOfProcesses
from exporter.model import (
    Clock,
    DeviceMemory,
    DeviceReading,
    DeviceState,
    Methods,
    Unmeasured,
    Window,
)

logger = logging.getLogger(__name__)

ROLES = (CORE, ENCODER, DECODER)
UNNAMED = (
    "fdinfo of this kernel names no client with engines: who uses the device is not known (i915 "
    "and amdgpu do from Linux 5.19 on, xe from 6.11)"
)
UNMEASURED = {"memory_active": Unmeasured.NOT_SUPPORTED}


class DrmDevice:
    """Reads one device. ``read`` runs in one thread at a time.

    The device's busy time is the sum of its clients' core time, at most the elapsed time, because
    not all drivers report the whole device. Some processes have core time that no engine counts
    (``uncounted`` returns their pids): while one uses the device, its core time is not measured.
    """

    def __init__(
        self,
        found: DrmCard,
        proc_root: str,
        clock: Clock,
        uncounted: Callable[[], Collection[int]] = tuple,
    ) -> None:
        self.found = found
        self._proc = proc_root
        self._uncounted = uncounted
        self._clock = clock
        self._driver = DRIVERS.get(found.driver, DriverTraits({}))
        self._board = DrmBoard(found.card, found.driver)
        self._rest = RuntimeSleep(f"{found.card}/device/power")
        self._clients = self._begin_reading()
        self._has_uncounted = False
        self._reported: set[str] = set()  # quantities of some client's engines
        self._silent = False  # a client was read that has no engine
        self._unnamed = False  # descriptors name no client
        self._memory: DeviceMemory | None = None
        self._end_ns: int | None = None
        self._ended_mono_ns = 0
        self._missed = False
        self._sensed_mono_ns: int | None = None

    def restart(self) -> None:
        """Begins again after a time without reads, which is unobserved."""
        self._clients = self._begin_reading()
        self._board.energy.restart()
        self._missed = True

    def _begin_reading(self) -> DeviceClients:
        addresses = {self.found.device.pci_bus_id, *self.found.functions}
        return DeviceClients(self.found.minors, addresses, self._proc)

    def unread(self, state: DeviceState, detail: str) -> tuple[DeviceReading, ...]:
        return (DeviceReading(self.found.device, state, detail),)

    def read(self, demand: Demand, scan: HandleScan | None) -> tuple[DeviceReading, ...]:
        """Reads what can be read now; nothing before the first scan of the processes."""
        if scan is None:
            return (DeviceReading(self.found.device),)
        if door.is_gone(self.found.card):
            self.restart()
            return self.unread(DeviceState.LOST, GONE)
        blind, now_ns = scan.blind, self._clock.monotonic_ns()
        state = PowerState.AWAKE if demand.wake else self._rest.state(now_ns)
        skipped = self._driver.wakes and state is not PowerState.AWAKE
        window: Window | None = None
        if not skipped:
            use = self._clients.read(scan, now_ns)
            self._has_uncounted = bool(self._clients.holders(scan) & {*self._uncounted()})
            window = self._measure(scan, use, now_ns)
            idle = window is None or not window.busy.core
            if state is PowerState.AWAKE or not idle:
                self._rest.note(now_ns, idle=idle)
            self._memory = self._held(use, scan)
        elif state is PowerState.ASLEEP:  # the rest is read when it wakes
            self._clients.pause()
            window = self._cut(now_ns, {}, blind)
        if state is PowerState.AWAKE:
            window = self._with_energy(window, now_ns)
            sensed_ns = self._sensed_mono_ns
            if sensed_ns is None or now_ns - sensed_ns >= demand.sensors_every_ns:
                self._sensed_mono_ns = now_ns
                self._board.read(demand.disabled)
        elif window is not None:
            self._board.energy.sleep()
        reading = DeviceReading(
            self.found.device,
            window=window,
            memory=self._memory,
            sensors=self._board.sensors,
            detail=UNNAMED if self._says_nothing else "",
            unmeasured=self._unmeasured(demand, blind),
        )
        return (reading,)

    def _held(self, use: ClientUse, scan: HandleScan) -> DeviceMemory:
        found = self.found
        used = self._board.memory_used(shares_host=found.shares_host)
        regions = OF_AN_APU if found.shares_host else LOCAL
        memory = held_by(use.clients, found.device, used, scan.cut | use.unread, regions)
        if used == 0 and any(process.used_bytes for process in memory.processes or ()):
            memory = replace(memory, used_bytes=None)  # they have some, and it is not all
        is_unknown = scan.blind or (self._says_nothing and not use.clients)
        return replace(memory, processes=None) if is_unknown else memory

    def _measure(self, scan: HandleScan, use: ClientUse, now_ns: int) -> Window | None:
        # What a driver reports is known only from a client that has used it. What was reported
        # once is measured from then on, also while no client has any.
        for _, client in use.clients:
            roles = {role_of(client.driver, name) for name in client.engines}
            self._reported |= {role for role in roles if role is not None}
            self._silent = self._silent or not client.engines
        self._unnamed = self.found.is_early or self._clients.is_unnamed(scan)
        window = self._cut(now_ns, use.used, scan.blind)
        cut = frozenset[int]() if scan.blind else scan.cut | use.cut
        return window and window._replace(unmeasured_pids=cut)

    def _cut(
        self, now_ns: int, used: Mapping[int, Mapping[str, int]], blind: Unmeasured | None
    ) -> Window | None:
        """The window since the last one, with this use; None at the first call."""
        start_ns, elapsed_ns = self._end_ns, now_ns - self._ended_mono_ns
        self._ended_mono_ns = now_ns
        if start_ns is None:
            self._end_ns = self._clock.time_ns()
            return None
        self._end_ns = start_ns + elapsed_ns
        measured = self._measured(blind or self._unprofiled())
        observed_ns, self._missed = 0 if self._missed else elapsed_ns, False
        busy, processes = activities_of(used, measured, observed_ns)
        has_copies = COPY in self._reported or COPY in self._driver.roles.values()
        copied = {pid: own[COPY] for pid, own in used.items() if own.get(COPY)}
        return Window(
            start_ns,
            self._end_ns,
            observed_ns=observed_ns,
            unobserved_ns=elapsed_ns - observed_ns,
            busy=busy,
            processes=processes,
            methods=Methods("fdinfo", "fdinfo") if measured else Methods(),
            counted={COPY: copied} if measured and has_copies else {},
        )

    def _unprofiled(self) -> Unmeasured | None:
        """Why engines are not counted now; None if they are."""
        # panfrost and panthor count only while somebody has switched profiling on. Else their
        # counters stand still, which is no evidence that nothing worked.
        bits, reads = self._driver.profiling, NotedReads()
        if not bits or bits & (reads.number(f"{self.found.card}/device/profiling") or 0):
            return None
        return reads.reason or Unmeasured.NOT_SUPPORTED

    def _measured(self, missing: Unmeasured | None) -> list[str]:
        """The engines whose use is known now; none while something is missing that all need."""
        if missing:
            return []
        # A client without any engine shows that the driver does not count, unless it is one that
        # leaves out what a client has not used.
        if self._silent and not self._reported and not self._driver.omits_unused:
            return []
        if self._says_nothing:
            return []
        roles = [r for r in ROLES if r in self._reported or r in self._driver.roles.values()]
        return [r for r in roles if r != CORE] if self._has_uncounted else roles

    @property
    def _says_nothing(self) -> bool:
        """Whether nothing is known of clients: the kernel does not name them, or not their use.

        That is seen by what is there, because distributions bring newer drivers to older kernels.
        """
        return self._unnamed and not self._reported

    def _with_energy(self, window: Window | None, now_ns: int) -> Window | None:
        """Adds the energy since the last window. Without a window it waits for the next one."""
        if window is None and self._board.energy.begun:
            return None
        # Idle is who nobody uses: while not all of them could be read, that is not known.
        core_ns = window.busy.core if window and not window.unmeasured_pids else None
        energy = self._board.take_energy(now_ns, core_ns)
        return window and with_energy(window, energy, self._board.energy.method)

    def _unmeasured(self, demand: Demand, blind: Unmeasured | None) -> dict[str, Unmeasured]:
        missing = blind or self._unprofiled()
        measured = self._measured(missing)
        missing = missing or Unmeasured.NOT_SUPPORTED
        reasons = {**UNMEASURED, **{role: missing for role in ROLES if role not in measured}}
        if self._sensed_mono_ns is not None:
            reasons |= self._board.unmeasured(demand.disabled)
        processes = self._memory.processes if self._memory else None
        is_sized = any(process.used_bytes is not None for process in processes or ())
        if blind:
            reasons["memory"] = blind
        elif not is_sized and (self._says_nothing or self.found.device.memory_bytes is None):
            reasons["memory"] = Unmeasured.NOT_SUPPORTED
        return reasons


Found = tuple[DrmCards, Collection[str]]
"""The devices, and the PCI addresses of those that other sources read."""


class DrmSource(Fleet[Found, DrmDevice]):
    """GPUs of the kernel's DRM drivers, as a ``GpuSource``.

    ``taken`` returns the PCI addresses of devices that other sources read; they are left out.
    ``computing`` returns the pids of processes with queues of KFD, whose time amdgpu does not
    count. ``any_driver``: also devices of drivers that are not known to report their clients.
    """

    name = "drm"
    look_every_s = 10.0
    no_device = "no device of a DRM driver that reports its clients, or another source has it"
    up_if_empty = False

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
        super().__init__(clock)
        self._sys, self._proc = sys_root, proc_root
        self._taken = taken
        self._computing = computing
        self._any_driver = any_driver
        owners = OwnersOfProcesses(proc_root, self._cgroup_of)
        self._scans = WorkerScans(proc_root, clock, self._workers, owners)
        self._unsure: Mapping[str, str] = {}  # what could not be read of cards

    def _look(self) -> Found:
        taken = self._taken()
        cards = discover(self._sys, self._proc, taken=taken, any_driver=self._any_driver)
        return cards, taken

    def _trouble(self) -> str:
        if self._unsure:
            return f"cards are taken as they were ({next(iter(self._unsure.values()))})"
        return self._scans.trouble if self._devices else ""

    def _jobs(self) -> Mapping[str, Callable[[], Readings]]:
        demand = self._demand
        scan = self._scans.newest(demand) if self._devices else None
        return {uuid: partial(each.read, demand, scan) for uuid, each in self._devices.items()}

    def _restart(self) -> None:
        self._scans.restart()
        for device in self._devices.values():
            device.restart()

    def _sync(self, found: Found) -> None:
        """Keeps unchanged devices; what happened while one was gone is unobserved."""
        (cards, self._unsure), taken = found
        before = {**self._gone, **self._devices}
        # Of a card that could not be read whole, what is known is what it was.
        unsure = {u: each for u, each in self._devices.items() if each.found.card in self._unsure}
        self._devices = {uuid: before.pop(uuid) for uuid in unsure}
        kept = {each.found.card for each in unsure.values()}
        for card in (each for each in cards if each.card not in kept):
            uuid = card.device.uuid
            known = before.pop(uuid, None)
            # A node that is missing from a list makes no other card of it.
            if known and card.minors < known.found.minors:
                card = replace(card, minors=known.found.minors)  # noqa: PLW2901 - as it was
            if known is None or known.found != card:
                logger.info("device %s: %s, %s", uuid, card.device.model, card.driver)
                uncounted = self._computing if card.driver == "amdgpu" else tuple
                known = DrmDevice(card, self._proc, self._clock, uncounted)
            elif uuid in self._gone:
                known.restart()
            self._devices[uuid] = known
        self._gone = {u: d for u, d in before.items() if d.found.device.pci_bus_id not in taken}
