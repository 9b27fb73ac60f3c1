"""Windows of one MIG instance, from hardware counters: GPM, on Hopper and newer boards.

The driver keeps no samples of an instance. GPM reports for how much of the time between two reads
anything ran on it. That share is scaled by the instance's part of the board's compute slices.
"""

from collections.abc import Sequence
from dataclasses import replace

from exporter.agent.sources.gpus.gpusource import Demand
from exporter.agent.sources.gpus.nvml.cadence import PROFILING
from exporter.agent.sources.gpus.nvml.gpm import GPM, Gpm
from exporter.agent.sources.gpus.nvml.library import Library
from exporter.agent.sources.gpus.nvml.nvmldiscovery import DeviceHandle, is_part
from exporter.agent.sources.gpus.nvml.refusals import Refusals
from exporter.model import Clock, DeviceMemory, DeviceReading, Engines, Methods, Sensors, Window

SLACK_NS = 10_000_000  # the clock is read once for GPM and once for the window
BLIND_READS = 3
METHODS = Methods(busy="gpm", shares="sole_owner")


def counted_once(readings: Sequence[DeviceReading]) -> tuple[DeviceReading, ...]:
    """The readings, with the memory of each GPU instance on its compute instances once.

    Compute instances of one GPU instance share its memory, and the driver says of each that all of
    it is used. Here each has what its own processes hold, and the first has the rest too. Where
    that is not known, only the first has a figure.
    """
    together: dict[tuple[str, int | None], list[DeviceReading]] = {}
    for reading in readings:
        if reading.device.parent_uuid and reading.memory:
            key = reading.device.parent_uuid, reading.device.gpu_instance
            together.setdefault(key, []).append(reading)
    changed: dict[str, DeviceMemory] = {}
    for (_, instance), parts in together.items():
        if instance is not None and len(parts) > 1:
            changed |= _parted(parts)
    if not changed:
        return tuple(readings)
    return tuple(
        reading._replace(memory=changed.get(reading.device.uuid, reading.memory))
        for reading in readings
    )


def _parted(parts: Sequence[DeviceReading]) -> dict[str, DeviceMemory]:
    """The memory of compute instances of one GPU instance, by device."""
    first, *others = parts
    held = {part.device.uuid: _held(part.memory) for part in others}
    changed = {
        part.device.uuid: replace(part.memory, used_bytes=held[part.device.uuid])
        for part in others
        if part.memory
    }
    known = [own for own in held.values() if own is not None]
    if first.memory and first.memory.used_bytes is not None and len(known) == len(others):
        rest = max(first.memory.used_bytes - sum(known), 0)
        changed[first.device.uuid] = replace(first.memory, used_bytes=rest)
    return changed


def _held(memory: DeviceMemory | None) -> int | None:
    """What the processes of a device hold; None if it is not known of each."""
    if memory is None or memory.processes is None:
        return None
    held = [process.used_bytes for process in memory.processes]
    return None if None in held else sum(own for own in held if own is not None)


class InstanceActivity:
    """Reads an instance each cycle; returns a window once its processes are known too.

    ``sensors``: the activity of its SMs since the last read, if that is wanted.
    """

    def __init__(
        self,
        library: Library,
        refusals: Refusals,
        clock: Clock,
        demand: Demand,
    ) -> None:
        self.sensors = Sensors()
        self._library = library
        self._refusals = refusals
        self._clock = clock
        self.follow(demand)
        self._gpm: Gpm | None = None
        # Of the window that is not taken yet, up to the busy time:
        self._start_ns: int | None = None
        self._end_ns = 0
        self._ended_mono_ns = 0
        self._observed_ns = 0
        self._busy_ns = 0
        self._at_work = False
        self._blind = 0  # reads in a row without a figure of its activity
        self._is_shown = False  # a window with its activity was taken since it was blind

    def follow(self, demand: Demand) -> None:
        """Applies another demand. Activity is read even if it is not shown: windows need it."""
        self._shown = PROFILING not in demand.disabled

    def bind(self, found: DeviceHandle) -> None:
        """Uses another handle from now on. GPM does not measure parts of an instance."""
        self.close()
        self.sensors = Sensors()
        self._share = found.device.core_share
        part = is_part(found.device.profile)
        self._gpm = None if part else Gpm(self._library, found.handle, self._refusals)

    def close(self) -> None:
        if self._gpm is not None:
            self._gpm.close()

    @property
    def measured(self) -> bool:
        """Whether its activity is known; one read without it says nothing yet."""
        profiled = self._gpm is not None and GPM not in self._refusals
        return profiled and self._blind < BLIND_READS

    def read(self) -> bool:
        """Extends the window; returns whether work has begun on an instance that was idle."""
        reading = self._gpm.read() if self._gpm else None
        mono_ns = self._clock.monotonic_ns()
        if self._start_ns is None:
            self._start_ns = self._end_ns = self._clock.time_ns()
            self._ended_mono_ns = mono_ns
        self.sensors = Sensors()
        if reading is None:
            self._blind += 1
            return False
        if self._shown:
            self.sensors = Sensors(reading.ratios)
        # The share of time with work. Where the driver does not report that, SMs that were busy are
        # the nearest to it.
        ratio = reading.graphics_ratio
        if ratio is None:
            ratio = reading.ratios.get("sm_active_ratio")
        if ratio is None:
            self._blind += 1
            return False
        self._blind = 0
        # Time that GPM did not cover since the last reading is unobserved.
        # Windows begin at the wall clock's time and go on by the monotonic clock, even if the
        # wall clock is set.
        passed_ns = mono_ns - self._ended_mono_ns
        covered_ns = reading.elapsed_ns if passed_ns - reading.elapsed_ns > SLACK_NS else passed_ns
        self._end_ns += passed_ns
        self._ended_mono_ns = mono_ns
        self._observed_ns += covered_ns
        self._busy_ns += int(covered_ns * ratio * self._share)
        before, self._at_work = self._at_work, ratio > 0
        return self._at_work and not before

    def take(self) -> Window | None:
        """The window since the last one that was taken; None if there is nothing newer."""
        start_ns = self._start_ns
        # Once its activity is no longer known, one window says so: it would seem to stand still.
        is_blind = not self._observed_ns
        if start_ns is None or (is_blind and (self.measured or not self._is_shown)):
            return None
        if is_blind:
            now_ns = self._clock.monotonic_ns()
            self._end_ns += now_ns - self._ended_mono_ns
            self._ended_mono_ns = now_ns
        window = Window(
            start_unix_ns=start_ns,
            end_unix_ns=self._end_ns,
            observed_ns=self._observed_ns,
            unobserved_ns=self._end_ns - start_ns - self._observed_ns,
            busy=Engines(core=None if is_blind else self._busy_ns),
            methods=METHODS,
        )
        self._is_shown = not is_blind
        self._start_ns, self._observed_ns, self._busy_ns = self._end_ns, 0, 0
        return window
