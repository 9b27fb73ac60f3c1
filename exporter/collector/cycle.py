"""The cycle itself.

The cycle's clock, for those who ask whether it still moves.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from exporter.attribution.tenancy import account_for
from exporter.collector.allotments import Allotments
from exporter.collector.bound import Surplus, bounded
from exporter.collector.budget import Keeper
from exporter.collector.idle import IdlePolicy, idle_weights
from exporter.collector.membership import Membership, Naming
from exporter.collector.own_rows import LastReload, Own, with_own
from exporter.collector.plausible import Plausible
from exporter.collector.polling import Asking, Guard
from exporter.collector.sources import CycleRules, Sources
from exporter.collector.tenants import Residency
from exporter.ledger import Allotted, Ledger, Moment
from exporter.model import (
    Clock,
    DeviceReading,
    DeviceState,
    Owner,
    Reading,
    Snapshot,
    SourceStatus,
    Unmeasured,
)
from exporter.rows.book_view import CycleFacts
from exporter.rows.history import current_gauges, extended, gauges_of
from exporter.rows.lazy import at_most, rows_of
from exporter.sources.gpus.source import RestartRequiredError
from exporter.sources.pods.labels import PodLabels


class Pulse(NamedTuple):
    """The cycle's clock, for the health check. ``done`` counts finished cycles."""

    moved_mono_ns: int
    done: int
    interval_ns: int = 10**9


logger = logging.getLogger(__name__)

FIRST_LIST_S = 2.0


