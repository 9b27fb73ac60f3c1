"""The newest windows of each device, kept for the readers that show processes."""

from collections import deque
from collections.abc import Iterable, Mapping

from exporter.collector.rules import CycleRules
from exporter.model import (
    DeviceReading,
    DeviceUsage,
    Owner,
    ProcessActivity,
    SharedWindow,
    Tenants,
)

MOST_WINDOWS = 60
_NONE: deque[SharedWindow] = deque(maxlen=0)


class Residency:
    """The tenants of each device. It only keeps values that the cycle makes in any case."""

    def __init__(self, window_ns: int) -> None:
        self.window_ns = window_ns
        self._windows: dict[str, deque[SharedWindow]] = {}  # by device UUID

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
