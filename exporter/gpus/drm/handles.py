"""Descriptors of DRM devices that processes have, as many as there is room for. Pure."""

from typing import NamedTuple

MOST_HANDLES = 8192  # of all processes together
MOST_OF_ONE = 512  # of one process; less while all together have too many


class Handle(NamedTuple):
    """One descriptor of a process. ``start``: clock ticks since boot at which the process began."""

    start: int
    pid: int
    descriptor: int


class Handles:
    """The handles of all processes. Where they are too many, who has the most is cut, no other.

    How many one process may have is halved until all have room: a process with few is cut only
    where so many others have as many.
    """

    def __init__(self) -> None:
        self.cut: set[int] = set()
        self._of: dict[int, list[tuple[int, Handle]]] = {}
        self._number = 0
        self._room = MOST_OF_ONE

    def add(self, minor: int, handle: Handle) -> bool:
        """Take one in; False: there is no room for more of this process."""
        own = self._of.get(handle.pid, [])
        is_full = self._number >= MOST_HANDLES and self._room == 1
        if len(own) >= self._room or is_full:
            self.cut.add(handle.pid)
            return False
        own.append((minor, handle))
        self._of[handle.pid] = own
        self._number += 1
        while self._number > MOST_HANDLES and self._room > 1:
            self._room //= 2
            self._cut_down()
        return True

    def cut_off(self, pid: int) -> None:
        """A process has more descriptors than are looked at; without any of DRM it has none."""
        if pid in self._of:
            self.cut.add(pid)

    def _cut_down(self) -> None:
        for pid, own in self._of.items():
            if len(own) > self._room:
                self._number -= len(own) - self._room
                del own[self._room :]
                self.cut.add(pid)

    def by_minor(self) -> dict[int, tuple[Handle, ...]]:
        """Handles by the minor number, of the youngest process first: see ``ClientReader``."""
        found: dict[int, list[Handle]] = {}
        for own in self._of.values():
            for minor, handle in own:
                found.setdefault(minor, []).append(handle)
        return {minor: tuple(sorted(all_of, reverse=True)) for minor, all_of in found.items()}
