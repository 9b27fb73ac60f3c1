"""Stands between the sources and the cycle, and records the answers.

The cycle's clock moves only when a GPU source is read. So a replay, which has the moments recorded
here, shows the same time at every look at the clock.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Generic, TypeVar

from exporter.agent.collector import Sources
from exporter.agent.collector.polling import Reporting
from exporter.agent.ledger import Moment
from exporter.agent.recording.pseudonyms import Names
from exporter.agent.recording.recordedcycle import (
    Cycle,
    Failure,
    GroupAnswer,
    GroupKinds,
    SourceReport,
    StandingClock,
)
from exporter.agent.sources.cgroups.processsource import ProcessSource
from exporter.agent.sources.gpus.gpusource import Demand, GpuSource, RestartRequiredError
from exporter.agent.sources.groups.groupsource import GroupSource
from exporter.agent.sources.node.nodesource import NodeSource
from exporter.agent.sources.pods.decode import KeyPrefixes
from exporter.agent.sources.pods.podsource import PodSource
from exporter.model import (
    CgroupIdentity,
    Clock,
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

T = TypeVar("T")

LONGEST_MESSAGE = 200


def ask_and_record(ask: Callable[[], T], record: Callable[[T | Failure], None]) -> T:
    """Returns or raises what ``ask`` does, and passes it to ``record``."""
    try:
        answer = ask()
    except Exception as error:
        # That one is raised again in a replay, with its words. Of any other the type says most.
        restart = isinstance(error, RestartRequiredError)
        record(Failure((str(error) if restart else repr(error))[:LONGEST_MESSAGE], restart))
        raise
    record(answer)
    return answer


S = TypeVar("S", bound=Reporting)


class Recorder:
    """Wraps sources and a clock. A cycle over its ``sources`` and ``clock`` is recorded.

    Call ``begin`` before each cycle and ``finish`` after it. The cycle gets the same names as the
    recording: those that ``names`` returns for the real ones. ``now`` holds the answers since
    ``begin``, and earlier ones that still hold.
    """

    def __init__(self, sources: Sources, clock: Clock, names: Names | None = None) -> None:
        self.clock = StandingClock(_moment(clock))
        self.names = names or Names()
        self.real_table = PodTable()
        self.real_identities: dict[int, CgroupIdentity | Unattributed] = {}
        self._time = clock
        nodes, groups = (None,) * len(sources.nodes), (None,) * len(sources.groups)
        self.now = self._before = Cycle((), node_facts=nodes, group_facts=groups)
        self._processes = _RecordedProcesses(sources.processes, self)
        self._pods = _RecordedPods(sources.pods, self)
        self._nodes = tuple(
            _RecordedNode(source, self, n) for n, source in enumerate(sources.nodes)
        )
        self._groups = tuple(
            _RecordedGroups(source, self, n) for n, source in enumerate(sources.groups)
        )
        self.sources = Sources(
            gpus=tuple(_RecordedGpus(source, self) for source in sources.gpus),
            processes=self._processes,
            pods=self._pods,
            nodes=self._nodes,
            others=lambda: self._others(sources),
            groups=self._groups,
        )

    def begin(self) -> None:
        """Begins a new cycle."""
        self._before = self.now
        self.now = replace(self.now, moments=(), gpus=(), identities={}, others=())
        reporting: Sequence[_RecordedSource[Any]]
        reporting = (self._processes, self._pods, *self._nodes, *self._groups)
        for source in reporting:
            # A source that is not asked in this cycle must not have the report of an earlier one.
            source.report = SourceReport()
        self.move()

    def move(self) -> None:
        """Moves the cycle's clock to the present."""
        self.clock.now = _moment(self._time)
        self.keep("moments", (*self.now.moments, self.clock.now))

    def keep(self, field: str, answer: object, position: int | None = None) -> None:
        """Records an answer in a field of ``Cycle``, or in its place there."""
        if position is not None:
            before = getattr(self.now, field)
            answer = (*before[:position], answer, *before[position + 1 :])
        self.now = replace(self.now, **{field: answer})  # type: ignore[arg-type] # of that field

    def finish(self, page: str = "") -> Cycle:
        """Returns the answers since ``begin``. ``page`` is the digest of the rendered page."""
        now, before = self.now, self._before
        return replace(
            now,
            page=page,
            pod_table=_changed(now.pod_table, before.pod_table),
            group_kinds=_changed(now.group_kinds, before.group_kinds),
            node_facts=tuple(map(_changed, now.node_facts, before.node_facts)),
            group_facts=tuple(map(_changed, now.group_facts, before.group_facts)),
            processes=self._processes.report,
            pods=self._pods.report,
            nodes=tuple(source.report for source in self._nodes),
            groups=tuple(source.report for source in self._groups),
        )

    def _others(self, sources: Sources) -> tuple[SourceStatus, ...]:
        others = tuple(map(self.names.status, sources.others()))
        self.keep("others", others)
        return others


def _moment(clock: Clock) -> Moment:
    return Moment(clock.monotonic_ns(), clock.time_ns())


def _changed(now: T, before: T) -> T | None:
    return None if now == before else now


