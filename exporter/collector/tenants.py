"""The newest windows of each device, kept for the readers that show processes."""

from collections import deque
from collections.abc import Iterable, Mapping

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

    def __init__(self) -> None:
        self._windows: dict[str, deque[SharedWindow]] = {}  # by device UUID

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

    def tenants(self, devices: Iterable[DeviceReading], since_ns: int) -> tuple[Tenants, ...]:
        """The tenants of each device that was read, by the windows that ended after a moment."""
        found: list[Tenants] = []
        kept: dict[str, deque[SharedWindow]] = {}
        for reading in devices:
            uuid, memory = reading.device.uuid, reading.memory
            windows = self._windows.get(uuid, _NONE)
            while windows and windows[0].ended_mono_ns <= since_ns:
                windows.popleft()
            if windows:
                kept[uuid] = windows
            found.append(Tenants(uuid, memory.processes if memory else None, tuple(windows)))
        self._windows = kept
        return tuple(found)
