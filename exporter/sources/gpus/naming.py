"""Learns from a device's windows whether the busy samples of its engines name a process.

Which process a sample names is decided in closed firmware and differs by board. Where every busy
sample names somebody, also on an engine that idles in part of it, the sums of named samples are all
that was used. Where some do not, their time has no owner: work ended before the driver looked, or
the driver hides a process.
"""

from collections.abc import Iterable

from exporter.model import QUANTITIES, Engines, Naming, ProcessActivity

REMEMBERED_NS = 30 * 10**9  # of busy time: older evidence counts for half, then a quarter
LEAST_NS = 200 * 10**6  # less busy time than this is no evidence
FEW = 0.05  # shares below this are noise of rounding


class NamingEvidence:
    """What the windows of one device have shown so far, by engine in the order of QUANTITIES."""

    def __init__(self) -> None:
        count = len(QUANTITIES)
        self._busy_ns, self._unnamed_ns, self._idle_ns = ([0] * count for _ in range(3))
        self.naming = (Naming.UNKNOWN,) * count

    def observe(
        self,
        busy: Engines,
        processes: Iterable[ProcessActivity],
        observed_ns: int,
        *,
        per_sample: bool,
    ) -> None:
        """Takes one window whose rows can all be true."""
        own = tuple(processes)
        for place, busy_ns in enumerate(busy):
            if not busy_ns:
                continue
            parts = [process.busy[place] or 0 for process in own]
            named_ns = sum(parts)
            if place or not per_sample:  # averages are cut to whole percents: up to one is missing
                named_ns += (len(parts) - parts.count(0)) * observed_ns // 100
            self._count(place, busy_ns, max(busy_ns - named_ns, 0), observed_ns - busy_ns)
        self.naming = tuple(map(self._verdict, range(len(QUANTITIES))))

    def _count(self, place: int, busy_ns: int, unnamed_ns: int, idle_ns: int) -> None:
        if self._busy_ns[place] > REMEMBERED_NS:
            for sums in (self._busy_ns, self._unnamed_ns, self._idle_ns):
                sums[place] //= 2
        self._busy_ns[place] += busy_ns
        self._unnamed_ns[place] += unnamed_ns
        if unnamed_ns <= busy_ns * FEW:
            self._idle_ns[place] += idle_ns

    def _verdict(self, place: int) -> Naming:
        busy_ns = self._busy_ns[place]
        if busy_ns < LEAST_NS:
            return Naming.UNKNOWN
        unnamed = self._unnamed_ns[place] / busy_ns
        if unnamed > 1 - FEW:
            return Naming.NEVER
        if unnamed > FEW:
            return Naming.PARTLY
        return Naming.ALWAYS if self._idle_ns[place] > busy_ns * FEW else Naming.UNKNOWN
