"""The sources of a recording: each repeats its answers of the cycle that is being replayed."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from itertools import zip_longest
from typing import TypeVar

from exporter.agent.collector import Sources
from exporter.agent.ledger import Moment
from exporter.agent.recording.recordedcycle import (
    Cycle,
    Failure,
    GroupKinds,
    Head,
    SourceReport,
    StandingClock,
)
from exporter.agent.sources.gpus.gpusource import Demand, RestartRequiredError
from exporter.agent.sources.pods.decode import KeyPrefixes
from exporter.model import (
    CgroupIdentity,
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


class ReplayedError(Exception):
    """A source raised an error when it was recorded, or was not asked then."""


class Player:
    """Replays the recorded answers through ``sources`` and ``clock``.

    Call ``turn_to`` with every cycle in order, because a cycle holds only what has changed.
    ``cycle`` holds what has not, too.
    """

    def __init__(self, head: Head) -> None:
        self.clock = StandingClock(Moment(0, 0))
        self.identities: dict[int, CgroupIdentity | Unattributed | None] = {}
        self.cycle = Cycle(
            (),
            group_kinds=GroupKinds(),
            node_facts=(None,) * len(head.nodes),
            group_facts=(None,) * len(head.groups),
        )
        self.sources = Sources(
            gpus=tuple(_PlayedGpus(name, n, self) for n, name in enumerate(head.gpus)),
            processes=_PlayedProcesses(head.processes, self, "processes"),
            pods=_PlayedPods(head.pods, self, "pods"),
            nodes=tuple(_PlayedNode(name, self, "nodes", n) for n, name in enumerate(head.nodes)),
            others=lambda: self.cycle.others,
            groups=tuple(
                _PlayedGroups(name, self, "groups", n) for n, name in enumerate(head.groups)
            ),
        )

    def turn_to(self, cycle: Cycle) -> None:
        """Makes the sources answer as in this cycle. Sources that it leaves out were not asked."""
        before, self.clock.now = self.cycle, cycle.moments[0]
        if not isinstance(cycle.identities, Failure):
            self.identities.update(cycle.identities)
        # A file may be hostile: a cycle has more or fewer answers than its head has sources.
        nodes = zip_longest(cycle.node_facts[: len(before.node_facts)], before.node_facts)
        groups = zip_longest(cycle.group_facts[: len(before.group_facts)], before.group_facts)
        self.cycle = replace(
            cycle,
            pod_table=cycle.pod_table or before.pod_table,
            group_kinds=cycle.group_kinds or before.group_kinds,
            node_facts=tuple(now or last for now, last in nodes),
            group_facts=tuple(now or last for now, last in groups),
        )


def answer_of(answer: T | Failure | None) -> T:
    """Returns a recorded answer.

    Raises:
        RestartRequiredError: the source raised that.
        ReplayedError: the source raised something else, or there is no answer.

    """
    if answer is None:
        raise ReplayedError("this source was not asked when the cycle was recorded")
    if not isinstance(answer, Failure):
        return answer
    if answer.restart:
        raise RestartRequiredError(answer.message)
    raise ReplayedError(answer.message)


class _PlayedGpus:
    """A ``GpuSource``. A read takes as long as it took when it was recorded."""

    def __init__(self, name: str, position: int, player: Player) -> None:
        self.name = name
        self._position = position
        self._player = player

    def read(self) -> Reading:
        cycle, position = self._player.cycle, self._position
        # A source behind one that failed was not asked in that cycle.
        if position >= len(cycle.gpus):
            return answer_of(None)
        self._player.clock.now = cycle.moments[position + 1]
        return answer_of(cycle.gpus[position])

    def release(self, released: bool) -> None:  # noqa: FBT001 - the protocol's
        """Does nothing: there is no driver."""

    def follow(self, demand: Demand) -> None:
        """Does nothing: the recorded answers do not depend on demand."""

    def look_soon(self) -> None:
        """Does nothing: the devices are those that were found."""

    def close(self) -> None:
        """Does nothing: nothing is open."""


class _PlayedSource:
    """Status and rejections of a source, by its report in the cycle: a field, or an item of one."""

    def __init__(self, name: str, player: Player, field: str, position: int = 0) -> None:
        self.name = name
        self._player = player
        self._field = field
        self._position = position

    @property
    def _report(self) -> SourceReport:
        found = getattr(self._player.cycle, self._field)
        if isinstance(found, SourceReport):
            return found
        return found[self._position] if self._position < len(found) else SourceReport()

    def start(self) -> None:
        """Does nothing."""

    def status(self) -> SourceStatus:
        return answer_of(self._report.status)

    def rejected(self) -> Mapping[str, int]:
        return answer_of(self._report.rejected)

    def close(self) -> None:
        """Does nothing: nothing is open."""


class _PlayedProcesses(_PlayedSource):
    """A ``ProcessSource``. A process without an answer has exited."""

    def resolve(self, pids: Collection[int]) -> Mapping[int, CgroupIdentity | Unattributed]:
        # For its error only: a cycle has what changed, ``identities`` has all.
        answer_of(self._player.cycle.identities)
        known = self._player.identities
        found = {pid: known.get(pid, Unattributed.EXITED) for pid in pids}
        return {pid: one for pid, one in found.items() if one is not None}

    def describe(self, pids: Collection[int]) -> Mapping[int, ProcessInfo]:  # noqa: ARG002 - the protocol's
        """Returns nothing: descriptions are not recorded."""
        return {}

    def group_kinds(self) -> frozenset[str]:
        return frozenset(answer_of(self._player.cycle.group_kinds).kinds)


class _PlayedPods(_PlayedSource):
    """A ``PodSource``."""

    def wait(self, timeout_s: float) -> bool:  # noqa: ARG002 - the protocol's
        """Returns True: the recorded table is there."""
        return True

    def table(self) -> PodTable:
        return answer_of(self._player.cycle.pod_table)

    def follow(self, keep: KeyPrefixes) -> None:
        """Does nothing: the recorded table does not depend on it."""


class _PlayedNode(_PlayedSource):
    """A ``NodeSource``."""

    def facts(self, table: PodTable) -> NodeFacts:  # noqa: ARG002 - the protocol's
        return answer_of(self._player.cycle.node_facts[self._position])


class _PlayedGroups(_PlayedSource):
    """A ``GroupSource``."""

    def facts(self, members: Mapping[GroupKey, GroupMembers]) -> Mapping[GroupKey, GroupFacts]:
        answer = answer_of(self._player.cycle.group_facts[self._position])
        return {key: facts for key, facts in answer.facts.items() if key in members}
