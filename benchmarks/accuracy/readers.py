"""Estimators of busy time and energy, each as its tool does it, over one simulated device.

Every reader is told each second to look. ``busy`` and ``energy`` are what it has counted up to now,
by label, in nanoseconds and microjoules.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Protocol

from benchmarks.accuracy.scenarios import JOBS, UNIDENTIFIED
from exporter.agent.attribution.shares import SCALE_CAP
from exporter.agent.collector import Collector, Sources
from exporter.agent.collector.cyclerules import cycle_rules
from exporter.agent.collector.viewers import Viewers
from exporter.agent.ledger import Ledger
from exporter.agent.settings import load
from exporter.agent.simulation.node import Node
from exporter.agent.simulation.ring import RingSample
from exporter.agent.sources.cgroups.processsource import SimulatedProcesses
from exporter.agent.sources.gpus.simulated import SimulatedGpus
from exporter.agent.sources.pods.podsource import SimulatedPods
from exporter.model import ContainerKey, Owner, ProcessSample
from tests.agent.simulation.truth import owner_of

SECOND = 10**9
SCRAPE_S = 15
REMEMBERED_NS = 40 * SECOND  # longer than any ring
Sums = Mapping[str, float]


class SetClock:
    """A clock that the bench moves."""

    def __init__(self) -> None:
        self.now_ns = 1_700_000_000 * SECOND

    def time_ns(self) -> int:
        """Wall-clock nanoseconds."""
        return self.now_ns

    def monotonic_ns(self) -> int:
        """The same."""
        return self.now_ns


class BenchNode(Node):
    """A node whose driver does not name every process, and which tells the bench who is who."""

    _labels: tuple[int, Mapping[int, str]] = (0, {})
    _paths: tuple[int, Mapping[int, str]] = (0, {})

    def cgroup_paths(self) -> Mapping[int, str]:
        """The same for all who ask in one second: it is a quarter of what a run costs."""
        now = self._now_ns()
        if self._paths[0] != now:
            self._paths = now, super().cgroup_paths()
        return self._paths[1]

    def process_samples(self, device: int, newer_than_us: int) -> list[ProcessSample]:
        """The driver's rows, but for the unidentified."""
        hidden = {pid for pid, name in self.labels().items() if name == UNIDENTIFIED}
        rows = super().process_samples(device, newer_than_us)
        return [row for row in rows if row.pid not in hidden]

    def labels(self) -> Mapping[int, str]:
        """Process id → label, of those that live or ended lately."""
        now = self._now_ns()
        if self._labels[0] != now:
            lives = self.population.lives(now - REMEMBERED_NS, now + 1)
            self._labels = now, {life.pid: label(owner_of(self.population, life)) for life in lives}
        return self._labels[1]

    def samples_since(self, newer_than_us: int) -> Sequence[RingSample]:
        """The driver's own samples, which only its accounting sees. Times since the start."""
        return self._rings[0].samples(self._now_us(), newer_than_us)


def label(owner: Owner) -> str:
    """What is measured as one: a container, or all jobs."""
    if not isinstance(owner, ContainerKey):
        return str(owner)
    return owner.namespace if owner.namespace in {JOBS, UNIDENTIFIED} else owner.pod


class Reader(Protocol):
    """One estimator."""

    @property
    def name(self) -> str:
        """The head of its column."""
        ...

    def look(self, second: int) -> None:
        """A second has passed; ``second`` counts them."""
        ...

    def busy(self) -> Sums:
        """Busy ns up to now, by label."""
        ...

    def energy(self) -> Sums | None:
        """Active µJ up to now, by label; None: its tool does not tell."""
        ...


class Ours:
    """The exporter itself, in the rhythm of a Prometheus that scrapes: all of its cycles.

    ``watched``: as it is while somebody looks, when each second is read.
    """

    name = "this exporter"
    name_watched = "with a viewer"
    names = name, name_watched

    def __init__(self, node: BenchNode, clock: SetClock, *, watched: bool = False) -> None:
        if watched:
            self.name = self.name_watched
        self._ledger = Ledger(300 * SECOND, 15 * SECOND)
        sources = Sources(
            (SimulatedGpus(node, clock),),
            SimulatedProcesses(node.cgroup_paths),
            SimulatedPods(node.pod_table, clock=clock),
        )
        rules = cycle_rules(load({}, {}))
        self._collector = Collector(sources, self._ledger, clock, rules)
        self._viewers, self._watched = Viewers(clock), watched
        self._collector.is_watched = self._viewers.are_there

    def look(self, second: int) -> None:
        """One cycle; then somebody looks, or a scrape comes if it is time."""
        self._collector.cycle()
        if self._watched:
            self._viewers.look()
        elif second % SCRAPE_S == 0:
            self._viewers.scrape("10.0.0.1", "prometheus")

    def busy(self) -> Sums:
        """The core accounts."""
        return self._accounts("core")

    def energy(self) -> Sums:
        """The energy accounts."""
        return self._accounts("energy")

    def waiting(self) -> Sums:
        """How long each may have waited for others."""
        return self._accounts("waiting")

    def _accounts(self, quantity: str) -> Sums:
        (book,) = self._ledger.devices.values()
        sums = Counter(
            {label(key): getattr(a.counters, quantity) for key, a in book.owners.items()}
        )
        if JOBS in (namespaces := book.sums(ContainerKey)):
            sums[JOBS] = getattr(namespaces[JOBS], quantity)
        return sums


