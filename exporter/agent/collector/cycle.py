"""The collector: runs the cycle in its thread, and holds the newest Snapshot."""

import logging
import platform
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from exporter import __version__
from exporter.agent.collector.accounting import Accounting, CycleInput, Outcome
from exporter.agent.collector.cyclerules import CycleRules, IdlePolicy
from exporter.agent.collector.plausible import Plausible
from exporter.agent.collector.polling import SourcePoller, Sources
from exporter.agent.collector.processowners import pids_of
from exporter.agent.collector.series_limit import DroppedSeries, limit_facts
from exporter.agent.facts import facts_of
from exporter.agent.facts.factsview import FactsView
from exporter.agent.facts.history import extended, gauges_of
from exporter.agent.ledger import Ledger, Moment
from exporter.agent.sources.gpus.gpusource import RestartRequiredError
from exporter.model import (
    Clock,
    ExporterFacts,
    LastReload,
    Reading,
    Snapshot,
    SourceStatus,
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
        self._clock = clock
        self._rules_to_come = rules or CycleRules()
        self._rules = self._rules_to_come.watched
        self._poller = SourcePoller(sources, clock)
        self._idle = idle
        self._accounting = Accounting(ledger, self._rules, idle, self._poller, clock)
        self._plausible = Plausible()
        self._dropped = DroppedSeries()
        self.pulse = Pulse(clock.monotonic_ns(), 0, self._rules.interval_ns)
        self._overruns = 0

    def follow(self, rules: CycleRules) -> None:
        """Applies these rules from the next cycle on. Thread-safe."""
        self._rules_to_come = rules

    def run(self, stop: threading.Event) -> None:
        """Cycles at the interval until stopped, or until only a restart helps."""
        with self._accounting.beside():
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
        outcome = self._accounting.of(
            CycleInput(now, rules, devices, table, node, identities, why, kinds)
        )
        if self._accounting.seeks(now):
            self._poller.look_soon()
        self.snapshot = self._published(outcome, readings, processes)
        self.pulse = Pulse(self._clock.monotonic_ns(), self.pulse.done + 1, rules.interval_ns)
        return self.snapshot

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
            tenants=self._accounting.tenants(
                facts.readings.values(), now.mono_ns - rules.window_ns
            ),
            owners=outcome.found.owners,
            processes=outcome.described,
            history=history,
            interval_ns=rules.interval_ns,
            figures_age_ns=self._accounting.figures_age_ns(now),
            started_unix_ns=self.snapshot.started_unix_ns,
        )

    def _own(
        self, readings: Sequence[Reading], processes: SourceStatus, now: Moment
    ) -> ExporterFacts:
        gpus = (r.status for r in readings if not r.status.absent)
        rejected: Counter[str] = Counter()
        for counts in (
            self._plausible.rejected,
            *self._accounting.rejected(),
            *self._poller.rejected(),
        ):
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
