"""Stands between the sources and the cycle, and keeps what is said.

The cycle's clock moves only where a GPU source is read, so that whoever plays the answers again,
with the moments kept here, shows the same time at every look at the clock.

Asks a source, and keeps what it said or raised.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Generic, TypeVar

from exporter.collector import Sources
from exporter.collector.sources import Reporting
from exporter.model import (
    CgroupIdentity,
    Clock,
    GroupFacts,
    GroupKey,
    GroupMember,
    NodeFacts,
    PodTable,
    ProcessInfo,
    Reading,
    SourceStatus,
    Tree,
    Unattributed,
)
from exporter.recording.cycle import (
    Called,
    Cycle,
    Draft,
    Failure,
    GroupKinds,
    Report,
    StandingClock,
)
from exporter.recording.names import Names
from exporter.sources.cgroups.source import ProcessSource
from exporter.sources.gpus.source import Demand, GpuSource, RestartRequiredError
from exporter.sources.groups.source import GroupSource
from exporter.sources.node.source import NodeSource
from exporter.sources.pods.decode import KeyPrefixes
from exporter.sources.pods.source import PodSource

T = TypeVar("T")

LONGEST_MESSAGE = 200


def noted(ask: Callable[[], T], note: Callable[[T | Failure], None]) -> T:
    """What ``ask`` returns or raises, noted."""
    try:
        answer = ask()
    except Exception as error:
        restart = isinstance(error, RestartRequiredError)
        note(Failure((str(error) if restart else repr(error))[:LONGEST_MESSAGE], restart))
        raise
    note(answer)
    return answer


S = TypeVar("S", bound=Reporting)


class Recorder:
    """Wraps ``sources``: a cycle over this one's ``sources`` and ``clock`` is recorded.

    ``begin`` goes before each cycle, ``taken`` after it. The cycle is told the names that
    ``names`` makes of the real ones, as the recording is.
    """

    def __init__(self, sources: Sources, clock: Clock, names: Names | None = None) -> None:
        self.clock = StandingClock(clock)
        self.names = names or Names()
        self.real_table = PodTable()
        self.real_identities: dict[int, CgroupIdentity | Unattributed] = {}
        self.draft = self.before = Draft(len(sources.nodes), len(sources.groups))
        self.sources = Sources(
            gpus=tuple(_Gpus(source, self) for source in sources.gpus),
            processes=_Processes(sources.processes, self),
            pods=_Pods(sources.pods, self),
            nodes=tuple(_Node(source, self, n) for n, source in enumerate(sources.nodes)),
            others=lambda: self._others(sources),
            groups=tuple(_Groups(source, self, n) for n, source in enumerate(sources.groups)),
        )

    def begin(self) -> None:
        """A new cycle begins now."""
        self.before, self.draft = self.draft, self.draft.next()
        self.move()

    def move(self) -> None:
        """Let the cycle's clock go to the present."""
        self.draft.moments.append(self.clock.move())

    def taken(self, page: str = "") -> Cycle:
        """What was said since ``begin``; ``page`` is the digest of what was made of it."""
        now, before = self.draft, self.before
        return Cycle(
            moments=tuple(now.moments),
            gpus=tuple(now.gpus),
            identities=now.changed,
            pod_table=None if now.pod_table == before.pod_table else now.pod_table,
            processes=now.processes.said(),
            pods=now.pods.said(),
            others=now.others,
            page=page,
            told=_changed(now.told, before.told),
            nodes=tuple(report.said() for report in now.nodes),
            called=_changed(now.called, before.called),
            groups=tuple(report.said() for report in now.groups),
            group_kinds=None if now.group_kinds == before.group_kinds else now.group_kinds,
        )

    def _others(self, sources: Sources) -> tuple[SourceStatus, ...]:
        self.draft.others = tuple(map(self.names.status, sources.others()))
        return self.draft.others


def _changed(now: Sequence[T | None], before: Sequence[T | None]) -> tuple[T | None, ...]:
    """None for each that is as before."""
    return tuple(None if one == old else one for one, old in zip(now, before, strict=True))


class _Gpus:
    """A ``GpuSource`` whose readings are kept."""

    def __init__(self, source: GpuSource, recorder: Recorder) -> None:
        self.name = source.name
        self._source = source
        self._recorder = recorder

    def read(self) -> Reading:
        names, draft = self._recorder.names, self._recorder.draft
        try:
            return noted(lambda: names.reading(self._source.read()), draft.gpus.append)
        finally:
            self._recorder.move()

    def release(self, released: bool) -> None:  # noqa: FBT001 - the protocol's
        self._source.release(released)

    def follow(self, demand: Demand) -> None:
        self._source.follow(demand)

    def close(self) -> None:
        self._source.close()