class _RecordedGpus:
    """A ``GpuSource`` whose readings are recorded."""

    def __init__(self, source: GpuSource, recorder: Recorder) -> None:
        self.name = source.name
        self._source = source
        self._recorder = recorder

    def read(self) -> Reading:
        recorder = self._recorder

        def record(answer: Reading | Failure) -> None:
            recorder.keep("gpus", (*recorder.now.gpus, answer))

        try:
            return ask_and_record(lambda: recorder.names.reading(self._source.read()), record)
        finally:
            recorder.move()

    def release(self, released: bool) -> None:  # noqa: FBT001 - the protocol's
        self._source.release(released)

    def follow(self, demand: Demand) -> None:
        self._source.follow(demand)

    def look_soon(self) -> None:
        self._source.look_soon()

    def close(self) -> None:
        self._source.close()


class _RecordedSource(Generic[S]):
    """Records a source's status and rejections. ``position`` is its place among its kind."""

    report = SourceReport()

    def __init__(self, source: S, recorder: Recorder, position: int | None = None) -> None:
        self.name = source.name
        self._source = source
        self._recorder = recorder
        self._position = position

    def status(self) -> SourceStatus:
        def record(answer: SourceStatus | Failure) -> None:
            self.report = replace(self.report, status=answer)

        names = self._recorder.names
        return ask_and_record(lambda: names.status(self._source.status()), record)

    def rejected(self) -> Mapping[str, int]:
        def record(answer: Mapping[str, int] | Failure) -> None:
            self.report = replace(self.report, rejected=answer)

        return ask_and_record(self._source.rejected, record)

    def close(self) -> None:
        self._source.close()

    def _answer(self, field: str, ask: Callable[[], T]) -> T:
        """What ``ask`` returns or raises, recorded in this field of ``Cycle``."""
        keep, position = self._recorder.keep, self._position
        return ask_and_record(ask, lambda answer: keep(field, answer, position))


class _RecordedProcesses(_RecordedSource[ProcessSource]):
    """A ``ProcessSource`` whose answers are recorded, except descriptions."""

    _known: Mapping[int, CgroupIdentity | Unattributed | None] = {}  # of the last cycle

    def resolve(self, pids: Collection[int]) -> Mapping[int, CgroupIdentity | Unattributed]:
        recorder = self._recorder

        def ask() -> dict[int, CgroupIdentity | Unattributed]:
            recorder.real_identities = dict(self._source.resolve(pids))
            real = recorder.real_identities.items()
            return {pid: recorder.names.identity(one) for pid, one in real}

        found = self._answer("identities", ask)
        # Of those that were asked for now: who comes back later is written again.
        before, self._known = self._known, {pid: found.get(pid) for pid in pids}
        known = self._known.items()
        # Nearly all were there a cycle before: only what has changed is written.
        new = {pid: one for pid, one in known if pid not in before or before[pid] != one}
        recorder.keep("identities", new)
        return found

    def describe(self, pids: Collection[int]) -> Mapping[int, ProcessInfo]:
        """Not recorded: no metric needs it, and names of processes may hold anything."""
        return self._source.describe(pids)

    def group_kinds(self) -> frozenset[str]:
        def ask() -> GroupKinds:
            kinds = map(self._recorder.names.kind, self._source.group_kinds())
            return GroupKinds(tuple(sorted(kinds)))

        return frozenset(self._answer("group_kinds", ask).kinds)


class _RecordedPods(_RecordedSource[PodSource]):
    """A ``PodSource`` whose answers are recorded."""

    def start(self) -> None:
        self._source.start()

    def wait(self, timeout_s: float) -> bool:
        return self._source.wait(timeout_s)

    def table(self) -> PodTable:
        recorder = self._recorder

        def ask() -> PodTable:
            recorder.real_table = self._source.table()
            return recorder.names.table(recorder.real_table)

        return self._answer("pod_table", ask)

    def follow(self, keep: KeyPrefixes) -> None:
        self._source.follow(keep)


class _RecordedNode(_RecordedSource[NodeSource]):
    """A ``NodeSource`` whose facts are recorded. It is asked with the real pods."""

    def start(self) -> None:
        self._source.start()

    def facts(self, table: PodTable) -> NodeFacts:  # noqa: ARG002 - may have pseudonyms
        recorder = self._recorder

        def ask() -> NodeFacts:
            facts = self._source.facts(recorder.real_table)
            # the devices are in the readings
            return recorder.names.node(replace(facts, devices=()))

        return self._answer("node_facts", ask)


class _RecordedGroups(_RecordedSource[GroupSource]):
    """A ``GroupSource`` whose answers are recorded. It is asked about the real groups."""

    def start(self) -> None:
        self._source.start()

    def facts(self, members: Mapping[GroupKey, GroupMembers]) -> Mapping[GroupKey, GroupFacts]:
        recorder = self._recorder
        real = {
            key: member._replace(identity=identity)
            for key, member in members.items()
            for pid in member.pids[:1]
            if isinstance(identity := recorder.real_identities.get(pid), CgroupIdentity)
        }

        def ask() -> GroupAnswer:
            found = self._source.facts(real)
            return GroupAnswer({key: recorder.names.group(facts) for key, facts in found.items()})

        return self._answer("group_facts", ask).facts
