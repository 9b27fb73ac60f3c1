"""A counter that may step back, made one that never does.

Some boards' energy counters step back for a moment and return (amdsmi#115). To take the step for a
reset alone would count all of the return as use.
"""


class Rising:
    """The counter of one board. What steps back and returns counts nothing until its old height.

    Below its height a counter may have been reset, so that it counts on from there. If it leaps
    back, the leap was its return: of it counts what is above the old height.
    """

    def __init__(self) -> None:
        self._height: int | None = None  # the highest value so far
        self._low: int | None = None  # the value that it has counted from, below its height
        self._last = 0  # the newest value
        self._said = self._said_at_height = 0  # how far it has come

    def take(self, value: int | None) -> int | None:
        """How far the counter has come; None: it is not known now."""
        if value is None:
            return None
        before, self._last = self._last, value
        if self._height is None:
            self._height = self._said = self._said_at_height = value
            return value
        if value < before:  # how much was used meanwhile is not known
            self._low = value if self._low is None else min(self._low, value)
            return None
        above = self._said_at_height + value - self._height
        is_leap = self._low is not None and value - before > (self._height - self._low) // 2
        self._said = max(self._said, above) if is_leap else self._said + value - before
        if value >= self._height:
            self._height, self._said_at_height, self._low = value, self._said, None
        return self._said
