"""The collector: runs the cycle in its thread, and holds the newest Snapshot."""

import logging
import platform
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from exporter import __version__
from exporter.agent.attribution.ownership import Sandboxes
from exporter.agent.attribution.tenancy import account_for, without_tenants_servers
from exporter.agent.collector.cyclerules import CycleRules, IdlePolicy, idle_weights
from exporter.agent.collector.group_names import GroupNames
from exporter.agent.collector.plausible import Plausible
from exporter.agent.collector.podallocations import Allocations
from exporter.agent.collector.polling import SourcePoller, Sources
from exporter.agent.collector.processowners import (
    Holders,
    ProcessOwners,
    Residency,
    SandboxWatch,
    owners_of,
    pids_of,
)
from exporter.agent.collector.series_limit import DroppedSeries, limit_facts
from exporter.agent.facts import CycleFacts, at_most, facts_of
from exporter.agent.facts.factsview import FactsView
from exporter.agent.facts.history import extended, gauges_of
from exporter.agent.facts.shownlimits import Limits
from exporter.agent.ledger import Allocated, Ledger, Moment
from exporter.agent.sources.gpus.gpusource import RestartRequiredError
from exporter.agent.sources.pods.labels import PodLabels
from exporter.model import (
    CgroupIdentity,
    Clock,
    DeviceMemory,
    DeviceReading,
    DeviceState,
    ExporterFacts,
    LastReload,
    NodeFacts,
    PodTable,
    ProcessInfo,
    Reading,
    Snapshot,
    SourceStatus,
    Unattributed,
    Unmeasured,
)

logger = logging.getLogger(__name__)

FIRST_LIST_S = 2.0
LONGEST_LOOK_NS = 5 * 10**9  # for so long accounts stay as they are, unless something changes


class Pulse(NamedTuple):
    """The cycle's clock, for the health check. ``done`` counts finished cycles."""

    moved_mono_ns: int
    done: int
    interval_ns: int = 10**9


class Basis(NamedTuple):
    """What accounts depend on, beside the devices. ``pods`` is the version of their table.

    ``unidentified``: why no process can be given to its container, None if processes can.
    """

    rules: CycleRules
    pods: int
    node: NodeFacts
    unidentified: Unmeasured | None
    identities: Mapping[int, CgroupIdentity | Unattributed]
    group_kinds: frozenset[str]
    sandboxes: Sandboxes


class Outcome(NamedTuple):
    """What a cycle made of what was read, for readers. ``ledger`` is a copy that stays.

    ``memories`` are those of the devices, as they were read. No family has more than
    ``most_series``. Accounts that are old are closed from ``until_mono_ns`` on.
    """

    given: Basis
    memories: Mapping[str, DeviceMemory | None]
    holders: Mapping[str, Holders]
    found: ProcessOwners
    ledger: Ledger
    facts: CycleFacts
    described: Mapping[int, ProcessInfo]
    most_series: int
    until_mono_ns: int


