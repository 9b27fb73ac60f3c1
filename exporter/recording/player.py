"""The sources of a recording: each says again what it said in the cycle that is being played."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import TypeVar

from exporter.collector import Sources
from exporter.model import (
    CgroupIdentity,
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
from exporter.recording.cycle import Called, Cycle, Failure, GroupKinds, Head, PlayedClock, Said
from exporter.sources.gpus.source import Demand, RestartRequiredError
from exporter.sources.node.source import NodeSource, StaticNodeSource
from exporter.sources.pods.decode import KeyPrefixes

T = TypeVar("T")


class RecordedError(Exception):
    """What a source raised when it was recorded, or that it was not asked then."""


class Player:
    """Gives the recorded answers, with ``sources`` and ``clock`` of the recording.

    ``turn_to`` each cycle in its order: some of what a cycle knew was said in an earlier one.
    """

    def __init__(self, head: Head) -> None:
        self.clock = PlayedClock()
        self.cycle = Cycle(())
        self.identities: dict[int, CgroupIdentity | Unattributed | None] = {}
        self.pod_table: PodTable | Failure | None = None
        self.group_kinds: GroupKinds | Failure = GroupKinds()  # older recordings have none
        self.told: list[NodeFacts | Failure | None] = [None] * len(head.nodes or [""])
        self.called: list[Called | Failure | None] = [None] * len(head.groups)
        self.sources = Sources(
            gpus=tuple(_Gpus(name, n, self) for n, name in enumerate(head.gpus)),
            processes=_Processes(head.processes, self),
            pods=_Pods(head.pods, self),
            nodes=self._nodes(head),
            others=lambda: self.cycle.others,
            groups=tuple(_Groups(name, self, n) for n, name in enumerate(head.groups)),
        )

    def _nodes(self, head: Head) -> tuple[NodeSource, ...]:
        if head.nodes is None:
            return (StaticNodeSource("node", lambda: said(self.told[0]), self.clock),)
        return tuple(_Node(name, self, n) for n, name in enumerate(head.nodes))

    def turn_to(self, cycle: Cycle) -> None:
        """Let the sources answer as in this cycle."""
        self.cycle = cycle
        self.clock.now = cycle.moments[0]
        if not isinstance(cycle.identities, Failure):
            self.identities.update(cycle.identities)
        self.pod_table = self.pod_table if cycle.pod_table is None else cycle.pod_table
        if cycle.group_kinds is not None:
            self.group_kinds = cycle.group_kinds
        for position, told in enumerate(cycle.told or (cycle.node,)):
            if told is not None and position < len(self.told):
                self.told[position] = told
        for position, called in enumerate(cycle.called[: len(self.called)]):
            if called is not None:
                self.called[position] = called


def said(answer: T | Failure | None) -> T:
    """Answer as it was recorded.

    Raises:
        RestartRequiredError: the source raised that.
        RecordedError: the source raised something else, or there is no answer.

    """
    if answer is None:
        raise RecordedError("this source was not asked when the cycle was recorded")
    if not isinstance(answer, Failure):
        return answer
    if answer.restart:
        raise RestartRequiredError(answer.message)
    raise RecordedError(answer.message)


class _Gpus:
    """A ``GpuSource``; reading it takes the time that it took."""

    def __init__(self, name: str, position: int, player: Player) -> None:
        self.name = name
        self._position = position
        self._player = player

    def read(self) -> Reading:
        cycle, position = self._player.cycle, self._position
        if position >= len(cycle.gpus):
            return said(None)
        self._player.clock.now = cycle.moments[position + 1]
        return said(cycle.gpus[position])

    def release(self, released: bool) -> None:  # noqa: FBT001 - the protocol's
        """There is no driver to let go of."""

    def follow(self, demand: Demand) -> None:
        """What was said is said again, whatever is wanted."""

    def close(self) -> None:
        """Nothing is held."""


class _Played(ABC):
    """What the others have alike: how they fared. ``position`` is among those of their kind."""

    def __init__(self, name: str, player: Player, position: int = 0) -> None:
        self.name = name
        self._player = player
        self._position = position

    @property
    @abstractmethod
    def _said(self) -> Said:
        """What it said of itself in this cycle."""

    def start(self) -> None:  # noqa: B027 - the same of all
        """Nothing to begin."""

    def status(self) -> SourceStatus:
        return said(self._said.status)

    def rejected(self) -> Mapping[str, int]:
        return said(self._said.rejected)

    def close(self) -> None:  # noqa: B027 - the same of all
        """Nothing is held."""

    def _of(self, reports: Sequence[Said]) -> Said:
        """Its own of those that were asked; there may have been fewer."""
        return reports[self._position] if self._position < len(reports) else Said()


class _Processes(_Played):
    """A ``ProcessSource``. A process that was not asked for has exited; the tree is empty."""

    @property
    def _said(self) -> Said:
        return self._player.cycle.processes

    def resolve(self, pids: Collection[int]) -> Mapping[int, CgroupIdentity | Unattributed]:
        said(self._player.cycle.identities)
        known = self._player.identities
        found = {pid: known.get(pid, Unattributed.EXITED) for pid in pids}
        return {pid: one for pid, one in found.items() if one is not None}

    def describe(self, pids: Collection[int]) -> Mapping[int, ProcessInfo]:  # noqa: ARG002 - the protocol's
        """It was not kept."""
        return {}

    def tree(self) -> Tree:
        return Tree({}, {})

    def group_kinds(self) -> frozenset[str]:
        return frozenset(said(self._player.group_kinds).kinds)


class _Pods(_Played):
    """A ``PodSource``."""

    @property
    def _said(self) -> Said:
        return self._player.cycle.pods

    def wait(self, timeout_s: float) -> bool:  # noqa: ARG002 - the protocol's
        """Nothing to wait for: what was known then is known."""
        return True

    def table(self) -> PodTable:
        return said(self._player.pod_table)

    def follow(self, keep: KeyPrefixes) -> None:
        """What was kept is told as it was."""


class _Node(_Played):
    """A ``NodeSource``."""

    @property
    def _said(self) -> Said:
        return self._of(self._player.cycle.nodes)

    def facts(self, table: PodTable) -> NodeFacts:  # noqa: ARG002 - the protocol's
        return said(self._player.told[self._position])


class _Groups(_Played):
    """A ``GroupSource``."""

    @property
    def _said(self) -> Said:
        return self._of(self._player.cycle.groups)

    def facts(self, members: Mapping[GroupKey, GroupMember]) -> Mapping[GroupKey, GroupFacts]:
        told = said(self._player.called[self._position])
        return {key: facts for key, facts in told.facts.items() if key in members}
