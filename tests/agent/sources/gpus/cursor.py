"""A cursor whose clocks a test sets at each read."""

from collections.abc import Sequence
from functools import reduce

from exporter.agent.sources.gpus.samples import SampleReader
from exporter.agent.sources.gpus.window import WindowCursor
from exporter.model import Engines, ProcessActivity, Window


class SetClocks:
    """Implements ``exporter.model.Clock``. ``after_us``: the monotonic one after its first look."""

    def __init__(self) -> None:
        self.unix_us = self.mono_us = self.after_us = 0

    def time_ns(self) -> int:
        return self.unix_us * 1000

    def monotonic_ns(self) -> int:
        now_us, self.mono_us = self.mono_us, self.after_us
        return now_us * 1000


class Cursor:
    """The cursor of a reader."""

    def __init__(self, reader: SampleReader) -> None:
        self._clocks = SetClocks()
        self._cursor = WindowCursor(reader, self._clocks)

    def next(self, unix_us: int, mono_us: int, after_us: int | None = None) -> Window | None:
        """The window now. ``after_us``: the monotonic time when the driver has answered."""
        self._clocks.unix_us, self._clocks.mono_us = unix_us, mono_us
        self._clocks.after_us = mono_us if after_us is None else after_us
        self.windows = self._cursor.next()
        return merged(self.windows)


def merged(windows: Sequence[Window]) -> Window | None:
    """The windows of one read as one."""
    if not windows:
        return None
    processes: dict[int, Engines] = {}
    for window in windows:
        for pid, engines in window.processes:
            processes[pid] = _sum(processes[pid], engines) if pid in processes else engines
    energies = [window.energy_uj for window in windows if window.energy_uj is not None]
    return windows[-1]._replace(
        start_unix_ns=windows[0].start_unix_ns,
        observed_ns=sum(window.observed_ns for window in windows),
        unobserved_ns=sum(window.unobserved_ns for window in windows),
        busy=reduce(_sum, [window.busy for window in windows]),
        processes=tuple(ProcessActivity(*each) for each in processes.items()),
        energy_uj=sum(energies) if energies else None,
    )


def _sum(one: Engines, other: Engines) -> Engines:
    return Engines(
        *(None if a is None or b is None else a + b for a, b in zip(one, other, strict=True))
    )
