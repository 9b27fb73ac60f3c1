"""The collector: runs the cycle in its thread, and holds the newest Snapshot."""

import logging
import platform
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from exporter import __version__
from exporter.agent.attribution.tenancy import MPS, account_for, without_tenants_servers
from exporter.agent.collector.allocations import Allocations, Search, SeenOn
from exporter.agent.collector.group_names import GroupNames
from exporter.agent.collector.owners import (
    ProcessOwners,
    Residency,
    SandboxWatch,
    owners_of,
    pids_of,
)
from exporter.agent.collector.plausible import Plausible
from exporter.agent.collector.polling import SourcePoller, Sources
from exporter.agent.collector.rules import CycleRules, IdlePolicy, idle_weights
from exporter.agent.collector.series_limit import DroppedSeries, limit_facts
from exporter.agent.facts import CycleFacts, at_most, facts_of
from exporter.agent.facts.history import extended
from exporter.agent.facts.limits import Limits
from exporter.agent.ledger import Allocated, Ledger, Moment
from exporter.agent.sources.gpus.source import RestartRequiredError
from exporter.agent.sources.pods.labels import PodLabels
from exporter.model import (
    CgroupIdentity,
    Clock,
    DeviceReading,
    DeviceState,
    ExporterFacts,
    LastReload,
    NodeFacts,
    Owner,
    PodTable,
    Reading,
    Snapshot,
    SourceStatus,
    Unattributed,
    Unmeasured,
)

logger = logging.getLogger(__name__)

FIRST_LIST_S = 2.0


class Pulse(NamedTuple):
    """The cycle's clock, for the health check. ``done`` counts finished cycles."""

    moved_mono_ns: int
    done: int
    interval_ns: int = 10**9


