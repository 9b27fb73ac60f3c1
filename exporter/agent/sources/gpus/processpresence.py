"""Since when each process of a device can have been there, and whether the processes change.

A driver that names processes by their place in its tables resolves the name when it is asked. On
an H200 (driver 580) the rows of a process vanish when it ends, and a process that takes its place
has what the other one used before: 80 % over five seconds for one that was 0.2 s old. So no process
has anything from before it came, and rows are read often while one is young: when it ends, what was
not read of it yet is nobody's, which is a part of its life that it is not to notice.
"""

from collections.abc import Mapping

STEADY_US = 60_000_000
OF_LIFE = 20  # rows are read each so many parts of the age of the youngest process
SOONEST_US, LATEST_US = 500_000, 5_000_000  # a second, however late a cycle was


class ProcessPresence:
    """The processes of one device, by the lists that were read. Times are monotonic µs."""

    def __init__(self) -> None:
        self._listed: frozenset[int] | None = None  # by the last list; None: by none yet
        self._listed_us = 0
        self._changed_us: int | None = None
        self._absent_us: dict[int, int] = {}

    @property
    def absent_until_us(self) -> Mapping[int, int]:
        """When each process was not there yet, of those that came after the first list."""
        return self._absent_us

    def list(self, pids: frozenset[int], mono_us: int) -> None:
        """Takes a list of all processes that was just read."""
        if self._listed is not None and pids != self._listed:
            self._changed_us = mono_us
            came = dict.fromkeys(pids - self._listed, self._listed_us)
            stayed = {pid: us for pid, us in self._absent_us.items() if pid in pids}
            self._absent_us = {**stayed, **came}
        self._listed, self._listed_us = pids, mono_us

    def see(self, pids: frozenset[int], mono_us: int) -> None:
        """Takes processes that worked: a new one is a change, where lists are read seldom."""
        if self._listed is not None and not pids <= self._listed:
            self._changed_us = mono_us

    def may_lose(self, read_us: int, mono_us: int) -> bool:
        """Whether much would be lost of a young process that ended without another read of rows.

        ``read_us`` is when they were read last.
        """
        if not self._absent_us:
            return False
        age_us = mono_us - max(self._absent_us.values())
        part_us = max(age_us / OF_LIFE, SOONEST_US)
        return part_us <= LATEST_US and mono_us - read_us >= part_us

    def is_steady(self, mono_us: int) -> bool:
        """Whether no process has come or gone lately."""
        return self._changed_us is None or mono_us - self._changed_us >= STEADY_US
