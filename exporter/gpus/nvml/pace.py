"""How often a device is asked for what it is slow to tell. Pure.

A slow answer keeps a lock of the driver that every tenant's calls wait for. So a turn may cost a
small part of the time until the next one; where it costs more, the next one comes later.
"""

SECOND = 1_000_000_000

MOST_SHARE = 0.01  # of the time between two turns
NARROW_AT = 0.8  # of that share, so that an answer on the edge does not move the interval
LONGEST_S = 60.0


class Pace:
    """By how much an interval is widened on one device, out of what its turns have cost.

    ``factor`` is a power of two. The cheaper of the two newest turns counts: a slow one alone
    widens nothing, and a quick one leads back at once.
    """

    def __init__(self) -> None:
        self.factor = 1
        self._before_ns = 0

    def note(self, cost_ns: int, every_ns: int) -> None:
        """Take in what a turn cost, of those that are ``every_ns`` apart where all is quick."""
        if not every_ns:  # each cycle: a counter that wraps is not read more seldom
            return
        cheaper_ns, self._before_ns = min(cost_ns, self._before_ns), cost_ns
        allowed_ns = int(every_ns * MOST_SHARE)
        while self.factor > 1 and cheaper_ns < NARROW_AT * allowed_ns * self.factor / 2:
            self.factor //= 2
        while allowed_ns * self.factor < cheaper_ns and self.widened_s(every_ns) < LONGEST_S:
            self.factor *= 2

    def widened_s(self, every_ns: int) -> float:
        """Seconds from one turn to the next, as wide as it is now."""
        normal_s = every_ns / SECOND
        return max(min(normal_s * self.factor, LONGEST_S), normal_s)
