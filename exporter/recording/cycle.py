"""The contents of a recording: the head, and for each cycle the answers of every source.

``CycleBuilder`` collects the answers of the cycle that is being recorded. The two clocks show the
cycle's time while it is recorded and replayed: both stand still between moves.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from exporter.ledger import Moment
from exporter.model import (
    CgroupIdentity,
    Clock,
    GroupFacts,
    GroupKey,
    NodeFacts,
    PodTable,
    Reading,
    SourceStatus,
    Unattributed,
)

FORMAT = 2


class Failure(NamedTuple):
    """An error that a source raised. ``restart``: only a new process can help."""

    message: str
    restart: bool = False


Identities = Mapping[int, CgroupIdentity | Unattributed | None]


@dataclass(frozen=True, slots=True)
class Head:
    """The first line, with the names of the sources of each kind.

    ``settings`` holds the texts of the settings that affect the result, by name.
    """

    mgpu_recording: int
    version: str
    python: str
    gpus: tuple[str, ...]
    processes: str
    pods: str
    settings: Mapping[str, str] = field(default_factory=dict)
    disguised: bool = False
    nodes: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupAnswer:
    """One source's answer about groups: the facts of each."""

    facts: Mapping[GroupKey, GroupFacts] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GroupKinds:
    """The kinds of groups that the node can have."""

    kinds: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SourceReport:
    """A source's status and rejections at the end of a cycle; None if it was not asked."""

    status: SourceStatus | Failure | None = None
    rejected: Mapping[str, int] | Failure | None = None


@dataclass(frozen=True, slots=True)
class Cycle:
    """The answers of one cycle: one further line.

    ``moments`` has the time at the cycle's beginning and after each GPU source was read.
    ``identities`` has the pids whose answer changed since they were last asked for (None: no
    answer). ``pod_table``, ``group_kinds`` and each entry of ``node_facts`` and ``group_facts`` are
    None if they did not change. ``node_facts`` has one entry per source of facts about the node,
    ``group_facts`` one per source of group names. ``others`` has the status of further sources.
    ``page`` is the digest of the page that was rendered, "" if there was none.
    """

    moments: tuple[Moment, ...]
    gpus: tuple[Reading | Failure, ...] = ()
    identities: Identities | Failure = field(default_factory=dict)
    pod_table: PodTable | Failure | None = None
    processes: SourceReport = field(default_factory=SourceReport)
    pods: SourceReport = field(default_factory=SourceReport)
    others: tuple[SourceStatus, ...] = ()
    page: str = ""
    node_facts: tuple[NodeFacts | Failure | None, ...] = ()
    nodes: tuple[SourceReport, ...] = ()
    group_facts: tuple[GroupAnswer | Failure | None, ...] = ()
    groups: tuple[SourceReport, ...] = ()
    group_kinds: GroupKinds | Failure | None = None


class CycleBuilder:
    """The answers so far in one cycle. ``nodes`` and ``groups`` are numbers of sources."""

    def __init__(self, nodes: int, groups: int = 0) -> None:
        self.moments: list[Moment] = []
        self.gpus: list[Reading | Failure] = []
        self.identities: dict[int, CgroupIdentity | Unattributed | None] = {}
        self.changed: Identities | Failure = {}
        self.pod_table: PodTable | Failure | None = None
        self.node_facts: list[NodeFacts | Failure | None] = [None] * nodes
        self.group_kinds: GroupKinds | Failure | None = None
        self.group_facts: list[GroupAnswer | Failure | None] = [None] * groups
        self.others: tuple[SourceStatus, ...] = ()

    def next(self) -> "CycleBuilder":
        """Returns the builder of the next cycle. Answers stay valid until they change."""
        after = CycleBuilder(len(self.node_facts), len(self.group_facts))
        after.identities = self.identities
        after.pod_table = self.pod_table
        after.group_kinds = self.group_kinds
        after.node_facts = list(self.node_facts)
        after.group_facts = list(self.group_facts)
        return after

    def identify(
        self,
        pids: Collection[int],
        found: Mapping[int, CgroupIdentity | Unattributed] | Failure,
    ) -> None:
        """Records the identities of processes, and which of them are new or have changed."""
        if isinstance(found, Failure):
            self.changed = found
            return
        before, self.identities = self.identities, {pid: found.get(pid) for pid in pids}
        self.changed = {
            pid: one
            for pid, one in self.identities.items()
            if pid not in before or before[pid] != one
        }


class StandingClock:
    """A ``Clock`` that stands still at the time of another one until it is moved."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._now = self.move()

    def move(self) -> Moment:
        """Moves to the other clock's time and returns it."""
        self._now = Moment(self._clock.monotonic_ns(), self._clock.time_ns())
        return self._now

    def monotonic_ns(self) -> int:
        """See ``Clock``."""
        return self._now.mono_ns

    def time_ns(self) -> int:
        """See ``Clock``."""
        return self._now.unix_ns


class PlayedClock:
    """A ``Clock`` that shows a moment of the recording, set by the player."""

    def __init__(self) -> None:
        self.now = Moment(0, 0)

    def monotonic_ns(self) -> int:
        """See ``Clock``."""
        return self.now.mono_ns

    def time_ns(self) -> int:
        """See ``Clock``."""
        return self.now.unix_ns
