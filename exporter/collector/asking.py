"""What the cycle asks of its sources, each under its guard. Of one that fails, the last stands."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from functools import partial

from exporter.collector.guard import Guard
from exporter.collector.pids import Pids
from exporter.collector.rules import CycleRules
from exporter.collector.sources import Reporting, Sources
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
from exporter.node.facts import merged


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
