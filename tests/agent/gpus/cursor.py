"""A cursor whose clocks a test sets at each read."""

from exporter.agent.sources.gpus.samples import SampleReader
from exporter.agent.sources.gpus.window import WindowCursor
from exporter.model import Window


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
        return self._cursor.next()
