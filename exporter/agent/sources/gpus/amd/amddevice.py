"""Reads the window and the memory of one board or partition from its files.

The kernel documents no counter of its busy time, or of its processes'. So both are sampled once a
cycle, and the newest sample covers the time since the one before.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from exporter.agent.sources import door
from exporter.agent.sources.door import Absent, Cut, Failed, Refused, Whole
from exporter.agent.sources.gpus.amd.amddiscovery import KfdDevice
from exporter.agent.sources.gpus.amd.amdturns import ProcessTurns
from exporter.agent.sources.gpus.amd.gpumetrics import CENTRAL_GFX
from exporter.agent.sources.gpus.amd.kfd import copied_us, evicted_ms, occupied, vram
from exporter.agent.sources.gpus.amd.kfdcounters import CounterSums
from exporter.agent.sources.gpus.amd.kfdprocesses import KfdList, KfdProcess
from exporter.agent.sources.gpus.gpusource import Demand
from exporter.model import (
    Clock,
    DeviceMemory,
    Engines,
    Methods,
    ProcessActivity,
    ProcessMemory,
    Unmeasured,
    Window,
)

COMPUTE = frozenset({"compute"})
OF_PROCESSES = ("core", "memory")
OF_THE_DEVICE_ONLY = ("memory_active", "encoder", "decoder")  # no file has a process's part
COUNTED_BY = (("copy", 1000), ("evicted", 1_000_000))  # of what KFD counts, and its unit in ns
LONGEST_BEGINNING_NS = 30_000_000_000
MANY = 512  # processes whose files are read at once
LONGEST_NS = 5_000_000_000  # the most that one sample covers
LATELY_NS = 15_000_000_000  # a process that works in bursts is only now and then in a sample


class ActivitySample(NamedTuple):
    """The busy percentages of a device; None if not reported.

    ``covers_ns``: how much time before it the sample covers, at most.
    """

    core: float | None
    memory: float | None
    covers_ns: int = LONGEST_NS


class ActivityWindows:
    """Contiguous windows of one device, by the monotonic clock."""

    def __init__(self, share: float, units: int) -> None:
        self._share = share
        self._units = units
        self._end_unix_ns: int | None = None
        self._ended_mono_ns = 0
        self._last: Mapping[int, int] = {}
        self._last_mono_ns = 0

    def cut(
        self, sample: ActivitySample, cus: Mapping[int, int] | None, unix_ns: int, mono_ns: int
    ) -> Window | None:
        """The window that ends now; None before the first.

        ``cus``: compute units with waves of each process; None if not reported.
        """
        passed_ns = mono_ns - self._ended_mono_ns
        start_ns, self._ended_mono_ns = self._end_unix_ns, mono_ns
        if start_ns is None:
            self._end_unix_ns = unix_ns
            return None
        if passed_ns <= 0:
            return None
        self._end_unix_ns = start_ns + passed_ns
        # One sample is of a moment. It stands for the time since the sample before, but for no
        # more than some seconds: the rest of a long pause was not observed.
        observed_ns = min(passed_ns, sample.covers_ns)
        is_measured = sample.core is not None
        processes: tuple[ProcessActivity, ...] = ()
        if is_measured:
            # Each process's part of the device's compute units, as if it were so all the time. What
            # they add up to may differ from the device's time: the join scales them.
            at_work = self._at_work(cus or {})
            most_ns, units = int(observed_ns * self._share), max(self._units, *at_work.values(), 1)
            processes = tuple(
                ProcessActivity(pid, Engines(core=most_ns * occupied // units))
                for pid, occupied in at_work.items()
            )
        return Window(
            start_unix_ns=start_ns,
            end_unix_ns=self._end_unix_ns,
            observed_ns=observed_ns,
            unobserved_ns=passed_ns - observed_ns,
            busy=Engines(
                core=self._busy(sample.core, observed_ns),
                memory_active=self._busy(sample.memory, observed_ns),
            ),
            processes=processes,
            methods=Methods(
                busy="rates" if is_measured else "none",
                shares="cu_occupancy" if is_measured and cus is not None else "none",
            ),
        )

    def _busy(self, percent: float | None, observed_ns: int) -> int | None:
        return None if percent is None else int(observed_ns * self._share * percent / 100)

    def _at_work(self, cus: Mapping[int, int]) -> Mapping[int, int]:
        """The processes with waves in flight; if there are none now, those of the last time.

        A device that was busy, and idle at the sample, probably worked for one of those. Otherwise
        processes that work in short bursts would be charged too little.
        """
        here = {pid: occupied for pid, occupied in cus.items() if occupied}
        if here:
            self._last, self._last_mono_ns = here, self._ended_mono_ns
        elif self._ended_mono_ns - self._last_mono_ns <= LATELY_NS:
            return {pid: occupied for pid, occupied in self._last.items() if pid in cus}
        return here


class AmdDevice:
    """A board or partition, by KFD's files of its processes. One caller at a time."""

    def __init__(self, found: KfdDevice, clock: Clock) -> None:
        self.device = found.device
        self.found = found
        self._clock = clock
        node = found.node
        self._windows = ActivityWindows(found.device.core_share, node.cus if node else 0)
        self._central = bool(node and node.cus and node.gfx // 10_000 == CENTRAL_GFX)
        self._gpu_id = node.gpu_id if node else 0
        self._list: KfdList | None = None
        self._asking = ProcessTurns(1)
        self._sizes: dict[int, int | None] = {}  # bytes of those that hold some; None: not known
        self.unsized: set[int] = set()  # those of which that is not known, here or elsewhere
        self._held: tuple[ProcessMemory, ...] | None = None
        self._active: set[int] = set()  # those that have worked
        self._wanted: set[int] = set()  # of them, those whose size is to be read now
        self._listed_mono_ns: int | None = None
        self._begun_mono_ns: int | None = None
        self._has_begun = False
        self._why: Unmeasured | None = None  # nothing is known of its processes
        self._occupancy = self._central
        self._counting = CounterSums()

    def follow(self, listed: KfdList | None, devices: int) -> None:
        """Takes this cycle's list of processes, which so many devices ask about."""
        self._list = listed
        if devices != self._asking.devices:
            self._asking = ProcessTurns(devices)

    @property
    def has_occupancy(self) -> bool:
        """Whether this kind of GPU has ``cu_occupancy``: the family gfx9."""
        return self._central

    @property
    def has_work(self) -> bool:
        """Whether a process of KFD holds something on it."""
        return bool(self._held)

    @property
    def is_refused(self) -> bool:
        """Whether its processes may not be read, so that nothing is known of them."""
        return self._why is not None or self.found.refused

    def window(self, sample: ActivitySample) -> Window | None:
        """The window until now; ``sample`` covers all of it."""
        cus = self._cus()
        if self._is_beginning():
            return None
        now = self._clock.time_ns(), self._clock.monotonic_ns()
        window = self._windows.cut(sample, cus, *now)
        if window is None:
            return None
        # Where not all were asked, those that were get what they occupied, and nothing of the rest.
        is_whole = cus is None or self._asking.is_whole
        return window._replace(
            counted=self._counting.take(),
            per_sample=not is_whole,
            unmeasured_pids=frozenset() if cus is None else self._asking.cut,
        )

    def _is_beginning(self) -> bool:
        """Whether its first windows wait until all processes that are there were asked once.

        Before, who works is not known, and those that were asked first would be charged for it.
        """
        if self._begun_mono_ns is None:
            self._begun_mono_ns = self._clock.monotonic_ns()
        listed = self._list
        is_short = listed is None or (not listed.why and self._asking.has_more)
        waits = is_short and self.found.node is not None
        is_long = self._clock.monotonic_ns() - self._begun_mono_ns > LONGEST_BEGINNING_NS
        self._has_begun = self._has_begun or not waits or is_long
        return not self._has_begun

    def memory(self, demand: Demand, total: int | None, used: int | None) -> DeviceMemory:
        """The size, the use, and the use of each process: each is known without the others."""
        size = self.device.memory_bytes if total is None else total
        listed, now_ns = self._list, self._clock.monotonic_ns()
        if self.found.node is None or listed is None or listed.why or self._why:
            self._why = listed.why if listed and listed.why and self.found.node else self._why
            return DeviceMemory(size, used, None, None)
        listed_ns = self._listed_mono_ns
        if listed_ns is None or now_ns - listed_ns >= demand.processes_every_ns:
            self._read_sizes(listed, now_ns)
        elif self._wanted:
            self._ask_sizes([listed.processes[p] for p in self._wanted if p in listed.processes])
        if self._why:
            return DeviceMemory(size, used, None, None)
        unread = frozenset(pid for pid, held in self._sizes.items() if held is None)
        return DeviceMemory(size, used, None, self._held, unread=unread)

    def unmeasured(self, window: Window | None) -> dict[str, Unmeasured]:
        reasons = dict.fromkeys(OF_THE_DEVICE_ONLY, Unmeasured.NOT_SUPPORTED)
        if self.found.refused or (self._why and self.found.node is not None):
            why = self._why or Unmeasured.NO_PERMISSION
            return {**reasons, **dict.fromkeys(OF_PROCESSES, why)}
        if self.found.node is None:
            return {**reasons, **dict.fromkeys(OF_PROCESSES, Unmeasured.NOT_SUPPORTED)}
        is_missing = window is not None and window.busy.core is None
        if is_missing or not self._occupancy:
            reasons["core"] = Unmeasured.NOT_SUPPORTED
        return reasons

    def _read_sizes(self, listed: KfdList, now_ns: int) -> None:
        """Reads memory and counters of those that hold some or worked, and of others in turn."""
        here = listed.processes
        self._counting.begin(listed.newest_number)
        holding = [pid for pid in self._sizes if pid in here]
        asked = self._asking.for_sizes(listed, holding)
        # KFD has files of every process for every GPU, also those that it never used. Only one that
        # holds memory here is this GPU's. Of who holds some and was not asked, it is not known how
        # much: its owner has more such processes than can be asked.
        self._sizes = dict.fromkeys(holding)
        self.unsized &= here.keys()
        self._ask_sizes(asked)
        self._counting.keep(here)
        self._listed_mono_ns = now_ns

    def _ask_sizes(self, asked: Sequence[KfdProcess]) -> None:
        for process in asked:
            was_here = process.pid in self._sizes or process.pid in self._active
            self._sizes.pop(process.pid, None)
            self.unsized.discard(process.pid)
            match vram(process.folders, self._gpu_id):
                case Whole(held):
                    self._sizes |= {process.pid: held} if held else {}
                case Absent():
                    continue
                case Refused():
                    self._why = Unmeasured.NO_PERMISSION
                    return
                case Failed() | Cut():
                    # It has such a file for every GPU: one that cannot be read does not say that it
                    # holds anything here.
                    self.unsized.add(process.pid)
                    self._sizes |= {process.pid: None} if was_here else {}
            # Of so many at once, those that hold nothing begin to be counted when it is their turn.
            if len(asked) > MANY and process.pid not in self._sizes:
                continue
            reply = (f(process.folders, self._gpu_id) for f in (copied_us, evicted_ms))
            counts = zip(COUNTED_BY, reply, strict=True)
            self._counting.add(
                process, {name: t.value * ns for (name, ns), t in counts if isinstance(t, Whole)}
            )
        self._held = tuple(ProcessMemory(p, size, COMPUTE) for p, size in self._sizes.items())

    def _cus(self) -> Mapping[int, int] | None:
        """Occupied compute units by process; None if this kind of GPU does not report them."""
        node, listed = self.found.node, self._list
        if node is None or listed is None:
            return None
        self._why = listed.why
        if listed.why:
            return None
        known: dict[int, int] = {}
        failed: set[int] = set()
        absent: list[KfdProcess] = []
        now_ns = self._clock.monotonic_ns()
        for process in self._asking.for_work(listed, self._sizes, now_ns):
            match occupied(process.folders, self._gpu_id):
                case Whole(cus):
                    known[process.pid] = cus
                case Absent():
                    absent.append(process)
                case Refused():
                    self._why = Unmeasured.NO_PERMISSION
                    return None
                case Failed() | Cut():
                    failed.add(process.pid)
        self._asking.note({pid for pid, cus in known.items() if cus}, failed, listed, now_ns)
        if known or failed:
            self._occupancy = bool(node.cus)
        else:  # no process, or all have ended since the folders were listed
            ended = (door.is_gone(folder) for each in absent for folder in each.folders)
            self._occupancy = self._central and all(ended)
        # A process that works and is not listed is looked for at once. If it holds nothing, it is
        # so only once, and not in each cycle.
        active = {pid for pid, cus in known.items() if cus}
        self._wanted = active - self._sizes.keys() - self._active
        self._active = (self._active | active) & listed.processes.keys()
        return known if self._occupancy else None
