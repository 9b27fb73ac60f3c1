"""Which events of a watch wait, so that a tenant who changes a pod without end costs little. Pure.

A pod's document may take 5 ms to read, and its owner may change it hundreds of times a second. Each
namespace has so much time in a second. What is beyond waits, and of a pod only its newest state.
"""

from collections import Counter

from exporter.agent.sources.pods.wire import MAX_OBJECT, name_in
from exporter.model import SECOND_NS, Clock

MOST_NS = 20 * 10**6  # of each second, for the changes of one namespace's pods
MOST_WAITING = MAX_OBJECT  # bytes of all that wait; beyond it, nothing more does
_CHANGED = b'{"type":"MODIFIED",'


class Paced:
    """Lines of a watch that wait, by the namespace and name of their pod. Not thread-safe."""

    def __init__(self, clock: Clock) -> None:
        self._now = clock.monotonic_ns
        self._second = 0
        self._spent = Counter[str]()  # ns of this second, by namespace
        self._waiting: dict[str, bytes] = {}
        self._size = 0

    def keeps(self, line: bytes) -> bool:
        """Whether a line waits. Each that comes takes the place of one of its pod that waits."""
        name = name_in(line)
        self._size -= len(self._waiting.pop(name, b""))
        # What is added or deleted never waits. It takes the place of a change that does.
        over = self._spent_by(name) >= MOST_NS and line.startswith(_CHANGED)
        if not name or not over or self._size + len(line) > MOST_WAITING:
            return False
        self._waiting[name] = line
        self._size += len(line)
        return True

    def took(self, line: bytes, spent_ns: int) -> None:
        """Note how long a line took to read."""
        self._spent_by(name := name_in(line))
        self._spent[_namespace(name)] += spent_ns

    def due(self) -> bytes | None:
        """The next line that waits no more, if any."""
        for name, line in self._waiting.items():
            if self._spent_by(name) < MOST_NS:
                del self._waiting[name]
                self._size -= len(line)
                return line
        return None

    def clear(self) -> None:
        """Forget what waits: a list has newer states."""
        self._waiting.clear()
        self._size = 0

    def _spent_by(self, name: str) -> int:
        second = self._now() // SECOND_NS
        if second != self._second:
            self._second = second
            self._spent.clear()
        return self._spent[_namespace(name)]


def _namespace(name: str) -> str:
    return name.partition("/")[0]
