"""Stands between the sources and the cycle, and keeps what is said.

The cycle's clock moves only where a GPU source is read, so that whoever plays the answers again,
with the moments kept here, shows the same time at every look at the clock.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import TypeVar

from exporter.cgroups.source import ProcessSource
from exporter.collector import Sources
from exporter.gpus.source import GpuSource, RestartRequiredError
from exporter.ledger import Moment
from exporter.model import (
    CgroupIdentity,
    Clock,
    NodeFacts,
    PodTable,
    Reading,
    SourceStatus,
    Tree,
    Unattributed,
)
from exporter.pods.source import PodSource
from exporter.recording.clocks import StandingClock
from exporter.recording.cycle import Cycle, Failure, Identities, Said
from exporter.recording.names import Names

T = TypeVar("T")

LONGEST_MESSAGE = 200


class Recorder:
    """Wraps ``sources``: a cycle over this one's ``sources`` and ``clock`` is recorded.

    ``begin`` goes before each cycle, ``taken`` after it. The cycle is told the names that
    ``names`` makes of the real ones, as the recording is.
    """

    def __init__(self, sources: Sources, clock: Clock, names: Names | None = None) -> None:
        self.clock = StandingClock(clock)
        self.names = names or Names()
        self.draft = Draft()
        self.before = Draft()
        self.sources = Sources(
            gpus=tuple(_Gpus(source, self) for source in sources.gpus),
            processes=_Processes(sources.processes, self),
            pods=_Pods(sources.pods, self),
            node=lambda: self._node(sources),
        )

    def begin(self) -> None:
        """A new cycle begins now."""
        self.before, self.draft = self.draft, Draft()
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
            node=None if now.node == before.node else now.node,
            processes=now.processes.said(),
            pods=now.pods.said(),
            page=page,
        )

    def _node(self, sources: Sources) -> NodeFacts:
        def ask() -> NodeFacts:
            # the devices are in the readings, the pods in the table
            return self.names.node(replace(sources.node(), devices=(), pods={}))

        return _noted(ask, lambda answer: setattr(self.draft, "node", answer))


class Draft:
    """What was said so far in one cycle."""

    def __init__(self) -> None:
        self.moments: list[Moment] = []
        self.gpus: list[Reading | Failure] = []
        self.identities: dict[int, CgroupIdentity | Unattributed | None] = {}
        self.changed: Identities | Failure = {}
        self.pod_table: PodTable | Failure | None = None
        self.node: NodeFacts | Failure | None = None
        self.processes = _Report()
        self.pods = _Report()

    def follow(self, before: "Draft") -> None:
        """What was known stays known until something else is said."""
        self.identities = before.identities
        self.pod_table = before.pod_table
        self.node = before.node

    def identify(
        self,
        pids: Collection[int],
        found: Mapping[int, CgroupIdentity | Unattributed] | Failure,
    ) -> None:
        """Note who these are, and which of them were not known or somebody else before."""
        if isinstance(found, Failure):
            self.changed = found
            return
        before, self.identities = self.identities, {pid: found.get(pid) for pid in pids}
        self.changed = {
            pid: one
            for pid, one in self.identities.items()
            if pid not in before or before[pid] != one
        }


class _Report:
    """What a source says of itself."""

    def __init__(self) -> None:
        self.status: SourceStatus | Failure | None = None
        self.rejected: Mapping[str, int] | Failure | None = None

    def said(self) -> Said:
        return Said(self.status, self.rejected)


def _noted(ask: Callable[[], T], note: Callable[[T | Failure], None]) -> T:
    """What ``ask`` returns or raises, noted."""
    try:
        answer = ask()
    except Exception as error:
        restart = isinstance(error, RestartRequiredError)
        note(Failure((str(error) if restart else repr(error))[:LONGEST_MESSAGE], restart))
        raise
    note(answer)
    return answer


class _Gpus:
    """A ``GpuSource`` whose readings are kept."""

    def __init__(self, source: GpuSource, recorder: Recorder) -> None:
        self.name = source.name
        self._source = source
        self._recorder = recorder

    def read(self) -> Reading:
        names, draft = self._recorder.names, self._recorder.draft
        try:
            return _noted(lambda: names.reading(self._source.read()), draft.gpus.append)
        finally:
            self._recorder.move()

    def release(self, released: bool) -> None:  # noqa: FBT001 - the protocol's
        self._source.release(released)

    def close(self) -> None:
        self._source.close()


class _Processes:
    """A ``ProcessSource`` whose answers are kept, but for the tree."""

    def __init__(self, source: ProcessSource, recorder: Recorder) -> None:
        self.name = source.name
        self._source = source
        self._recorder = recorder

    def resolve(self, pids: Collection[int]) -> Mapping[int, CgroupIdentity | Unattributed]:
        names, draft = self._recorder.names, self._recorder.draft
        return _noted(
            lambda: {p: names.identity(one) for p, one in self._source.resolve(pids).items()},
            lambda found: draft.identify(pids, found),
        )

    def tree(self) -> Tree:
        return self._source.tree()

    def status(self) -> SourceStatus:
        return _status(self._source, self._recorder.draft.processes, self._recorder.names)

    def rejected(self) -> Mapping[str, int]:
        return _rejected(self._source, self._recorder.draft.processes)

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
        names, draft = self._recorder.names, self._recorder.draft
        return _noted(
            lambda: names.table(self._source.table()),
            lambda answer: setattr(draft, "pod_table", answer),
        )

    def status(self) -> SourceStatus:
        return _status(self._source, self._recorder.draft.pods, self._recorder.names)

    def rejected(self) -> Mapping[str, int]:
        return _rejected(self._source, self._recorder.draft.pods)

    def close(self) -> None:
        self._source.close()


def _status(source: ProcessSource | PodSource, report: _Report, names: Names) -> SourceStatus:
    return _noted(
        lambda: names.status(source.status()), lambda answer: setattr(report, "status", answer)
    )


def _rejected(source: ProcessSource | PodSource, report: _Report) -> Mapping[str, int]:
    return _noted(source.rejected, lambda answer: setattr(report, "rejected", answer))
