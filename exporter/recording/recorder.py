"""Stands between the sources and the cycle, and keeps what is said.

The cycle's clock moves only where a GPU source is read, so that whoever plays the answers again,
with the moments kept here, shows the same time at every look at the clock.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace

from exporter.cgroups.source import ProcessSource
from exporter.collector import Sources
from exporter.gpus.source import Demand, GpuSource
from exporter.model import (
    CgroupIdentity,
    Clock,
    NodeFacts,
    PodTable,
    ProcessInfo,
    Reading,
    SourceStatus,
    Tree,
    Unattributed,
)
from exporter.node.source import NodeSource
from exporter.pods.decode import Keep
from exporter.pods.source import PodSource
from exporter.recording.clocks import StandingClock
from exporter.recording.cycle import Cycle
from exporter.recording.draft import Draft, Report
from exporter.recording.groups import RecordedGroups
from exporter.recording.names import Names
from exporter.recording.noting import noted, rejected, status


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
        self.draft = Draft(len(sources.nodes), len(sources.groups))
        self.before = Draft(len(sources.nodes), len(sources.groups))
        self.sources = Sources(
            gpus=tuple(_Gpus(source, self) for source in sources.gpus),
            processes=_Processes(sources.processes, self),
            pods=_Pods(sources.pods, self),
            nodes=tuple(_Node(source, n, self) for n, source in enumerate(sources.nodes)),
            others=lambda: self._others(sources),
            groups=tuple(
                RecordedGroups(source, n, self) for n, source in enumerate(sources.groups)
            ),
        )

    def begin(self) -> None:
        """A new cycle begins now."""
        draft = self.draft
        self.before, self.draft = draft, Draft(len(draft.told), len(draft.called))
        self.draft.follow(self.before)
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
            told=tuple(
                None if now.told[n] == before.told[n] else now.told[n] for n in range(len(now.told))
            ),
            nodes=tuple(report.said() for report in now.nodes),
            called=tuple(
                None if now.called[n] == before.called[n] else now.called[n]
                for n in range(len(now.called))
            ),
            groups=tuple(report.said() for report in now.groups),
        )

    def _others(self, sources: Sources) -> tuple[SourceStatus, ...]:
        self.draft.others = tuple(map(self.names.status, sources.others()))
        return self.draft.others


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


class _Processes:
    """A ``ProcessSource`` whose answers are kept, but for the tree."""

    def __init__(self, source: ProcessSource, recorder: Recorder) -> None:
        self.name = source.name
        self._source = source
        self._recorder = recorder

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

    def status(self) -> SourceStatus:
        return status(self._source, self._recorder.draft.processes, self._recorder.names)

    def rejected(self) -> Mapping[str, int]:
        return rejected(self._source, self._recorder.draft.processes)

    def close(self) -> None:
        self._source.close()


class _Pods:
    """A ``PodSource`` whose answers are kept."""

    def __init__(self, source: PodSource, recorder: Recorder) -> None:
        self.name = source.name
        self._source = source
        self._recorder = recorder

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

    def status(self) -> SourceStatus:
        return status(self._source, self._recorder.draft.pods, self._recorder.names)

    def rejected(self) -> Mapping[str, int]:
        return rejected(self._source, self._recorder.draft.pods)

    def follow(self, keep: Keep) -> None:
        self._source.follow(keep)

    def close(self) -> None:
        self._source.close()


class _Node:
    """A ``NodeSource`` whose contribution is kept, in the names of the pods that it was told of."""

    def __init__(self, source: NodeSource, position: int, recorder: Recorder) -> None:
        self.name = source.name
        self._source = source
        self._position = position
        self._recorder = recorder

    def start(self) -> None:
        self._source.start()

    def facts(self, table: PodTable) -> NodeFacts:  # noqa: ARG002 - may be one of pseudonyms
        names, told = self._recorder.names, self._recorder.draft.told

        def ask() -> NodeFacts:
            facts = self._source.facts(self._recorder.real_table)
            # the devices are in the readings, the pods in the table
            return names.node(replace(facts, devices=(), pods={}))

        return noted(ask, lambda answer: told.__setitem__(self._position, answer))

    def status(self) -> SourceStatus:
        return status(self._source, self._report, self._recorder.names)

    def rejected(self) -> Mapping[str, int]:
        return rejected(self._source, self._report)

    @property
    def _report(self) -> Report:
        return self._recorder.draft.nodes[self._position]

    def close(self) -> None:
        self._source.close()