class _Kept(ABC, Generic[S]):
    """What the others have alike: how they fare is kept. ``position`` is among their kind."""

    def __init__(self, source: S, recorder: Recorder, position: int = 0) -> None:
        self.name = source.name
        self._source = source
        self._recorder = recorder
        self._position = position

    @property
    @abstractmethod
    def _report(self) -> Report:
        """Where what it says of itself is kept."""

    def status(self) -> SourceStatus:
        names, report = self._recorder.names, self._report
        return noted(
            lambda: names.status(self._source.status()),
            lambda answer: setattr(report, "status", answer),
        )

    def rejected(self) -> Mapping[str, int]:
        report = self._report
        return noted(self._source.rejected, lambda answer: setattr(report, "rejected", answer))

    def close(self) -> None:
        self._source.close()


class _Processes(_Kept[ProcessSource]):
    """A ``ProcessSource`` whose answers are kept, but for the tree."""

    @property
    def _report(self) -> Report:
        return self._recorder.draft.processes

    def resolve(self, pids: Collection[int]) -> Mapping[int, CgroupIdentity | Unattributed]:
        recorder, names, draft = self._recorder, self._recorder.names, self._recorder.draft

        def ask() -> dict[int, CgroupIdentity | Unattributed]:
            recorder.real_identities = dict(self._source.resolve(pids))
            return {pid: names.identity(one) for pid, one in recorder.real_identities.items()}

        return noted(ask, lambda found: draft.identify(pids, found))

    def describe(self, pids: Collection[int]) -> Mapping[int, ProcessInfo]:
        """Not kept: no metric tells it, and names of processes may say anything."""
        return self._source.describe(pids)

    def tree(self) -> Tree:
        return self._source.tree()

    def group_kinds(self) -> frozenset[str]:
        draft = self._recorder.draft

        def ask() -> GroupKinds:
            return GroupKinds(tuple(sorted(self._source.group_kinds())))

        return frozenset(noted(ask, lambda told: setattr(draft, "group_kinds", told)).kinds)


class _Pods(_Kept[PodSource]):
    """A ``PodSource`` whose answers are kept."""

    @property
    def _report(self) -> Report:
        return self._recorder.draft.pods

    def start(self) -> None:
        self._source.start()

    def wait(self, timeout_s: float) -> bool:
        return self._source.wait(timeout_s)

    def table(self) -> PodTable:
        recorder = self._recorder

        def ask() -> PodTable:
            recorder.real_table = self._source.table()
            return recorder.names.table(recorder.real_table)

        return noted(ask, lambda answer: setattr(recorder.draft, "pod_table", answer))

    def follow(self, keep: KeyPrefixes) -> None:
        self._source.follow(keep)


class _Node(_Kept[NodeSource]):
    """A ``NodeSource`` whose contribution is kept, in the names of the pods that it was told of."""

    @property
    def _report(self) -> Report:
        return self._recorder.draft.nodes[self._position]

    def start(self) -> None:
        self._source.start()

    def facts(self, table: PodTable) -> NodeFacts:  # noqa: ARG002 - may be one of pseudonyms
        names, told = self._recorder.names, self._recorder.draft.told

        def ask() -> NodeFacts:
            facts = self._source.facts(self._recorder.real_table)
            # the devices are in the readings, the pods in the table
            return names.node(replace(facts, devices=(), pods={}))

        return noted(ask, lambda answer: told.__setitem__(self._position, answer))


class _Groups(_Kept[GroupSource]):
    """A ``GroupSource`` whose answers are kept; it is asked about the real groups."""

    @property
    def _report(self) -> Report:
        return self._recorder.draft.groups[self._position]

    def start(self) -> None:
        self._source.start()

    def facts(self, members: Mapping[GroupKey, GroupMember]) -> Mapping[GroupKey, GroupFacts]:
        recorder, called = self._recorder, self._recorder.draft.called
        real = {
            key: member._replace(identity=identity)
            for key, member in members.items()
            if isinstance(identity := recorder.real_identities.get(member.pid), CgroupIdentity)
        }

        def ask() -> Called:
            told = self._source.facts(real)
            return Called({key: recorder.names.group(facts) for key, facts in told.items()})

        return noted(ask, lambda answer: called.__setitem__(self._position, answer)).facts
