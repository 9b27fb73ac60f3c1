"""What a recording holds: the head, and for each cycle what every source said.

What was said so far in the cycle that is being recorded.

The cycle's clocks while it is recorded and while it is replayed: both stand between moves.
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
    SchemeDescription,
    SourceStatus,
    Unattributed,
)

FORMAT = 1


class Failure(NamedTuple):
    """A source raised this. ``restart``: it said that only a new process can help."""

    message: str
    restart: bool = False


Identities = Mapping[int, CgroupIdentity | Unattributed | None]


@dataclass(frozen=True, slots=True)
class Head:
    """The first line, with the names of the sources of each kind.

    ``nodes`` None: made before there were several sources of facts about the node.
    ``settings`` holds, by their names, the values that shape the result; none that names anything.
    ``schemes``, ``index_bases`` and ``hami`` are what the user said of sharing systems.
    """

    mgpu_recording: int
    version: str
    python: str
    gpus: tuple[str, ...]
    processes: str
    pods: str
    settings: Mapping[str, bool | int | str | tuple[str, ...]] = field(default_factory=dict)
    disguised: bool = False
    nodes: tuple[str, ...] | None = None
    schemes: tuple[SchemeDescription, ...] = ()
    index_bases: Mapping[str, str] = field(default_factory=dict)
    hami: Mapping[str, str] = field(default_factory=dict)
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Called:
    """What one source says that groups are called."""

    facts: Mapping[GroupKey, GroupFacts] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GroupKinds:
    """The kinds of groups that the node can have."""

    kinds: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Said:
    """What a source says of itself at the end of a cycle; None: not asked."""

    status: SourceStatus | Failure | None = None
    rejected: Mapping[str, int] | Failure | None = None


@dataclass(frozen=True, slots=True)
class Cycle:
    """One further line.

    ``moments`` has the time at the cycle's beginning and after each GPU source was read.
    ``identities`` has the pids whose answer is another than when they were last asked for (None:
    no answer). ``pod_table`` None: as before, and so with each of ``told``, what the sources of
    facts about the node contributed; with ``called``, what each source of groups' names said, too,
    and with ``group_kinds``, those that the node can have.
    ``others`` is how further sources fare. ``page`` is the digest
    of the page that was made of it, "" if none was. ``node`` stands in files that were made before
    there were several of them.
    """

    moments: tuple[Moment, ...]
    gpus: tuple[Reading | Failure, ...] = ()
    identities: Identities | Failure = field(default_factory=dict)
    pod_table: PodTable | Failure | None = None
    node: NodeFacts | Failure | None = None
    processes: Said = field(default_factory=Said)
    pods: Said = field(default_factory=Said)
    others: tuple[SourceStatus, ...] = ()
    page: str = ""
    told: tuple[NodeFacts | Failure | None, ...] = ()
    nodes: tuple[Said, ...] = ()
    called: tuple[Called | Failure | None, ...] = ()
    groups: tuple[Said, ...] = ()
    group_kinds: GroupKinds | Failure | None = None


class Draft:
    """What was said so far in one cycle, with so many sources of facts about node and groups."""

    def __init__(self, nodes: int, groups: int = 0) -> None:
        self.moments: list[Moment] = []
        self.gpus: list[Reading | Failure] = []
        self.identities: dict[int, CgroupIdentity | Unattributed | None] = {}
        self.changed: Identities | Failure = {}
        self.pod_table: PodTable | Failure | None = None
        self.told: list[NodeFacts | Failure | None] = [None] * nodes
        self.group_kinds: GroupKinds | Failure | None = None
        self.processes = Report()
        self.pods = Report()
        self.nodes = [Report() for _ in range(nodes)]
        self.called: list[Called | Failure | None] = [None] * groups
        self.groups = [Report() for _ in range(groups)]
        self.others: tuple[SourceStatus, ...] = ()

    def next(self) -> "Draft":
        """Make that of the cycle after: what was known stays known until something else is said."""
        after = Draft(len(self.told), len(self.called))
        after.identities = self.identities
        after.pod_table = self.pod_table
        after.group_kinds = self.group_kinds
        after.told = list(self.told)
        after.called = list(self.called)
        return after

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


class Report:
    """What a source says of itself."""

    def __init__(self) -> None:
        self.status: SourceStatus | Failure | None = None
        self.rejected: Mapping[str, int] | Failure | None = None

    def said(self) -> Said:
        """As it is kept."""
        return Said(self.status, self.rejected)


class StandingClock:
    """A ``Clock`` that shows when it was last moved to the present of another one."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._now = self.move()

    def move(self) -> Moment:
        """Go to the present."""
        self._now = Moment(self._clock.monotonic_ns(), self._clock.time_ns())
        return self._now

    def monotonic_ns(self) -> int:
        """See ``Clock``."""
        return self._now.mono_ns

    def time_ns(self) -> int:
        """See ``Clock``."""
        return self._now.unix_ns


class PlayedClock:
    """A ``Clock`` that shows a moment of the recording."""

    def __init__(self) -> None:
        self.now = Moment(0, 0)

    def monotonic_ns(self) -> int:
        """See ``Clock``."""
        return self.now.mono_ns

    def time_ns(self) -> int:
        """See ``Clock``."""
        return self.now.unix_ns
