"""The newest windows of each device, kept for the readers that show processes."""

from collections import deque
from collections.abc import Collection, Iterable, Mapping

from exporter.collector.polling import Guard
from exporter.collector.rules import CycleRules
from exporter.model import (
    DeviceReading,
    DeviceUsage,
    Owner,
    ProcessActivity,
    ProcessInfo,
    SharedWindow,
    Tenants,
)
from exporter.sources.cgroups.source import ProcessSource

MOST_WINDOWS = 60
_NONE: deque[SharedWindow] = deque(maxlen=0)
DESCRIBED_EVERY_NS = 10 * 10**9  # a process may take another name (exec, prctl)


class Residency:
    """The tenants of each device. It only keeps values that the cycle makes in any case.

    ``guard`` is its own: processes without names do not mark their source as down.
    """

    def __init__(self, window_ns: int, guard: Guard) -> None:
        self._guard = guard
        self.window_ns = window_ns
        self._windows: dict[str, deque[SharedWindow]] = {}  # by device UUID
        self._pids: Collection[int] = ()
        self._infos: Mapping[int, ProcessInfo] = {}
        self._described_mono_ns = 0

    def follow(self, rules: CycleRules) -> None:
        """Applies these rules from the next cycle on."""
        self.window_ns = rules.window_ns

    def enter(
        self,
        usage: DeviceUsage,
        processes: tuple[ProcessActivity, ...],
        owners: Mapping[int, Owner],
        mono_ns: int,
    ) -> None:
        """Keeps a window that ended now, for as long as averages go back."""
        windows = self._windows.get(usage.device.uuid)
        if windows is None:
            windows = self._windows[usage.device.uuid] = deque(maxlen=MOST_WINDOWS)
        windows.append(SharedWindow(mono_ns, usage.observed_ns, processes, usage.shares, owners))

    def tenants(self, devices: Iterable[DeviceReading], mono_ns: int) -> tuple[Tenants, ...]:
        """The tenants of each device that was read."""
        oldest = mono_ns - self.window_ns
        found: list[Tenants] = []
        kept: dict[str, deque[SharedWindow]] = {}
        for reading in devices:
            uuid, memory = reading.device.uuid, reading.memory
            windows = self._windows.get(uuid, _NONE)
            while windows and windows[0].ended_mono_ns <= oldest:
                windows.popleft()
            if windows:
                kept[uuid] = windows
            found.append(Tenants(uuid, memory.processes if memory else None, tuple(windows)))
        self._windows = kept
        return tuple(found)

    def described(
        self,
        pids: Collection[int],
        mono_ns: int,
        source: ProcessSource,
    ) -> Mapping[int, ProcessInfo]:
        """Facts about processes; asked for again when some come or go, and every ten seconds."""
        due = mono_ns - self._described_mono_ns >= DESCRIBED_EVERY_NS
        if due or (pids is not self._pids and set(pids) != set(self._pids)):
            nothing: Mapping[int, ProcessInfo] = {}
            self._infos = self._guard.call("describe", lambda: source.describe(pids), nothing)
            self._described_mono_ns = mono_ns
        self._pids = pids
        return self._infos
