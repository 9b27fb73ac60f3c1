"""The sources of the cycle, and how its thread polls them, each under a guard.

Calls are timed, and failures are caught and logged once. If a source of pods or of node facts
fails, its last answer is used. GPUs that cannot be read, and processes and groups that cannot be
looked up, are unknown in that cycle.
"""

import logging
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from exporter.agent.collector.cyclerules import CycleRules
from exporter.agent.sources.cgroups.processsource import ProcessSource
from exporter.agent.sources.gpus.gpusource import GpuSource, RestartRequiredError
from exporter.agent.sources.groups.groupsource import GroupSource
from exporter.agent.sources.node.nodesource import NodeSource, merged
from exporter.agent.sources.pods.podsource import PodSource
from exporter.model import (
    CgroupIdentity,
    Clock,
    Device,
    DeviceReading,
    DeviceState,
    GroupFacts,
    GroupKey,
    GroupMembers,
    NodeFacts,
    PodTable,
    ProcessInfo,
    Reading,
    SourceStatus,
    Unattributed,
)

logger = logging.getLogger(__name__)

T = TypeVar("T")

FAILED = "its source failed; see the log"
_SECONDS = re.compile(r"[0-9.]+ s\b")

Listening = PodSource | NodeSource | GroupSource
Reporting = ProcessSource | PodSource | NodeSource | GroupSource


@dataclass(frozen=True, slots=True)
class Sources:
    """All sources. If two ``nodes`` or ``groups`` have the same fact, the later one wins.

    ``others`` returns the statuses of sources that replace one of these now.
    """

    gpus: tuple[GpuSource, ...]
    processes: ProcessSource
    pods: PodSource
    nodes: tuple[NodeSource, ...] = ()
    others: Callable[[], tuple[SourceStatus, ...]] = tuple
    groups: tuple[GroupSource, ...] = ()

    @property
    def listening(self) -> tuple[Listening, ...]:
        """The sources that must be started."""
        return (self.pods, *self.nodes, *self.groups)

    @property
    def reporting(self) -> tuple[Reporting, ...]:
        """The sources with a status of their own."""
        return (self.processes, self.pods, *self.nodes, *self.groups)

    @property
    def all(self) -> tuple[GpuSource | Reporting, ...]:
        """The sources in the order in which to close them: a driver may have to be waited for."""
        return (*self.reporting, *self.gpus)


class Guard:
    """Calls one source so that its failures do not end the cycle.

    It records when the source last succeeded. ``away`` is the status of a source that fails to
    report one.
    """

    def __init__(self, name: str, clock: Clock) -> None:
        self.name = name
        self.away = SourceStatus(name, up=False)
        self.needs_restart: RestartRequiredError | None = None
        self._devices: tuple[Device, ...] = ()  # of the last reading
        self._clock = clock
        self._last_success_unix_ns: int | None = None
        self._failures: dict[str, str] = {}  # what the last call of each kind raised, if it did
        self._said = ""  # the trouble that was logged last, without times; "" if the source is up

    def read(self, source: GpuSource) -> Reading:
        """Reads a GPU source; if it raises, it is down, and none of its devices could be read.

        ``needs_restart`` is then what it raised, if only a new process can help.
        """
        started = self._clock.monotonic_ns()
        self.needs_restart = None
        try:
            reading = self.call("read", source.read, None) or self._unread(self.away, FAILED)
        except RestartRequiredError as error:
            self.needs_restart = error
            reading = self._unread(self.away._replace(detail=str(error)), str(error))
        # If the next read fails, these devices could not be read. Without them they would have left
        # the node, and their accounts would be closed.
        self._devices = tuple(each.device for each in reading.devices)
        status = self.record_status(reading.status, started)
        return reading if status is reading.status else reading._replace(status=status)

    def _unread(self, status: SourceStatus, why: str) -> Reading:
        unread = tuple(DeviceReading(d, DeviceState.FAILED, why) for d in self._devices)
        return Reading(status, unread)

    def call(self, kind: str, ask: Callable[[], T], otherwise: T) -> T:
        """The result of ``ask``. If it raises, the result is ``otherwise`` and the source is down.

        A failure is logged once for each kind of call, and again only if it changes.

        Raises:
            RestartRequiredError: another call cannot help the source.

        """
        try:
            answer = ask()
        except RestartRequiredError:
            raise
        except Exception as error:
            failure = repr(error)[:200]
            if failure != self._failures.get(kind):
                logger.exception("source %s failed; it is asked again each cycle", self.name)
            self._failures[kind] = failure
            return otherwise
        if self._failures:
            self._failures.pop(kind, None)
        return answer

    def notify(self, action: Callable[[], None]) -> None:
        """Calls a setter on the source. A failure here does not mark the source as down."""
        try:
            action()
        except Exception:
            logger.exception("source %s does not follow the new settings; restart", self.name)

    def record_status(
        self, status: SourceStatus, started_mono_ns: int | None = None
    ) -> SourceStatus:
        """The status, with how long the read took and when one last succeeded; logs each change."""
        if self._failures:
            status = status._replace(up=False, detail="; ".join(self._failures.values()))
        if status.up:
            self._last_success_unix_ns = self._clock.time_ns()
        trouble = "" if status.up or status.absent else status.detail or "no answer"
        # "for 3 s" changes in each cycle. It is the same trouble, and one line in the log.
        said = _SECONDS.sub("", trouble) if trouble else ""
        if said != self._said and trouble:
            logger.warning("source %s is down: %s", self.name, trouble)
        elif said != self._said:
            logger.info("source %s is up again", self.name)
        self._said = said
        if status.absent:
            return status  # not shown
        took_ns = status.duration_ns
        if not took_ns and started_mono_ns is not None:
            took_ns = self._clock.monotonic_ns() - started_mono_ns
        success_unix_ns = status.last_success_unix_ns or self._last_success_unix_ns
        noted = status._replace(duration_ns=took_ns, last_success_unix_ns=success_unix_ns)
        return status if noted == status else noted