class Collector:
    """Runs the cycle and holds the newest Snapshot. ``pulse``: when its clock last moved."""

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
        self._poller = SourcePoller(sources, clock)
        self._idle = idle
        self._shown = PodLabels()
        self._allocations = Allocations(self._rules.allocations, clock)
        self._sandboxes = SandboxWatch()
        self._allocated: list[Allocated] = []
        self._plausible = Plausible()
        self._dropped = DroppedSeries()
        self._group_names = GroupNames()
        self._residency = Residency()
        self.pulse = Pulse(clock.monotonic_ns(), 0, self._rules.interval_ns)
        self._overruns = 0
        self._outcome: Outcome | None = None

    def follow(self, rules: CycleRules) -> None:
        """Applies these rules from the next cycle on. Thread-safe."""
        self._rules_to_come = rules

    def run(self, stop: threading.Event) -> None:
        """Cycles at the interval until stopped, or until only a restart helps."""
        with self._allocations.beside():
            # Use that is entered before the first list of pods would be under the pods' ids instead
            # of their names, in series that nobody looks for. So the first cycle waits a moment.
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
                    # Cycles that were missed are not made up for: the node is slow already, and the
                    # drivers' rings have kept the samples.
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
        # Devices come first. Processes and pods are looked up after the use that they explain, so
        # that a process which has just come is found.
        readings = self._poller.readings(rules)
        # A driver may take long. So "now" is after the read, and the health check sees the clock
        # move before the rest of the cycle is done.
        now = Moment(self._clock.monotonic_ns(), self._clock.time_ns())
        self.pulse = Pulse(now.mono_ns, self.pulse.done, self.pulse.interval_ns)
        devices = self._plausible.of(readings, now.mono_ns)
        table = self._poller.table()
        node = self._poller.node_facts(table, readings)
        kinds = self._poller.group_kinds()
        identities, processes = self._poller.identities(pids_of(devices.values()))
        # While processes cannot be identified, the series of all owners are withheld.
        why = None if processes.up else processes.reason or Unmeasured.READ_FAILED
        given = Basis(rules, table.version, node, why, identities, kinds, self._sandboxes.now)
        # Mostly a cycle only looks whether anything has come, gone or changed. Then no account
        # changes either, and readers get those of the last cycle that read.
        last, self._outcome = self._outcome, None  # what fails half-way is done again
        if last is not None and self._is_as_before(last, given, devices, now):
            self._outcome = self._looked(last, devices, now)
        else:
            self._outcome = self._accounted(last, given, table, devices, now)
        if self._allocations.seeks(now.mono_ns):
            self._poller.look_soon()  # an allocation names a device that is not known yet
        self.snapshot = self._published(self._outcome, readings, processes)
        self.pulse = Pulse(self._clock.monotonic_ns(), self.pulse.done + 1, rules.interval_ns)
        return self.snapshot

    def _is_as_before(
        self, last: Outcome, given: Basis, devices: Mapping[str, DeviceReading], now: Moment
    ) -> bool:
        """Whether nothing was read, and nothing has changed that accounts depend on."""
        before, ledgers = last.facts.readings, last.ledger.devices
        return (
            now.mono_ns < last.until_mono_ns
            and given == last.given
            and devices.keys() == before.keys()
            and self._allocations.is_current
            and not any(
                each.windows
                or not (each.state is before[uuid].state is DeviceState.UP)
                or each.memory != last.memories[uuid]
                or each.unmeasured != before[uuid].unmeasured
                or each.device != before[uuid].device
                or not each.seen <= before[uuid].seen
                # These end with time: who is uncertain, and a list that does not come again.
                or ledgers[uuid].uncertain
                or (each.memory is None and ledgers[uuid].held is not None)
                for uuid, each in devices.items()
            )
        )

    def _looked(self, last: Outcome, devices: Mapping[str, DeviceReading], now: Moment) -> Outcome:
        """The last cycle's accounts, now, with the sensors, XIDs and costs of these readings."""
        self._ledger.look(devices.values(), now)
        readings = {
            uuid: last.facts.readings[uuid]._replace(
                detail=each.detail, sensors=each.sensors, xids=each.xids, costs=each.costs
            )
            for uuid, each in devices.items()
        }
        return last._replace(facts=replace(last.facts, now=now, readings=readings))

    def _accounted(
        self,
        last: Outcome | None,
        given: Basis,
        table: PodTable,
        devices: Mapping[str, DeviceReading],
        now: Moment,
    ) -> Outcome:
        """Enters what was read into the ledger, and returns what readers get of it."""
        rules, ledger = given.rules, self._ledger
        ledger.group_kinds, ledger.unidentified = given.group_kinds, given.unidentified
        memories = {uuid: each.memory for uuid, each in devices.items()}
        # What the kernel charges to owners is nobody's while processes cannot be identified.
        known = [] if given.unidentified else [each for each in memories.values() if each]
        cgroups = [charge.identity for memory in known for charge in memory.charges]
        found = owners_of(
            given.identities, table, given.sandboxes, by_step=rules.by_step, cgroups=cgroups
        )
        devices = {
            uuid: without_tenants_servers(each, found.owners, rules.mps_servers)
            for uuid, each in devices.items()
        }
        # A list of processes stays the same for seconds, and with it who holds how much.
        before = last.facts.readings if last is not None and last.found == found else {}
        holders = {
            uuid: last.holders[uuid]
            if last is not None and uuid in before and before[uuid].memory is each.memory
            else found.holders(each.memory)
            for uuid, each in devices.items()
        }
        self._enter(devices, found, holders, now)
        # Allocations are set after the windows were entered. The windows are from before now, and
        # what is allocated from now on is not compared with them.
        seen_on = partial(found.seen_on, devices.values())
        allocated = self._allocated = self._allocations.of(table, given.node, seen_on)
        ledger.set_allocations(allocated, now)
        ledger.settle(now)
        version = self._allocations.version
        of = allocated, ledger.devices.keys()
        is_same = last is not None and of == (last.facts.allocated, last.ledger.devices.keys())
        facts = CycleFacts(
            now,
            devices,
            allocated,
            self._allocations.ended,
            self._allocations.pods_by_name,
            self._allocations.replicas,
            undecoded=self._allocations.undecoded,
            shown=self._shown.of(table, rules.allowed),
            sandboxed=self._sandboxes.follow(found, allocated, version, now.mono_ns).lasting,
            groups=self._group_names.of(
                found, given.identities, ledger.groups, self._poller.groups
            ),
            limits=last.facts.limits if last and is_same else Limits(allocated, ledger.devices),
            jobs=found.jobs_on(devices.values()),
        )
        described, frozen = self._poller.described(found.owners), ledger.frozen()
        most, until_ns = at_most(ledger, facts, rules.left_out), now.mono_ns + LONGEST_LOOK_NS
        return Outcome(given, memories, holders, found, frozen, facts, described, most, until_ns)

    def _enter(
        self,
        devices: Mapping[str, DeviceReading],
        found: ProcessOwners,
        holders: Mapping[str, Holders],
        now: Moment,
    ) -> None:
        """Enters the states, memory and windows of all devices into the ledger."""
        ledger, owners = self._ledger, found.owners
        for uuid, reading in devices.items():
            # A device that cannot be read is observed too: one that is not has left the node.
            ledger.observe(reading, now)
            if reading.state is not DeviceState.UP:
                continue
            held, residents = holders[uuid]
            if residents is not None or held:
                ledger.set_memory(uuid, held, now, is_complete=residents is not None)
            # Idle energy is divided by the allocations of the cycle before, which were there while
            # the windows were.
            weights = None
            # The newest window has ended now. Each earlier one ended before those that follow it.
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
        self, outcome: Outcome, readings: Sequence[Reading], processes: SourceStatus
    ) -> Snapshot:
        facts, rules = outcome.facts, self._rules
        now = facts.now
        # Facts are built when somebody reads them: most cycles have no reader. The bound is cheap,
        # and mostly shows that no family has too many series, without building them.
        built, before = facts_of(outcome.ledger, facts), self.snapshot.measured
        limited = limit_facts(built, before, rules.most_series, outcome.most_series, rules.left_out)
        self._dropped.count(limited.dropped, rules.most_series)
        own = self._own(readings, processes, now)
        history = extended(
            self.snapshot.history, lambda: gauges_of(FactsView(outcome.ledger, facts)), now
        )
        return Snapshot(
            version=self.snapshot.version + 1,
            unix_ns=now.unix_ns,
            mono_ns=now.mono_ns,
            simulated=own.simulated,
            measured=limited.measured,
            exporter=own,
            sources=own.sources,
            tenants=self._residency.tenants(facts.readings.values(), now.mono_ns - rules.window_ns),
            owners=outcome.found.owners,
            processes=outcome.described,
            history=history,
            interval_ns=rules.interval_ns,
            figures_age_ns=self._ledger.figures_age_ns(now),
            started_unix_ns=self.snapshot.started_unix_ns,
        )

    def _own(
        self, readings: Sequence[Reading], processes: SourceStatus, now: Moment
    ) -> ExporterFacts:
        gpus = (r.status for r in readings if not r.status.absent)
        own = self._plausible.rejected, self._allocations.problems, self._shown.rejected
        rejected: Counter[str] = Counter()
        for counts in (*own, *self._poller.rejected()):
            rejected.update({reason: count for reason, count in counts.items() if count})
        return ExporterFacts(
            version=__version__,
            python=platform.python_version(),
            unix_ns=now.unix_ns,
            cycles=self.pulse.done + 1,
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
