"""Rates of counters that other exporters serve as gauges, from one page to a later one."""

from collections.abc import Mapping

from exporter.model import Snapshot

LEAST_NS = 10_000_000_000
"""The shortest time that a rate is taken over: traffic is read at intervals of some seconds."""

COUNTERS = ("pcie_bytes_total", "nvlink_bytes_total")

Totals = Mapping[tuple[str, str], float]
"""Bytes by a device's UUID and the counter with its direction, as ``pcie_bytes_transmit``."""


class Rates:
    """Bytes per second of each device since an earlier page, at least ``LEAST_NS`` before.

    Until there is one, nothing is known. Time is the monotonic clock's. Not thread-safe.
    """

    def __init__(self) -> None:
        self._earlier: tuple[int, Totals] | None = None
        self._newest: tuple[int, Totals] | None = None

    def of(self, snapshot: Snapshot) -> Mapping[str, Mapping[str, float]]:
        """The rates by UUID and counter. A counter that fell has none."""
        now = (snapshot.mono_ns, _totals(snapshot))
        if self._newest is None or now[0] - self._newest[0] >= LEAST_NS:
            self._earlier, self._newest = self._newest, now
        if self._earlier is None or now[0] <= self._earlier[0]:
            return {}
        then_ns, before = self._earlier
        rates: dict[str, dict[str, float]] = {}
        for (uuid, name), total in now[1].items():
            moved = total - before.get((uuid, name), total + 1)
            if moved >= 0:
                rates.setdefault(uuid, {})[name] = moved * 1e9 / (now[0] - then_ns)
        return rates


def _totals(snapshot: Snapshot) -> Totals:
    totals: dict[tuple[str, str], float] = {}
    for row in snapshot.rows.get("device", ()):
        for counter in COUNTERS:
            by_direction = row.values.get(counter)
            if isinstance(by_direction, Mapping):
                name = counter.removesuffix("total")
                totals |= {(row.labels[1], name + k[0]): v for k, v in by_direction.items()}
    return totals
