"""How often each driver function was called, and for how long: what the exporter itself costs."""

from collections.abc import Callable, Mapping

from exporter.model import CallCount

NEVER = CallCount(0, 0)

Note = Callable[[int], object]
"""Takes in for how many nanoseconds a function was called: tens are called each second."""


class CallTally:
    """Counts calls by function name, when asked. For any thread: devices are read side by side."""

    def __init__(self) -> None:
        self._new: dict[str, list[int]] = {}  # how long each took that is not counted yet
        self._counts: dict[str, CallCount] = {}

    def of(self, name: str) -> Note:
        """What counts calls of this function."""
        return self._new.setdefault(name, []).append

    def snapshot(self) -> Mapping[str, CallCount]:
        """Counts since the start, by function name."""
        for name, new in tuple(self._new.items()):
            if new:
                took_ns = new[:]
                del new[: len(took_ns)]  # what is appended meanwhile is counted the next time
                before = self._counts.get(name, NEVER)
                self._counts[name] = CallCount(
                    before.calls + len(took_ns), before.duration_ns + sum(took_ns)
                )
        return self._counts.copy()
