"""What the cycle asks of its sources, each under its guard. Of one that fails, the last stands.

Calls to sources that may fail: timed, caught, told once.
"""

import logging
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import TypeVar

from exporter.collector.membership import Pids
from exporter.collector.sources import CycleRules, Reporting, Sources
from exporter.model import (
    CgroupIdentity,
    Clock,
    Device,
    DeviceReading,
    GroupFacts,
    GroupKey,
    GroupMember,
    NodeFacts,
    PodTable,
    Reading,
    SourceStatus,
    Unattributed,
)
from exporter.sources.gpus.source import GpuSource, RestartRequiredError
from exporter.sources.node.source import merged

logger = logging.getLogger(__name__)

T = TypeVar("T")

_SECONDS = re.compile(r"[0-9.]+ s\b")


class Guard:
    """Keeps one source's failures from the cycle, and remembers when it last succeeded."""

    def __init__(self, name: str, clock: Clock) -> None:
        self.name = name
        self.away = SourceStatus(name, up=False)
        self._no_reading = Reading(self.away)
        self._clock = clock
        self._last_success_unix_ns: int | None = None
        self._failures: dict[str, str] = {}  # what the last call of each kind raised
        self._said = ""

    def read(self, source: GpuSource) -> Reading:
        """Read a GPU source; a defect in it is a source that is down."""
        started = self._clock.monotonic_ns()
        reading = self.call("read", source.read, self._no_reading)
        status = self.note(reading.status, started)
        return reading if status is reading.status else reading._replace(status=status)

    def call(self, kind: str, ask: Callable[[], T], otherwise: T) -> T:
        """What ``ask`` returns; if it fails, ``otherwise``, and the source is down.

        A failure that goes on is logged once for each kind of call.

        Raises:
            RestartRequiredError: the source cannot be helped by asking again.

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

    def tell(self, action: Callable[[], None]) -> None:
        """Tell the source something. It is no less up if it does not take it in."""
        try:
            action()
        except Exception:
            logger.exception("source %s does not follow the new settings; restart", self.name)

    def note(self, status: SourceStatus, started_mono_ns: int | None = None) -> SourceStatus:
        """Complete a status with time and last success; log each change of it once.

        A detail in which only a time changes ("for 3 s") is no news.
        """
        if self._failures:
            status = status._replace(up=False, detail="; ".join(self._failures.values()))
        name, up, detail, took_ns, success_unix_ns, reason, absent = status
        if up:
            self._last_success_unix_ns = self._clock.time_ns()
        trouble = "" if up or absent else detail or "no answer"
        if trouble or self._said:
            self._tell(trouble)
        if absent:
            return status  # shown to nobody
        if not took_ns and started_mono_ns is not None:
            took_ns = self._clock.monotonic_ns() - started_mono_ns
        success_unix_ns = success_unix_ns or self._last_success_unix_ns
        noted = SourceStatus(name, up, detail, took_ns, success_unix_ns, reason, absent)
        return status if noted == status else noted

    def _tell(self, detail: str) -> None:
        said = _SECONDS.sub("", detail) if detail else ""
        if said == self._said:
            return
        if detail:
            logger.warning("source %s is down: %s", self.name, detail)
        else:
            logger.info("source %s is up again", self.name)
        self._said = said


class Asking:
    """All sources, asked by the cycle's thread. What is kept is by the source's name."""

    def __init__(self, sources: Sources, clock: Clock) -> None:
        self._sources = sources
        self._guards = {source.name: Guard(source.name, clock) for source in sources.all}
        self._listening = tuple((s, self._guards[s.name]) for s in sources.listening)
        self._reporting = tuple((s, self._guards[s.name]) for s in sources.reporting)
        self._table = PodTable()
        self._pids = Pids()
        self._group_kinds: frozenset[str] = frozenset()
        self._told = [NodeFacts() for _ in sources.nodes]
        self._node = NodeFacts()
        self._found: dict[str, tuple[Device, ...]] = {}
        self._rejected: tuple[Mapping[str, int], ...] = ({},) * len(self._reporting)

    def follow(self, rules: CycleRules) -> None:
        """Let the sources follow the rules from now on."""
        pods = self._sources.pods
        self._guards[pods.name].tell(partial(pods.follow, rules.keep))
        for source in self._sources.gpus:
            self._guards[source.name].tell(partial(source.follow, rules.demand))

    def readings(self) -> list[Reading]:
        """What the GPU sources read.

        Raises:
            RestartRequiredError: one can only be helped by a new process.

        """
        return [self._guards[source.name].read(source) for source in self._sources.gpus]

    def table(self) -> PodTable:
        """The pods."""
        pods = self._sources.pods
        self._table = self._guards[pods.name].call("table", pods.table, self._table)
        return self._table

    def identities(
        self, devices: Collection[DeviceReading]
    ) -> tuple[Mapping[int, CgroupIdentity | Unattributed], SourceStatus]:
        """What the processes are, nothing where the source of them says that it is not up."""
        pids = self._pids.of(devices)
        source = self._sources.processes
        nobody: Mapping[int, CgroupIdentity | Unattributed] = {}
        found = self._guards[source.name].call("resolve", lambda: source.resolve(pids), nobody)
        status = _status(source, self._guards[source.name])
        return found if status.up else nobody, status

    def group_kinds(self) -> frozenset[str]:
        """The kinds of groups that the node can have; if the source fails, those it said last."""
        source = self._sources.processes
        guard = self._guards[source.name]
        self._group_kinds = guard.call("group_kinds", source.group_kinds, self._group_kinds)
        return self._group_kinds

    def node_facts(self, table: PodTable, readings: Iterable[Reading]) -> NodeFacts:
        """The devices, and what all node sources know; one that fails keeps what it said last.

        It is the same object as long as they say the same.
        """
        devices = self._devices(readings)
        told = [
            self._guards[source.name].call("facts", partial(source.facts, table), last)
            for source, last in zip(self._sources.nodes, self._told, strict=True)
        ]
        if devices != self._node.devices or told != self._told:
            self._node = replace(merged(told), devices=devices)
        self._told = told
        return self._node

    def _devices(self, readings: Iterable[Reading]) -> tuple[Device, ...]:
        """The node's devices; those of a source that is down and lists none are as it had them."""
        for reading in readings:
            if reading.devices or reading.status.up:
                self._found[reading.status.name] = tuple(d.device for d in reading.devices)
        known = {d.uuid: d for found in self._found.values() for d in found}
        return tuple(known.values())

    def groups(
        self, members: Mapping[GroupKey, GroupMember]
    ) -> tuple[Mapping[GroupKey, GroupFacts], ...]:
        """What each source knows of groups; nothing where one fails."""
        nothing: Mapping[GroupKey, GroupFacts] = {}
        return tuple(
            self._guards[source.name].call("facts", partial(source.facts, members), nothing)
            for source in self._sources.groups
        )

    def statuses(self) -> tuple[SourceStatus, ...]:
        """How those fare that listen, and those that stand behind one of them."""
        listening = [_status(source, guard) for source, guard in self._listening]
        return (*listening, *self._sources.others())

    def rejected(self) -> tuple[Mapping[str, int], ...]:
        """What each source could not use, by reason."""
        self._rejected = tuple(
            [
                guard.call("rejected", source.rejected, before)
                for (source, guard), before in zip(self._reporting, self._rejected, strict=True)
            ]
        )
        return self._rejected


def _status(source: Reporting, guard: Guard) -> SourceStatus:
    return guard.note(guard.call("status", source.status, guard.away))