class Collector:
    """Runs the cycle and holds the newest Snapshot."""

    def __init__(
        self,
        sources: Sources,
        ledger: Ledger,
        clock: Clock,
        rules: CycleRules | None = None,
        idle: IdlePolicy = IdlePolicy.UNATTRIBUTED,
        cpu_ns: Callable[[], int] = time.process_time_ns,
    ) -> None:
        self.snapshot = Snapshot(mono_ns=clock.monotonic_ns(), unix_ns=clock.time_ns())
        self.fatal: RestartRequiredError | None = None
        self.last_reload: Callable[[], LastReload | None] = lambda: None
        self._pods, self._processes = sources.pods, sources.processes
        self._asking = Asking(sources, clock)
        self._ledger = ledger
        self._clock = clock
        self._rules_to_come = rules or CycleRules()
        self._keeper = Keeper(self._rules_to_come, cpu_ns)
        self._idle = idle
        self._shown = PodLabels(self._rules.allowed)
        self._membership = Membership()
        self._allotments = Allotments(self._rules.allotments)
        self._allotted: list[Allotted] = []
        self._plausible = Plausible()
        self._surplus = Surplus()
        self._naming = Naming()
        self._residency = Residency(ledger.window_ns, Guard(sources.processes.name, clock))
        self._pulse = Pulse(clock.monotonic_ns(), 0, self._rules.interval_ns)
        self._overruns = 0

    @property
    def _rules(self) -> CycleRules:
        """Those in force."""
        return self._keeper.rules

    @property
    def pulse(self) -> Pulse:
        """When the cycle's clock last moved."""
        return self._pulse

    def follow(self, rules: CycleRules) -> None:
        """Work by these rules from the next cycle on. For any thread."""
        self._rules_to_come = rules

    def run(self, stop: threading.Event) -> None:
        """Cycle at the interval until told to stop, or until only a restart helps.

        The first cycle waits a moment for the first list of pods: use that is entered before
        would stand under the pods' ids instead of their names.
        """
        self._pods.wait(FIRST_LIST_S)
        due = self._clock.monotonic_ns()
        while not stop.is_set():
            try:
                self.cycle()
            except RestartRequiredError as error:
                self.fatal = error
                return
            except Exception:
                logger.exception("the cycle failed; the next one starts anew")
            now = self._clock.monotonic_ns()
            if self._keeper.note(now):
                self._asking.follow(self._rules)
            due += self._rules.interval_ns
            if now > due:
                self._overruns += 1
                due = now
            stop.wait((due - now) / 1e9)

    def cycle(self) -> Snapshot:
        """Do one cycle and publish its Snapshot.

        Raises:
            RestartRequiredError: a source can only be helped by a new process.

        """
        if self._rules_to_come is not self._keeper.set:
            self._adopt(self._rules_to_come)
        readings = self._asking.readings()
        now = Moment(self._clock.monotonic_ns(), self._clock.time_ns())
        self._pulse = Pulse(now.mono_ns, self._pulse.done, self._pulse.interval_ns)
        devices = self._plausible.of(readings, now.mono_ns)
        table = self._asking.table()
        self._ledger.kinds = self._asking.group_kinds()
        identities, processes = self._asking.identities(devices.values())
        self._ledger.nameless = None if processes.up else processes.reason or Unmeasured.READ_FAILED
        self._membership.update(identities, table, by_step=self._rules.by_step)
        owners = self._membership.owners
        self._enter(devices, owners, now)
        seen = partial(self._membership.seen_on, devices.values())
        node = self._asking.node_facts(table, readings)
        self._allotted = self._allotments.of(table, node, seen)
        self._ledger.allot(self._allotted, now)
        self._ledger.settle(now)
        facts = CycleFacts(
            *(now, devices, self._allotted, self._allotments.named, self._allotments.replicas),
            shown=self._shown.of(table),
            groups=self._naming.of(owners, identities, self._ledger.groups, self._asking.groups),
        )
        self.snapshot = self._published(facts, readings, processes)
        moved, interval_ns = self._clock.monotonic_ns(), self._rules.interval_ns
        self._pulse = Pulse(moved, self._pulse.done + 1, interval_ns)
        return self.snapshot

    def _adopt(self, rules: CycleRules) -> None:
        self._keeper.follow(rules)
        self._ledger.window_ns, self._ledger.retention_ns = rules.window_ns, rules.retention_ns
        self._residency.window_ns = rules.window_ns
        self._allotments.rules = rules.allotments
        self._shown.allow(rules.allowed)
        self._asking.follow(self._rules)

    def _enter(
        self, devices: Mapping[str, DeviceReading], owners: Mapping[int, Owner], now: Moment
    ) -> None:
        ledger = self._ledger
        for uuid, reading in devices.items():
            ledger.meet(reading, now)
            if reading.state is not DeviceState.UP:
                continue
            held, residents = self._membership.holders(uuid, reading.memory)
            if residents is not None:
                ledger.hold(uuid, held, now)
            window = reading.window
            if window is not None:
                weights = idle_weights(self._idle, uuid, held, self._allotted)
                credit = ledger.books[uuid].credit
                usage = account_for(reading.device, window, owners, residents, weights, credit)
                ledger.record(usage, now)
                self._residency.enter(usage, window.processes, owners, now.mono_ns)

    def _published(
        self, facts: CycleFacts, readings: Sequence[Reading], processes: SourceStatus
    ) -> Snapshot:
        now, rules, owners = facts.now, self._rules, self._membership.owners
        rows, highest = rows_of(self._ledger, facts), at_most(self._ledger, facts)
        taken = bounded(rows, self.snapshot.rows, rules.most_series, highest)
        self._surplus.count(taken.dropped, rules.most_series)
        present = gauges_of(taken.rows) if taken.dropped else current_gauges(self._ledger, facts)
        own = self._own(readings, processes, now)
        return Snapshot(
            version=self.snapshot.version + 1,
            unix_ns=now.unix_ns,
            mono_ns=now.mono_ns,
            simulated=own.simulated,
            rows=with_own(taken.rows, own),
            sources=own.sources,
            dropped=taken.dropped,
            most_series=rules.most_series,
            tenants=self._residency.tenants(facts.readings.values(), now.mono_ns),
            owners=owners,
            processes=self._residency.described(owners, now.mono_ns, self._processes),
            history=extended(self.snapshot.history, present, now),
            interval_ns=rules.interval_ns,
        )

    def _own(self, readings: Sequence[Reading], processes: SourceStatus, now: Moment) -> Own:
        gpus = (r.status for r in readings if not r.status.absent)
        counted = self._plausible.rejected, self._allotments.problems, self._shown.rejected
        return Own(
            unix_ns=now.unix_ns,
            cycles=self._pulse.done + 1,
            overruns=self._overruns,
            interval_ns=self._rules.interval_ns,
            budget=self._keeper.budget.share,
            cpu_used=self._keeper.budget.used,
            simulated=any(reading.simulated for reading in readings),
            idle=self._idle,
            sources=(*gpus, processes, *self._asking.statuses()),
            rejected=(*map(dict, counted), *self._asking.rejected()),
            calls=tuple(reading.calls for reading in readings),
            dropped=dict(self._surplus.total),
            reload=self.last_reload(),
        )