class Gauge:
    """Rows of the last second, or of the whole ring, taken at each scrape for the time since."""

    def __init__(self, node: BenchNode, clock: SetClock, every_s: int, *, ring: bool) -> None:
        self.name = f"{'ring' if ring else '1 s'} gauge @{every_s} s"
        self._node = node
        self._clock = clock
        self._every_s = every_s
        self._ring = ring
        self._busy: Counter[str] = Counter()
        self._energy: Counter[str] = Counter()

    def look(self, second: int) -> None:
        """Scrape, if it is time."""
        if second % self._every_s:
            return
        since_us = 0 if self._ring else self._clock.time_ns() // 1000 - 1_000_000
        rows = self._node.process_samples(0, since_us)
        labels = self._node.labels()
        idle = self._node.scenario.devices[0].idle_watts
        watts = (self._node.sensors(0).value("power_watts") or idle) - idle
        whole = sum(row.core for row in rows)
        for row in rows:
            name = labels[row.pid]
            self._busy[name] += row.core * self._every_s * SECOND // 100
            if whole:
                share = row.core / whole
                self._energy[name] += round(watts * self._every_s * share * 1e6)

    def busy(self) -> Sums:
        """The gauge times the scrape interval, added up."""
        return self._busy

    def energy(self) -> Sums:
        """Power above idle at the scrape, times the interval, by the rows' shares (Kepler)."""
        return self._energy


class Poll:
    """What is new in each second, added up as it is, or as shares of the device's busy time."""

    def __init__(self, node: BenchNode, *, scaled: bool) -> None:
        self._node = node
        self._scaled = scaled
        self._busy: Counter[str] = Counter()

    def busy(self) -> Sums:
        """The sum."""
        return self._busy

    def energy(self) -> None:
        """None."""

    def _add(self, used: Sums, device_ns: int) -> None:
        whole = sum(used.values())
        scale = min(device_ns / whole, SCALE_CAP) if self._scaled and whole else 1.0
        for name, ns in used.items():
            self._busy[name] += round(ns * scale)


class RowPoll(Poll):
    """The rows of each second."""

    def __init__(self, node: BenchNode, clock: SetClock, *, scaled: bool) -> None:
        super().__init__(node, scaled=scaled)
        self.name = f"{'scaled' if scaled else 'raw'} poll 1 s"
        self._since_us = clock.time_ns() // 1000

    def look(self, second: int) -> None:  # noqa: ARG002 - it polls every second
        """Poll what is newer than the newest sample of the last poll."""
        samples = self._node.busy_samples(0, "core", self._since_us)
        length_us = samples[-1].timestamp_us - self._since_us
        percent = sum(sample.percent for sample in samples) / len(samples)
        labels = self._node.labels()
        used: Counter[str] = Counter()
        for row in self._node.process_samples(0, self._since_us):
            used[labels[row.pid]] += row.core * length_us * 10
        self._add(used, round(percent * length_us * 10))
        self._since_us = samples[-1].timestamp_us


class Accounting(Poll):
    """Accounting of R610 and newer: the driver adds up all samples that name a process."""

    def __init__(self, node: BenchNode, *, scaled: bool) -> None:
        super().__init__(node, scaled=scaled)
        self.name = f"accounting v2{', scaled' if scaled else ''}"
        self._since_us = 0

    def look(self, second: int) -> None:  # noqa: ARG002 - the driver does so every second
        """The driver's own timer: the sum of each process in its ratio form, sum over count."""
        labels = self._node.labels()
        used: Counter[str] = Counter()
        device_ns = 0
        for sample in self._node.samples_since(self._since_us):
            name = labels.get(sample.pids[0], UNIDENTIFIED)
            busy_ns = sample.hundredths(0) * sample.length_us // 10
            device_ns += busy_ns
            if name != UNIDENTIFIED:
                used[name] += busy_ns
            self._since_us = sample.end_us
        self._add(used, device_ns)