class SourcePoller:
    """Polls all sources from the cycle's thread. State is keyed by source name."""

    def __init__(self, sources: Sources, clock: Clock) -> None:
        self._sources = sources
        self._rules: CycleRules | None = None  # that the sources follow
        self._guards = {source.name: Guard(source.name, clock) for source in sources.all}
        self._listening = tuple((s, self._guards[s.name]) for s in sources.listening)
        self._reporting = tuple((s, self._guards[s.name]) for s in sources.reporting)
        self._table = PodTable()
        self._describing = Guard(sources.processes.name, clock)
        self._group_kinds: frozenset[str] = frozenset()
        self._answers = [NodeFacts() for _ in sources.nodes]
        self._found: dict[str, tuple[Device, ...]] = {}
        self._rejected: tuple[Mapping[str, int], ...] = ({},) * len(self._reporting)

    def readings(self, rules: CycleRules) -> list[Reading]:
        """The readings of the GPU sources, which follow new rules first.

        Raises:
            RestartRequiredError: only a new process can help a source.

        """
        if rules != self._rules:
            self._rules, pods = rules, self._sources.pods
            self._guards[pods.name].notify(partial(pods.follow, rules.keep))
            for source in self._sources.gpus:
                self._guards[source.name].notify(partial(source.follow, rules.demand))
        guards = [self._guards[source.name] for source in self._sources.gpus]
        readings = [g.read(s) for g, s in zip(guards, self._sources.gpus, strict=True)]
        for guard, reading in zip(guards, readings, strict=True):
            # Where others read devices, this source is down instead. A restart would cost them
            # their counters, and may not help this one.
            others = any(other.devices for other in readings if other is not reading)
            if guard.needs_restart is not None and not others:
                raise guard.needs_restart
        return readings

    def look_soon(self) -> None:
        """Lets the GPU sources look for new devices at their next read."""
        for source in self._sources.gpus:
            self._guards[source.name].call("look_soon", source.look_soon, None)

    def table(self) -> PodTable:
        """The pods; the last ones if their source fails."""
        pods = self._sources.pods
        self._table = self._guards[pods.name].call("table", pods.table, self._table)
        return self._table

    def identities(
        self, pids: Collection[int]
    ) -> tuple[Mapping[int, CgroupIdentity | Unattributed], SourceStatus]:
        """The identities of the processes; none if their source reports that it is not up."""
        source = self._sources.processes
        none: Mapping[int, CgroupIdentity | Unattributed] = {}
        found = self._guards[source.name].call("resolve", lambda: source.resolve(pids), none)
        # If the source is down, an old answer may give a process to whoever had its pid before.
        status = _status(source, self._guards[source.name])
        return found if status.up else none, status

    def described(self, pids: Collection[int]) -> Mapping[int, ProcessInfo]:
        """Facts about processes. Without them, their source is not down."""
        source = self._sources.processes
        nothing: Mapping[int, ProcessInfo] = {}
        return self._describing.call("describe", lambda: source.describe(pids), nothing)

    def group_kinds(self) -> frozenset[str]:
        """The kinds of groups that the node can have; the last answer if the source fails."""
        source = self._sources.processes
        guard = self._guards[source.name]
        self._group_kinds = guard.call("group_kinds", source.group_kinds, self._group_kinds)
        return self._group_kinds

    def node_facts(self, table: PodTable, readings: Iterable[Reading]) -> NodeFacts:
        """The devices, and the facts of all node sources. If one fails, its last answer is used."""
        self._answers = [
            self._guards[source.name].call("facts", partial(source.facts, table), last)
            for source, last in zip(self._sources.nodes, self._answers, strict=True)
        ]
        return replace(merged(self._answers), devices=self._devices(readings))

    def _devices(self, readings: Iterable[Reading]) -> tuple[Device, ...]:
        """The node's devices; a source that is down and lists none keeps its last ones."""
        # An allocation of a device that is not known would be shown as one that cannot be placed.
        for reading in readings:
            if reading.devices or reading.status.up:
                self._found[reading.status.name] = tuple(d.device for d in reading.devices)
        known = {d.uuid: d for found in self._found.values() for d in found}
        return tuple(known.values())

    def groups(
        self, members: Mapping[GroupKey, GroupMembers]
    ) -> tuple[Mapping[GroupKey, GroupFacts], ...]:
        """The facts of each source about groups; none where it fails."""
        nothing: Mapping[GroupKey, GroupFacts] = {}
        return tuple(
            self._guards[source.name].call("facts", partial(source.facts, members), nothing)
            for source in self._sources.groups
        )

    def statuses(self) -> tuple[SourceStatus, ...]:
        """The statuses of all listening sources, and of the sources that stand behind one."""
        listening = [_status(source, guard) for source, guard in self._listening]
        return (*listening, *self._sources.others())

    def rejected(self) -> tuple[Mapping[str, int], ...]:
        """What each source could not use, counted by reason; the last counts if it fails."""
        self._rejected = tuple(
            [
                guard.call("rejected", source.rejected, before)
                for (source, guard), before in zip(self._reporting, self._rejected, strict=True)
            ]
        )
        return self._rejected


def _status(source: Reporting, guard: Guard) -> SourceStatus:
    return guard.record_status(guard.call("status", source.status, guard.away))