class Collector:
    """Runs the cycle and holds the newest Snapshot."""

    def __init__(
        self,
        sources: Sources,
        ledger: Ledger,
        clock: Clock,
        rules: CycleRules | None = None,
        idle: IdlePolicy = IdlePolicy.UNATTRIBUTED,
    ) -> None:
        unix_ns = clock.time_ns()
        self.snapshot = Snapshot(
            mono_ns=clock.monotonic_ns(), unix_ns=unix_ns, started_unix_ns=unix_ns
        )
        self.fatal: RestartRequiredError | None = None
        self.last_reload: Callable[[], LastReload | None] = lambda: None
        self.is_watched: Callable[[], bool] = lambda: True
        self.reviews: Callable[[], Mapping[tuple[str, ...], int] | None] = lambda: None
        self._pods = sources.pods
        self._ledger = ledger
        self._clock = clock
        self._rules_to_come = rules or CycleRules()
        self._rules = self._rules_to_come.watched
        self._poller = SourcePoller(sources, clock, self._rules)
        self._idle = idle
        self._shown = PodLabels()
        self._allocations = Allocations(self._rules.allocations, clock)
        self._search = Search()
        self._sandboxes = SandboxWatch()
        self._allocated: list[Allocated] = []
        self._limits, self._summed_of = Limits((), ()), (0, tuple[str, ...]())
        self._plausible = Plausible()
        self._dropped = DroppedSeries()
        self._group_names = GroupNames()
        self._residency = Residency()
        self._pulse = Pulse(clock.monotonic_ns(), 0, self._rules.interval_ns)
        self._overruns = 0

    @property
    def pulse(self) -> Pulse:
        """When the cycle's clock last moved."""
        return self._pulse

    def follow(self, rules: CycleRules) -> None:
        """Applies these rules from the next cycle on. Thread-safe."""
        self._rules_to_come = rules

    def run(self, stop: threading.Event) -> None:
        """Cycles at the interval until stopped, or until only a restart helps.

        The first cycle waits a moment for the first list of pods: use that is entered before would
        be under the pods' ids instead of their names.
        """
        with self._allocations.beside():
            self._run(stop)

    def _run(self, stop: threading.Event) -> None:
        self._pods.wait(FIRST_LIST_S)
        due = self._clock.monotonic_ns()
        while not stop.is_set():
            try:
                self.cycle()
            except RestartRequiredError as error:
                self.fatal = error
                return
            except Exception:
                logger.exception("the cycle failed; the next one starts again")
            now = self._clock.monotonic_ns()
            due += self._rules.interval_ns
            if now > due:
                self._overruns += 1
                due = now
            stop.wait((due - now) / 1e9)

    def cycle(self) -> Snapshot:
        """Runs one cycle and publishes its Snapshot.

        Raises:
            RestartRequiredError: a source can only be helped by a new process.

        """
        rules = self._rules_to_come
        rules = self._rules = rules.watched if self.is_watched() else rules
        self._ledger.follow(rules)
        self._allocations.rules = rules.allocations
        readings = self._poller.readings(rules)
        now = Moment(self._clock.monotonic_ns(), self._clock.time_ns())
        self._pulse = Pulse(now.mono_ns, self._pulse.done, self._pulse.interval_ns)
        devices = self._plausible.of(readings, now.mono_ns)
        table = self._poller.table()
        identities, processes = self._identify(devices)
        # While processes cannot be identified, the series of all owners are withheld: what is
        # charged to them is nobody's then, as all else is.
        memories = [d.memory for d in devices.values() if d.memory] if processes.up else []
        cgroups = [charge.identity for memory in memories for charge in memory.charges]
        found = owners_of(
            identities, table, self._sandboxes.now, by_step=rules.by_step, cgroups=cgroups
        )
        owners = found.owners
        devices = self._with_known_servers(devices, owners)
        self._enter(devices, found, now)
        seen = partial(found.seen_on, devices.values())
        self._allocate(table, self._poller.node_facts(table, readings), seen, now)
        self._ledger.settle(now)
        sandboxed = self._sandboxes.follow(
            found, self._allocated, self._allocations.version, now.mono_ns
        ).lasting
        groups = self._group_names.of(found, identities, self._ledger.groups, self._poller.groups)
        facts = CycleFacts(
            now,
            devices,
            self._allocated,
            self._allocations.ended,
            self._allocations.pods_by_name,
            self._allocations.replicas,
            undecoded=self._allocations.undecoded,
            shown=self._shown.of(table, rules.allowed),
            sandboxed=sandboxed,
            groups=groups,
            limits=self._summed(),
        )
        self.snapshot = self._published(facts, owners, readings, processes)
        self._pulse = Pulse(self._clock.monotonic_ns(), self._pulse.done + 1, rules.interval_ns)
        return self.snapshot

    def _allocate(self, table: PodTable, node: NodeFacts, seen: SeenOn, now: Moment) -> None:
        """Sets the allocations. A device that one names, and nobody knows, is looked for soon."""
        self._allocated = self._allocations.of(table, node, seen)
        if self._search.is_on(self._allocations.awaited, now.mono_ns):
            self._poller.look_soon()
        self._ledger.set_allocations(self._allocated, now)

    def _summed(self) -> Limits:
        """The allocations summed up, again when they or the devices changed."""
        of = self._allocations.version, tuple(self._ledger.devices)
        if of != self._summed_of:
            self._limits = Limits(self._allocated, self._ledger.devices)
            self._summed_of = of
        return self._limits

    def _identify(
        self, devices: Mapping[str, DeviceReading]
    ) -> tuple[Mapping[int, CgroupIdentity | Unattributed], SourceStatus]:
        """The identities of the devices' processes, with their source's status."""
        self._ledger.group_kinds = self._poller.group_kinds()
        identities, processes = self._poller.identities(pids_of(devices.values()))
        self._ledger.unidentified = (
            None if processes.up else processes.reason or Unmeasured.READ_FAILED
        )
        return identities, processes

    def _with_known_servers(
        self, devices: dict[str, DeviceReading], owners: Mapping[int, Owner]
    ) -> dict[str, DeviceReading]:
        hosts = self._rules.mps_servers
        shared = {
            uuid: reading._replace(memory=without_tenants_servers(reading.memory, owners, hosts))
            for uuid, reading in devices.items()
            if reading.device.sharing == MPS and reading.memory is not None
        }
        return {**devices, **shared} if shared else devices

    def _enter(
        self, devices: Mapping[str, DeviceReading], found: ProcessOwners, now: Moment
    ) -> None:
        ledger, owners = self._ledger, found.owners
        for uuid, reading in devices.items():
            ledger.observe(reading, now)
            if reading.state is not DeviceState.UP:
                continue
            held, residents = found.holders(reading.memory)
            if residents is not None or held:
                ledger.set_memory(uuid, held, now, is_whole=residents is not None)
            weights = None
            later_ns = sum([window.length_ns for window in reading.windows])
            for window in reading.windows:
                if weights is None:
                    weights = idle_weights(self._idle, uuid, held, self._allocated)
                later_ns -= window.length_ns
                ended = now.earlier(later_ns)
                usage = account_for(reading.device, window, owners, residents, weights)
                ledger.record(usage, ended)
                self._residency.enter(usage, window.processes, owners, ended.mono_ns)

    def _published(
        self,
        facts: CycleFacts,
        owners: Mapping[int, Owner],
        readings: Sequence[Reading],
        processes: SourceStatus,
    ) -> Snapshot:
        now, rules = facts.now, self._rules
        highest = at_most(self._ledger, facts, rules.left_out)
        built = facts_of(self._ledger, facts)
        limited = limit_facts(
            built, self.snapshot.measured, rules.most_series, highest, rules.left_out
        )
        self._dropped.count(limited.dropped, rules.most_series)
        own = self._own(readings, processes, now)
        return Snapshot(
            version=self.snapshot.version + 1,
            unix_ns=now.unix_ns,
            mono_ns=now.mono_ns,
            simulated=own.simulated,
            measured=limited.measured,
            exporter=own,
            sources=own.sources,
            tenants=self._residency.tenants(facts.readings.values(), now.mono_ns - rules.window_ns),
            owners=owners,
            processes=self._poller.described(owners),
            history=extended(self.snapshot.history, limited.measured, now),
            interval_ns=rules.interval_ns,
            figures_age_ns=self._ledger.figures_age_ns(now),
            started_unix_ns=self.snapshot.started_unix_ns,
        )

    def _own(
        self, readings: Sequence[Reading], processes: SourceStatus, now: Moment
    ) -> ExporterFacts:
        gpus = (r.status for r in readings if not r.status.absent)
        counted = self._plausible.rejected, self._allocations.problems, self._shown.rejected
        rejected: Counter[str] = Counter()
        for counts in (*counted, *self._poller.rejected()):
            rejected.update({reason: count for reason, count in counts.items() if count})
        return ExporterFacts(
            version=__version__,
            python=platform.python_version(),
            unix_ns=now.unix_ns,
            cycles=self._pulse.done + 1,
            overruns=self._overruns,
            interval_ns=self._rules.interval_ns,
            simulated=any(reading.simulated for reading in readings),
            idle=self._idle,
            sources=(*gpus, processes, *self._poller.statuses()),
            rejected=rejected,
            calls={name: call for reading in readings for name, call in reading.calls.items()},
            dropped=dict(self._dropped.total),
            reload=self.last_reload(),
            reviews=self.reviews(),
        )
